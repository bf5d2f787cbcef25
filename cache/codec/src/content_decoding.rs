//! Removal of the content codings of an origin's response (RFC 9110 section 8.4), incrementally.
//!
//! The output equals what a browser obtains by its own decoding, with the same tolerance: an empty body is
//! valid in any coding, bytes after the end of a gzip, zlib or Brotli stream are ignored, and so are the checksum
//! of gzip and a missing end. [`ContentDecoder::finish`] tells such streams from whole ones.
mod deflate;
mod gzip;
#[cfg(test)]
mod tests;
mod zstd_frames;

use std::{fmt, str::FromStr};

use longhaul_types::ByteCount;

use self::{deflate::Deflate, gzip::Gzip, zstd_frames::Frames};
use crate::{
    decompress::{Brotli, Corrupt, Progress},
    memory_shares::{MemoryReservation, MemoryShare},
};

/// Maximum number of codings of one response that are removed. One is usual; two occur behind misconfigured
/// servers.
pub const MAX_CODINGS: usize = 3;

/// A content coding that origins use (IANA registry of HTTP content codings).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OriginCoding {
    /// `br`, RFC 7932.
    Brotli,
    /// `deflate`, RFC 1950 (or, wrongly, RFC 1951).
    Deflate,
    /// `gzip` or `x-gzip`, RFC 1952.
    Gzip,
    /// `identity`: none.
    Identity,
    /// `zstd`, RFC 8878 with a window of at most 8 MiB (RFC 9659).
    Zstd,
}

/// A content coding that is not supported; the body can still be forwarded unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the origin used the content coding `{0}`, which cannot be undone")]
pub struct UnsupportedCoding(pub String);

impl FromStr for OriginCoding {
    type Err = UnsupportedCoding;
    /// Parses a coding's name as in `Content-Encoding`, case-insensitively.
    fn from_str(name: &str) -> Result<Self, UnsupportedCoding> {
        match name.to_ascii_lowercase().as_str() {
            "br" => Ok(Self::Brotli),
            "deflate" => Ok(Self::Deflate),
            "gzip" | "x-gzip" => Ok(Self::Gzip),
            "identity" => Ok(Self::Identity),
            "zstd" => Ok(Self::Zstd),
            _ => Err(UnsupportedCoding(name.chars().take(32).collect())),
        }
    }
}

impl fmt::Display for OriginCoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Brotli => "br",
            Self::Deflate => "deflate",
            Self::Gzip => "gzip",
            Self::Identity => "identity",
            Self::Zstd => "zstd",
        })
    }
}

/// Errors of decoding a body. All of them are the origin's fault, except that a device may have many bodies at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContentDecodingError {
    /// The data violates the format of its coding.
    #[error("the origin's {0} data is corrupt")]
    Corrupt(OriginCoding),
    /// The decoder needs more memory than the device may use.
    #[error("the decoders of this device need more memory than it may use")]
    NoMemory,
    /// The decoded body exceeds a limit.
    #[error("the origin's body exceeds the limit of {0} when decoded")]
    TooLarge(ByteCount),
    /// More codings than [`MAX_CODINGS`].
    #[error("the origin applied {0} content codings; the limit is {MAX_CODINGS}")]
    TooManyCodings(usize),
}

/// What the end of the input says about a decoded body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentEnd {
    /// A stream has no end, or a wrong checksum. Browsers show the body; nobody should keep it.
    Doubtful,
    /// Each stream has its end and its checksum.
    Whole,
}

/// Limits against decompression bombs. They apply to each coding of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentDecodingLimits {
    /// Maximum total output. Default 4 GiB: output is streamed, so this limits work, not memory.
    pub max_output: ByteCount,
    /// Decoded bytes that are allowed at any ratio. Default 16 MiB.
    pub free_output: ByteCount,
    /// Maximum decoded bytes per coded byte beyond `free_output`. Default 200: web text stays below 50, while
    /// DEFLATE bombs reach 1,032 and Brotli and Zstandard bombs far more.
    pub max_ratio: u32,
}

impl Default for ContentDecodingLimits {
    fn default() -> Self {
        Self {
            max_output: ByteCount::mib(4096),
            free_output: ByteCount::mib(16),
            max_ratio: 200,
        }
    }
}

/// Result of one call of [`ContentDecoder::push`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of input bytes consumed.
    pub consumed: usize,
    /// True if more output is available (with the rest of the input, or without any) before more input is
    /// needed.
    pub more: bool,
}

/// A streaming decoder of a stack of content codings.
///
/// ```
/// # use longhaul_codec::{ContentDecoder, ContentDecodingLimits, ContentDecodingError};
/// # fn decode(chunks: &[&[u8]]) -> Result<Vec<u8>, ContentDecodingError> {
/// let mut content_decoder = ContentDecoder::new(&["gzip".parse().unwrap()], ContentDecodingLimits::default(), None)?;
/// let mut body = Vec::new();
/// for chunk in chunks {
///     let mut rest = *chunk;
///     loop {
///         let step = content_decoder.push(rest, &mut body)?; // take or send what is in `body` here
///         rest = &rest[step.consumed..];
///         if !step.more {
///             break;
///         }
///     }
/// }
/// content_decoder.finish()?;
/// # Ok(body)
/// # }
/// ```
pub struct ContentDecoder {
    /// In the order of decoding: the coding applied last comes first.
    stages: Vec<Stage>,
    limits: ContentDecodingLimits,
    total_in: u64,
    failed: Option<ContentDecodingError>,
}

struct Stage {
    coding: OriginCoding,
    decoder: Decoder,
    total_out: u64,
    used: bool,
    /// Output that the next stage has not taken yet.
    held: Vec<u8>,
    /// For what every decoder takes.
    _reservation: Option<MemoryReservation>,
}

enum Decoder {
    Brotli(Brotli),
    Deflate(Deflate),
    Gzip(Box<Gzip>),
    Identity,
    Zstd(Frames),
}

impl ContentDecoder {
    /// Maximum number of bytes that one [`ContentDecoder::push`] appends.
    pub const MAX_STEP: usize = 64 * 1024;

    /// Returns a decoder for `codings` in the order of `Content-Encoding`, which is the order of their
    /// application. Its memory, which the origin chooses, is charged to `share`, if there is one.
    ///
    /// # Errors
    /// `codings` has more than [`MAX_CODINGS`] elements, or the share is used up.
    pub fn new(
        codings: &[OriginCoding],
        limits: ContentDecodingLimits,
        share: Option<&MemoryShare>,
    ) -> Result<Self, ContentDecodingError> {
        if codings.len() > MAX_CODINGS {
            return Err(ContentDecodingError::TooManyCodings(codings.len()));
        }
        let mut stages = codings
            .iter()
            .rev()
            .map(|coding| Stage::new(*coding, share))
            .collect::<Result<Vec<_>, _>>()?;
        if stages.is_empty() {
            stages.push(Stage::new(OriginCoding::Identity, None)?);
        }
        Ok(Self {
            stages,
            limits,
            total_in: 0,
            failed: None,
        })
    }

    /// Decodes a part of `input` and appends at most [`Self::MAX_STEP`] bytes to `out`.
    ///
    /// While [`Step::more`] is set, call it again with the rest of the input; then call it with the next
    /// input.
    ///
    /// # Errors
    /// The data is corrupt or too large. Bytes appended before remain valid, and every later call returns the
    /// same error.
    pub fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Step, ContentDecodingError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let start = out.len();
        out.resize(start + Self::MAX_STEP, 0);
        let mut written = 0;
        let result = self.run(input, &mut out[start..], &mut written);
        out.truncate(start + written);
        if let Err(error) = result {
            self.failed = Some(error);
        }
        result
    }

    /// Ends the input.
    ///
    /// # Errors
    /// An earlier call failed.
    pub fn finish(&self) -> Result<ContentEnd, ContentDecodingError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let is_whole = |stage: &Stage| stage.ended() && stage.held.is_empty();
        Ok(if self.stages.iter().all(is_whole) {
            ContentEnd::Whole
        } else {
            ContentEnd::Doubtful
        })
    }

    fn run(
        &mut self,
        input: &[u8],
        out: &mut [u8],
        written: &mut usize,
    ) -> Result<Step, ContentDecodingError> {
        let mut consumed = 0;
        loop {
            let mut moved = false;
            for index in 0..self.stages.len() {
                let (before, rest) = self.stages.split_at_mut(index);
                let Some((stage, after)) = rest.split_first_mut() else {
                    break;
                };
                let source = before
                    .last()
                    .map_or(&input[consumed..], |previous| previous.held.as_slice());
                let progress = if after.is_empty() {
                    let progress = stage.step(source, &mut out[*written..])?;
                    *written += progress.written;
                    progress
                } else {
                    stage.step_held(source)?
                };
                moved |= progress.read + progress.written > 0;
                match before.last_mut() {
                    Some(previous) => {
                        previous.held.drain(..progress.read);
                    }
                    None => {
                        consumed += progress.read;
                        self.total_in += progress.read as u64;
                    }
                }
                self.check_limits(index)?;
            }
            if *written == out.len() {
                return Ok(Step { consumed, more: true });
            }
            if !moved {
                return Ok(Step {
                    consumed,
                    more: false,
                });
            }
        }
    }

    fn check_limits(&self, index: usize) -> Result<(), ContentDecodingError> {
        let total_out = self.stages[index].total_out;
        let by_ratio = self.total_in.saturating_mul(u64::from(self.limits.max_ratio));
        let limit = by_ratio
            .max(self.limits.free_output.bytes())
            .min(self.limits.max_output.bytes());
        if total_out > limit {
            return Err(ContentDecodingError::TooLarge(ByteCount::new(limit)));
        }
        Ok(())
    }
}

impl Stage {
    fn new(coding: OriginCoding, share: Option<&MemoryShare>) -> Result<Self, ContentDecodingError> {
        let reservation = share
            .map(|share| share.reserve(MIN_MEMORY).ok_or(ContentDecodingError::NoMemory))
            .transpose()?;
        let decoder = match coding {
            OriginCoding::Brotli => Decoder::Brotli(Brotli::new(ORIGIN_BROTLI_WINDOW_LOG, share)),
            OriginCoding::Deflate => Decoder::Deflate(Deflate::new()),
            OriginCoding::Gzip => Decoder::Gzip(Box::new(Gzip::new())),
            OriginCoding::Identity => Decoder::Identity,
            OriginCoding::Zstd => Decoder::Zstd(
                Frames::new(share.cloned()).map_err(|Corrupt| ContentDecodingError::Corrupt(coding))?,
            ),
        };
        Ok(Self {
            coding,
            decoder,
            total_out: 0,
            used: false,
            held: Vec::new(),
            _reservation: reservation,
        })
    }

    fn ended(&self) -> bool {
        !self.used
            || match &self.decoder {
                Decoder::Brotli(decoder) => decoder.ended(),
                Decoder::Deflate(decoder) => decoder.ended(),
                Decoder::Gzip(decoder) => decoder.ended(),
                Decoder::Identity => true,
                Decoder::Zstd(decoder) => decoder.ended(),
            }
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Progress, ContentDecodingError> {
        if output.is_empty() || !self.used && input.is_empty() {
            return Ok(Progress { read: 0, written: 0 });
        }
        self.used = true;
        let result = match &mut self.decoder {
            Decoder::Brotli(decoder) if decoder.ended() => Ok(Progress {
                read: input.len(),
                written: 0,
            }),
            Decoder::Brotli(decoder) => decoder.step(input, output),
            Decoder::Deflate(decoder) => decoder.step(input, output),
            Decoder::Gzip(decoder) => decoder.step(input, output),
            Decoder::Identity => {
                let length = input.len().min(output.len());
                output[..length].copy_from_slice(&input[..length]);
                Ok(Progress {
                    read: length,
                    written: length,
                })
            }
            Decoder::Zstd(decoder) => decoder.step(input, output),
        };
        let progress = result.map_err(|Corrupt| self.error())?;
        self.total_out += progress.written as u64;
        Ok(progress)
    }

    /// Reason why the decoder failed.
    fn error(&self) -> ContentDecodingError {
        let lacks_memory = match &self.decoder {
            Decoder::Brotli(decoder) => decoder.lacks_memory(),
            Decoder::Zstd(decoder) => decoder.lacks_memory(),
            Decoder::Deflate(_) | Decoder::Gzip(_) | Decoder::Identity => false,
        };
        if lacks_memory {
            ContentDecodingError::NoMemory
        } else {
            ContentDecodingError::Corrupt(self.coding)
        }
    }

    /// Decodes into the buffer for the next stage, up to the buffer's size.
    fn step_held(&mut self, input: &[u8]) -> Result<Progress, ContentDecodingError> {
        let mut held = std::mem::take(&mut self.held);
        let start = held.len();
        held.resize(HELD_BETWEEN_STAGES, 0);
        let result = self.step(input, &mut held[start..]);
        held.truncate(start + result.as_ref().map_or(0, |progress| progress.written));
        self.held = held;
        result
    }
}

/// Decodes a body, as much of it as there is.
///
/// # Errors
/// As of [`ContentDecoder`].
pub fn decode_content(
    codings: &[OriginCoding],
    mut body: &[u8],
    limits: ContentDecodingLimits,
) -> Result<Vec<u8>, ContentDecodingError> {
    let mut content_decoder = ContentDecoder::new(codings, limits, None)?;
    let mut out = Vec::new();
    loop {
        let step = content_decoder.push(body, &mut out)?;
        body = &body[step.consumed..];
        if !step.more {
            break;
        }
    }
    content_decoder.finish()?;
    Ok(out)
}

/// The largest window of RFC 7932; "large window" Brotli is not a content coding of the web.
const ORIGIN_BROTLI_WINDOW_LOG: u8 = 24;
/// Size of the buffer between two codings of a stack; it limits memory and is large enough to keep the
/// decoders busy.
const HELD_BETWEEN_STAGES: usize = 16 * 1024;
/// What every decoder takes: the window of DEFLATE and its tables, and the buffer to the next one.
const MIN_MEMORY: u64 = 64 * 1024;
