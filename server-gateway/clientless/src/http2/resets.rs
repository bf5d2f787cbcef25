//! Limit of the requests that a client cancels.
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

/// Requests that a client may cancel at once, and further ones a second: several pages left in a row. Each costs a fetch
/// and its end.
const BURST: f64 = 1024.0;
const PER_SECOND: f64 = 64.0;

/// Token bucket of the requests that a client cancels on one connection.
#[derive(Debug)]
pub(super) struct Resets {
    left: Mutex<(f64, Instant)>,
    exhausted: Notify,
}

/// A request that is not answered yet; dropping it counts as a cancellation.
#[derive(Debug)]
pub(super) struct Unanswered(Option<Arc<Resets>>);

impl Resets {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            left: Mutex::new((BURST, Instant::now())),
            exhausted: Notify::new(),
        })
    }

    /// Registers a new request.
    pub(super) fn begin(self: &Arc<Self>) -> Unanswered {
        Unanswered(Some(Arc::clone(self)))
    }

    /// Ends the connection now.
    pub(super) fn exhaust(&self) {
        self.exhausted.notify_one();
    }

    /// Waits until the client has cancelled too many requests.
    pub(super) async fn exhausted(&self) {
        self.exhausted.notified().await;
    }

    fn note(&self) {
        let mut left = self.left.lock();
        let now = Instant::now();
        let more = (now - left.1).as_secs_f64() * PER_SECOND;
        *left = ((left.0 + more).min(BURST) - 1.0, now);
        if left.0 < 0.0 {
            self.exhaust();
        }
    }
}

impl Unanswered {
    /// The response has begun.
    pub(super) fn answered(mut self) {
        self.0 = None;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(resets) = self.0.take() {
            resets.note();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{advance, timeout};

    use super::*;

    async fn is_exhausted(resets: &Resets) -> bool {
        timeout(Duration::ZERO, resets.exhausted()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn pages_that_are_left_are_no_attack_and_floods_are() {
        let resets = Resets::new();
        (0..5000).for_each(|_| resets.begin().answered());
        (0..1000).for_each(|_| drop(resets.begin()));
        assert!(!is_exhausted(&resets).await);
        advance(Duration::from_secs(60)).await;
        (0..1000).for_each(|_| drop(resets.begin()));
        assert!(!is_exhausted(&resets).await);
        (0..100).for_each(|_| drop(resets.begin()));
        assert!(is_exhausted(&resets).await);
    }

    #[tokio::test(start_paused = true)]
    async fn exactly_so_many_requests_may_be_cancelled_at_once() {
        let resets = Resets::new();
        (0..1024).for_each(|_| drop(resets.begin()));
        assert!(!is_exhausted(&resets).await);
        drop(resets.begin());
        assert!(is_exhausted(&resets).await);
    }
}
