//! Response bodies from origins.
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use thiserror::Error;
use tokio::time::{Sleep, sleep};

use crate::{
    classify::body_failure,
    continuation::EndOfExchange,
    error::Fault,
    host_scheduler::RequestPermit,
    pool::StreamGuard,
    processing::{Processing, processing},
};

/// Premature end of a response body. The data received before the error is valid, but the response is
/// incomplete: a proxy must not end the relayed body cleanly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The framing of the body is malformed.
    #[error("the origin's response is malformed")]
    Protocol,
    /// The origin reset the connection or the stream.
    #[error("the origin broke the response off")]
    Reset,
    /// The origin sent nothing for [`Timeouts::body_idle`](crate::Timeouts::body_idle).
    #[error("the origin stopped sending")]
    Timeout,
    /// The connection ended before the body.
    #[error("the origin closed the connection before the response's end")]
    Truncated,
}

impl BodyError {
    /// The party at fault: always the origin, or the network in front of the origin.
    pub fn fault(&self) -> Fault {
        Fault::Origin
    }
}

/// Body of a response: data and trailers as the origin sends them, with its content codings.
///
/// The body occupies the request's slot at the host until the body has ended or is dropped: read the body or
/// drop it. Dropping the body before its end closes the HTTP/1.1 connection or resets the HTTP/2 stream.
pub struct OriginBody {
    /// `None` after the end or an error.
    inner: Option<Incoming>,
    /// `None` for HTTP/1.1, where the connection holds the slot.
    in_use: Option<InUse>,
    idle: Duration,
    /// Set while a reader waits for the origin.
    timer: Option<Pin<Box<Sleep>>>,
    /// Ends the exchange if the origin has answered without the request's body.
    end: Option<EndOfExchange>,
}

/// Resources that an HTTP/2 request holds until its response has ended.
pub(crate) struct InUse {
    /// Dropped before the permit, so that the request that gets the permit finds the connection.
    pub(crate) stream: StreamGuard,
    pub(crate) _permit: RequestPermit,
}

impl OriginBody {
    pub(crate) fn new(inner: Incoming, in_use: Option<InUse>, idle: Duration) -> Self {
        let mut body = Self {
            inner: Some(inner),
            in_use,
            idle,
            timer: None,
            end: None,
        };
        if body.is_end_stream() {
            body.in_use = None;
        }
        body
    }

    /// The same body; `end` is dropped with it, or with its end.
    pub(crate) fn ending(mut self, end: Option<EndOfExchange>) -> Self {
        self.end = end.filter(|_| !self.is_end_stream());
        self
    }

    fn poll_inner(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(inner) = &mut self.inner else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(frame) = Pin::new(&mut *inner).poll_frame(cx) {
            self.timer = None;
            // HTTP/2 ends a body also by RST_STREAM with NO_ERROR, without a look at its length.
            let is_cut = frame.is_none() && self.in_use.is_some() && inner.size_hint().lower() > 0;
            if let (Some(Err(error)), Some(in_use)) = (&frame, &self.in_use)
                && processing(error, true) == Processing::UnknownOverHttp2
            {
                in_use.stream.use_http11();
            }
            let frame = frame.map(|frame| frame.map_err(|error| body_failure(&error)));
            return Poll::Ready(frame.or(is_cut.then_some(Err(BodyError::Truncated))));
        }
        let idle = self.idle;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(idle)));
        timer.as_mut().poll(cx).map(|()| Some(Err(BodyError::Timeout)))
    }
}

impl Body for OriginBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = self.poll_inner(cx);
        let has_ended = match &polled {
            Poll::Ready(None | Some(Err(_))) => true,
            Poll::Ready(Some(Ok(_))) => self.is_end_stream(),
            Poll::Pending => false,
        };
        if has_ended {
            self.inner = None;
            self.in_use = None;
            self.end = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl fmt::Debug for OriginBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OriginBody")
            .field("has_ended", &self.is_end_stream())
            .finish_non_exhaustive()
    }
}
