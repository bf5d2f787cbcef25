//! Detection of packets that the link held back during an outage (transport.md section 7.3).
use std::time::Duration;

use longhaul_types::Timestamp;

use crate::wire::Stamp;

/// Least delay above the smallest one-way delay at which a packet was held back: more than a queue of
/// feedback and requests takes.
const HELD: Duration = Duration::from_millis(100);
/// This delay as a fraction of the RTT.
const HELD_IN_RTT: u32 = 8;
/// Maximum relative drift of the two clocks.
const DRIFT: f64 = 2e-4;

/// Compares one-way delays with the smallest one of this path; the clocks need no synchronisation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeldPacketDetector {
    /// Clock difference plus one-way delay of the fastest packet, in stamp units, and its arrival time.
    least: Option<(Stamp, Timestamp)>,
}

impl HeldPacketDetector {
    /// Records a packet that arrives now on a path with the RTT `rtt`; returns true if the link held it back.
    pub(super) fn was_held(&mut self, now: Timestamp, stamp: Stamp, rtt: Duration) -> bool {
        let relative = stamp.relative_delay(now);
        let Some((least, at)) = self.least else {
            self.least = Some((relative, now));
            return false;
        };
        let above = relative.seconds_above(least);
        let drift = now.saturating_since(at).as_secs_f64() * DRIFT;
        if above <= drift {
            self.least = Some((relative, now));
        }
        above - drift > HELD.max(rtt / HELD_IN_RTT).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_held_during_an_outage_are_detected() {
        let mut detector = HeldPacketDetector::default();
        let rtt = Duration::from_millis(660);
        let at = |ms: u64| Timestamp::ZERO + Duration::from_millis(ms);
        let mut late = |sent: u64, arrives: u64| detector.was_held(at(arrives), Stamp::of(at(sent)), rtt);
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
