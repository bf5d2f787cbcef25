//! Which packets come late: those that a link held back while it was away tell of a time that is over.
use std::time::Duration;

use longhaul_types::Timestamp;

use crate::wire::Stamp;

/// More than this above the shortest way is late: beyond what a queue of feedback and requests takes.
const LATE: Duration = Duration::from_millis(100);
/// Clocks drift apart by less than this share.
const DRIFT: f64 = 2e-4;

/// The shortest time from stamp to arrival on this path; the clocks need no synchronisation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Transit {
    /// The difference of clocks and the way of the fastest packet, in stamp units, and when it came.
    least: Option<(Stamp, Timestamp)>,
}

impl Transit {
    /// Whether a packet with this stamp, arriving now on a path with this round-trip time, was held back; learns from it.
    pub(super) fn is_late(&mut self, now: Timestamp, stamp: Stamp, rtt: Duration) -> bool {
        let raw = Stamp::from_raw(Stamp::of(now).raw().wrapping_sub(stamp.raw()));
        let Some((least, at)) = self.least else {
            self.least = Some((raw, now));
            return false;
        };
        let above = f64::from(raw.difference(least)) * 1e-4;
        let drift = now.saturating_since(at).as_secs_f64() * DRIFT;
        if above <= drift {
            self.least = Some((raw, now));
        }
        above - drift > LATE.max(rtt / 8).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_time_that_is_over_are_late() {
        let mut transit = Transit::default();
        let rtt = Duration::from_millis(660);
        let at = |ms: u64| Timestamp::ZERO + Duration::from_millis(ms);
        let mut late = |sent: u64, arrives: u64| transit.is_late(at(arrives), Stamp::of(at(sent)), rtt);
        assert!(!late(1_000, 1_330));
        assert!(!late(2_000, 2_400), "a short queue");
        // A link that was away hands over what it held.
        assert!(late(3_000, 43_330));
        assert!(late(43_000, 43_500));
        assert!(!late(43_200, 43_560));
        // Clocks that drift apart for an hour.
        assert!(!late(3_643_200, 3_643_560 + 350));
        assert!(!late(3_644_200, 3_644_560 + 350));
    }
}
