//! Contents of responses, and their content codings.
use flate2::{
    Compression,
    write::{DeflateEncoder, GzEncoder, ZlibEncoder},
};

use super::Mode;

/// A GIF of 3 x 2 pixels.
const PICTURE: &[u8] = b"GIF89a\x03\0\x02\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x03\0\x02\0\0\x02\x03D\x02P\0;";

/// How a body is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// Not at all, whatever the label says.
    Plain,
    /// An empty body.
    Empty,
    /// gzip (RFC 1952).
    Gzip,
    /// gzip with a file name in its header.
    GzipNamed,
    /// Two gzip members.
    GzipTwice,
    /// gzip of gzip.
    GzipInGzip,
    /// gzip, cut after this many bytes.
    GzipCut(usize),
    /// gzip without its trailer, or with only a part of it: so many bytes are missing.
    GzipShort(usize),
    /// gzip with a wrong checksum.
    GzipWrongSum,
    /// gzip with bytes after it.
    GzipTail(&'static [u8]),
    /// gzip with a damaged middle.
    GzipDamaged,
    /// zlib (RFC 1950).
    Zlib,
    /// Deflate without a wrapper (RFC 1951).
    Deflate,
    /// zlib, cut after this many bytes.
    ZlibCut(usize),
    /// Brotli.
    Brotli,
    /// Brotli with bytes after it.
    BrotliTail,
    /// Brotli without its last byte.
    BrotliCut,
    /// Zstandard.
    Zstd,
    /// Two frames of Zstandard.
    ZstdTwice,
    /// Zstandard without its last bytes.
    ZstdCut,
    /// Zstandard with bytes after it.
    ZstdTail,
}

impl Recipe {
    /// Codes a body.
    pub(super) fn code(self, body: &[u8]) -> Vec<u8> {
        match self {
            Self::Plain => body.to_vec(),
            Self::Empty => Vec::new(),
            Self::Gzip => gzip(body),
            Self::GzipNamed => named(body),
            Self::GzipTwice => {
                let (first, second) = body.split_at(body.len() / 2);
                [gzip(first), gzip(second)].concat()
            }
            Self::GzipInGzip => gzip(&gzip(body)),
            Self::GzipCut(to) => cut(gzip(body), to),
            Self::GzipShort(missing) => without_last(gzip(body), missing),
            Self::GzipWrongSum => [without_last(gzip(body), 8), vec![1; 8]].concat(),
            Self::GzipTail(tail) => [gzip(body), tail.to_vec()].concat(),
            Self::GzipDamaged => damaged(gzip(body)),
            Self::Zlib => written(
                ZlibEncoder::new(Vec::new(), Compression::default()),
                body,
                ZlibEncoder::finish,
            ),
            Self::Deflate => deflate(body),
            Self::ZlibCut(to) => cut(Self::Zlib.code(body), to),
            Self::Brotli => brotli(body),
            Self::BrotliTail => [brotli(body), b"junk".to_vec()].concat(),
            Self::BrotliCut => without_last(brotli(body), 1),
            Self::Zstd => zstd(body),
            Self::ZstdTwice => {
                let (first, second) = body.split_at(body.len() / 2);
                [zstd(first), zstd(second)].concat()
            }
            Self::ZstdCut => without_last(zstd(body), 3),
            Self::ZstdTail => [zstd(body), b"junk".to_vec()].concat(),
        }
    }
}

fn written<W: std::io::Write>(
    mut coder: W,
    body: &[u8],
    finish: impl FnOnce(W) -> std::io::Result<Vec<u8>>,
) -> Vec<u8> {
    // Writing into memory does not fail.
    let _in_memory = coder.write_all(body);
    finish(coder).unwrap_or_default()
}

fn gzip(body: &[u8]) -> Vec<u8> {
    written(
        GzEncoder::new(Vec::new(), Compression::default()),
        body,
        GzEncoder::finish,
    )
}

fn named(body: &[u8]) -> Vec<u8> {
    let coder = flate2::GzBuilder::new()
        .filename("page.html")
        .comment("made by hand");
    written(
        coder.write(Vec::new(), Compression::default()),
        body,
        GzEncoder::finish,
    )
}

fn deflate(body: &[u8]) -> Vec<u8> {
    written(
        DeflateEncoder::new(Vec::new(), Compression::default()),
        body,
        DeflateEncoder::finish,
    )
}

fn brotli(body: &[u8]) -> Vec<u8> {
    let config = mbrotli::EncoderConfig::default().with_quality(mbrotli::Quality::Q5);
    let coder = mbrotli::Compressor::new(config);
    coder
        .ok()
        .and_then(|mut coder| coder.compress(body).ok())
        .unwrap_or_default()
}

fn zstd(body: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(body, 3).unwrap_or_default()
}

fn cut(mut bytes: Vec<u8>, to: usize) -> Vec<u8> {
    bytes.truncate(to);
    bytes
}

fn without_last(bytes: Vec<u8>, missing: usize) -> Vec<u8> {
    let to = bytes.len().saturating_sub(missing);
    cut(bytes, to)
}

fn damaged(mut bytes: Vec<u8>) -> Vec<u8> {
    for byte in bytes.iter_mut().skip(14).take(3) {
        *byte = 0xff;
    }
    bytes
}

/// The media type and the content of a plain response.
pub(super) fn plain(mode: Mode, seed: u64) -> (&'static [u8], Vec<u8>) {
    let many = usize::try_from(seed % 7).unwrap_or_default() * 30 + 1;
    let words = "A line of the body, which is long enough to be worth a coding. ".repeat(many);
    match mode {
        Mode::Fetch | Mode::Head | Mode::Post | Mode::Range | Mode::Xhr => {
            (b"text/plain", format!("Case {seed}. {words}").into_bytes())
        }
        Mode::Frame => (
            b"text/html",
            format!("<!doctype html><title>Case {seed}</title><p>{words}").into_bytes(),
        ),
        Mode::Socket => (b"", Vec::new()),
        Mode::Image => (b"image/gif", PICTURE.to_vec()),
        Mode::Script => (
            b"text/javascript",
            format!("window.ran = (window.ran || []).concat({seed}); // {words}").into_bytes(),
        ),
        Mode::Style => (
            b"text/css",
            format!(".a{seed} {{ color: red }} /* {words} */ .b {{ color: blue }}").into_bytes(),
        ),
    }
}
