//! Compressors with one interface: each call codes one window; the context continues in the next window.
use longhaul_types::ByteCount;
use zstd::{
    stream::raw::{self, CParameter, Operation as _, OutBuffer},
    zstd_safe,
};

use crate::{
    brotli::BrotliEncoder,
    coding::{After, Coder, EncodeError, MAX_BASED_WINDOW_LOG, MAX_WINDOW_LOG},
    mix::MixEncoder,
    window::Replay,
};

pub(crate) enum Compressor {
    Identity,
    Zstd(raw::Encoder<'static>),
    Brotli(BrotliEncoder),
    Mix(MixEncoder),
    /// Result of an earlier encoding.
    Replay(Replay),
}

impl Compressor {
    /// Returns a compressor. `length` is the length of the whole body, if known; it saves memory for small
    /// bodies.
    ///
    /// Parts of the body that also occur in `base` cost little.
    pub(crate) fn new(coder: Coder, length: Option<ByteCount>, base: &[u8]) -> Result<Self, EncodeError> {
        let most = if base.is_empty() {
            MAX_WINDOW_LOG
        } else {
            MAX_BASED_WINDOW_LOG
        };
        match coder {
            Coder::Identity => Ok(Self::Identity),
            Coder::Zstd { level } => {
                let failed = |_| EncodeError("zstd");
                // Zstandard reaches the base only within its window.
                let reach = length.map(|length| ByteCount::new(length.bytes() + base.len() as u64));
                let window_log = window_log(reach, most);
                let mut encoder =
                    raw::Encoder::with_dictionary(i32::from(level.clamp(1, 19)), base).map_err(failed)?;
                encoder
                    .set_parameter(CParameter::WindowLog(u32::from(window_log)))
                    .map_err(failed)?;
                if level < OWN_TABLES && !base.is_empty() {
                    let tables = u32::from(window_log);
                    for table in [CParameter::HashLog(tables), CParameter::ChainLog(tables)] {
                        encoder.set_parameter(table).map_err(failed)?;
                    }
                }
                Ok(Self::Zstd(encoder))
            }
            Coder::Brotli { quality } => {
                let window_log = window_log(length, most);
                BrotliEncoder::new(quality, window_log, length, base).map(Self::Brotli)
            }
        }
    }

    /// Codes `window` and appends the result to `out`. No window may follow one coded with [`After::End`].
    pub(crate) fn code(&mut self, window: &[u8], after: After, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self {
            Self::Identity => out.extend_from_slice(window),
            Self::Replay(replay) => replay.code(window.len(), after, out)?,
            Self::Zstd(encoder) => {
                code_zstd(encoder, window, after, out).map_err(|_| EncodeError("zstd"))?;
            }
            Self::Mix(encoder) => encoder.code(window, out),
            Self::Brotli(encoder) => encoder.code(window, after, out)?,
        }
        Ok(())
    }
}

fn code_zstd(
    encoder: &mut raw::Encoder<'static>,
    window: &[u8],
    after: After,
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    let start = out.len();
    // The bound covers one flushed block sequence, so the loops below run once.
    out.resize(start + zstd_safe::compress_bound(window.len()) + 64, 0);
    let mut written = start;
    let mut read = 0;
    while read < window.len() {
        let status = encoder.run_on_buffers(&window[read..], &mut out[written..])?;
        read += status.bytes_read;
        written += status.bytes_written;
        grow(out, written);
    }
    loop {
        let mut buffer = OutBuffer::around(&mut out[written..]);
        let left = match after {
            After::More => encoder.flush(&mut buffer)?,
            After::End => encoder.finish(&mut buffer, true)?,
        };
        written += buffer.pos();
        if left == 0 {
            break;
        }
        grow(out, written);
    }
    out.truncate(written);
    Ok(())
}

fn grow(out: &mut Vec<u8>, written: usize) {
    if out.len() - written < 64 {
        out.resize(written + 1024, 0);
    }
}

fn window_log(length: Option<ByteCount>, most: u8) -> u8 {
    let Some(length) = length else {
        return most;
    };
    // Brotli's window is 16 bytes smaller than its power of two.
    (16..most)
        .find(|log| length.bytes() + 16 <= 1 << log)
        .unwrap_or(most)
}

/// Below this level Zstandard's default match tables are too small for a large base: they lose its start
/// before it is used.
const OWN_TABLES: u8 = 9;
