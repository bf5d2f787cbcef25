//! The uploads of a connection, which share its flow-control window.
use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use tokio::time::{Instant, error::Elapsed, timeout};

/// Minimum time between two looks at the other uploads.
const LEAST_WAIT: Duration = Duration::from_secs(1);

/// Number of the uploads whose origins do not read.
///
/// What the gateway has not passed on keeps the window of the connection closed. Then a client cannot send other bodies,
/// however much it wants to.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    blocked: AtomicUsize,
}

/// An upload whose origin does not read, until dropped.
struct Blocked<'a>(&'a AtomicUsize);

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Uploads {
    /// Passes bytes to an origin.
    pub(super) async fn pass<T>(&self, passing: impl Future<Output = T>) -> T {
        self.blocked.fetch_add(1, Relaxed);
        let _blocked = Blocked(&self.blocked);
        passing.await
    }

    /// Waits for bytes of a client; also returns for how long. Limit and time begin anew if origins are the reason for the
    /// wait: their waits have limits of their own.
    pub(super) async fn wait<T>(
        &self,
        limit: Duration,
        bytes: impl Future<Output = T>,
    ) -> (Result<T, Elapsed>, Duration) {
        tokio::pin!(bytes);
        loop {
            let start = Instant::now();
            let waited = timeout(limit.max(LEAST_WAIT), &mut bytes).await;
            if waited.is_ok() || self.blocked.load(Relaxed) == 0 {
                return (waited, start.elapsed());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::sleep;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(120);

    #[tokio::test(start_paused = true)]
    async fn a_client_is_not_late_while_an_origin_keeps_the_window_closed() {
        let uploads = Uploads::default();
        let start = Instant::now();
        let passed = uploads.pass(sleep(3 * LIMIT - Duration::from_secs(1)));
        let ((late, waited), ()) = tokio::join!(uploads.wait(LIMIT, pending::<()>()), passed);
        assert!(late.is_err());
        assert_eq!(waited, LIMIT);
        assert_eq!(start.elapsed(), 3 * LIMIT);
        assert!(uploads.wait(LIMIT, pending::<()>()).await.0.is_err());
        assert_eq!(start.elapsed(), 4 * LIMIT);
    }
}
