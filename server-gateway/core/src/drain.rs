//! Draining: no session begins any more, open ones go on until nothing is in progress in them or a time has passed, and
//! then the gateway ends.
use std::time::Duration;

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

/// Longest time for the end of what is in progress, if the operator names none.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(600);
/// Longest time that an operator may name.
pub const MAX_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Whether the gateway drains.
#[derive(Debug, Default)]
pub struct Drain {
    until: Mutex<Option<Instant>>,
    over: Notify,
}

impl Drain {
    /// Returns true if no session begins any more.
    pub fn is_draining(&self) -> bool {
        self.until.lock().is_some()
    }

    /// Completes when the gateway has nothing more to do.
    pub async fn over(&self) {
        self.over.notified().await;
    }

    /// Begins to drain, with this limit from now on; again while it drains, replaces the limit.
    pub fn begin(&self, limit: Duration) {
        *self.until.lock() = Some(Instant::now() + limit);
    }

    /// The end of the time for what is in progress; `None` if the gateway does not drain.
    pub fn until(&self) -> Option<Instant> {
        *self.until.lock()
    }

    /// Notes that the gateway has nothing more to do.
    pub fn end(&self) {
        self.over.notify_one();
    }
}
