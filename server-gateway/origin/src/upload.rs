//! Request bodies on their way to the origin.
use std::{
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use thiserror::Error;
use tokio::time::{Instant, sleep_until};

/// Error of the source of a request body.
#[derive(Clone, Copy, Debug, Error)]
#[error("the request's body broke off before its end")]
pub(crate) struct UploadError;

/// Request body that reports its progress.
pub(crate) struct Upload {
    source: UnsyncBoxBody<Bytes, UploadError>,
    progress: Arc<Mutex<Progress>>,
}

/// Observer of an [`Upload`]'s progress.
#[derive(Clone)]
pub(crate) struct UploadWatch(Arc<Mutex<Progress>>);

#[derive(Clone, Copy)]
struct Progress {
    /// True while the source has no data: this time does not count against the origin.
    is_starved: bool,
    /// Time of the connection's start, or of the last poll of the source.
    moved: Instant,
}

impl Upload {
    pub(crate) fn new<B>(source: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let progress = Progress {
            is_starved: false,
            moved: Instant::now(),
        };
        Self {
            source: source.map_err(|_| UploadError).boxed_unsync(),
            progress: Arc::new(Mutex::new(progress)),
        }
    }

    pub(crate) fn watch(&self) -> UploadWatch {
        UploadWatch(Arc::clone(&self.progress))
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = UploadError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        let polled = Pin::new(&mut self.source).poll_frame(cx);
        self.watch().set(polled.is_pending());
        Poll::Ready(ready!(polled))
    }

    fn is_end_stream(&self) -> bool {
        self.source.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.source.size_hint()
    }
}

impl UploadWatch {
    /// Starts the clock when the connection is available.
    ///
    /// Does not reset `is_starved`: the connection may already have polled the source.
    pub(crate) fn start(&self) {
        self.progress().moved = Instant::now();
    }

    /// Returns when the origin, for `limit`, has neither taken more of the body nor, after the end of the
    /// body, answered.
    pub(crate) async fn stalled(&self, limit: Duration) {
        loop {
            let progress = *self.progress();
            let now = Instant::now();
            let deadline = if progress.is_starved {
                now + limit
            } else {
                progress.moved + limit
            };
            if deadline <= now {
                return;
            }
            sleep_until(deadline).await;
        }
    }

    fn set(&self, is_starved: bool) {
        *self.progress() = Progress {
            is_starved,
            moved: Instant::now(),
        };
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.0.lock()
    }
}
