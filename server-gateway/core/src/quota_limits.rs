//! The limits that an operator sets for a device or a named client, and the gateway's defaults.
use std::{fmt, str::FromStr};

use longhaul_types::{BitRate, ByteCount};

/// Bounds of a rate: below, a session hardly works; above, there is nothing to limit.
const RATES: (BitRate, BitRate) = (BitRate::kbps(8), BitRate::kbps(10_000_000));
/// Bounds of a month's bytes.
const MONTHS: (ByteCount, ByteCount) = (ByteCount::kb(1000), ByteCount::kb(1_000_000_000_000));

/// The limits that apply to devices without limits of their own; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaDefaults {
    /// `quota.rate`: the rate of a session in each direction.
    pub rate: Option<BitRate>,
    /// `quota.month`: bytes of both directions in a month.
    pub month: Option<ByteCount>,
}

/// One limit of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit<T> {
    /// The gateway's default applies.
    #[default]
    Default,
    /// No limit.
    Unlimited,
    /// This limit.
    Of(T),
}

/// The quota of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceQuota {
    /// Rate of a session in each direction.
    pub rate: Limit<BitRate>,
    /// Bytes of both directions in a month.
    pub month: Limit<ByteCount>,
}

/// The text is no limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// The text is no amount with a unit.
    #[error("`{text}` is no {what}; write {example}, `none` or `default`")]
    Form {
        /// The text.
        text: String,
        /// The kind of limit.
        what: &'static str,
        /// An example.
        example: &'static str,
    },
    /// The limit is too low or too high.
    #[error("`{text}` is outside of the bounds of a {what}: {bounds}")]
    Bounds {
        /// The text.
        text: String,
        /// The kind of limit.
        what: &'static str,
        /// The bounds.
        bounds: &'static str,
    },
}

impl DeviceQuota {
    /// The limits that apply.
    pub fn within(self, defaults: QuotaDefaults) -> QuotaDefaults {
        QuotaDefaults {
            rate: self.rate.or(defaults.rate),
            month: self.month.or(defaults.month),
        }
    }
}

impl<T> Limit<T> {
    fn or(self, default: Option<T>) -> Option<T> {
        match self {
            Self::Default => default,
            Self::Unlimited => None,
            Self::Of(limit) => Some(limit),
        }
    }
}

/// Parses a rate, such as `2Mbit/s`.
///
/// # Errors
/// The text is no rate, or the rate is out of bounds.
pub fn parse_rate(text: &str) -> Result<BitRate, LimitError> {
    let what = "rate";
    let form = || LimitError::Form {
        text: text.to_owned(),
        what,
        example: "`2Mbit/s`",
    };
    let rate: BitRate = text.parse().map_err(|_| form())?;
    if rate < RATES.0 || rate > RATES.1 {
        return Err(LimitError::Bounds {
            text: text.to_owned(),
            what,
            bounds: "8kbit/s to 10Gbit/s",
        });
    }
    Ok(rate)
}

/// Parses the bytes of a month, such as `5GB`.
///
/// # Errors
/// The text is no size, or the size is out of bounds.
pub fn parse_month(text: &str) -> Result<ByteCount, LimitError> {
    let what = "month's bytes";
    let form = || LimitError::Form {
        text: text.to_owned(),
        what,
        example: "`5GB`",
    };
    let size: ByteCount = text.parse().map_err(|_| form())?;
    if size < MONTHS.0 || size > MONTHS.1 {
        return Err(LimitError::Bounds {
            text: text.to_owned(),
            what,
            bounds: "1MB to 1000000GB",
        });
    }
    Ok(size)
}

fn limit<T>(text: &str, parse: fn(&str) -> Result<T, LimitError>) -> Result<Limit<T>, LimitError> {
    match text {
        "default" => Ok(Limit::Default),
        "none" => Ok(Limit::Unlimited),
        _ => parse(text).map(Limit::Of),
    }
}

impl FromStr for Limit<BitRate> {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        limit(text, parse_rate)
    }
}

impl FromStr for Limit<ByteCount> {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        limit(text, parse_month)
    }
}

/// The form that the parsers read, without rounding.
impl fmt::Display for Limit<BitRate> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Unlimited => f.write_str("none"),
            Self::Of(rate) => f.write_str(&rate_text(*rate)),
        }
    }
}

impl fmt::Display for Limit<ByteCount> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Unlimited => f.write_str("none"),
            Self::Of(size) => f.write_str(&month_text(*size)),
        }
    }
}

/// A rate without rounding, in the largest unit.
pub fn rate_text(rate: BitRate) -> String {
    in_unit(
        rate.as_bps(),
        &[(1_000_000, "Mbit/s"), (1000, "kbit/s"), (1, "bit/s")],
    )
}

/// A size without rounding, in the largest unit.
pub fn month_text(size: ByteCount) -> String {
    in_unit(
        size.bytes(),
        &[(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB"), (1, "B")],
    )
}

fn in_unit(amount: u64, units: &[(u64, &str)]) -> String {
    let whole = units.iter().find(|(size, _)| amount.is_multiple_of(*size));
    whole.map_or_else(String::new, |(size, unit)| format!("{}{unit}", amount / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_as_they_are_read() {
        for text in ["2Mbit/s", "1500kbit/s", "8001bit/s", "default", "none"] {
            assert_eq!(text.parse::<Limit<BitRate>>().unwrap().to_string(), text);
        }
        for text in ["5GB", "1500MB", "1000001B", "default", "none"] {
            assert_eq!(text.parse::<Limit<ByteCount>>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_text_without_unit_or_out_of_bounds_is_refused_with_an_example() {
        for text in ["", "2", "fast", "5GB"] {
            let error = text.parse::<Limit<BitRate>>().unwrap_err().to_string();
            assert!(error.contains("2Mbit/s"), "{error}");
        }
        for text in ["8kbit/s", "10Gbit/s"] {
            assert!(text.parse::<Limit<BitRate>>().is_ok(), "{text}");
        }
        for text in ["1MB", "1000000GB"] {
            assert!(text.parse::<Limit<ByteCount>>().is_ok(), "{text}");
        }
        for text in ["7kbit/s", "11Gbit/s"] {
            let error = text.parse::<Limit<BitRate>>().unwrap_err().to_string();
            assert!(error.contains("8kbit/s to 10Gbit/s"), "{error}");
        }
        for text in ["999kB", "1000001GB"] {
            assert!(text.parse::<Limit<ByteCount>>().is_err(), "{text}");
        }
    }

    #[test]
    fn own_limits_precede_the_defaults() {
        let defaults = QuotaDefaults {
            rate: Some(BitRate::kbps(2000)),
            month: Some(ByteCount::kb(5_000_000)),
        };
        assert_eq!(DeviceQuota::default().within(defaults), defaults);
        let own = DeviceQuota {
            rate: Limit::Unlimited,
            month: Limit::Of(ByteCount::kb(1000)),
        };
        let expected = QuotaDefaults {
            rate: None,
            month: Some(ByteCount::kb(1000)),
        };
        assert_eq!(own.within(defaults), expected);
    }
}
