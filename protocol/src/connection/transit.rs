//! Detection of packets that the link held back during an outage (transport.md section 7.3).
use std::time::Duration;

use longhaul_types::Timestamp;

use crate::wire::Stamp;

/// Least delay above the smallest one-way delay at which a packet was held back: more than a queue of
/// feedback and requests takes.
const LATE: Duration = Duration::from_millis(100);
/// Maximum relative drift of the two clocks.
const DRIFT: f64 = 2e-4;

/// Smallest one-way delay of this path; the clocks need no synchronisation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Transit {
    /// Clock difference plus one-way delay of the fastest packet, in stamp units, and its arrival time.
    least: Option<(Stamp, Timestamp)>,
}

impl Transit {
    /// Records a packet that arrives now on a path with the RTT `rtt`; returns true if the link held it back.
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
        // After an outage the link delivers held packets.
        assert!(late(3_000, 43_330));
        assert!(late(43_000, 43_500));
        assert!(!late(43_200, 43_560));
        // Clocks that drift for an hour.
        assert!(!late(3_643_200, 3_643_560 + 350));
        assert!(!late(3_644_200, 3_644_560 + 350));
    }
}
