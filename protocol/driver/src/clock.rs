//! Clock of the driver, in the form that the sans-IO core needs.
use std::time::{Instant, SystemTime};

use longhaul_types::{Timestamp, UnixTime};

/// Monotonic time since the creation of this object, and the wall-clock time of the creation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
    unix_at_origin: UnixTime,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            origin: Instant::now(),
            unix_at_origin: SystemTime::now().into(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.origin.elapsed()
    }

    pub(crate) const fn unix_at_origin(&self) -> UnixTime {
        self.unix_at_origin
    }

    /// Converts `at` to a time of the runtime's timers.
    pub(crate) fn instant(&self, at: Timestamp) -> tokio::time::Instant {
        let since = std::time::Duration::from_nanos(at.as_nanos());
        // A later time is replaced by one day from now; the timer is then recomputed.
        let since = since.min(self.origin.elapsed() + std::time::Duration::from_secs(86_400));
        tokio::time::Instant::from_std(self.origin + since)
    }
}
