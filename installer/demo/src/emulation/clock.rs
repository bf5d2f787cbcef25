//! The link model's time.
use longhaul_types::Timestamp;
use tokio::time::{Instant, sleep_until};

/// Time since the start of an emulated link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(self) -> Timestamp {
        Timestamp::ZERO + self.0.elapsed()
    }

    /// Waits until `at`; forever if there is no such time.
    pub(super) async fn wait(self, at: Option<Timestamp>) {
        match at {
            Some(at) => sleep_until(self.0 + (at - Timestamp::ZERO)).await,
            None => std::future::pending().await,
        }
    }
}
