//! Body of a response on its way to the browser.
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use longhaul_origin::OriginBody;
use tokio::sync::mpsc;

/// Error of a truncated body. The agent aborts the browser's connection, so that the browser does not take
/// the body for complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body ended early")]
pub struct BodyBroken;

/// A response body for the browser.
pub struct ProxyBody(Source);

enum Source {
    Full(Option<Bytes>),
    /// Verified windows from the gateway.
    Windows {
        windows: mpsc::Receiver<Result<Bytes, BodyBroken>>,
        left: Option<u64>,
        ended: bool,
    },
    Origin(Box<OriginBody>),
}

impl ProxyBody {
    /// Returns an empty body.
    pub const fn empty() -> Self {
        Self(Source::Full(None))
    }

    /// Returns a body in memory.
    pub fn full(bytes: Bytes) -> Self {
        Self(Source::Full((!bytes.is_empty()).then_some(bytes)))
    }

    /// Returns a body of windows as they arrive; `length` is the number of decoded bytes, if known.
    pub(crate) const fn windows(
        windows: mpsc::Receiver<Result<Bytes, BodyBroken>>,
        length: Option<u64>,
    ) -> Self {
        Self(Source::Windows {
            windows,
            left: length,
            ended: false,
        })
    }

    /// Returns the body of an origin's response.
    pub(crate) fn origin(body: OriginBody) -> Self {
        Self(Source::Origin(Box::new(body)))
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = BodyBroken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyBroken>>> {
        match &mut self.0 {
            Source::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Source::Origin(body) => Pin::new(&mut **body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(|_| BodyBroken))),
            Source::Windows { windows, left, ended } => {
                let polled = std::task::ready!(windows.poll_recv(cx));
                *ended = !matches!(polled, Some(Ok(_)));
                let Some(window) = polled.transpose()? else {
                    // The end of the channel is the end of the body only if no byte is missing.
                    return Poll::Ready(left.is_some_and(|left| left > 0).then_some(Err(BodyBroken)));
                };
                if let Some(left) = left {
                    *left = left.checked_sub(window.len() as u64).ok_or(BodyBroken)?;
                }
                Poll::Ready(Some(Ok(Frame::data(window))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Full(bytes) => bytes.is_none(),
            Source::Origin(body) => body.is_end_stream(),
            Source::Windows { ended, .. } => *ended,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Source::Origin(body) => body.size_hint(),
            Source::Windows { left, .. } => left.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

impl fmt::Debug for ProxyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyBody")
            .field("size", &self.size_hint())
            .finish_non_exhaustive()
    }
}
