//! Loss that the queue explains, told apart from loss that the link has anyway (credit.md 6).
use std::time::Duration;

use longhaul_types::Timestamp;

/// Packets after which the ratio without a queue is believed.
const BASELINE_PACKETS: f64 = 60.0;
/// The baseline's counts are halved at this interval, in seconds.
const BASELINE_HALVING: f64 = 10.0;

/// What the last round's losses mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing beyond what the link loses anyway.
    Ordinary,
    /// More than chance explains, by a margin.
    Heavy {
        /// More than twice the baseline while the queue is nearly full: the buffer is shallow.
        shallow: bool,
    },
}

/// A smaller baseline is that of a link that nobody crowds.
const QUIET: f64 = 0.05;

#[derive(Clone, Debug, Default)]
pub(super) struct LossMeter {
    packets: f64,
    lost: f64,
    round_since: Timestamp,
    base_packets: f64,
    base_lost: f64,
    halved_at: Timestamp,
    largest_queue: f64,
    pub(super) heavy_at: Option<Timestamp>,
    /// Until then losses are of packets that were sent before the last heavy round was known.
    known_until: Timestamp,
}

impl LossMeter {
    pub(super) fn on_packets(&mut self, now: Timestamp, received: f64, lost: f64, queue: f64) {
        if now < self.known_until {
            return;
        }
        self.packets += received + lost;
        self.lost += lost;
        self.largest_queue = self.largest_queue.max(queue);
        if queue < 0.7 * self.largest_queue {
            self.base_packets += received + lost;
            self.base_lost += lost;
        }
    }

    /// Losses until then have a cause that is known and dealt with.
    pub(super) fn expect_until(&mut self, until: Timestamp) {
        self.known_until = self.known_until.max(until);
    }

    /// Judges a round of `round` seconds, once it is over.
    pub(super) fn judge(&mut self, now: Timestamp, round: f64, queue: f64, target: f64) -> Verdict {
        if now.saturating_since(self.halved_at).as_secs_f64() > BASELINE_HALVING {
            self.halved_at = now;
            self.largest_queue *= 0.9;
            if self.base_packets > 2.0 * BASELINE_PACKETS {
                self.base_packets /= 2.0;
                self.base_lost /= 2.0;
            }
        }
        if now.saturating_since(self.round_since).as_secs_f64() < round {
            return Verdict::Ordinary;
        }
        self.round_since = now;
        let (packets, lost) = (std::mem::take(&mut self.packets), std::mem::take(&mut self.lost));
        let known = self.base_packets > BASELINE_PACKETS;
        if !known && queue < 0.5 * target {
            return Verdict::Ordinary;
        }
        let baseline = if known {
            self.base_lost / self.base_packets
        } else {
            0.0
        };
        let expected = baseline * packets;
        let heavy = lost >= 3.0 && lost > expected + 3.0 * expected.sqrt() + 0.02 * packets;
        if !heavy {
            return Verdict::Ordinary;
        }
        self.heavy_at = Some(now);
        self.known_until = now + Duration::from_secs_f64(1.1 * round.min(60.0));
        let shallow = queue > 0.7 * self.largest_queue && lost > (2.0 * baseline + 0.02) * packets;
        Verdict::Heavy { shallow }
    }

    /// Whether the baseline is known to be small. With more loss, late feedback is not told from a sender's wait for lost packets.
    pub(super) fn is_quiet(&self) -> bool {
        self.base_packets > BASELINE_PACKETS && self.base_lost < QUIET * self.base_packets
    }

    pub(super) const fn largest_queue(&self) -> f64 {
        self.largest_queue
    }
}
