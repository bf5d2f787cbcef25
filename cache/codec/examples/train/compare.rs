//! Coded sizes of texts for each coder, with and without a dictionary. Every coded text is decoded as a
//! check.
use std::io::{self, Read as _, Write as _};

use flate2::{Compression, write::GzEncoder};
use mbrotli::{Compressor, EncoderConfig, Window};
use zstd::{stream::raw::CParameter, zstd_safe};

/// A coder of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coder {
    Gzip,
    Brotli(u8),
    Zstd(i32),
    ZstdBase(i32),
}

/// Columns of the tables.
pub(crate) const COLUMNS: [Coder; 9] = [
    Coder::Gzip,
    Coder::Brotli(5),
    Coder::Brotli(11),
    Coder::Zstd(3),
    Coder::Zstd(9),
    Coder::Zstd(19),
    Coder::ZstdBase(3),
    Coder::ZstdBase(9),
    Coder::ZstdBase(19),
];

impl Coder {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Gzip => "gzip-9".to_owned(),
            Self::Brotli(quality) => format!("br-{quality}"),
            Self::Zstd(level) => format!("zstd-{level}"),
            Self::ZstdBase(level) => format!("zstd-{level}+D"),
        }
    }

    /// Returns the coded size of `text`.
    pub(crate) fn size(self, text: &[u8], base: &[u8]) -> io::Result<usize> {
        match self {
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
                encoder.write_all(text)?;
                Ok(encoder.finish()?.len())
            }
            Self::Brotli(quality) => brotli_size(text, quality),
            Self::Zstd(level) => zstd_size(text, &[], level),
            Self::ZstdBase(level) => zstd_size(text, base, level),
        }
    }
}

/// Binary logarithm of the coders' window in the product.
const WINDOW_LOG: u32 = 20;

fn zstd_size(text: &[u8], base: &[u8], level: i32) -> io::Result<usize> {
    let mut encoder = zstd::bulk::Compressor::with_dictionary(level, base)?;
    let log = (text.len() + base.len() + 1).ilog2() + 1;
    encoder.set_parameter(CParameter::WindowLog(log.clamp(16, WINDOW_LOG)))?;
    encoder.set_parameter(CParameter::ContentSizeFlag(false))?;
    let coded = encoder.compress(text)?;
    let mut decoder = zstd::bulk::Decompressor::with_dictionary(base)?;
    decoder.set_parameter(zstd_safe::DParameter::WindowLogMax(WINDOW_LOG))?;
    same(&decoder.decompress(&coded, text.len() + 1)?, text)?;
    Ok(coded.len())
}

fn brotli_size(text: &[u8], quality: u8) -> io::Result<usize> {
    let quality = quality.try_into().map_err(io::Error::other)?;
    let window = Window::standard(u8::try_from(WINDOW_LOG).map_err(io::Error::other)?);
    let config = EncoderConfig::default()
        .with_quality(quality)
        .with_window(window.map_err(io::Error::other)?);
    let mut coder = Compressor::new(config).map_err(io::Error::other)?;
    let coded = coder.compress(text).map_err(io::Error::other)?;
    let mut decoded = Vec::new();
    brotli_decompressor::Decompressor::new(coded.as_slice(), 4096).read_to_end(&mut decoded)?;
    same(&decoded, text)?;
    Ok(coded.len())
}

fn same(decoded: &[u8], text: &[u8]) -> io::Result<()> {
    if decoded == text {
        Ok(())
    } else {
        Err(io::Error::other("a coder's output decodes to something else"))
    }
}
