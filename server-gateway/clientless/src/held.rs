//! Memory of the responses of a connection that wait for their turn.
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use tokio::sync::Notify;

/// Bytes of waiting responses with which a connection reads no further request.
pub(super) const MAX_HELD: u64 = 1024 * 1024;

/// The responses of a connection that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    held: AtomicU64,
    freed: Notify,
}

/// The bytes of one response, counted until dropped.
#[derive(Debug)]
pub(super) struct HeldBytes {
    ahead: Arc<ReadAhead>,
    bytes: u64,
}

impl ReadAhead {
    /// Counts the bytes of a response.
    pub(super) fn hold(self: &Arc<Self>, bytes: u64) -> HeldBytes {
        self.held.fetch_add(bytes, Relaxed);
        HeldBytes {
            ahead: Arc::clone(self),
            bytes,
        }
    }

    /// No bytes.
    pub(super) fn none(self: &Arc<Self>) -> HeldBytes {
        self.hold(0)
    }

    /// Waits until the waiting responses are small enough to read a further request.
    pub(super) async fn room(&self) {
        while self.held.load(Relaxed) > MAX_HELD {
            // Stores a permit if a response ends before the wait begins; one task waits.
            self.freed.notified().await;
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.ahead.held.fetch_sub(self.bytes, Relaxed);
        self.ahead.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn no_request_is_read_while_large_responses_wait() {
        let ahead = Arc::new(ReadAhead::default());
        let (first, second, none) = (ahead.hold(MAX_HELD), ahead.hold(1), ahead.none());
        let mut room = Box::pin(ahead.room());
        assert!((&mut room).now_or_never().is_none());
        drop(none);
        assert!((&mut room).now_or_never().is_none(), "nothing has become free");
        drop(second);
        // As much as may wait.
        assert!((&mut room).now_or_never().is_some());
        assert!(ahead.room().now_or_never().is_some());
        drop(first);
        let _whole = ahead.hold(MAX_HELD);
        assert!(
            ahead.room().now_or_never().is_some(),
            "nothing is counted any more"
        );
    }

    #[tokio::test]
    async fn a_response_that_ends_lets_the_reader_go_on() {
        let ahead = Arc::new(ReadAhead::default());
        let held = ahead.hold(MAX_HELD + 1);
        let waiting = tokio::spawn({
            let ahead = Arc::clone(&ahead);
            async move { ahead.room().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(held);
        waiting.await.unwrap();
    }
}
