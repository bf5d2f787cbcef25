//! An encoder that picks its coding, and its base, by trial.
use bytes::Bytes;
use longhaul_types::{BitRate, ByteCount, ContentHash};

use super::{
    BodyTraits,
    base::{Based, choose_base},
    choose,
};
use crate::{
    coding::{Coder, Coding},
    compress::EncodeError,
    window::{BodyEncoder, MAX_WINDOW},
};

/// A [`BodyEncoder`] that chooses its coder and keeps it only if its result is smaller.
///
/// The first window decides, or the whole body if it is smaller than a window. Until then nothing is written and
/// [`Self::coding`] is `None`; afterwards it names the coding that belongs into the body's header, which goes
/// before the bytes written. Serves bodies of both directions.
pub struct AdaptiveEncoder {
    key: [u8; 32],
    content_type: Option<String>,
    length: Option<ByteCount>,
    link: Option<BitRate>,
    /// What may serve as a base, until the decision.
    bases: Vec<Bytes>,
    /// Which of them does.
    base: Option<usize>,
    /// Whether the size is to be hidden where there is a base.
    is_secret: bool,
    /// What has been pushed before the decision.
    first: Vec<u8>,
    decided: Option<BodyEncoder>,
}

/// What a complete body turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The coding of its windows.
    pub coding: Coding,
    /// Its base, by its place among those that were offered.
    pub base: Option<usize>,
    /// The content hash of its decoded bytes.
    pub hash: ContentHash,
}

impl AdaptiveEncoder {
    /// An encoder for a body of which `traits` is known. `key` is the session's key for window hashes.
    pub fn new(key: [u8; 32], traits: BodyTraits<'_>) -> Self {
        Self {
            key,
            content_type: traits.content_type.map(str::to_owned),
            length: traits.length,
            link: traits.link,
            bases: Vec::new(),
            base: None,
            is_secret: false,
            first: Vec::new(),
            decided: None,
        }
    }

    /// Offers bodies that the peer holds, too: the one with which the first window becomes smallest is the base, if it
    /// pays.
    #[must_use]
    pub fn with_bases(mut self, bases: Vec<Bytes>) -> Self {
        self.bases = bases;
        self
    }

    /// Hides the exact size of what is coded with a base ([`BodyEncoder::pad`]): for bodies with secrets.
    #[must_use]
    pub const fn hiding_size(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// The place of the base among those that were offered, once the coding is decided. The body's header must name it.
    pub const fn base(&self) -> Option<usize> {
        self.base
    }

    /// Bases that are still to be tried.
    pub const fn offered(&self) -> usize {
        self.bases.len()
    }

    /// Decoded bytes that are held back until their window is full.
    pub fn pending(&self) -> usize {
        self.decided
            .as_ref()
            .map_or(self.first.len(), BodyEncoder::pending)
    }

    /// Decoded bytes that complete the next window.
    pub fn missing(&self) -> usize {
        let first = MAX_WINDOW - self.first.len();
        self.decided.as_ref().map_or(first, BodyEncoder::missing)
    }

    /// The coding, once it is decided.
    pub fn coding(&self) -> Option<Coding> {
        self.decided.as_ref().map(BodyEncoder::coding)
    }

    /// Takes decoded bytes and appends the windows that they complete to `wire`.
    ///
    /// # Errors
    /// The coder failed; the body cannot go on.
    pub fn push(&mut self, decoded: &[u8], wire: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut rest = decoded;
        if self.decided.is_none() {
            let (now, later) = rest.split_at(rest.len().min(MAX_WINDOW - self.first.len()));
            self.first.extend_from_slice(now);
            rest = later;
            if self.first.len() < MAX_WINDOW {
                return Ok(());
            }
        }
        self.decided(wire)?.push(rest, wire)
    }

    /// Appends a window with what has been pushed since the last one, if anything, so that the peer gets it now.
    ///
    /// # Errors
    /// The coder failed; the body cannot go on.
    pub fn flush(&mut self, wire: &mut Vec<u8>) -> Result<(), EncodeError> {
        if self.decided.is_none() && self.first.is_empty() {
            return Ok(());
        }
        self.decided(wire)?.flush(wire)
    }

    /// Appends the last window.
    ///
    /// # Errors
    /// The coder failed.
    pub fn finish(self, wire: &mut Vec<u8>) -> Result<Finished, EncodeError> {
        let Some(encoder) = self.decided else {
            let length = Some(ByteCount::new(self.first.len() as u64));
            return self.whole(length, wire);
        };
        let coding = encoder.coding();
        let hash = encoder.finish(wire)?;
        Ok(Finished {
            coding,
            base: self.base,
            hash,
        })
    }

    /// The encoder, chosen now if it was not before.
    fn decided(&mut self, wire: &mut Vec<u8>) -> Result<&mut BodyEncoder, EncodeError> {
        let encoder = match self.decided.take() {
            Some(encoder) => encoder,
            None => {
                let encoder = self.start(wire)?;
                self.first = Vec::new();
                self.bases = Vec::new();
                encoder
            }
        };
        Ok(self.decided.insert(encoder))
    }

    fn coder(&self, length: Option<ByteCount>) -> Coder {
        let traits = BodyTraits {
            content_type: self.content_type.as_deref(),
            length,
            link: self.link,
        };
        choose(traits, &self.first)
    }

    /// The base that pays for a body of this length, if one does.
    fn based(&self, length: Option<ByteCount>) -> Option<Based> {
        if self.bases.is_empty() || self.coder(length) == Coder::Identity {
            return None;
        }
        choose_base(&self.bases, &self.first, length, self.link)
    }

    /// Codes the first window, and keeps the coder if that made it smaller.
    fn start(&mut self, wire: &mut Vec<u8>) -> Result<BodyEncoder, EncodeError> {
        let start = wire.len();
        if let Some(Based { base, coder }) = self.based(self.length) {
            let mut encoder = BodyEncoder::with_base(self.key, coder, self.length, &self.bases[base])?;
            if self.is_secret {
                encoder.pad();
            }
            encoder.push(&self.first, wire)?;
            encoder.flush(wire)?;
            self.base = Some(base);
            return Ok(encoder);
        }
        for coder in [self.coder(self.length), Coder::Identity] {
            wire.truncate(start);
            let mut encoder = BodyEncoder::new(self.key, coder, self.length)?;
            encoder.push(&self.first, wire)?;
            encoder.flush(wire)?;
            let saved = (start + self.first.len()).saturating_sub(wire.len());
            if coder == Coder::Identity || self.first.len() < FAIR_TRIAL || saved >= self.first.len() / 32 {
                return Ok(encoder);
            }
        }
        Err(EncodeError("identity"))
    }

    /// Codes a body of less than a window, in the smaller of two ways.
    fn whole(self, length: Option<ByteCount>, wire: &mut Vec<u8>) -> Result<Finished, EncodeError> {
        let encode = |coder: Coder, base: Option<usize>| {
            let mut wire = Vec::new();
            let bytes = base.map_or(&[][..], |base| &self.bases[base]);
            let mut encoder = BodyEncoder::with_base(self.key, coder, length, bytes)?;
            if self.is_secret && base.is_some() {
                encoder.pad();
            }
            encoder.push(&self.first, &mut wire)?;
            let hash = encoder.finish(&mut wire)?;
            let coding = coder.coding();
            Ok((Finished { coding, base, hash }, wire))
        };
        let (mut finished, mut smallest) = encode(Coder::Identity, None)?;
        let (coder, base) = match self.based(length) {
            Some(Based { base, coder }) => (coder, Some(base)),
            None => (self.coder(length), None),
        };
        if coder != Coder::Identity && !self.first.is_empty() {
            let (coded, bytes) = encode(coder, base)?;
            if bytes.len() < smallest.len() {
                (finished, smallest) = (coded, bytes);
            }
        }
        wire.append(&mut smallest);
        Ok(finished)
    }
}

/// A first part smaller than this, flushed early by a streaming origin, tells too little against a coder: what
/// follows gains from its context.
const FAIR_TRIAL: usize = 1024;
