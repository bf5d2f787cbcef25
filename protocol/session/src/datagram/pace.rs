//! The priority class of an association's datagrams.
use std::time::Duration;

use longhaul_types::Priority;

use crate::class;

/// Bytes that an association sends before it is bulk, as for tunnels: a download over QUIC must not delay pages.
const BURST: u64 = 4 * 1024 * 1024;
/// Rate at which an association never becomes bulk, in bytes per second: more than calls without pictures and games take.
const RATE: u64 = 64 * 1024;

/// The bytes of one direction of an association: a token bucket.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    left: u64,
    at: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            left: BURST,
            at: Duration::ZERO,
        }
    }
}

impl Pace {
    /// Returns the class of a datagram of `bytes` that is sent at `now`, the time since any fixed moment.
    pub fn class_of(&mut self, now: Duration, bytes: usize) -> Priority {
        let millis = u64::try_from(now.saturating_sub(self.at).as_millis()).unwrap_or(u64::MAX);
        // Only whole milliseconds count, so that the rest of one is not lost.
        self.at += Duration::from_millis(millis);
        let refilled = self
            .left
            .saturating_add(millis.saturating_mul(RATE) / 1000)
            .min(BURST);
        self.left = refilled.saturating_sub(bytes as u64);
        if self.left > 0 { class::OBJECT } else { class::BULK }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds after which a flow of so many datagrams of 1,000 bytes a second is bulk; `None` if not within an hour.
    fn bulk_after(per_second: u64) -> Option<u64> {
        let mut pace = Pace::default();
        (0..3600).find(|second| {
            (0..per_second).any(|number| {
                let now = Duration::from_secs(*second)
                    + Duration::from_secs(number) / u32::try_from(per_second).unwrap();
                pace.class_of(now, 1000) == class::BULK
            })
        })
    }

    #[test]
    fn downloads_become_bulk_and_calls_do_not() {
        assert_eq!(bulk_after(20), None, "a call with 160 kbit/s");
        assert_eq!(bulk_after(65), None);
        assert_eq!(bulk_after(1250), Some(3), "10 Mbit/s");
        let mut pace = Pace::default();
        while pace.class_of(Duration::ZERO, 1000) == class::OBJECT {}
        assert_eq!(
            pace.class_of(Duration::from_secs(60), 1000),
            class::OBJECT,
            "after a pause"
        );
    }
}
