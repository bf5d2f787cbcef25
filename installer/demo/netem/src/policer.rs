//! Rate limit that drops packets instead of queueing them.
use longhaul_types::{BitRate, ByteCount, Timestamp};

/// A token bucket before the queue, as operators use it to enforce a tariff: a packet without sufficient
/// tokens is dropped at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// Rate at which tokens are added. At a rate of zero no packet passes.
    pub rate: BitRate,
    /// Maximum number of tokens; the bucket begins full. A larger packet never passes.
    pub burst: ByteCount,
}

/// State of a policer.
pub(crate) struct TokenBucket {
    policer: Policer,
    /// Time at which the bucket is full again: the theoretical arrival time of the algorithm's virtual
    /// scheduling form (ITU-T I.371).
    full_at: Timestamp,
}

impl TokenBucket {
    pub(crate) fn new(policer: Policer) -> Self {
        Self {
            policer,
            full_at: Timestamp::ZERO,
        }
    }

    /// Returns true if a packet of `len` bytes passes at `now`.
    pub(crate) fn passes(&mut self, now: Timestamp, len: u64) -> bool {
        if self.policer.rate == BitRate::default() {
            return false;
        }
        let refill = self.policer.burst / self.policer.rate;
        let cost = ByteCount::new(len) / self.policer.rate;
        let full_at = self.full_at.max(now) + cost;
        if full_at > now + refill {
            return false;
        }
        self.full_at = full_at;
        true
    }
}
