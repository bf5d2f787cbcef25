//! How the windows of a push are made.
use longhaul_codec::{AdaptiveEncoder, BodyEncoder, BodyTraits, EncodeError};
use longhaul_types::ContentHash;
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    bases::Offers,
    body::{WindowCoding, message_coding},
};

/// Work on less than this is done where it stands; more goes to a thread for computing.
const LIGHT: usize = 1024;

/// The encoder of one push.
pub(super) enum PushCoder {
    Adaptive {
        encoder: Box<AdaptiveEncoder>,
        /// What was offered as a base.
        bases: Vec<ContentHash>,
        /// Of the bases.
        _memory: Option<OwnedSemaphorePermit>,
    },
    Plain(Box<BodyEncoder>),
}

pub(super) type Coded = Result<Option<WindowCoding>, EncodeError>;

impl PushCoder {
    pub(super) fn adaptive(key: [u8; 32], traits: BodyTraits<'_>, offers: Offers) -> Self {
        let mut encoder = AdaptiveEncoder::new(key, traits)
            .with_bases(offers.bodies)
            .with_dictionaries(offers.dictionaries)
            .with_mixing(offers.mixing);
        if offers.is_personal {
            encoder = encoder.hiding_size();
        }
        Self::Adaptive {
            encoder: Box::new(encoder),
            bases: offers.hashes,
            _memory: offers.memory,
        }
    }

    pub(super) fn coding(&self) -> Option<WindowCoding> {
        match self {
            Self::Adaptive { encoder, bases, .. } => {
                let coding = message_coding(encoder.coding()?);
                Some(WindowCoding::new(coding, encoder.base(), bases))
            }
            Self::Plain(encoder) => Some(WindowCoding::new(message_coding(encoder.coding()), None, &[])),
        }
    }

    /// Decoded bytes that are held back.
    pub(super) fn pending(&self) -> usize {
        match self {
            Self::Adaptive { encoder, .. } => encoder.pending(),
            Self::Plain(encoder) => encoder.pending(),
        }
    }

    /// Whether pushing so many bytes is much work.
    pub(super) fn push_is_heavy(&self, input: usize) -> bool {
        match self {
            Self::Adaptive { encoder, .. } => input >= encoder.missing(),
            Self::Plain(_) => false,
        }
    }

    /// Whether coding what is held back is.
    pub(super) fn flush_is_heavy(&self) -> bool {
        match self {
            Self::Adaptive { encoder, .. } => encoder.pending() > LIGHT || encoder.has_trials(),
            Self::Plain(_) => false,
        }
    }

    pub(super) fn push(&mut self, decoded: &[u8], wire: &mut Vec<u8>) -> Coded {
        match self {
            Self::Adaptive { encoder, .. } => encoder.push(decoded, wire)?,
            Self::Plain(encoder) => encoder.push(decoded, wire)?,
        }
        Ok(self.coding())
    }

    pub(super) fn flush(&mut self, wire: &mut Vec<u8>) -> Coded {
        match self {
            Self::Adaptive { encoder, .. } => encoder.flush(wire)?,
            Self::Plain(encoder) => encoder.flush(wire)?,
        }
        Ok(self.coding())
    }

    pub(super) fn finish(self, wire: &mut Vec<u8>) -> Coded {
        match self {
            Self::Adaptive { encoder, bases, .. } => {
                let finished = encoder.finish(wire)?;
                let coding = message_coding(finished.coding);
                Ok(Some(WindowCoding::new(coding, finished.base, &bases)))
            }
            Self::Plain(encoder) => {
                let coding = message_coding(encoder.coding());
                encoder.finish(wire)?;
                Ok(Some(WindowCoding::new(coding, None, &[])))
            }
        }
    }
}
