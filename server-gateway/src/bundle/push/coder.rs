//! How the windows of a push are made.
use longhaul_codec::{AdaptiveEncoder, BodyEncoder, Coding, EncodeError};

/// The encoder of one push.
pub(super) enum PushCoder {
    Adaptive(Box<AdaptiveEncoder>),
    Plain(Box<BodyEncoder>),
}

pub(super) type Coded = Result<Option<Coding>, EncodeError>;

impl PushCoder {
    pub(super) fn coding(&self) -> Option<Coding> {
        match self {
            Self::Adaptive(encoder) => encoder.coding(),
            Self::Plain(encoder) => Some(encoder.coding()),
        }
    }

    pub(super) fn push(&mut self, decoded: &[u8], wire: &mut Vec<u8>) -> Coded {
        match self {
            Self::Adaptive(encoder) => encoder.push(decoded, wire)?,
            Self::Plain(encoder) => encoder.push(decoded, wire)?,
        }
        Ok(self.coding())
    }

    pub(super) fn flush(&mut self, wire: &mut Vec<u8>) -> Coded {
        match self {
            Self::Adaptive(encoder) => encoder.flush(wire)?,
            Self::Plain(encoder) => encoder.flush(wire)?,
        }
        Ok(self.coding())
    }

    pub(super) fn finish(self, wire: &mut Vec<u8>) -> Coded {
        match self {
            Self::Adaptive(encoder) => encoder.finish(wire).map(|finished| Some(finished.coding)),
            Self::Plain(encoder) => {
                let coding = encoder.coding();
                encoder.finish(wire).map(|_| Some(coding))
            }
        }
    }
}
