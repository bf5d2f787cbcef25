//! Encoders of pushed bodies.
use longhaul_codec::{BodyEncoder, EncodeError, Load};

use crate::{
    body::{WindowCoding, message_coding},
    encoded_cache::{Finished, WholeCoder},
};

/// The encoder of one push.
pub(super) enum PushCoder {
    Whole(Box<WholeCoder>),
    Plain(Box<BodyEncoder>),
}

pub(super) type Coded = Result<Option<WindowCoding>, EncodeError>;

impl PushCoder {
    pub(super) fn coding(&self) -> Option<WindowCoding> {
        match self {
            Self::Whole(coder) => coder.coding(),
            Self::Plain(encoder) => Some(plain(encoder)),
        }
    }

    /// Returns true if bytes are pending that [`Self::flush`] would write.
    pub(super) fn holds(&self) -> bool {
        match self {
            Self::Whole(coder) => coder.holds(),
            Self::Plain(encoder) => encoder.pending() > 0,
        }
    }

    /// Returns true if pushing `input` bytes may take long.
    pub(super) fn push_is_heavy(&self, input: usize) -> bool {
        match self {
            Self::Whole(coder) => coder.push_is_heavy(input),
            Self::Plain(_) => false,
        }
    }

    /// Returns true if encoding the pending bytes may take long.
    pub(super) fn flush_is_heavy(&self) -> bool {
        match self {
            Self::Whole(coder) => coder.flush_is_heavy(),
            Self::Plain(_) => false,
        }
    }

    /// Sets the current processor load.
    pub(super) fn under(&mut self, load: Load) {
        if let Self::Whole(coder) = self {
            coder.under(load);
        }
    }

    pub(super) fn push(&mut self, decoded: &[u8], wire: &mut Vec<u8>) -> Coded {
        match self {
            Self::Whole(coder) => coder.push(decoded, wire)?,
            Self::Plain(encoder) => encoder.push(decoded, wire)?,
        }
        Ok(self.coding())
    }

    pub(super) fn flush(&mut self, wire: &mut Vec<u8>) -> Coded {
        match self {
            Self::Whole(coder) => coder.flush(wire)?,
            Self::Plain(encoder) => encoder.flush(wire)?,
        }
        Ok(self.coding())
    }

    /// Appends the last window; also returns the coded result of a whole body.
    pub(super) fn finish(self, wire: &mut Vec<u8>) -> (Coded, Option<Finished>) {
        match self {
            Self::Whole(coder) => match coder.finish(wire) {
                Ok(finished) => (Ok(Some(finished.coding)), Some(finished)),
                Err(error) => (Err(error), None),
            },
            Self::Plain(encoder) => {
                let coding = plain(&encoder);
                (encoder.finish(wire).map(|_| Some(coding)), None)
            }
        }
    }
}

fn plain(encoder: &BodyEncoder) -> WindowCoding {
    WindowCoding::new(message_coding(encoder.coding()), None, &[])
}
