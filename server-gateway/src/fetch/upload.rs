//! A request's body from the agent to the origin, as a stream that is never buffered whole.
use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt as _, unfold};
use http_body::{Body, Frame, SizeHint};
use longhaul_codec::{BodyDecoder, BodyEvent, BodyLimits, Coding, DecodeError};
use longhaul_driver::StreamError;
use longhaul_session::{self as session, BodyCoding};

use crate::session::incoming::Incoming;

/// Errors that abort a request's body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UploadError {
    /// The agent cancelled the stream, or the session is lost.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A window is invalid.
    #[error(transparent)]
    Window(#[from] DecodeError),
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

impl UploadBody {
    /// Creates the body from its `announced` message and the windows on `incoming`.
    pub(crate) fn new(key: [u8; 32], announced: &session::Body, incoming: Incoming) -> Self {
        let coding = match announced.coding {
            BodyCoding::Identity => Coding::Identity,
            BodyCoding::Zstd => Coding::Zstd,
            BodyCoding::Brotli => Coding::Brotli,
            BodyCoding::Mix => Coding::Mix,
        };
        let decoder = BodyDecoder::new(key, coding, BodyLimits::default());
        let source = Source {
            incoming,
            decoder,
            input: Bytes::new(),
        };
        let windows = unfold(Some(source), |source| async move {
            let mut source = source?;
            match source.window().await {
                Ok(Some(bytes)) => Some((Ok(bytes), Some(source))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Self {
            windows: windows.boxed(),
            length: announced.length,
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
