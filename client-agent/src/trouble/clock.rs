//! Comparison of this computer's clock with the gateway's.
//!
//! A new token shows the hour of the gateway's clock in which it was minted
//! (docs/protocol/transport.md section 3.7). Differences of less than an hour may therefore stay unnoticed, and
//! a reported difference is a lower bound.
use std::{fmt, time::Duration};

use longhaul_types::UnixTime;

const HOUR: Duration = Duration::from_secs(3600);
/// Difference beyond the hour that is tolerated: the way of the token, and clocks that are a few minutes off,
/// which harm nothing.
const TOLERANCE: Duration = Duration::from_secs(300);

/// Direction in which this computer's clock differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockDirection {
    /// This computer's clock shows a later time.
    Ahead,
    /// This computer's clock shows an earlier time.
    Behind,
}

/// A difference of the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockDifference {
    /// The difference is at least this long.
    pub at_least: Duration,
    /// Direction of the difference.
    pub direction: ClockDirection,
}

impl ClockDifference {
    /// Compares `local`, the time at which a token arrived, with the hour in which it was minted; `None` if
    /// the clocks may agree.
    pub fn between(local: UnixTime, gateway_hour: UnixTime) -> Option<Self> {
        let (local, start) = (local.since_epoch(), gateway_hour.since_epoch());
        let (at_least, direction) = if local < start {
            (start - local, ClockDirection::Behind)
        } else {
            (local.saturating_sub(start + HOUR), ClockDirection::Ahead)
        };
        (at_least > TOLERANCE).then_some(Self { at_least, direction })
    }
}

impl fmt::Display for ClockDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = self.at_least.as_secs() / 60;
        let (days, hours) = (minutes / 1440, minutes / 60);
        f.write_str("at least ")?;
        match (days, hours) {
            (0, 0) => write!(f, "{minutes} min")?,
            (0, _) => write!(f, "{hours} h")?,
            _ => write!(f, "{days} days")?,
        }
        f.write_str(match self.direction {
            ClockDirection::Ahead => " ahead of",
            ClockDirection::Behind => " behind",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::new(Duration::from_secs(seconds))
    }

    #[test]
    fn clocks_within_the_hour_agree() {
        let hour = at(7200);
        for local in [7200 - 300, 7200, 9000, 10_800, 10_800 + 300] {
            assert_eq!(ClockDifference::between(at(local), hour), None, "{local}");
        }
    }

    #[test]
    fn a_difference_is_a_lower_bound() {
        let hour = at(1_800_000_000);
        let behind = ClockDifference::between(at(1_800_000_000 - 7200), hour).unwrap();
        assert_eq!(behind.to_string(), "at least 2 h behind");
        let ahead = ClockDifference::between(at(1_800_000_000 + 3600 + 360), hour).unwrap();
        assert_eq!(ahead.to_string(), "at least 6 min ahead of");
        let dead_battery = ClockDifference::between(at(946_684_800), hour).unwrap();
        assert_eq!(dead_battery.direction, ClockDirection::Behind);
        assert_eq!(dead_battery.to_string(), "at least 9876 days behind");
    }
}
