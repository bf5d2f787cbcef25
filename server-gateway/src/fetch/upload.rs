//! A request's body from the agent to the origin, as a stream that is never buffered whole.
use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::{
    FutureExt as _,
    future::ready as ready_now,
    stream::{BoxStream, Stream, StreamExt as _, once, unfold},
};
use http_body::{Body, Frame, SizeHint};
use longhaul_codec::{BodyDecoder, BodyEvent, BodyLimits, Coding, DecodeError};
use longhaul_driver::StreamError;
use longhaul_session::{self as session, BodyCoding, Continue, EnvelopeError, FetchId, Message};

use crate::session::{
    context::SessionContext,
    incoming::{Incoming, IncomingError},
};

/// Errors that abort a request's body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UploadError {
    /// The agent cancelled the stream, or the session is lost.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A window is invalid.
    #[error(transparent)]
    Window(#[from] DecodeError),
    /// The body is not announced as it should be.
    #[error("the request's body is not announced as it should be")]
    Announcement,
    /// A message is malformed.
    #[error(transparent)]
    Message(#[from] EnvelopeError),
    /// The length differs from the announced length.
    #[error("the agent announced {announced} bytes and sent {sent}")]
    Length {
        /// Announced length in bytes.
        announced: u64,
        /// Received length in bytes.
        sent: u64,
    },
}

/// Shared slot for the error that aborted an upload.
pub(crate) type UploadFailure = Arc<OnceLock<UploadError>>;

/// A request's body.
pub(crate) struct UploadBody {
    windows: BoxStream<'static, Result<Bytes, UploadError>>,
    length: Option<u64>,
    sent: u64,
    failure: UploadFailure,
}

struct Source {
    incoming: Incoming,
    decoder: BodyDecoder,
    input: Bytes,
}

/// Returns the message that announces the body of a request.
pub(crate) async fn announcement(incoming: &mut Incoming) -> Result<session::Body, UploadError> {
    match incoming.message().await {
        Ok(Some(Message::Body(body))) if body.offset == 0 => Ok(body),
        Ok(_) => Err(UploadError::Announcement),
        Err(IncomingError::Malformed(error)) => Err(error.into()),
        Err(IncomingError::Broken(error)) => Err(error.into()),
    }
}

impl UploadBody {
    /// Creates the body from its `announced` message and the windows on `incoming`.
    pub(crate) fn new(key: [u8; 32], announced: &session::Body, incoming: Incoming) -> Self {
        let source = Source::new(key, announced, incoming);
        Self::of(source.windows().boxed(), announced.length)
    }

    /// Creates a body for which the agent is asked when the origin reads it.
    pub(crate) fn asked_for(
        context: Arc<SessionContext>,
        fetch: FetchId,
        length: Option<u64>,
        mut incoming: Incoming,
    ) -> Self {
        let source = async move {
            // Fails if the session has ended, as the next read will tell.
            let _gone = context.send_alone(&Message::Continue(Continue { fetch })).await;
            match announcement(&mut incoming).await {
                Ok(body) if body.length == length => {
                    Source::new(context.window_key, &body, incoming).windows().boxed()
                }
                Ok(_) => once(ready_now(Err(UploadError::Announcement))).boxed(),
                Err(error) => once(ready_now(Err(error))).boxed(),
            }
        };
        Self::of(source.flatten_stream().boxed(), length)
    }

    fn of(windows: BoxStream<'static, Result<Bytes, UploadError>>, length: Option<u64>) -> Self {
        Self {
            windows,
            length,
            sent: 0,
            failure: UploadFailure::default(),
        }
    }

    /// The slot that receives the error if the body is aborted.
    pub(crate) fn failure(&self) -> UploadFailure {
        Arc::clone(&self.failure)
    }

    fn check(&mut self, window: Option<Result<Bytes, UploadError>>) -> Option<Result<Bytes, UploadError>> {
        let announced = self.length.unwrap_or(u64::MAX);
        match window {
            Some(Ok(bytes)) => {
                self.sent += bytes.len() as u64;
                if self.sent > announced {
                    return Some(Err(UploadError::Length {
                        announced,
                        sent: self.sent,
                    }));
                }
                Some(Ok(bytes))
            }
            None if self.length.is_some_and(|announced| self.sent < announced) => {
                Some(Err(UploadError::Length {
                    announced,
                    sent: self.sent,
                }))
            }
            other => other,
        }
    }
}

impl Source {
    fn new(key: [u8; 32], announced: &session::Body, incoming: Incoming) -> Self {
        let coding = match announced.coding {
            BodyCoding::Identity => Coding::Identity,
            BodyCoding::Zstd => Coding::Zstd,
            BodyCoding::Brotli => Coding::Brotli,
            BodyCoding::Mix => Coding::Mix,
        };
        Self {
            incoming,
            decoder: BodyDecoder::new(key, coding, BodyLimits::default()),
            input: Bytes::new(),
        }
    }

    fn windows(self) -> impl Stream<Item = Result<Bytes, UploadError>> + Send {
        unfold(Some(self), |source| async move {
            let mut source = source?;
            match source.window().await {
                Ok(Some(bytes)) => Some((Ok(bytes), Some(source))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    async fn window(&mut self) -> Result<Option<Bytes>, UploadError> {
        loop {
            let mut rest = &self.input[..];
            let event = self.decoder.next(&mut rest)?;
            let taken = self.input.len() - rest.len();
            self.input = self.input.slice(taken..);
            match event {
                BodyEvent::Window(bytes) => return Ok(Some(bytes)),
                BodyEvent::End(_) => return Ok(None),
                BodyEvent::NeedInput => match self.incoming.bytes().await? {
                    Some(bytes) => self.input = bytes,
                    None => {
                        self.decoder.finish()?;
                        return Ok(None);
                    }
                },
            }
        }
    }
}

impl Body for UploadBody {
    type Data = Bytes;
    type Error = UploadError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        let window = ready!(self.windows.poll_next_unpin(cx));
        let checked = self.check(window);
        if let Some(Err(error)) = &checked {
            let _earlier = self.failure.set(error.clone());
        }
        Poll::Ready(checked.map(|window| window.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, |length| {
            SizeHint::with_exact(length.saturating_sub(self.sent))
        })
    }
}
