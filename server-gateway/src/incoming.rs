//! A stream that the agent opened, read as messages and then as raw bytes.
use bytes::Bytes;
use longhaul_driver::{RecvStream, StreamError};
use longhaul_protocol::session::{EnvelopeError, Message, MessageReader, ReadEvent};

/// Stream error for a stream whose sender broke the session protocol.
pub(crate) const ERROR_MALFORMED: u64 = 2;

/// A stream of the agent.
#[derive(Debug)]
pub(crate) struct Incoming {
    stream: RecvStream,
    reader: MessageReader,
}

/// A stream that has no next message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IncomingError {
    /// What came is no message: the agent's fault.
    #[error(transparent)]
    Malformed(#[from] EnvelopeError),
    /// The agent cancelled it, or the session is lost.
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

    /// Whether any of it came in early data.
    pub(crate) const fn was_early(&self) -> bool {
        self.stream.was_early()
    }

    /// The next message; `None` at the end of the stream. Cancel safe.
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

    /// The next bytes behind the messages; `None` at the end of the stream. Cancel safe.
    pub(crate) async fn bytes(&mut self) -> Result<Option<Bytes>, StreamError> {
        let held = self.reader.take_rest();
        if held.is_empty() {
            self.stream.read().await
        } else {
            Ok(Some(held))
        }
    }

    /// Waits until the agent gives the stream up. A stream that ends as it should is not given up.
    pub(crate) async fn given_up(&mut self) -> StreamError {
        match self.bytes().await {
            Err(error) => error,
            Ok(None) => std::future::pending().await,
            Ok(Some(_)) => {
                // Bytes behind the last message: they are not wanted, and do no harm.
                self.stream.stop(ERROR_MALFORMED);
                std::future::pending().await
            }
        }
    }

    /// Tells the agent that the stream makes no sense.
    pub(crate) fn refuse(&mut self) {
        self.stream.stop(ERROR_MALFORMED);
    }
}
