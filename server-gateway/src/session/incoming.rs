//! A stream opened by the agent, read as messages and then as raw bytes.
use bytes::Bytes;
use longhaul_driver::{RecvStream, StreamError};
use longhaul_session::{EnvelopeError, Message, MessageReader, ReadEvent};

/// Stream error code for a stream that violates the session protocol.
pub(crate) const ERROR_MALFORMED: u64 = 2;

/// A stream opened by the agent.
#[derive(Debug)]
pub(crate) struct Incoming {
    stream: RecvStream,
    reader: MessageReader,
}

/// Errors of reading the next message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IncomingError {
    /// The agent sent a malformed message.
    #[error(transparent)]
    Malformed(#[from] EnvelopeError),
    /// The agent cancelled the stream, or the session is lost.
    #[error(transparent)]
    Broken(#[from] StreamError),
}

impl Incoming {
    pub(crate) fn new(stream: RecvStream) -> Self {
        Self {
            stream,
            reader: MessageReader::new(),
        }
    }

    /// Returns true if any byte of the stream arrived in early data.
    pub(crate) const fn was_early(&self) -> bool {
        self.stream.was_early()
    }

    /// Returns the next message, or `None` at the end of the stream. Cancel safe.
    pub(crate) async fn message(&mut self) -> Result<Option<Message>, IncomingError> {
        loop {
            match self.reader.next()? {
                ReadEvent::Message(message) => return Ok(Some(message)),
                ReadEvent::Incomplete => match self.stream.read().await? {
                    Some(bytes) => self.reader.push(&bytes),
                    None => return Ok(None),
                },
            }
        }
    }

    /// Returns the next bytes after the messages, or `None` at the end of the stream. Cancel safe.
    pub(crate) async fn bytes(&mut self) -> Result<Option<Bytes>, StreamError> {
        let held = self.reader.take_rest();
        if held.is_empty() {
            self.stream.read().await
        } else {
            Ok(Some(held))
        }
    }

    /// Waits until the agent cancels the stream. Never returns for a stream that ends normally.
    pub(crate) async fn given_up(&mut self) -> StreamError {
        match self.bytes().await {
            Err(error) => error,
            Ok(None) => std::future::pending().await,
            Ok(Some(_)) => {
                // Bytes after the last message are not wanted, and harmless.
                self.stream.stop(ERROR_MALFORMED);
                std::future::pending().await
            }
        }
    }

    /// Stops the stream with the error code for malformed data.
    pub(crate) fn refuse(&mut self) {
        self.stream.stop(ERROR_MALFORMED);
    }
}
