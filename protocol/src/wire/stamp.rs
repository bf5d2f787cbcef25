//! Stamp: the sender's clock in a packet (transport.md section 2).
use std::time::Duration;

use longhaul_types::Timestamp;

const UNIT_NANOS: u64 = 100_000;
const UNIT_SECONDS: f64 = 1e-4;
const MASK: u32 = 0x00ff_ffff;

/// Clock value in units of 0.1 ms, modulo 2^24. It wraps after 28 minutes, so that only differences are
/// meaningful.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(u32);

impl Stamp {
    /// The stamp of `now`.
    pub fn of(now: Timestamp) -> Self {
        let units = (now.as_nanos() / UNIT_NANOS) & u64::from(MASK);
        Self(u32::try_from(units).unwrap_or(MASK))
    }
    /// Creates a stamp from the wire; the high 8 bits are ignored.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw & MASK)
    }
    /// The 24 bits of the stamp.
    pub const fn raw(self) -> u32 {
        self.0
    }
    /// Time from `earlier` to this stamp, modulo 28 minutes; the caller knows that this stamp is later.
    pub fn since(self, earlier: Self) -> Duration {
        let units = self.0.wrapping_sub(earlier.0) & MASK;
        Duration::from_nanos(u64::from(units) * UNIT_NANOS)
    }
    /// One-way delay of a packet with this stamp that arrives at `arrival`, plus the difference of the two
    /// clocks; only differences of such values are meaningful.
    pub fn relative_delay(self, arrival: Timestamp) -> Self {
        Self::from_raw(Self::of(arrival).raw().wrapping_sub(self.raw()))
    }
    /// Signed difference to `other` in seconds, within 14 minutes in each direction.
    pub fn seconds_above(self, other: Self) -> f64 {
        f64::from(self.difference(other)) * UNIT_SECONDS
    }
    /// Signed difference to `other` in units of 0.1 ms, within 14 minutes in each direction.
    pub fn difference(self, other: Self) -> i32 {
        let units = self.0.wrapping_sub(other.0) << 8;
        units.cast_signed() >> 8
    }
}

/// Encodes a time in 2 bytes, in units of 0.1 ms, at most 6.5535 s (`hold` of FEEDBACK).
pub fn hold(time: Duration) -> u16 {
    u16::try_from(time.as_nanos() / u128::from(UNIT_NANOS)).unwrap_or(u16::MAX)
}

/// Decodes a `hold` field.
pub const fn hold_time(hold: u16) -> Duration {
    Duration::from_nanos(hold as u64 * UNIT_NANOS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_survive_the_wrap() {
        let before = Stamp::from_raw(MASK);
        let after = Stamp::from_raw(9);
        assert_eq!(after.since(before), Duration::from_millis(1));
        assert_eq!(after.difference(before), 10);
        assert_eq!(before.difference(after), -10);
        assert_eq!(Stamp::of(Timestamp::from_nanos(1_234_567_890)).raw(), 12_345);
        assert_eq!(Stamp::of(Timestamp::from_nanos(UNIT_NANOS << 24)).raw(), 0);
    }

    #[test]
    fn the_hold_time_is_capped() {
        assert_eq!(hold(Duration::from_millis(250)), 2500);
        assert_eq!(hold(Duration::from_secs(60)), u16::MAX);
        assert_eq!(hold_time(2500), Duration::from_millis(250));
    }
}
