//! Loss circuit breaker of the sender: limits losses even if the receiver grants too much (transport.md
//! section 5.1).
use std::time::Duration;

use longhaul_types::Timestamp;

/// Loss ratio that a receiver which implements congestion.md does not permit for long (congestion.md section 7.1).
const TOO_MANY: f64 = 0.5;
/// Loss ratio below which one halving is reverted.
const FEW: f64 = 0.2;
/// Least duration of a period: round-trip times, and time.
const ROUNDS: u32 = 5;
const PERIOD: Duration = Duration::from_secs(5);
/// Number of consecutive periods with many losses before a halving; receivers find the rate of a link sooner.
const PERIODS: u32 = 2;
/// Least number of packets in a period with many losses.
const LEAST_PACKETS: u64 = 60;
/// Maximum number of halvings: the share is at least 1/64.
const MOST_HALVINGS: u32 = 6;

/// State of the circuit breaker: the share of the grant that a sender uses.
#[derive(Clone, Debug, Default)]
pub struct LossCircuitBreaker {
    since: Timestamp,
    packets: u64,
    lost: u64,
    /// Number of consecutive periods with many losses.
    bad: u32,
    halvings: u32,
}

impl LossCircuitBreaker {
    /// Records the packets acknowledged and lost since the last report, with the smoothed round-trip time.
    #[expect(clippy::cast_precision_loss, reason = "packets of a few round trips")]
    pub fn on_report(&mut self, now: Timestamp, acked: u64, lost: u64, srtt: Duration) {
        self.packets += acked + lost;
        self.lost += lost;
        if now.saturating_since(self.since) < PERIOD.max(srtt * ROUNDS) {
            return;
        }
        let ratio = self.lost as f64 / self.packets.max(1) as f64;
        let is_flood = ratio > TOO_MANY && self.packets >= LEAST_PACKETS;
        self.bad = if is_flood { self.bad + 1 } else { 0 };
        if self.bad == PERIODS {
            self.bad = 0;
            self.halvings = (self.halvings + 1).min(MOST_HALVINGS);
        }
        if ratio < FEW {
            self.halvings = self.halvings.saturating_sub(1);
        }
        self.begin(now);
    }

    const fn begin(&mut self, now: Timestamp) {
        self.since = now;
        self.packets = 0;
        self.lost = 0;
    }

    /// Discards the counts: a stall caused the losses, which say nothing about the path.
    pub const fn restart(&mut self, now: Timestamp) {
        self.bad = 0;
        self.begin(now);
    }

    /// Number of times that the granted credit and rate are to be halved.
    pub const fn halvings(&self) -> u32 {
        self.halvings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn seconds(breaker: &mut LossCircuitBreaker, now: &mut Timestamp, count: u32, lost: u64) {
        for _ in 0..10 * count {
            *now += RTT;
            breaker.on_report(*now, 10 - lost, lost, RTT);
        }
    }

    #[test]
    fn a_majority_of_losses_halves_the_grant_every_ten_seconds() {
        let (mut breaker, mut now) = (LossCircuitBreaker::default(), Timestamp::ZERO);
        seconds(&mut breaker, &mut now, 9, 6);
        assert_eq!(breaker.halvings(), 0);
        seconds(&mut breaker, &mut now, 12, 6);
        assert_eq!(breaker.halvings(), 2);
        seconds(&mut breaker, &mut now, 60, 6);
        assert_eq!(breaker.halvings(), MOST_HALVINGS);
        seconds(&mut breaker, &mut now, 36, 0);
        assert_eq!(breaker.halvings(), 0);
    }

    #[test]
    fn lossy_links_do_not_trip_the_circuit_breaker() {
        let (mut breaker, mut now) = (LossCircuitBreaker::default(), Timestamp::ZERO);
        seconds(&mut breaker, &mut now, 60, 4);
        assert_eq!(breaker.halvings(), 0);
    }
}
