//! The sender's token bucket (credit.md 7).
use std::time::Duration;

use longhaul_types::Timestamp;

use super::FULL_PACKET;

/// Burst in time: timers have a granularity of 1 ms.
const BURST: f64 = 0.002;
const MIN_BURST_PACKETS: f64 = 2.0;
const MAX_BURST_PACKETS: f64 = 10.0;
/// From this rate (50 Mbit/s) on, 10 packets are less than 2 ms.
const FAST: f64 = 6_250_000.0;

/// A token bucket in bytes. A packet may go while there are tokens and takes its whole size, so the mean rate is exact
/// whatever the sizes.
#[derive(Clone, Debug)]
pub struct Pacer {
    tokens: f64,
    rate: f64,
    updated: Timestamp,
}

impl Pacer {
    /// A full bucket that refills at `rate` byte/s.
    pub fn new(now: Timestamp, rate: f64) -> Self {
        let mut pacer = Self {
            tokens: 0.0,
            rate: rate.max(1.0),
            updated: now,
        };
        pacer.tokens = pacer.depth();
        pacer
    }

    fn depth(&self) -> f64 {
        let burst = (self.rate * BURST).max(MIN_BURST_PACKETS * FULL_PACKET);
        if self.rate < FAST {
            burst.min(MAX_BURST_PACKETS * FULL_PACKET)
        } else {
            burst
        }
    }

    fn refill(&mut self, now: Timestamp) {
        let passed = now.saturating_since(self.updated).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate).min(self.depth());
        self.updated = self.updated.max(now);
    }

    /// Changes the rate.
    pub fn set_rate(&mut self, now: Timestamp, rate: f64) {
        self.refill(now);
        self.rate = rate.max(1.0);
    }

    /// Empties the bucket: after a stall nothing goes out in a burst.
    pub fn drain(&mut self, now: Timestamp) {
        self.refill(now);
        self.tokens = self.tokens.min(FULL_PACKET);
    }

    /// Whether a packet may go now.
    pub fn is_open(&mut self, now: Timestamp) -> bool {
        self.refill(now);
        self.tokens > 0.0
    }

    /// Whether the next packet is at most one packet's time early: it may take along what would need a packet of its own.
    pub fn is_open_soon(&mut self, now: Timestamp) -> bool {
        self.refill(now);
        self.tokens > -FULL_PACKET
    }

    /// When the next packet may go, if not now.
    pub fn opens_at(&self) -> Timestamp {
        if self.tokens > 0.0 {
            return self.updated;
        }
        // A byte more than is owed: the bucket must be above zero then.
        let wait = (1.0 - self.tokens) / self.rate;
        self.updated + Duration::from_secs_f64(wait.min(3600.0))
    }

    /// A packet of `size` bytes was sent.
    #[expect(clippy::cast_precision_loss, reason = "packets are small")]
    pub fn on_sent(&mut self, size: u64) {
        self.tokens -= size as f64;
    }

    /// The rate in byte/s.
    pub const fn rate(&self) -> f64 {
        self.rate
    }
}
