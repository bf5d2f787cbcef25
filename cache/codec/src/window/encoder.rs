//! Sending side of the body framing.
use longhaul_types::{ByteCount, ContentHash, varint};

use super::{
    CodedBody, FIRST_WINDOW, HASH_SIZE, MAX_WINDOW, Replay, SMALL_WINDOW, WindowPosition, base_tail,
    size_field, whole_hash, window_hash, window_limits,
};
use crate::{
    coding::{After, Coder, Coding, EncodeError},
    compress::Compressor,
    memory_shares::MemoryShare,
    mix::MixEncoder,
};

/// Encodes decoded bytes into windows.
///
/// Emits a window as soon as it is full, or on [`Self::flush`]. Holds back less than [`MAX_WINDOW`] bytes;
/// with a base, while windows are small, less than [`MAX_BASED_WINDOW`](crate::MAX_BASED_WINDOW).
pub struct BodyEncoder {
    key: [u8; 32],
    coding: Coding,
    compressor: Compressor,
    whole: blake3::Hasher,
    offset: u64,
    /// Bytes of all windows so far.
    sent: u64,
    padding: Padding,
    /// Offset of the padding steps, derived from the body.
    jitter: u64,
    /// Decoded bytes of a full window, and its maximum.
    room: usize,
    most: usize,
    pending: Vec<u8>,
    coded: Vec<u8>,
}

impl BodyEncoder {
    /// Returns an encoder of a body from its start. `key` is the session's window key.
    ///
    /// `length` is the length of the whole body, if known: a hint that saves memory and may be wrong.
    ///
    /// # Errors
    /// The coder could not be set up.
    pub fn new(key: [u8; 32], coder: Coder, length: Option<ByteCount>) -> Result<Self, EncodeError> {
        Self::with_base(key, coder, length, &[])
    }

    /// As [`Self::new`], with a `base` that the peer also holds: parts that the body has in common with it
    /// cost little. At most the last [`MAX_BASE`](crate::MAX_BASE) bytes of the base are used.
    ///
    /// The body's header must name every base that is not empty, whatever the coding: windows are larger with
    /// a base.
    ///
    /// # Errors
    /// The coder could not be set up.
    pub fn with_base(
        key: [u8; 32],
        coder: Coder,
        length: Option<ByteCount>,
        base: &[u8],
    ) -> Result<Self, EncodeError> {
        let compressor = Compressor::new(coder, length, base_tail(base))?;
        let most = window_limits(!base.is_empty()).0;
        Ok(Self::around(key, coder.coding(), compressor, most))
    }

    /// Returns an encoder of a body that was encoded before, which only hashes the windows with the session's
    /// key. It holds back bytes that do not fill a window of `coded`, even on flush.
    pub fn replay(key: [u8; 32], coded: CodedBody) -> Self {
        let coding = coded.coding();
        let mut encoder = Self::around(key, coding, Compressor::Replay(Replay::new(coded)), MAX_WINDOW);
        encoder.resize();
        encoder
    }

    /// Returns a context-mixing encoder, for a body without base and a peer that accepts context mixing;
    /// `None` if `memory` is insufficient.
    pub fn mixed(key: [u8; 32], length: Option<ByteCount>, memory: &MemoryShare) -> Option<Self> {
        let compressor = Compressor::Mix(MixEncoder::new(length, memory)?);
        Some(Self::around(key, Coding::Mix, compressor, MAX_WINDOW))
    }

    fn around(key: [u8; 32], coding: Coding, compressor: Compressor, most: usize) -> Self {
        Self {
            key,
            coding,
            compressor,
            whole: blake3::Hasher::new(),
            offset: 0,
            sent: 0,
            padding: Padding::None,
            jitter: 0,
            room: MAX_WINDOW,
            most,
            pending: Vec::new(),
            coded: Vec::new(),
        }
    }

    /// Returns an encoder of the rest of a body after `prefix`, with a new coding context, for a peer that
    /// has the prefix.
    ///
    /// # Errors
    /// The coder could not be set up.
    pub fn resume(
        key: [u8; 32],
        coder: Coder,
        length: Option<ByteCount>,
        prefix: &[u8],
    ) -> Result<Self, EncodeError> {
        let mut encoder = Self::new(key, coder, length)?;
        encoder.whole.update(prefix);
        encoder.offset = prefix.len() as u64;
        Ok(encoder)
    }

    /// Hides the exact size of the body: an attacker who can make the peer hold bases, and who observes the
    /// sizes on the hop, must not learn what a body has in common with the bases.
    pub const fn pad(&mut self) {
        self.padding = Padding::Hiding;
    }

    /// Begins with windows of [`FIRST_WINDOW`] decoded bytes, each of which is twice as large as the one before, up to the usual
    /// size: the first part of a document is displayed before the rest arrives.
    #[must_use]
    pub(crate) fn growing(mut self) -> Self {
        if self.coding != Coding::Identity && !self.is_replay() && self.pending.is_empty() {
            self.room = FIRST_WINDOW;
        }
        self
    }

    /// Coding of the windows.
    pub const fn coding(&self) -> Coding {
        self.coding
    }

    /// True for an encoder made by [`Self::replay`].
    pub(crate) const fn is_replay(&self) -> bool {
        matches!(self.compressor, Compressor::Replay(_))
    }

    /// Decoded bytes that are held back until their window is full.
    pub const fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Decoded bytes that complete the next window.
    pub const fn missing(&self) -> usize {
        self.room - self.pending.len()
    }

    /// Takes decoded bytes and appends the windows that they complete to `wire`.
    ///
    /// # Errors
    /// The coder failed; the body cannot continue.
    pub fn push(&mut self, mut decoded: &[u8], wire: &mut Vec<u8>) -> Result<(), EncodeError> {
        while !decoded.is_empty() {
            if self.pending.len() == self.room {
                self.emit(wire)?;
            }
            let (now, later) = decoded.split_at(decoded.len().min(self.room - self.pending.len()));
            self.pending.extend_from_slice(now);
            decoded = later;
        }
        if self.pending.len() == self.room && !self.may_be_last() {
            self.emit(wire)?;
        }
        Ok(())
    }

    /// True if a full window is held back because it may be the last window.
    fn may_be_last(&self) -> bool {
        match &self.compressor {
            // The replay has the same last window as before.
            Compressor::Replay(replay) => replay.next().is_none_or(|(_, after)| after == After::End),
            // The last window contains the padding, so it must not be empty.
            Compressor::Identity | Compressor::Zstd(_) | Compressor::Brotli(_) | Compressor::Mix(_) => {
                self.padding == Padding::Hiding
            }
        }
    }

    /// Appends a window with the bytes pushed since the last window, if any, so that the peer receives them
    /// now.
    ///
    /// # Errors
    /// The coder failed; the body cannot continue.
    pub fn flush(&mut self, wire: &mut Vec<u8>) -> Result<(), EncodeError> {
        let has_its_windows = self.is_replay() && (self.pending.len() < self.room || self.may_be_last());
        if self.pending.is_empty() || has_its_windows {
            return Ok(());
        }
        self.emit(wire)
    }

    fn emit(&mut self, wire: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.whole.update(&self.pending);
        let hash = window_hash(&self.key, self.offset, &self.pending);
        self.window(WindowPosition::Inner, &hash, wire)
    }

    /// Appends the last window, and returns the content hash of the whole body.
    ///
    /// # Errors
    /// The coder failed.
    pub fn finish(mut self, wire: &mut Vec<u8>) -> Result<ContentHash, EncodeError> {
        self.whole.update(&self.pending);
        let chk = ContentHash::from_bytes(*self.whole.finalize().as_bytes());
        let hash = whole_hash(&self.key, chk);
        if self.padding == Padding::Hiding {
            self.jitter = jitter(&self.key, chk);
        }
        self.window(WindowPosition::Last, &hash, wire)?;
        Ok(chk)
    }

    fn window(
        &mut self,
        position: WindowPosition,
        hash: &[u8; HASH_SIZE],
        wire: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let after = match position {
            WindowPosition::Inner => After::More,
            WindowPosition::Last => After::End,
        };
        let length = self.pending.len();
        let start = wire.len();
        varint::encode(size_field(length, position), wire);
        if length == 0 {
            if let Compressor::Replay(replay) = &mut self.compressor {
                replay.code(length, after, &mut self.coded)?;
            }
            wire.extend_from_slice(hash);
            return Ok(());
        }
        if self.coding == Coding::Identity {
            wire.extend_from_slice(hash);
            wire.extend_from_slice(&self.pending);
        } else {
            self.coded.clear();
            self.compressor.code(&self.pending, after, &mut self.coded)?;
            if after == After::End && self.padding == Padding::Hiding {
                self.pad_coded();
            }
            varint::encode(self.coded.len() as u64, wire);
            wire.extend_from_slice(hash);
            wire.extend_from_slice(&self.coded);
            if length == self.room {
                self.resize();
            }
        }
        self.sent += (wire.len() - start) as u64;
        self.offset += length as u64;
        self.pending.clear();
        Ok(())
    }

    /// Appends padding, which the decoder ignores, so that the body's size reveals less.
    fn pad_coded(&mut self) {
        let sent = self.sent + self.coded.len() as u64;
        match self.coding {
            Coding::Zstd => skippable_frame(padding(sent, FRAME_HEADER, self.jitter), &mut self.coded),
            Coding::Brotli => {
                let size = usize::try_from(padding(sent, 0, self.jitter)).unwrap_or(0);
                self.coded.resize(self.coded.len() + size, 0);
            }
            // These codings have no bases.
            Coding::Identity | Coding::Mix => {}
        }
    }

    /// Sets the next window's size: larger while full windows are small on the wire, so that no window takes
    /// long to arrive.
    fn resize(&mut self) {
        if let Compressor::Replay(replay) = &self.compressor {
            self.room = replay.next().map_or(MAX_WINDOW, |(length, _)| length.max(1));
        } else if self.room < MAX_WINDOW || self.coded.len() <= SMALL_WINDOW {
            self.room = (2 * self.room).min(self.most);
        } else if self.coded.len() > 2 * SMALL_WINDOW {
            self.room = (self.room / 2).max(MAX_WINDOW);
        }
    }
}

/// Selects padding of the body's size on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Padding {
    None,
    Hiding,
}

/// Bounds of the padding step, which is a sixteenth of the body's size on the wire.
const SMALLEST_STEP: u64 = 64;
const LARGEST_STEP: u64 = 512;
/// Header size of a skippable frame: RFC 8878 section 3.1.2.
const FRAME_HEADER: u64 = 8;
const SKIPPABLE: u32 = 0x184D_2A50;

/// Deterministic per body and session key: a repeated request reveals nothing new, and observers cannot
/// predict it.
fn jitter(key: &[u8; 32], chk: ContentHash) -> u64 {
    let hash = blake3::Hasher::new_keyed(key)
        .update(b"padding")
        .update(chk.as_bytes())
        .finalize();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(bytes)
}

/// Padding, of at least `least` bytes, that makes `sent` a multiple of its step after adding up to one step.
fn padding(sent: u64, least: u64, jitter: u64) -> u64 {
    let step = (sent.next_power_of_two() / 16).clamp(SMALLEST_STEP, LARGEST_STEP);
    let least = sent + least + jitter % step;
    least.next_multiple_of(step) - sent
}

/// Appends a skippable Zstandard frame of `size` bytes in total.
fn skippable_frame(size: u64, out: &mut Vec<u8>) {
    let content = u32::try_from(size.saturating_sub(FRAME_HEADER)).unwrap_or(0);
    out.extend_from_slice(&SKIPPABLE.to_le_bytes());
    out.extend_from_slice(&content.to_le_bytes());
    out.resize(out.len() + content as usize, 0);
}
