//! Receiving side of the body framing.
use bytes::Bytes;
use longhaul_types::{
    ByteCount, ContentHash,
    varint::{self, VarintError},
};

use super::{
    HASH_SIZE, MAX_BASED_WINDOW, WindowPosition, base_tail, parse_size_field, whole_hash, window_hash,
    window_limits,
};
use crate::{
    brotli::BasedBrotli,
    coding::{Coding, MAX_BASED_WINDOW_LOG, MAX_WINDOW_LOG},
    decompress::{Brotli, Corrupt, Progress, Zstd},
    mix::MixDecoder,
};

/// Limits of a received body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Maximum decoded bytes. Default 16 GiB: bodies are streamed, so this protects disks and counters. The
    /// window sizes limit memory: less than 70 KiB and the coder's 1 MiB; with a base 600 KiB and 4 MiB, or
    /// 16 MiB for hostile Brotli that consists of prefix codes; 8 MiB for context mixing, and 64 MiB for all
    /// context-mixed bodies.
    pub max_body: ByteCount,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self {
            max_body: ByteCount::mib(16 * 1024),
        }
    }
}

/// Errors of decoding a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// All windows match but the whole body does not: the object must be dropped and the browser must see a
    /// truncated body.
    #[error("the body does not match its content hash")]
    ContentMismatch,
    /// The framing is invalid: the peer misbehaves.
    #[error("the peer sent a malformed body window at offset {offset}")]
    Malformed {
        /// Decoded bytes before the window.
        offset: u64,
    },
    /// The body exceeds [`BodyLimits::max_body`].
    #[error("the body is larger than the limit of {0}")]
    TooLarge(ByteCount),
    /// The input ended before the last window.
    #[error("the body ends too early, at offset {offset}")]
    Truncated {
        /// Decoded bytes before the end, all verified.
        offset: u64,
    },
    /// A window does not decode to the coded bytes, for example because the base was wrong. The receiver can
    /// request the rest from this offset, without base, and decode it with [`BodyDecoder::resume`].
    #[error("the body's window at offset {offset} does not match its hash")]
    WindowMismatch {
        /// Decoded bytes before the window, all verified.
        offset: u64,
    },
}

/// Result of [`BodyDecoder::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyEvent {
    /// The decoded and verified bytes of the next window.
    Window(Bytes),
    /// The body is complete and has this content hash.
    End(ContentHash),
    /// The input is consumed.
    NeedInput,
}

/// Decodes windows, and returns no decoded bytes before it has verified them.
pub struct BodyDecoder {
    key: [u8; 32],
    decompressor: Decompressor,
    limits: BodyLimits,
    /// True if windows may have the size of windows with a base.
    has_base: bool,
    whole: blake3::Hasher,
    offset: u64,
    state: State,
    /// The received bytes of the current header or window.
    held: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Header,
    Data(Header),
    /// All decoded bytes were returned; `BodyEvent::End` follows.
    Ending(ContentHash),
    Ended(ContentHash),
    Failed(DecodeError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    length: usize,
    coded: usize,
    position: WindowPosition,
    hash: [u8; HASH_SIZE],
}

enum Decompressor {
    Identity,
    Zstd(Zstd),
    Brotli(Brotli),
    BasedBrotli(BasedBrotli),
    Mix(MixDecoder),
    /// The coder could not be set up: every window fails.
    Unusable,
}

impl BodyDecoder {
    /// Returns a decoder of a body from its start. `key` is the session's window key.
    pub fn new(key: [u8; 32], coding: Coding, limits: BodyLimits) -> Self {
        Self::with_base(key, coding, limits, &[])
    }

    /// As [`Self::new`], for a body that was coded with `base`.
    pub fn with_base(key: [u8; 32], coding: Coding, limits: BodyLimits, base: &[u8]) -> Self {
        Self {
            key,
            decompressor: Decompressor::new(coding, base_tail(base)),
            limits,
            has_base: !base.is_empty(),
            whole: blake3::Hasher::new(),
            offset: 0,
            state: State::Header,
            held: Vec::new(),
        }
    }

    /// Returns the decoder for the rest of this body, which the peer sends from [`Self::offset`] in `coding`
    /// with the window key `key`, possibly of a new session.
    #[must_use]
    pub fn resume(self, key: [u8; 32], coding: Coding) -> Self {
        Self {
            key,
            decompressor: Decompressor::new(coding, &[]),
            has_base: false,
            state: State::Header,
            held: Vec::new(),
            ..self
        }
    }

    /// True if decoding a window takes so long that it belongs in the thread pool.
    pub const fn is_heavy(&self) -> bool {
        matches!(self.decompressor, Decompressor::Mix(_))
    }

    /// Number of decoded bytes returned so far, all verified.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes bytes from the front of `wire` up to the next event. Call it until it returns
    /// [`BodyEvent::NeedInput`] or [`BodyEvent::End`]; it takes no bytes after the end.
    ///
    /// # Errors
    /// The body is invalid. Later calls return the same error; bytes returned before are valid.
    pub fn next(&mut self, wire: &mut &[u8]) -> Result<BodyEvent, DecodeError> {
        match self.advance(wire) {
            Ok(event) => Ok(event),
            Err(error) => {
                self.state = State::Failed(error);
                self.held = Vec::new();
                Err(error)
            }
        }
    }

    /// Ends the input.
    ///
    /// # Errors
    /// The body is invalid or incomplete. A body whose last window has been returned is complete.
    pub fn finish(&self) -> Result<ContentHash, DecodeError> {
        match self.state {
            State::Ending(chk) | State::Ended(chk) => Ok(chk),
            State::Failed(error) => Err(error),
            State::Header | State::Data(_) => Err(DecodeError::Truncated { offset: self.offset }),
        }
    }

    fn advance(&mut self, wire: &mut &[u8]) -> Result<BodyEvent, DecodeError> {
        loop {
            match self.state {
                State::Header => {
                    let Some(header) = self.take_header(wire)? else {
                        return Ok(BodyEvent::NeedInput);
                    };
                    self.state = State::Data(header);
                }
                State::Data(header) => {
                    let missing = header.coded - self.held.len();
                    let (now, later) = wire.split_at(wire.len().min(missing));
                    *wire = later;
                    self.held.extend_from_slice(now);
                    if self.held.len() < header.coded {
                        return Ok(BodyEvent::NeedInput);
                    }
                    let window = self.decode_window(header)?;
                    if !window.is_empty() {
                        return Ok(BodyEvent::Window(window));
                    }
                }
                State::Ending(chk) | State::Ended(chk) => {
                    self.state = State::Ended(chk);
                    return Ok(BodyEvent::End(chk));
                }
                State::Failed(error) => return Err(error),
            }
        }
    }

    /// Reads a header from the buffered bytes and `wire`, byte by byte: headers are short, and no byte after
    /// it is taken.
    fn take_header(&mut self, wire: &mut &[u8]) -> Result<Option<Header>, DecodeError> {
        loop {
            if let Some(header) = self.parse_header()? {
                self.held.clear();
                return Ok(Some(header));
            }
            let Some((byte, rest)) = wire.split_first() else {
                return Ok(None);
            };
            self.held.push(*byte);
            *wire = rest;
        }
    }

    fn parse_header(&self) -> Result<Option<Header>, DecodeError> {
        let malformed = DecodeError::Malformed { offset: self.offset };
        let mut hash = self.held.as_slice();
        let field = match varint::decode(&mut hash) {
            Ok(field) => field,
            Err(VarintError::Truncated) => return Ok(None),
            Err(VarintError::NotShortest) => return Err(malformed),
        };
        let (most, most_coded) = window_limits(self.has_base);
        let (length, position) = parse_size_field(field, most).ok_or(malformed)?;
        if self.offset.saturating_add(length as u64) > self.limits.max_body.bytes() {
            return Err(DecodeError::TooLarge(self.limits.max_body));
        }
        let coded = if length == 0 || matches!(self.decompressor, Decompressor::Identity) {
            length
        } else {
            match varint::decode(&mut hash) {
                Ok(coded) => usize::try_from(coded)
                    .ok()
                    .filter(|coded| (1..=most_coded).contains(coded))
                    .ok_or(malformed)?,
                Err(VarintError::Truncated) => return Ok(None),
                Err(VarintError::NotShortest) => return Err(malformed),
            }
        };
        let hash = hash.try_into().ok();
        Ok(hash.map(|hash| Header {
            length,
            coded,
            position,
            hash,
        }))
    }

    fn decode_window(&mut self, header: Header) -> Result<Bytes, DecodeError> {
        let mismatch = DecodeError::WindowMismatch { offset: self.offset };
        let coded = std::mem::take(&mut self.held);
        let decoded = self
            .decompressor
            .decode(coded, header.length)
            .map_err(|Corrupt| mismatch)?;
        self.state = match header.position {
            WindowPosition::Inner => {
                if window_hash(&self.key, self.offset, &decoded) != header.hash {
                    return Err(mismatch);
                }
                self.whole.update(&decoded);
                State::Header
            }
            WindowPosition::Last => {
                // The hasher must keep its state before an invalid window, for `resume`.
                let mut whole = self.whole.clone();
                whole.update(&decoded);
                let chk = ContentHash::from_bytes(*whole.finalize().as_bytes());
                if whole_hash(&self.key, chk) != header.hash {
                    return Err(if decoded.is_empty() {
                        DecodeError::ContentMismatch
                    } else {
                        mismatch
                    });
                }
                State::Ending(chk)
            }
        };
        self.offset += decoded.len() as u64;
        Ok(Bytes::from(decoded))
    }
}

impl Decompressor {
    fn new(coding: Coding, base: &[u8]) -> Self {
        match coding {
            Coding::Identity => Self::Identity,
            Coding::Zstd => {
                let window_log = if base.is_empty() {
                    MAX_WINDOW_LOG
                } else {
                    MAX_BASED_WINDOW_LOG
                };
                Zstd::new(window_log, base).map_or(Self::Unusable, Self::Zstd)
            }
            Coding::Brotli if base.is_empty() => Self::Brotli(Brotli::new(MAX_WINDOW_LOG, None)),
            Coding::Brotli => {
                BasedBrotli::new(MAX_BASED_WINDOW_LOG, base).map_or(Self::Unusable, Self::BasedBrotli)
            }
            Coding::Mix => Self::Mix(MixDecoder::new()),
        }
    }

    /// Decodes a window, which must use all of its coded bytes and produce exactly `length` bytes.
    fn decode(&mut self, coded: Vec<u8>, length: usize) -> Result<Vec<u8>, Corrupt> {
        if length == 0 || matches!(self, Self::Identity) {
            return Ok(coded);
        }
        debug_assert!(length <= MAX_BASED_WINDOW);
        if let Self::Mix(decoder) = self {
            return decoder.decode(&coded, length);
        }
        // One byte more than expected: this detects a coder with excess output and lets the coder report the
        // end of its input.
        let mut decoded = vec![0; length + 1];
        let (mut read, mut written) = (0, 0);
        loop {
            let progress = self.step(&coded[read..], &mut decoded[written..])?;
            read += progress.read;
            written += progress.written;
            if written > length || progress.read + progress.written == 0 {
                break;
            }
        }
        if read < coded.len() || written != length {
            return Err(Corrupt);
        }
        decoded.truncate(length);
        Ok(decoded)
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Progress, Corrupt> {
        match self {
            Self::Identity | Self::Mix(_) | Self::Unusable => Err(Corrupt),
            Self::Zstd(decoder) => decoder.step(input, output),
            Self::Brotli(decoder) => decoder.step(input, output),
            Self::BasedBrotli(decoder) => decoder.step(input, output),
        }
    }
}
