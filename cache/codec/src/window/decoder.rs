//! The receiving side of the body framing.
use bytes::Bytes;
use longhaul_types::{
    ByteCount, ContentHash,
    varint::{self, VarintError},
};

use super::{
    HASH_SIZE, MAX_BASED_WINDOW, Place, base_tail, parse_size_field, whole_hash, window_hash, window_limits,
};
use crate::{
    brotli::BasedBrotli,
    coding::{Coding, MAX_BASED_WINDOW_LOG, MAX_WINDOW_LOG},
    decompress::{Brotli, Corrupt, Progress, Zstd},
    mix::MixDecoder,
};

/// Limits on a body that is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// The most decoded bytes. Default 16 GiB: bodies are streamed on, so this guards disks and counters, while
    /// memory is bounded by the window sizes (below 70 KiB and the coder's 1 MiB; with a base 600 KiB and 4 MiB, or 16 MiB
    /// where hostile Brotli is made of codes; 8 MiB
    /// for context mixing, and 64 MiB for all such bodies).
    pub max_body: ByteCount,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self {
            max_body: ByteCount::mib(16 * 1024),
        }
    }
}

/// Why a body cannot be decoded (further).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// All windows matched, yet the whole does not: the object must be dropped and the browser must see a
    /// truncation.
    #[error("the body does not match its content hash")]
    ContentMismatch,
    /// The framing itself is wrong: the peer misbehaves.
    #[error("the peer sent a malformed body window at offset {offset}")]
    Malformed {
        /// Decoded bytes before it.
        offset: u64,
    },
    /// The body exceeds [`BodyLimits::max_body`].
    #[error("the body is larger than the limit of {0}")]
    TooLarge(ByteCount),
    /// The input ended before the last window.
    #[error("the body ends too early, at offset {offset}")]
    Truncated {
        /// Decoded bytes before it, all of them good.
        offset: u64,
    },
    /// A window does not decode to the bytes that were coded, for instance since the base was another one. The
    /// rest can be asked for from here, without base, and decoded with [`BodyDecoder::resume`].
    #[error("the body's window at offset {offset} does not match its hash")]
    WindowMismatch {
        /// Decoded bytes before it, all of them good.
        offset: u64,
    },
}

/// What [`BodyDecoder::next`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyEvent {
    /// The decoded bytes of the next window, which match its hash.
    Window(Bytes),
    /// The body is complete and has this content hash.
    End(ContentHash),
    /// The input is used up.
    NeedInput,
}

/// Turns windows back into decoded bytes, none of which it yields before they are verified.
pub struct BodyDecoder {
    key: [u8; 32],
    decompressor: Decompressor,
    limits: BodyLimits,
    /// Whether windows may have the size that goes with a base.
    has_base: bool,
    whole: blake3::Hasher,
    offset: u64,
    state: State,
    /// The bytes of the current header or window that have come so far.
    held: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Header,
    Data(Header),
    /// All decoded bytes are out; the end is to be told.
    Ending(ContentHash),
    Ended(ContentHash),
    Failed(DecodeError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    length: usize,
    coded: usize,
    place: Place,
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
    /// A decoder of a body from its start. `key` is the session's key for window hashes.
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

    /// The decoder for the rest of this body, which the peer sends anew from [`Self::offset`] in `coding` and under
    /// `key` (that of its session, which may be another one by now).
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

    /// Whether a window takes so long to decode that this belongs on a thread for computing.
    pub const fn is_heavy(&self) -> bool {
        matches!(self.decompressor, Decompressor::Mix(_))
    }

    /// Decoded bytes yielded so far, all of them good.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes bytes from the front of `wire` up to the next event. Call it until it says [`BodyEvent::NeedInput`]
    /// or [`BodyEvent::End`]; behind the end nothing is taken.
    ///
    /// # Errors
    /// The body is bad; the decoder stays in that state, and what it yielded before is good.
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
    /// The body is bad, or not complete. A body whose last window has been yielded is complete.
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

    /// Reads a header from the held bytes and `wire`, byte by byte: it is short, and nothing behind it is taken.
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
        let (length, place) = parse_size_field(field, most).ok_or(malformed)?;
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
            place,
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
        self.state = match header.place {
            Place::Inner => {
                if window_hash(&self.key, self.offset, &decoded) != header.hash {
                    return Err(mismatch);
                }
                self.whole.update(&decoded);
                State::Header
            }
            Place::Last => {
                // The hasher must stay as it was before a window that turns out bad, for `resume`.
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
            Coding::Brotli if base.is_empty() => Self::Brotli(Brotli::new(MAX_WINDOW_LOG)),
            Coding::Brotli => {
                BasedBrotli::new(MAX_BASED_WINDOW_LOG, base).map_or(Self::Unusable, Self::BasedBrotli)
            }
            Coding::Mix => Self::Mix(MixDecoder::new()),
        }
    }

    /// Decodes a window, which must use all of its coded bytes and give exactly `length` bytes.
    fn decode(&mut self, coded: Vec<u8>, length: usize) -> Result<Vec<u8>, Corrupt> {
        if length == 0 || matches!(self, Self::Identity) {
            return Ok(coded);
        }
        debug_assert!(length <= MAX_BASED_WINDOW);
        if let Self::Mix(decoder) = self {
            return decoder.decode(&coded, length);
        }
        // One byte more than is due: a coder that could write more is caught, and one that is at the end of its
        // input says so.
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
