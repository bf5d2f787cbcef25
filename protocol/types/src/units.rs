//! Amounts of data and rates. "k" is 1000 for rates and bytes, "Ki" is 1024, as in IEC 80000-13.
use std::{
    fmt,
    ops::{Add, AddAssign, Div, Mul, Sub},
    str::FromStr,
    time::Duration,
};

/// An amount of data in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteCount(u64);

impl ByteCount {
    /// No data.
    pub const ZERO: Self = Self(0);
    /// Creates an amount in bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }
    /// Creates an amount in kilobytes of 1000 bytes.
    pub const fn kb(kilobytes: u64) -> Self {
        Self(kilobytes * 1000)
    }
    /// Creates an amount in kibibytes of 1024 bytes.
    pub const fn kib(kibibytes: u64) -> Self {
        Self(kibibytes * 1024)
    }
    /// Creates an amount in mebibytes of 1024 * 1024 bytes.
    pub const fn mib(mebibytes: u64) -> Self {
        Self(mebibytes * 1024 * 1024)
    }
    /// The amount in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
    /// The amount as `usize`, limited to `usize::MAX`.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
    /// The difference; zero if `other` is larger.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for ByteCount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for ByteCount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for ByteCount {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Div<BitRate> for ByteCount {
    type Output = Duration;
    /// Transmission time of this amount at `rate`; `Duration::MAX` for a rate of zero.
    fn div(self, rate: BitRate) -> Duration {
        if rate.0 == 0 {
            return Duration::MAX;
        }
        let nanos = u128::from(self.0) * 8 * 1_000_000_000 / u128::from(rate.0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes < 10_000 => write!(f, "{bytes} B"),
            bytes if bytes < 10_000_000 => write!(f, "{}.{} kB", bytes / 1000, bytes % 1000 / 100),
            bytes => write!(f, "{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
        }
    }
}

/// A data rate in bit per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate(u64);

impl BitRate {
    /// Creates a rate in bit per second.
    pub const fn bps(bits_per_second: u64) -> Self {
        Self(bits_per_second)
    }
    /// Creates a rate in kilobit (1000 bit) per second.
    pub const fn kbps(kilobits_per_second: u64) -> Self {
        Self(kilobits_per_second * 1000)
    }
    /// The rate in bit per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// The rate in byte per second.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a rate is an estimate; 53 bits are plenty"
    )]
    pub fn bytes_per_second(self) -> f64 {
        self.0 as f64 / 8.0
    }
    /// The rate at which `amount` takes `time`; the largest rate if `time` is zero.
    pub fn of(amount: ByteCount, time: Duration) -> Self {
        let nanos = time.as_nanos();
        if nanos == 0 {
            return Self(u64::MAX);
        }
        Self(u64::try_from(u128::from(amount.0) * 8 * 1_000_000_000 / nanos).unwrap_or(u64::MAX))
    }
}

impl Mul<Duration> for BitRate {
    type Output = ByteCount;
    fn mul(self, time: Duration) -> ByteCount {
        let bytes = u128::from(self.0) * time.as_nanos() / 8_000_000_000;
        ByteCount(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bits if bits < 10_000_000 => write!(f, "{}.{} kbit/s", bits / 1000, bits % 1000 / 100),
            bits => write!(f, "{}.{} Mbit/s", bits / 1_000_000, bits % 1_000_000 / 100_000),
        }
    }
}

/// Errors of parsing an amount with a unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseUnitError {
    /// The text does not start with a number.
    #[error("`{0}` does not start with a number")]
    NoNumber(String),
    /// The number has no unit or an unknown unit.
    #[error("`{text}` needs a unit, one of {units}")]
    Unit {
        /// The text.
        text: String,
        /// The known units.
        units: &'static str,
    },
}

impl FromStr for ByteCount {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        const UNITS: &[(&str, f64)] = &[
            ("B", 1.0),
            ("kB", 1e3),
            ("MB", 1e6),
            ("GB", 1e9),
            ("KiB", 1024.0),
            ("MiB", 1_048_576.0),
            ("GiB", 1_073_741_824.0),
        ];
        scaled(text, UNITS, "B, kB, MB, GB, KiB, MiB, GiB").map(Self)
    }
}

impl FromStr for BitRate {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        const UNITS: &[(&str, f64)] = &[("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9)];
        scaled(text, UNITS, "bit/s, kbit/s, Mbit/s, Gbit/s").map(Self)
    }
}

/// Parses a duration with its unit, such as `500ms`, `30 s`, `5min`, `24h`. A number without unit is an
/// error.
///
/// # Errors
/// The text has no number or no known unit.
pub fn parse_duration(text: &str) -> Result<Duration, ParseUnitError> {
    const UNITS: &[(&str, f64)] = &[
        ("us", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("min", 60e9),
        ("h", 3600e9),
        ("d", 86_400e9),
    ];
    scaled(text, UNITS, "us, ms, s, min, h, d").map(Duration::from_nanos)
}

fn scaled(text: &str, units: &[(&str, f64)], names: &'static str) -> Result<u64, ParseUnitError> {
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let number: f64 = number
        .parse()
        .map_err(|_| ParseUnitError::NoNumber(text.to_owned()))?;
    let unit = unit.trim();
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(ParseUnitError::Unit {
            text: text.to_owned(),
            units: names,
        });
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, and the number has no sign"
    )]
    Ok((number * factor).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_times_time_is_an_amount_and_back() {
        let rate = BitRate::kbps(40);
        assert_eq!(rate * Duration::from_secs(2), ByteCount::new(10_000));
        assert_eq!(ByteCount::new(10_000) / rate, Duration::from_secs(2));
        assert_eq!(BitRate::of(ByteCount::new(10_000), Duration::from_secs(2)), rate);
        assert_eq!(ByteCount::new(1) / BitRate::bps(0), Duration::MAX);
    }

    #[test]
    fn units_are_required() {
        assert_eq!("64 MiB".parse(), Ok(ByteCount::mib(64)));
        assert_eq!("39.6kbit/s".parse(), Ok(BitRate::bps(39_600)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert!(matches!(
            "64".parse::<ByteCount>(),
            Err(ParseUnitError::Unit { .. })
        ));
        assert!(matches!(parse_duration("soon"), Err(ParseUnitError::NoNumber(_))));
    }
}
