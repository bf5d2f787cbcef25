//! A request's body on its way to the origin.
use std::{
    error::Error,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use thiserror::Error;
use tokio::time::{Instant, sleep_until};

/// The source of a request's body ended in an error.
#[derive(Clone, Copy, Debug, Error)]
#[error("the request's body broke off before its end")]
pub(crate) struct UploadError;

/// A request's body that tells how far it is.
pub(crate) struct Upload {
    source: UnsyncBoxBody<Bytes, UploadError>,
    progress: Arc<Mutex<Progress>>,
}

/// Watches an [`Upload`] from outside.
#[derive(Clone)]
pub(crate) struct UploadWatch(Arc<Mutex<Progress>>);

#[derive(Clone, Copy)]
struct Progress {
    /// The source has nothing to send yet: time that the origin is not to blame for.
    is_starved: bool,
    /// When the connection was there, or when it last took or was last offered a piece of the body.
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
    /// Starts the clock: the connection is there.
    ///
    /// Leaves alone whether the source is dry: the connection may have asked it for a piece already.
    pub(crate) fn start(&self) {
        self.progress().moved = Instant::now();
    }

    /// Returns when the origin has let `limit` pass without taking more of the body or, after its end, without answering.
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
