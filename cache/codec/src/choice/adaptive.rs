//! Encoder that chooses its coding and its base by trial.
mod trials;

use bytes::Bytes;
use longhaul_types::{BitRate, ByteCount, ContentHash};

use super::{BodyTraits, EffortPolicy, Load, base::Base, choose};
use crate::{
    coding::{Coder, Coding, EncodeError},
    dictionary::Media,
    memory_shares::MemoryShare,
    window::{BodyEncoder, CodedBody, MAX_WINDOW},
};

/// Which coded bodies are padded, so that their size reveals less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SizeHiding {
    /// None.
    #[default]
    Nothing,
    /// Those that are coded against an offered base: the size shows what the body has in common with it. A dictionary as base
    /// needs no padding: it is public, so the size reveals no more than that of any compressed body.
    Based,
    /// All: the size also shows what the parts of the body have in common.
    Coded,
}

/// A [`BodyEncoder`] that chooses its coder and keeps the coder only if the coded result is smaller.
///
/// The first window decides, or the whole body if it is smaller than a window. Until the decision the encoder
/// writes nothing and [`Self::coding`] is `None`. Afterwards [`Self::coding`] is the coding that the body's
/// header must name, before the written bytes. Serves bodies of both directions.
pub struct AdaptiveEncoder {
    key: [u8; 32],
    content_type: Option<String>,
    length: Option<ByteCount>,
    link: Option<BitRate>,
    load: Load,
    effort: EffortPolicy,
    /// Result of an earlier encoding of the body.
    coded: Option<CodedBody>,
    /// Coder of the body, with its effort.
    coder: Coder,
    /// Offered bases, until the decision.
    bases: Vec<Bytes>,
    /// Dictionary set of which the base may be taken; 0 for none.
    dictionaries: u32,
    /// The chosen base.
    base: Option<Base>,
    /// Memory for context mixing, if the peer accepts context mixing.
    mixing: Option<MemoryShare>,
    /// True if the size must be hidden when the base is an offered body.
    hiding: SizeHiding,
    /// Bytes pushed before the decision.
    first: Vec<u8>,
    decided: Option<BodyEncoder>,
}

/// Properties of a completely encoded body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Coding of the windows.
    pub coding: Coding,
    /// Coder with its effort; identity if a stored encoding was sent or contexts were mixed.
    pub coder: Coder,
    /// Base, if any.
    pub base: Option<Base>,
    /// Content hash of the decoded bytes.
    pub hash: ContentHash,
}

impl AdaptiveEncoder {
    /// Returns an encoder for a body with `traits`. `key` is the session's window key.
    pub fn new(key: [u8; 32], traits: BodyTraits<'_>) -> Self {
        Self {
            key,
            content_type: traits.content_type.map(str::to_owned),
            length: traits.length,
            link: traits.link,
            load: traits.load,
            effort: traits.effort,
            coded: None,
            coder: Coder::Identity,
            bases: Vec::new(),
            dictionaries: 0,
            base: None,
            mixing: None,
            hiding: SizeHiding::Nothing,
            first: Vec::new(),
            decided: None,
        }
    }

    /// Offers bodies that the peer holds. The one with which the first window becomes smallest becomes the
    /// base, if it saves enough.
    #[must_use]
    pub fn with_bases(mut self, bases: Vec<Bytes>) -> Self {
        self.bases = bases;
        self
    }

    /// Offers the dictionaries of this set ([`dictionary`](crate::dictionary)), which the peer has, if the
    /// set contains one for this content type. 0 for none.
    #[must_use]
    pub fn with_dictionaries(mut self, set: u32) -> Self {
        if self.content_type.as_deref().and_then(Media::of).is_some() {
            self.dictionaries = set;
        }
        self
    }

    /// Allows context mixing with this memory. The peer must accept [`Coding::Mix`].
    #[must_use]
    pub fn with_mixing(mut self, memory: Option<MemoryShare>) -> Self {
        self.mixing = memory;
        self
    }

    /// Supplies the result of an earlier encoding of this body, which is sent unless a base or context mixing
    /// is smaller.
    #[must_use]
    pub fn with_coded(mut self, coded: Option<CodedBody>) -> Self {
        self.coded = coded;
        self
    }

    /// Sets the current processor load. Has an effect until the coding is decided.
    pub const fn under(&mut self, load: Load) {
        self.load = load;
    }

    /// True if only hashing remains because the body was encoded before.
    pub fn is_replay(&self) -> bool {
        match &self.decided {
            Some(encoder) => encoder.is_replay(),
            None => self.coded.is_some() && !self.has_trials() && !self.may_mix(),
        }
    }

    /// Hides the exact size of a body with secrets ([`BodyEncoder::pad`]).
    #[must_use]
    pub fn hiding(mut self, hiding: SizeHiding) -> Self {
        self.hiding = self.hiding.max(hiding);
        self
    }

    /// The base, once the coding is decided. The body's header must name it.
    pub const fn base(&self) -> Option<Base> {
        self.base
    }

    /// True if bases still have to be tried.
    pub const fn has_trials(&self) -> bool {
        self.decided.is_none() && (!self.bases.is_empty() || self.dictionaries > 0)
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
    /// The coder failed; the body cannot continue.
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

    /// Appends a window with the bytes pushed since the last window, if any, so that the peer receives them
    /// now.
    ///
    /// # Errors
    /// The coder failed; the body cannot continue.
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
            return self.finish_single_window(length, wire);
        };
        let coding = encoder.coding();
        let hash = encoder.finish(wire)?;
        Ok(Finished {
            coding,
            coder: self.coder,
            base: self.base,
            hash,
        })
    }

    /// Returns the encoder, and chooses it first if that is still to be done.
    fn decided(&mut self, wire: &mut Vec<u8>) -> Result<&mut BodyEncoder, EncodeError> {
        let encoder = match self.decided.take() {
            Some(encoder) => encoder,
            None => {
                let encoder = self.start(wire)?;
                self.first = Vec::new();
                self.bases = Vec::new();
                self.coded = None;
                encoder
            }
        };
        Ok(self.decided.insert(encoder))
    }

    fn traits(&self, length: Option<ByteCount>) -> BodyTraits<'_> {
        BodyTraits {
            content_type: self.content_type.as_deref(),
            length,
            link: self.link,
            load: self.load,
            effort: self.effort,
        }
    }

    fn coder(&self, length: Option<ByteCount>) -> Coder {
        let coder = choose(self.traits(length), &self.first);
        match coder {
            // Without a base, a Brotli stream has no padding.
            Coder::Brotli { quality } if self.hiding == SizeHiding::Coded => Coder::Zstd {
                level: if quality >= 9 { 19 } else { 9 },
            },
            Coder::Brotli { .. } | Coder::Zstd { .. } | Coder::Identity => coder,
        }
    }

    /// The coder that decides if bases and context mixing are tried.
    fn coder_for_trials(&self, length: Option<ByteCount>) -> Coder {
        choose(self.traits(length).for_trials(), &self.first)
    }
}
