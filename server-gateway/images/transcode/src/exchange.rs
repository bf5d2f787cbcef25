//! Messages between a program and its picture workers.
//!
//! A message is a frame: its length in four bytes (little-endian, not including the length itself), then its
//! contents. The program sends [`Job`]s, one at a time; the worker answers each with one [`Reply`], and sends
//! [`Reply::Ready`] before the first job. Both are the same build of the same program, so the format has no
//! version.
//!
//! Neither end trusts the other: the receiver checks a frame's length before it allocates memory, and each
//! message has exactly one encoding.
use crate::{
    level::ImageLevel,
    limits::Limits,
    request::{Request, TranscodeEffort, Viewport},
};

/// Bytes of a frame's length prefix.
pub const PREFIX: usize = 4;
/// Bytes of a job before the image: level and effort, viewport, limits, time and memory.
const JOB_HEAD: usize = 2 + 3 * 4 + (8 + 8 + 4 + 8 + 8) + 4 + 8;
/// Bytes of the largest image of a job, equal to [`Limits::default`].
const MAX_PICTURE: usize = 32_000_000;
/// Bytes of the largest job.
pub const MAX_JOB: usize = JOB_HEAD + MAX_PICTURE;

/// Parameters of the work on one image, without the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The transcoding request.
    pub request: Request,
    /// Time limit of the work in milliseconds.
    pub milliseconds: u32,
    /// Memory limit of the work in bytes.
    pub memory: u64,
}

/// Answer to a job; also the worker's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The worker waits for its first job.
    Ready,
    /// A smaller WebP.
    Transcoded(Vec<u8>),
    /// The original is kept.
    Kept,
    /// The image cannot be transcoded.
    Refused(Refusal),
}

/// Reasons why an image cannot be transcoded: the variants of [`TranscodeError`](crate::TranscodeError)
/// without their texts, because an untrusted process must not write text into the program's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The header cannot be read.
    Header,
    /// The image exceeds a limit.
    Limit,
    /// The pixels cannot be decoded.
    Pixels,
    /// The encoder failed.
    Encoder,
    /// The time limit was exceeded.
    Time,
}

/// Errors of parsing a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The frame exceeds the receiver's maximum length.
    #[error("a message of {0} bytes exceeds the limit")]
    TooLong(u64),
    /// The frame is truncated, or has bytes after its end.
    #[error("the length of a message does not match its contents")]
    Length,
    /// A number has no meaning.
    #[error("a message contains an invalid number")]
    Number,
}

/// Returns the length of the frame after this prefix.
///
/// # Errors
/// The length exceeds `most`.
pub fn frame_length(prefix: [u8; PREFIX], most: usize) -> Result<usize, ExchangeError> {
    let length = u32::from_le_bytes(prefix);
    usize::try_from(length)
        .ok()
        .filter(|length| *length <= most)
        .ok_or_else(|| ExchangeError::TooLong(length.into()))
}

fn prefix(length: usize) -> Result<[u8; PREFIX], ExchangeError> {
    let number = u32::try_from(length).map_err(|_| ExchangeError::TooLong(length as u64))?;
    Ok(number.to_le_bytes())
}

const EFFORTS: [TranscodeEffort; 4] = [
    TranscodeEffort::Fixed,
    TranscodeEffort::Quick,
    TranscodeEffort::Standard,
    TranscodeEffort::Checked,
];

/// Returns the index of a value in the table of all its possible values.
fn number<T: PartialEq>(table: &[T], value: &T) -> u8 {
    let place = table.iter().position(|one| one == value);
    // The tables contain all variants and are short.
    place
        .and_then(|place| u8::try_from(place).ok())
        .unwrap_or(u8::MAX)
}

fn numbered<T: Copy>(table: &[T], number: u8) -> Result<T, ExchangeError> {
    table
        .get(usize::from(number))
        .copied()
        .ok_or(ExchangeError::Number)
}

impl Job {
    /// Returns the frame's prefix and its contents before the image; the image of `picture` bytes follows.
    ///
    /// # Errors
    /// The image is larger than a job can contain.
    pub fn encode(&self, picture: usize) -> Result<Vec<u8>, ExchangeError> {
        if picture > MAX_PICTURE {
            return Err(ExchangeError::TooLong(picture as u64));
        }
        let Request {
            level,
            viewport,
            effort,
            limits,
        } = &self.request;
        let mut wire = Vec::with_capacity(PREFIX + JOB_HEAD);
        wire.extend(prefix(JOB_HEAD + picture)?);
        wire.push(number(&ImageLevel::ALL, level));
        wire.push(number(&EFFORTS, effort));
        for side in [viewport.width, viewport.height, viewport.ratio_percent] {
            wire.extend(side.to_le_bytes());
        }
        wire.extend((limits.input_bytes as u64).to_le_bytes());
        wire.extend(limits.pixels.to_le_bytes());
        wire.extend(limits.frames.to_le_bytes());
        wire.extend(limits.animation_pixels.to_le_bytes());
        wire.extend(limits.decode_bytes.to_le_bytes());
        wire.extend(self.milliseconds.to_le_bytes());
        wire.extend(self.memory.to_le_bytes());
        Ok(wire)
    }

    /// Returns the job in a frame (without prefix), and the image.
    ///
    /// # Errors
    /// The frame is not a job.
    pub fn decode(frame: &[u8]) -> Result<(Self, &[u8]), ExchangeError> {
        let mut reader = Reader(frame);
        let level = numbered(&ImageLevel::ALL, reader.byte()?)?;
        let effort = numbered(&EFFORTS, reader.byte()?)?;
        let viewport = Viewport {
            width: reader.u32()?,
            height: reader.u32()?,
            ratio_percent: reader.u32()?,
        };
        let limits = Limits {
            input_bytes: usize::try_from(reader.u64()?).map_err(|_| ExchangeError::Number)?,
            pixels: reader.u64()?,
            frames: reader.u32()?,
            animation_pixels: reader.u64()?,
            decode_bytes: reader.u64()?,
        };
        let job = Self {
            request: Request {
                level,
                viewport,
                effort,
                limits,
            },
            milliseconds: reader.u32()?,
            memory: reader.u64()?,
        };
        if reader.0.len() > MAX_PICTURE {
            return Err(ExchangeError::TooLong(frame.len() as u64));
        }
        Ok((job, reader.0))
    }
}

const READY: u8 = 0;
const TRANSCODED: u8 = 1;
const KEPT: u8 = 2;
const REFUSED: u8 = 3;
const REFUSALS: [Refusal; 5] = [
    Refusal::Header,
    Refusal::Limit,
    Refusal::Pixels,
    Refusal::Encoder,
    Refusal::Time,
];

impl Reply {
    /// Returns the complete frame, including the prefix.
    ///
    /// # Errors
    /// The length of the WebP does not fit in four bytes.
    pub fn encode(&self) -> Result<Vec<u8>, ExchangeError> {
        let (kind, rest): (u8, &[u8]) = match self {
            Self::Ready => (READY, &[]),
            Self::Transcoded(webp) => (TRANSCODED, webp),
            Self::Kept => (KEPT, &[]),
            Self::Refused(refusal) => (REFUSED, &[number(&REFUSALS, refusal)]),
        };
        let mut wire = Vec::with_capacity(PREFIX + 1 + rest.len());
        wire.extend(prefix(1 + rest.len())?);
        wire.push(kind);
        wire.extend_from_slice(rest);
        Ok(wire)
    }

    /// Parses the reply in a frame (without prefix).
    ///
    /// # Errors
    /// The frame is not a reply.
    pub fn decode(frame: &[u8]) -> Result<Self, ExchangeError> {
        match frame {
            [READY] => Ok(Self::Ready),
            [TRANSCODED, webp @ ..] if !webp.is_empty() => Ok(Self::Transcoded(webp.to_vec())),
            [KEPT] => Ok(Self::Kept),
            [REFUSED, refusal] => Ok(Self::Refused(numbered(&REFUSALS, *refusal)?)),
            [] | [READY | TRANSCODED | KEPT | REFUSED, ..] => Err(ExchangeError::Length),
            _ => Err(ExchangeError::Number),
        }
    }

    /// Returns the maximum length of a reply to a job with an image of `picture` bytes: a worker sends no
    /// result that is not smaller than the image.
    pub fn longest(picture: usize) -> usize {
        1 + picture.max(1)
    }
}

/// Unread bytes of a frame.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], ExchangeError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(ExchangeError::Length)?;
        self.0 = rest;
        Ok(*head)
    }

    fn byte(&mut self) -> Result<u8, ExchangeError> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, ExchangeError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, ExchangeError> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
