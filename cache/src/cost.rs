//! Cost of fetching a body again, by which eviction decides.
use std::time::Duration;

/// Cost of fetching a body again, as time. The cache keeps the bodies with the highest priority `L + F * C /
/// S`: GreedyDual-Size-Frequency (Cherkasova, HP Labs HPL-98-69R1, 1998, after Cao and Irani, USITS 1997).
/// `C` is this cost in milliseconds, `S` the size in KiB plus one (so that tiny bodies are not kept forever),
/// `F` the number of requests for the body (at most 64, so that formerly popular bodies can be evicted) and
/// `L` the priority of the last evicted body, which ages bodies that are no longer requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    time: Option<Duration>,
}

/// Longer times result from an interrupted link, not from the body.
const LONGEST: Duration = Duration::from_secs(600);
/// Estimate without measurement: one round trip over a geostationary satellite ...
const ROUND_TRIP: Duration = Duration::from_millis(600);
/// ... and the transfer of the body at 1 Mbit/s. Among estimates only the ratio of the two matters.
const NANOS_PER_BYTE: u64 = 8_000;

impl Cost {
    /// Measured cost: the time from the request to the last byte over the hop, plus the coding time if that
    /// is saved, too.
    pub const fn measured(time: Duration) -> Self {
        Self { time: Some(time) }
    }

    /// No measurement: the cost is estimated from the length.
    pub const fn unknown() -> Self {
        Self { time: None }
    }

    /// `C / S` of a body of `length` bytes.
    pub(crate) fn worth(self, length: u64) -> f64 {
        let estimate =
            || ROUND_TRIP.saturating_add(Duration::from_nanos(length.saturating_mul(NANOS_PER_BYTE)));
        let time = self
            .time
            .unwrap_or_else(estimate)
            .clamp(Duration::from_millis(1), LONGEST);
        let kibibytes = u32::try_from(length / 1024).unwrap_or(u32::MAX);
        time.as_secs_f64() * 1000.0 / (f64::from(kibibytes) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_fetch_of_a_small_body_is_worth_more() {
        let slow = Cost::measured(Duration::from_secs(5));
        let quick = Cost::measured(Duration::from_millis(700));
        assert!(slow.worth(50_000) > quick.worth(50_000));
        assert!(quick.worth(5_000) > quick.worth(50_000));
        assert!(Cost::unknown().worth(1_000) > Cost::unknown().worth(1_000_000));
    }

    #[test]
    fn extreme_values_stay_finite() {
        for cost in [
            Cost::unknown(),
            Cost::measured(Duration::MAX),
            Cost::measured(Duration::ZERO),
        ] {
            for length in [0, 1, u64::MAX] {
                let worth = cost.worth(length);
                assert!(worth.is_finite() && worth > 0.0, "{cost:?} of {length}: {worth}");
            }
        }
    }
}
