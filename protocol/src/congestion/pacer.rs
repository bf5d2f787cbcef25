//! Token bucket of the sender (congestion.md section 9).
use std::time::Duration;

use longhaul_types::{ByteCount, Timestamp};

use super::{
    FULL_PACKET_BYTES,
    byte_rate::{ByteRate, as_bytes},
    parameters::PacingParameters,
};

/// Longest time in seconds until the bucket opens, so that it can be a `Duration`.
const LONGEST_WAIT: f64 = 3600.0;
/// A packet may be sent above zero tokens: the bucket opens with this many bytes.
const OPEN_TOKENS: f64 = 1.0;

/// Token bucket in bytes. A packet may be sent while the bucket is above zero and consumes its whole size, so
/// the mean rate is exact for any packet sizes.
#[derive(Clone, Debug)]
pub struct Pacer {
    parameters: &'static PacingParameters,
    /// In bytes.
    tokens: f64,
    /// In byte/s.
    rate: f64,
    updated: Timestamp,
    /// Bytes that may be sent without pacing.
    burst: f64,
}

impl Pacer {
    /// Creates a full bucket that refills at `rate`.
    pub fn new(parameters: &'static PacingParameters, now: Timestamp, rate: ByteRate) -> Self {
        let mut pacer = Self {
            parameters,
            tokens: 0.0,
            rate: ByteRate::at_least_one(rate.bytes_per_second()).bytes_per_second(),
            updated: now,
            burst: 0.0,
        };
        pacer.tokens = pacer.depth();
        pacer
    }

    fn depth(&self) -> f64 {
        let parameters = self.parameters;
        let burst = (self.rate * parameters.burst).max(parameters.burst_packets_least * FULL_PACKET_BYTES);
        if self.rate < parameters.fast_rate {
            burst.min(parameters.burst_packets_most * FULL_PACKET_BYTES)
        } else {
            burst
        }
    }

    fn refill(&mut self, now: Timestamp) {
        let passed = now.saturating_since(self.updated).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate).min(self.depth());
        self.updated = self.updated.max(now);
    }

    /// Permits `size` more to be sent without pacing, until a rate is set.
    pub const fn allow_burst(&mut self, size: ByteCount) {
        self.burst += as_bytes(size);
    }

    /// Sets the rate.
    pub fn set_rate(&mut self, now: Timestamp, rate: ByteRate) {
        self.refill(now);
        self.burst = 0.0;
        self.rate = ByteRate::at_least_one(rate.bytes_per_second()).bytes_per_second();
    }

    /// Reduces the bucket to at most one packet: after a stall nothing is sent in a burst.
    pub fn drain(&mut self, now: Timestamp) {
        self.refill(now);
        self.burst = 0.0;
        self.tokens = self.tokens.min(FULL_PACKET_BYTES);
    }

    /// Returns true if a packet may be sent now.
    pub fn is_open(&mut self, now: Timestamp) -> bool {
        self.refill(now);
        self.tokens > 0.0 || self.burst > 0.0
    }

    /// Returns true if the next packet is at most one packet time early: it may carry content that would need
    /// its own packet.
    pub fn is_open_soon(&mut self, now: Timestamp) -> bool {
        self.refill(now);
        self.tokens > -FULL_PACKET_BYTES || self.burst > 0.0
    }

    /// Time at which the next packet may be sent; not later than now if the bucket is open.
    pub fn opens_at(&self) -> Timestamp {
        if self.tokens > 0.0 || self.burst > 0.0 {
            return self.updated;
        }
        let wait = (OPEN_TOKENS - self.tokens) / self.rate;
        self.updated + Duration::from_secs_f64(wait.min(LONGEST_WAIT))
    }

    /// Consumes the tokens of a sent packet.
    pub fn on_sent(&mut self, size: ByteCount) {
        if self.burst > 0.0 {
            self.burst -= as_bytes(size);
        } else {
            self.tokens -= as_bytes(size);
        }
    }
}
