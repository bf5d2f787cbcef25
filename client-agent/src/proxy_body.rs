//! Body of a response on its way to the browser.
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use longhaul_origin::OriginBody;
use tokio::{
    sync::mpsc,
    time::{Sleep, sleep},
};

use crate::journal::{BodyRecording, ResponseEnd};

/// Error of a truncated body. The agent aborts the browser's connection, so that the browser does not take
/// the body for complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body ended early")]
pub struct BodyBroken;

/// A response body for the browser.
pub struct ProxyBody {
    source: Source,
    /// Records the body in the journal.
    recording: Option<BodyRecording>,
    /// What ends with the body.
    _guard: Option<Box<dyn Send>>,
    /// Set once the body is broken.
    breaking: Option<Pin<Box<Sleep>>>,
}

/// Time in which the bytes before the break go out: at an error, HTTP/1.1 and HTTP/2 drop what is not written yet, which
/// may be all of the response.
const BEFORE_BREAK: Duration = Duration::from_millis(100);

enum Source {
    Full(Option<Bytes>),
    /// Verified windows from the gateway.
    Windows {
        windows: mpsc::Receiver<Result<Bytes, BodyBroken>>,
        left: Option<u64>,
        ended: bool,
    },
    Origin(Box<OriginBody>),
    /// The refusal of an upgrade.
    Host(Incoming),
    /// The origin has broken off before the first byte.
    Broken {
        length: Option<u64>,
    },
}

impl ProxyBody {
    /// Returns an empty body.
    pub const fn empty() -> Self {
        Self::of(Source::Full(None))
    }

    /// Returns a body in memory.
    pub fn full(bytes: Bytes) -> Self {
        Self::of(Source::Full((!bytes.is_empty()).then_some(bytes)))
    }

    /// Returns a body of windows as they arrive; `length` is the number of decoded bytes, if known.
    pub(crate) const fn windows(
        windows: mpsc::Receiver<Result<Bytes, BodyBroken>>,
        length: Option<u64>,
    ) -> Self {
        Self::of(Source::Windows {
            windows,
            left: length,
            ended: false,
        })
    }

    /// Returns a body that fails at once, behind its head.
    pub(crate) const fn broken(length: Option<u64>) -> Self {
        Self::of(Source::Broken { length })
    }

    /// Returns the body of an origin's response.
    pub(crate) fn origin(body: OriginBody) -> Self {
        Self::of(Source::Origin(Box::new(body)))
    }

    /// Returns the body of a host's refusal of an upgrade.
    pub(crate) const fn host(body: Incoming) -> Self {
        Self::of(Source::Host(body))
    }

    const fn of(source: Source) -> Self {
        Self {
            source,
            recording: None,
            _guard: None,
            breaking: None,
        }
    }

    /// The same body, recorded in the journal.
    pub(crate) fn recorded(mut self, recording: BodyRecording) -> Self {
        self.recording = Some(recording);
        self
    }

    /// The same body; `guard` is dropped with it.
    pub(crate) fn guarded_by(mut self, guard: impl Send + 'static) -> Self {
        self._guard = Some(Box::new(guard));
        self
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyBroken>>> {
        match &mut self.source {
            Source::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Source::Origin(body) => Pin::new(&mut **body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(|_| BodyBroken))),
            Source::Host(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(|_| BodyBroken))),
            Source::Broken { .. } => Poll::Ready(Some(Err(BodyBroken))),
            Source::Windows { windows, left, ended } => {
                let polled = ready!(windows.poll_recv(cx));
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
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = BodyBroken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyBroken>>> {
        if let Some(pause) = &mut self.breaking {
            ready!(pause.as_mut().poll(cx));
            return Poll::Ready(Some(Err(BodyBroken)));
        }
        let polled = ready!(self.poll_source(cx));
        let end = match &polled {
            Some(Ok(frame)) => {
                if let (Some(recording), Some(data)) = (&mut self.recording, frame.data_ref()) {
                    recording.add(data.len());
                }
                None
            }
            Some(Err(BodyBroken)) => Some(ResponseEnd::Broken),
            None => Some(ResponseEnd::Complete),
        };
        if let Some((recording, end)) = end.and_then(|end| Some((self.recording.take()?, end))) {
            recording.end(end);
        }
        if matches!(polled, Some(Err(BodyBroken))) {
            self.breaking = Some(Box::pin(sleep(BEFORE_BREAK)));
            return self.poll_frame(cx);
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Full(bytes) => bytes.is_none(),
            Source::Origin(body) => body.is_end_stream(),
            Source::Host(body) => body.is_end_stream(),
            Source::Windows { ended, .. } => *ended,
            Source::Broken { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Source::Origin(body) => body.size_hint(),
            Source::Host(body) => body.size_hint(),
            Source::Windows { left: length, .. } | Source::Broken { length, .. } => {
                length.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
        }
    }
}

impl Drop for ProxyBody {
    fn drop(&mut self) {
        if let Some(recording) = self.recording.take() {
            // The last frame may be the end: then nobody asks for another one.
            let is_over = self.is_end_stream() || self.size_hint().exact() == Some(0);
            recording.end(if is_over {
                ResponseEnd::Complete
            } else {
                ResponseEnd::Left
            });
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
