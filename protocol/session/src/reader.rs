//! Splits a stream's bytes into messages and the raw bytes after them.
use bytes::{Buf, Bytes, BytesMut};

use super::{
    envelope::{self, EnvelopeError},
    message::Message,
};

/// Result of [`MessageReader::next`].
#[expect(clippy::large_enum_variant, reason = "taken apart at once, never kept")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadEvent {
    /// A complete message.
    Message(Message),
    /// More bytes are needed.
    Incomplete,
}

/// Reads messages from one stream. After the last message of interest, [`MessageReader::take_rest`] returns
/// the received bytes after it (a body's windows, a tunnel's bytes).
#[derive(Debug, Default)]
pub struct MessageReader {
    buffer: BytesMut,
}

impl MessageReader {
    /// Creates a reader at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next message; skips unknown kinds.
    ///
    /// # Errors
    /// The bytes are not messages: the peer violated the protocol, and the stream cannot be read further.
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

    /// Returns the bytes after the messages read so far.
    pub fn take_rest(&mut self) -> Bytes {
        std::mem::take(&mut self.buffer).freeze()
    }
}
