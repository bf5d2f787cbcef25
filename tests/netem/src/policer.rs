//! A limit on rate that drops instead of queueing.
use longhaul_types::{BitRate, ByteCount, Timestamp};

/// A token bucket ahead of the queue, as operators set it to enforce a tariff: a packet that finds too few tokens
/// is dropped at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// The rate at which tokens come. At a rate of zero nothing passes.
    pub rate: BitRate,
    /// The most tokens saved up; the bucket begins full. A larger packet never passes.
    pub burst: ByteCount,
}

/// A policer at work.
pub(crate) struct TokenBucket {
    policer: Policer,
    /// When the bucket will be full again: the theoretical arrival time of the algorithm's virtual scheduling form
    /// (ITU-T I.371).
    full_at: Timestamp,
}

impl TokenBucket {
    pub(crate) fn new(policer: Policer) -> Self {
        Self {
            policer,
            full_at: Timestamp::ZERO,
        }
    }

    /// Whether a packet of `len` bytes passes at `now`.
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
