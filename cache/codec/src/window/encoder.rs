//! The sending side of the body framing.
use longhaul_types::{ByteCount, ContentHash, varint};

use super::{HASH_SIZE, MAX_WINDOW, Place, base_tail, size_field, whole_hash, window_hash};
use crate::{
    coding::{Coder, Coding},
    compress::{After, Compressor, EncodeError},
};

/// Turns decoded bytes into windows.
///
/// A window is emitted as soon as it is full, or when [`Self::flush`] asks for it. It holds back less than
/// [`MAX_WINDOW`] bytes.
pub struct BodyEncoder {
    key: [u8; 32],
    coding: Coding,
    compressor: Compressor,
    whole: blake3::Hasher,
    offset: u64,
    pending: Vec<u8>,
    coded: Vec<u8>,
}

impl BodyEncoder {
    /// An encoder of a body from its start. `key` is the session's key for window hashes.
    ///
    /// `length` is the length of the whole body where it is known: a hint that saves memory, not a promise.
    ///
    /// # Errors
    /// The coder could not be set up.
    pub fn new(key: [u8; 32], coder: Coder, length: Option<ByteCount>) -> Result<Self, EncodeError> {
        Self::with_base(key, coder, length, &[])
    }

    /// As [`Self::new`], with a `base` that the peer has too: what a Zstandard body has in common with it costs little (the
    /// other codings do without it). At most [`MAX_BASE`](crate::MAX_BASE) bytes from its end are used.
    ///
    /// # Errors
    /// The coder could not be set up.
    pub fn with_base(
        key: [u8; 32],
        coder: Coder,
        length: Option<ByteCount>,
        base: &[u8],
    ) -> Result<Self, EncodeError> {
        Ok(Self {
            key,
            coding: coder.coding(),
            compressor: Compressor::new(coder, length, base_tail(base))?,
            whole: blake3::Hasher::new(),
            offset: 0,
            pending: Vec::new(),
            coded: Vec::new(),
        })
    }

    /// An encoder of the rest of a body behind `prefix`, with a fresh coding context: the answer to a peer that
    /// has the bytes before that offset.
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

    /// The coding of the windows.
    pub const fn coding(&self) -> Coding {
        self.coding
    }

    /// Takes decoded bytes and appends the windows that they complete to `wire`.
    ///
    /// # Errors
    /// The coder failed; the body cannot go on.
    pub fn push(&mut self, mut decoded: &[u8], wire: &mut Vec<u8>) -> Result<(), EncodeError> {
        while !decoded.is_empty() {
            let (now, later) = decoded.split_at(decoded.len().min(MAX_WINDOW - self.pending.len()));
            self.pending.extend_from_slice(now);
            decoded = later;
            if self.pending.len() == MAX_WINDOW {
                self.flush(wire)?;
            }
        }
        Ok(())
    }

    /// Appends a window with what has been pushed since the last one, if anything, so that the peer gets it now.
    ///
    /// # Errors
    /// The coder failed; the body cannot go on.
    pub fn flush(&mut self, wire: &mut Vec<u8>) -> Result<(), EncodeError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.whole.update(&self.pending);
        let hash = window_hash(&self.key, self.offset, &self.pending);
        self.window(Place::Inner, &hash, wire)
    }

    /// Appends the last window, and returns the content hash of the whole body.
    ///
    /// # Errors
    /// The coder failed.
    pub fn finish(mut self, wire: &mut Vec<u8>) -> Result<ContentHash, EncodeError> {
        self.whole.update(&self.pending);
        let chk = ContentHash::from_bytes(*self.whole.finalize().as_bytes());
        let hash = whole_hash(&self.key, chk);
        self.window(Place::Last, &hash, wire)?;
        Ok(chk)
    }

    fn window(
        &mut self,
        place: Place,
        hash: &[u8; HASH_SIZE],
        wire: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let after = match place {
            Place::Inner => After::More,
            Place::Last => After::End,
        };
        let length = self.pending.len();
        varint::encode(size_field(length, place), wire);
        if length == 0 {
            wire.extend_from_slice(hash);
            return Ok(());
        }
        if self.coding == Coding::Identity {
            wire.extend_from_slice(hash);
            wire.extend_from_slice(&self.pending);
        } else {
            self.coded.clear();
            self.compressor.code(&self.pending, after, &mut self.coded)?;
            varint::encode(self.coded.len() as u64, wire);
            wire.extend_from_slice(hash);
            wire.extend_from_slice(&self.coded);
        }
        self.offset += length as u64;
        self.pending.clear();
        Ok(())
    }
}
