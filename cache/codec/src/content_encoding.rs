//! Content codings for clients without an agent (RFC 9110 section 8.4.1): the counterpart of
//! [`ContentDecoder`](crate::ContentDecoder).
use std::io::Write as _;

use flate2::{Compression, GzBuilder, write::GzEncoder};
use longhaul_types::ByteCount;

use crate::{
    coding::{After, Coder, EncodeError},
    compress::Compressor,
};

/// Effort of gzip: its highest. It codes a page on a fast machine in less time than a slow link needs for what it saves.
const GZIP_LEVEL: u32 = 9;

/// A content coding that the gateway applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentCoding {
    /// `gzip` (RFC 1952), level 9.
    Gzip {
        /// Bytes of padding in the header, at most 4,096, so that the size reveals less.
        padding: u16,
    },
    /// `br` (RFC 7932).
    Brotli {
        /// Quality, 0 to 11.
        quality: u8,
    },
    /// `zstd` (RFC 8878), window at most 1 MiB.
    Zstd {
        /// Level, 1 to 19.
        level: u8,
    },
}

impl ContentCoding {
    /// The name in `Content-Encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip { .. } => "gzip",
            Self::Brotli { .. } => "br",
            Self::Zstd { .. } => "zstd",
        }
    }
}

/// Encoder of one body.
pub struct ContentEncoder(Encoder);

enum Encoder {
    Gzip(Box<GzEncoder<Vec<u8>>>),
    Other(Box<Compressor>),
}

/// Maximum padding of a body.
const MAX_PADDING: u16 = 4096;
const GZIP_FAILED: EncodeError = EncodeError("gzip");

impl ContentEncoder {
    /// Creates the encoder of a body; `length` is its length, if known.
    ///
    /// # Errors
    /// The encoder lacks memory.
    pub fn new(coding: ContentCoding, length: Option<ByteCount>) -> Result<Self, EncodeError> {
        let coder = match coding {
            ContentCoding::Gzip { padding } => {
                let level = Compression::new(GZIP_LEVEL);
                let encoder = match extra_field(padding) {
                    Some(field) => GzBuilder::new().extra(field).write(Vec::new(), level),
                    None => GzEncoder::new(Vec::new(), level),
                };
                return Ok(Self(Encoder::Gzip(Box::new(encoder))));
            }
            ContentCoding::Brotli { quality } => Coder::Brotli { quality },
            ContentCoding::Zstd { level } => Coder::Zstd { level },
        };
        let compressor = Compressor::new(coder, length, &[])?;
        Ok(Self(Encoder::Other(Box::new(compressor))))
    }

    /// Codes `bytes`, and appends to `out` what a decoder needs for all bytes so far.
    ///
    /// # Errors
    /// The encoder failed; the body cannot continue.
    pub fn encode(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match &mut self.0 {
            Encoder::Gzip(encoder) => {
                encoder.write_all(bytes).map_err(|_| GZIP_FAILED)?;
                encoder.flush().map_err(|_| GZIP_FAILED)?;
                out.append(encoder.get_mut());
                Ok(())
            }
            Encoder::Other(compressor) => compressor.code(bytes, After::More, out),
        }
    }

    /// Ends the body, and appends the rest to `out`.
    ///
    /// # Errors
    /// The encoder failed; the body has no end.
    pub fn finish(self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self.0 {
            Encoder::Gzip(encoder) => {
                let mut rest = encoder.finish().map_err(|_| GZIP_FAILED)?;
                out.append(&mut rest);
                Ok(())
            }
            Encoder::Other(mut compressor) => compressor.code(&[], After::End, out),
        }
    }
}

/// Returns an extra field (RFC 1952 section 2.3.1.1) with one subfield of zeros.
fn extra_field(padding: u16) -> Option<Vec<u8>> {
    let length = padding.min(MAX_PADDING);
    let mut field = b"LH".to_vec();
    field.extend_from_slice(&length.to_le_bytes());
    field.resize(field.len() + usize::from(length), 0);
    (length > 0).then_some(field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContentDecodingLimits, decode_content};

    const CODINGS: [ContentCoding; 4] = [
        ContentCoding::Gzip { padding: 0 },
        ContentCoding::Gzip { padding: 300 },
        ContentCoding::Brotli { quality: 5 },
        ContentCoding::Zstd { level: 3 },
    ];

    #[test]
    fn encoded_bodies_decode_to_the_same_bytes() {
        let text = "<p>a page of words, words and words</p>\n".repeat(4000);
        for coding in CODINGS {
            for pieces in [text.as_bytes().chunks(50_000).collect(), vec![], vec![&b"x"[..]]] {
                let mut encoder = ContentEncoder::new(coding, None).unwrap();
                let mut coded = Vec::new();
                for piece in &pieces {
                    encoder.encode(piece, &mut coded).unwrap();
                }
                encoder.finish(&mut coded).unwrap();
                let whole = pieces.concat();
                assert!(whole.len() < 2 || coded.len() < whole.len() / 10, "{coding:?}");
                let name = coding.name().parse().unwrap();
                let decoded = decode_content(&[name], &coded, ContentDecodingLimits::default()).unwrap();
                assert_eq!(&decoded[..], whole, "{coding:?}");
            }
        }
    }
}
