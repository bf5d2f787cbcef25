//! The gateway's answer to a fetch or tunnel.
use bytes::Bytes;
use longhaul_driver::{Expectation, RecvStream, StreamError};
use longhaul_session::{
    Body, BodyPlace, EntryId, FailureReason, HeaderField, Message, MessageReader, PageId, ReadEvent,
};
use longhaul_types::ContentHash;

/// The gateway's answer.
#[derive(Debug)]
pub enum GatewayAnswer {
    /// The head of a response.
    Head {
        /// The status code.
        status: u16,
        /// The fields.
        fields: Vec<HeaderField>,
        /// The place of the body.
        body: BodyPlace,
        /// The CHK of the decoded body, if known in advance.
        content_hash: Option<ContentHash>,
        /// The rest of the stream.
        stream: ResponseStream,
    },
    /// There is no response, or no tunnel.
    Failed {
        /// The reason.
        reason: FailureReason,
        /// Details.
        detail: String,
    },
    /// The tunnel's host is connected, or the association is open.
    Tunnel(ResponseStream),
    /// An entry of a manifest matches the request.
    Promised {
        /// The page load.
        page: PageId,
        /// The entry of its manifest.
        entry: EntryId,
    },
    /// The gateway's answer is malformed.
    Malformed,
}

/// A stream from the gateway, after its first message.
#[derive(Debug)]
pub struct ResponseStream {
    reader: MessageReader,
    stream: RecvStream,
    _expectation: Expectation,
}

impl ResponseStream {
    pub(super) const fn new(reader: MessageReader, stream: RecvStream, expectation: Expectation) -> Self {
        Self {
            reader,
            stream,
            _expectation: expectation,
        }
    }

    /// Returns the `Body` message; `None` if the stream ends without it, because the origin sent no byte of the body.
    /// Cancel safe.
    ///
    /// # Errors
    /// The stream was cancelled, or contains another message.
    pub async fn body(&mut self) -> Result<Option<Body>, StreamError> {
        loop {
            match self.reader.next() {
                Ok(ReadEvent::Message(Message::Body(body))) => return Ok(Some(body)),
                Ok(ReadEvent::Message(_)) | Err(_) => {
                    self.stream.stop(longhaul_driver::ERROR_ABANDONED);
                    return Err(StreamError::Cancelled(longhaul_driver::ERROR_ABANDONED));
                }
                Ok(ReadEvent::Incomplete) => match self.stream.read().await? {
                    Some(bytes) => self.reader.push(&bytes),
                    None => return Ok(None),
                },
            }
        }
    }

    /// Returns the next raw bytes after the messages; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// The stream was cancelled, or the session is lost.
    pub async fn read(&mut self) -> Result<Option<Bytes>, StreamError> {
        let held = self.reader.take_rest();
        if held.is_empty() {
            self.stream.read().await
        } else {
            Ok(Some(held))
        }
    }
}
