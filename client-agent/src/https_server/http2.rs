//! HTTP/2 with a client on this machine, with limits that hold for any client.
//!
//! The library answers PING and SETTINGS floods one at a time, bounds CONTINUATION frames by the size of the
//! header list, and counts streams that are reset before it has handed them out. This module bounds the rest:
//! streams that are handed out and then reset (each costs a fetch and its cancellation on the hop), and data
//! that waits for a client that does not read.
use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use hyper::{body::Incoming, server::conn::http2, service::HttpService};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Notify, watch},
    time::{Instant, timeout},
};
use tracing::debug;

use crate::connection::InUseBody;

/// Maximum number of concurrent requests per connection; Chromium opens up to 100 if the server allows it.
const MAX_STREAMS: u32 = 128;
/// Maximum size of a request's header list, counted as in RFC 9113 section 10.5.1 (32 bytes per field in
/// addition to its text). As for HTTP/1.1: above 64 KiB the request gets an error page, above this limit it
/// is not read. The limit also bounds CONTINUATION frames.
const MAX_HEAD: u32 = 128 * 1024;
/// Maximum frame size: the minimum that the protocol allows, so that no frame delays others for long.
const MAX_FRAME: u32 = 16 * 1024;
/// Flow-control window of a stream: an upload over a slow link must not fill the memory.
const WINDOW: u32 = 256 * 1024;
/// Flow-control window of a connection, for all uploads together.
const CONNECTION_WINDOW: u32 = 4 * WINDOW;
/// Buffered bytes of one response for a client that grants a large window and does not read: 8 MiB for all
/// streams together. A program on this machine reads more than this in a millisecond.
const MAX_SEND_BUFFER: usize = 64 * 1024;
/// Maximum number of streams that are reset before they are handed out (CVE-2023-44487). A browser that
/// leaves a page at once resets all streams that it has just opened; no browser exceeds this number.
const MAX_PENDING_RESETS: usize = MAX_STREAMS as usize;
/// Maximum number of streams that the agent resets because of protocol errors; browsers rarely cause any.
const MAX_ERROR_RESETS: usize = 256;
/// Burst of requests that a client may cancel, and further cancellations per second: several pages left in a
/// row.
const CANCELS: f64 = 1024.0;
const CANCELS_PER_SECOND: f64 = 64.0;

/// Serves a connection. Once `bypassed` is ready, requests in progress get the time that it returns to end, and
/// `ending` is set.
pub(super) async fn serve<I, S>(
    stream: I,
    service: S,
    cancels: &Cancels,
    bypassed: impl Future<Output = Duration>,
    ending: &watch::Sender<bool>,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: HttpService<Incoming, ResBody = InUseBody, Error = h2::Error>,
    S::Future: Send + 'static,
{
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD)
        .max_frame_size(MAX_FRAME)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(MAX_SEND_BUFFER)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_local_error_reset_streams(MAX_ERROR_RESETS)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = cancels.exhausted() => {
            debug!("a client cancelled too many requests; its connection is closed");
            return;
        }
        grace = bypassed => {
            connection.as_mut().graceful_shutdown();
            ending.send_replace(true);
            match timeout(grace, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    debug!(?ended, "an accelerated connection ended");
}

/// Token bucket of the requests that a client cancels on one connection.
#[derive(Debug)]
pub(super) struct Cancels {
    left: Mutex<(f64, Instant)>,
    exhausted: Notify,
}

/// Guard of a request without response; dropping it counts as a cancellation.
#[derive(Debug)]
pub(super) struct Unanswered(Option<Arc<Cancels>>);

impl Cancels {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            left: Mutex::new((CANCELS, Instant::now())),
            exhausted: Notify::new(),
        })
    }

    /// Registers a new request.
    pub(super) fn begin(self: &Arc<Self>) -> Unanswered {
        Unanswered(Some(Arc::clone(self)))
    }

    /// Waits until the client has cancelled too many requests.
    async fn exhausted(&self) {
        self.exhausted.notified().await;
    }

    fn increment(&self) {
        let mut left = self.left.lock();
        let now = Instant::now();
        let more = (now - left.1).as_secs_f64() * CANCELS_PER_SECOND;
        *left = ((left.0 + more).min(CANCELS) - 1.0, now);
        if left.0 < 0.0 {
            self.exhausted.notify_one();
        }
    }
}

impl Unanswered {
    /// Marks the request as answered.
    pub(super) fn answered<T>(mut self, answer: T) -> T {
        self.0 = None;
        answer
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(cancels) = self.0.take() {
            cancels.increment();
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;

    async fn is_exhausted(cancels: &Cancels) -> bool {
        timeout(Duration::ZERO, cancels.exhausted()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_cancellations_exhaust_their_limit() {
        let cancels = Cancels::new();
        for _ in 0..2000 {
            let _answered = cancels.begin().answered(Response::new(()));
        }
        // Ten pages of a hundred objects, one after the other.
        for _ in 0..10 {
            (0..100).for_each(|_| drop(cancels.begin()));
        }
        assert!(!is_exhausted(&cancels).await);
        tokio::time::advance(Duration::from_secs(60)).await;
        (0..1024).for_each(|_| drop(cancels.begin()));
        assert!(!is_exhausted(&cancels).await, "it has filled again");
        drop(cancels.begin());
        assert!(is_exhausted(&cancels).await);
    }
}
