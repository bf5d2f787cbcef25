//! Clock of a world.
use std::time::Instant;

use longhaul_types::Timestamp;

/// Clock that returns the time since the world's start, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn starting_now() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Timestamp {
        Timestamp::ZERO + self.0.elapsed()
    }
}
