//! Token bucket of the sender (congestion.md section 9).
use std::time::Duration;

use longhaul_types::Timestamp;

use super::FULL_PACKET;

/// Depth in seconds: timers have a granularity of 1 ms.
const BURST: f64 = 0.002;
const MIN_BURST_PACKETS: f64 = 2.0;
const MAX_BURST_PACKETS: f64 = 10.0;
/// Rate in byte/s (50 Mbit/s) from which 10 packets take less than 2 ms.
const FAST: f64 = 6_250_000.0;

/// Token bucket in bytes. A packet may be sent while the bucket is above zero and consumes its whole size, so
/// the mean rate is exact for any packet sizes.
#[derive(Clone, Debug)]
pub struct Pacer {
    tokens: f64,
    rate: f64,
    updated: Timestamp,
}

impl Pacer {
    /// Creates a full bucket that refills at `rate` byte/s.
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

    /// Sets the rate in byte/s.
    pub fn set_rate(&mut self, now: Timestamp, rate: f64) {
        self.refill(now);
        self.rate = rate.max(1.0);
    }

    /// Reduces the bucket to at most one packet: after a stall nothing is sent in a burst.
    pub fn drain(&mut self, now: Timestamp) {
        self.refill(now);
        self.tokens = self.tokens.min(FULL_PACKET);
    }

    /// Returns true if a packet may be sent now.
    pub fn is_open(&mut self, now: Timestamp) -> bool {
        self.refill(now);
        self.tokens > 0.0
    }

    /// Returns true if the next packet is at most one packet time early: it may carry content that would need
    /// its own packet.
    pub fn is_open_soon(&mut self, now: Timestamp) -> bool {
        self.refill(now);
        self.tokens > -FULL_PACKET
    }

    /// Time at which the next packet may be sent; not later than now if the bucket is open.
    pub fn opens_at(&self) -> Timestamp {
        if self.tokens > 0.0 {
            return self.updated;
        }
        // One byte more than the debt, because the bucket must then be above zero.
        let wait = (1.0 - self.tokens) / self.rate;
        self.updated + Duration::from_secs_f64(wait.min(3600.0))
    }

    /// Consumes the tokens of a sent packet of `size` bytes.
    #[expect(clippy::cast_precision_loss, reason = "packets are small")]
    pub fn on_sent(&mut self, size: u64) {
        self.tokens -= size as f64;
    }

    /// Rate in byte/s.
    pub const fn rate(&self) -> f64 {
        self.rate
    }
}
