//! Takes a stream's bytes apart into messages and the raw bytes behind them.
use bytes::{Buf, Bytes, BytesMut};

use super::{
    envelope::{self, EnvelopeError},
    message::Message,
};

/// What [`MessageReader::next`] found.
#[expect(clippy::large_enum_variant, reason = "taken apart at once, never kept")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadEvent {
    /// A whole message.
    Message(Message),
    /// More bytes are needed.
    Incomplete,
}

/// Reads messages from one stream. After the last message of interest, [`MessageReader::take_rest`] hands over what
/// was received behind it (a body's windows, a tunnel's bytes).
#[derive(Debug, Default)]
pub struct MessageReader {
    buffer: BytesMut,
}

impl MessageReader {
    /// A reader at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message; unknown kinds are skipped.
    ///
    /// # Errors
    /// The bytes are not messages: the peer is at fault and the stream cannot be read further.
    #[expect(
        clippy::should_implement_trait,
        reason = "fallible and incremental, so no iterator"
    )]
    pub fn next(&mut self) -> Result<ReadEvent, EnvelopeError> {
        loop {
            match envelope::decode(&self.buffer)? {
                None => return Ok(ReadEvent::Incomplete),
                Some((message, taken)) => {
                    self.buffer.advance(taken);
                    if let Some(message) = message {
                        return Ok(ReadEvent::Message(message));
                    }
                }
            }
        }
    }

    /// The bytes behind the messages read so far.
    pub fn take_rest(&mut self) -> Bytes {
        std::mem::take(&mut self.buffer).freeze()
    }
}
