//! Content codings (RFC 9110 section 8.4.1) that a browser accepts.
use std::io::Read;

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// `Accept-Encoding` of a browser.
pub(super) const ACCEPT_ENCODING: &str = "gzip, deflate, br, zstd";
/// Maximum size of a decoded body: larger than any object of a web page, small enough to make decompression
/// bombs harmless.
const MAX_DECODED: u64 = 128 * 1024 * 1024;
/// Maximum number of codings of one body; browsers accept about five.
const MAX_CODINGS: usize = 4;
const CODINGS: [&str; 5] = ["gzip", "x-gzip", "deflate", "br", "zstd"];

/// Errors of decoding a body by its `Content-Encoding`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The body violates the format of the coding.
    #[error("the body is not valid {coding}: {error}")]
    Damaged {
        /// Name of the coding.
        coding: String,
        /// Error of the decoder.
        error: std::io::Error,
    },
    /// The decoded body exceeds the size limit.
    #[error("the body decodes to more than {} MiB", MAX_DECODED / (1024 * 1024))]
    TooLarge,
}

/// Removes the codings of a `Content-Encoding` value from a body.
///
/// A value that contains an unknown coding (origins send `null`, `utf-8` and others) counts as no coding, as
/// in browsers.
///
/// # Errors
/// The body is damaged, or its decoded length exceeds the limit.
pub fn decode(encoding: &str, body: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let codings: Vec<String> = encoding
        .split(',')
        .map(|coding| coding.trim().to_ascii_lowercase())
        .filter(|coding| !coding.is_empty() && coding != "identity")
        .collect();
    let mut decoded = body.to_vec();
    if codings.len() > MAX_CODINGS || codings.iter().any(|coding| !CODINGS.contains(&coding.as_str())) {
        return Ok(decoded);
    }
    for coding in codings.iter().rev() {
        // Some origins send an empty body with the coding of the full one.
        if !decoded.is_empty() {
            decoded = decode_one(coding, &decoded)?;
        }
    }
    Ok(decoded)
}

fn decode_one(coding: &str, body: &[u8]) -> Result<Vec<u8>, DecodeError> {
    match coding {
        "gzip" | "x-gzip" => read(coding, MultiGzDecoder::new(body)),
        // `deflate` means zlib, but some origins send raw DEFLATE data.
        "deflate" if body.first().is_some_and(|byte| byte & 0x0f == 8) => {
            read(coding, ZlibDecoder::new(body))
        }
        "deflate" => read(coding, DeflateDecoder::new(body)),
        "br" => read(coding, brotli_decompressor::Decompressor::new(body, 16 * 1024)),
        _ => {
            let decoder = zstd::stream::read::Decoder::with_buffer(body);
            read(coding, decoder.map_err(|error| damaged(coding, error))?)
        }
    }
}

fn read(coding: &str, decoder: impl Read) -> Result<Vec<u8>, DecodeError> {
    let mut decoded = Vec::new();
    let read = decoder.take(MAX_DECODED + 1).read_to_end(&mut decoded);
    let read = read.map_err(|error| damaged(coding, error))?;
    if u64::try_from(read).is_ok_and(|read| read <= MAX_DECODED) {
        Ok(decoded)
    } else {
        Err(DecodeError::TooLarge)
    }
}

fn damaged(coding: &str, error: std::io::Error) -> DecodeError {
    DecodeError::Damaged {
        coding: coding.to_owned(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{
        Compression,
        write::{DeflateEncoder, GzEncoder, ZlibEncoder},
    };

    use super::*;

    #[test]
    fn every_offered_coding_decodes() {
        let text = b"the hop is never idle ".repeat(50);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
        zlib.write_all(&text).unwrap();
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::best());
        raw.write_all(&text).unwrap();
        let br = mbrotli::Compressor::new(mbrotli::EncoderConfig::default())
            .unwrap()
            .compress(&text)
            .unwrap();
        let zstd = zstd::stream::encode_all(text.as_slice(), 3).unwrap();
        let cases = [
            ("gzip", gzip.clone()),
            ("deflate", zlib.finish().unwrap()),
            ("deflate", raw.finish().unwrap()),
            ("br", br),
            ("zstd", zstd),
            ("", text.clone()),
            ("identity", text.clone()),
        ];
        for (coding, body) in cases {
            assert_eq!(decode(coding, &body).unwrap(), text, "{coding}");
        }
        let mut twice = GzEncoder::new(Vec::new(), Compression::best());
        twice.write_all(&gzip).unwrap();
        assert_eq!(decode("gzip, GZIP", &twice.finish().unwrap()).unwrap(), text);
        assert!(matches!(
            decode("gzip", &gzip[..gzip.len() / 2]),
            Err(DecodeError::Damaged { .. })
        ));
        assert_eq!(decode("null", &gzip).unwrap(), gzip);
    }
}
