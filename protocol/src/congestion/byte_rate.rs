//! Rates and sizes as the algorithm computes with them, and as the rest of the connection uses them.
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount};

/// Least rate in byte/s by which a size is divided: a rate of zero gives a long time, not an infinite one.
pub(super) const LEAST_RATE: f64 = 1.0;
const BITS_PER_BYTE: f64 = 8.0;

/// An estimated rate. Unlike [`BitRate`] it has fractions, so that sums of small differences remain exact.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct ByteRate(f64);

impl ByteRate {
    /// Creates a rate of at least 1 byte/s.
    pub const fn at_least_one(bytes_per_second: f64) -> Self {
        Self(bytes_per_second.max(LEAST_RATE))
    }
    /// Creates a rate in byte/s.
    pub const fn new(bytes_per_second: f64) -> Self {
        Self(bytes_per_second)
    }
    /// The rate in byte/s.
    pub const fn bytes_per_second(self) -> f64 {
        self.0
    }
    /// The lower of two rates.
    pub const fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }
    /// The rate in whole bit/s.
    pub const fn bit_rate(self) -> BitRate {
        BitRate::bps(whole(self.0 * BITS_PER_BYTE))
    }
    /// Size that passes in `time` at this rate.
    pub const fn amount_in(self, time: Duration) -> ByteCount {
        as_count(self.0 * time.as_secs_f64())
    }
    /// Transmission time of `size` at this rate, at most `longest`.
    pub fn transmission_time(self, size: ByteCount, longest: Duration) -> Duration {
        let seconds = as_bytes(size) / self.0.max(LEAST_RATE);
        Duration::from_secs_f64(seconds.min(longest.as_secs_f64()))
    }
}

impl From<BitRate> for ByteRate {
    fn from(rate: BitRate) -> Self {
        Self(rate.bytes_per_second())
    }
}

/// A size in bytes as a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
pub(super) const fn as_bytes(size: ByteCount) -> f64 {
    size.bytes() as f64
}

/// A computed size in whole bytes.
pub(super) const fn as_count(bytes: f64) -> ByteCount {
    ByteCount::new(whole(bytes))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "values are positive and `as` saturates"
)]
const fn whole(value: f64) -> u64 {
    value as u64
}
