//! Classes of links whose times are comparable.
use std::time::Duration;

use longhaul_driver::ConnectionStats;
use longhaul_types::BitRate;

/// Round-trip times from which a direct visit is certainly slower: each of its round trips costs the user as much, and
/// the answer is known.
const LONG: Duration = Duration::from_millis(150);
/// Rates below which a direct visit is certainly slower.
const SLOW: BitRate = BitRate::kbps(2000);

/// The state of the link, roughly: round-trip time and rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkClass {
    /// Powers of two of milliseconds; 0 if it is not known.
    rtt: u8,
    /// Powers of four of 1 Mbit/s; 0 if it is not known.
    rate: u8,
    is_comparable: bool,
}

impl LinkClass {
    /// The class of a session's link.
    pub(super) fn of(stats: &ConnectionStats) -> Self {
        Self::new(stats.measured_srtt, stats.estimated_capacity.or(stats.link_rate))
    }

    /// The class of a link with this round-trip time and rate; neither need be known.
    pub(super) fn new(rtt: Option<Duration>, rate: Option<BitRate>) -> Self {
        let steps = |value: u128| u8::try_from(value.max(1).ilog2()).unwrap_or(u8::MAX);
        let is_fast = rtt.is_some_and(|rtt| rtt < LONG) && rate.is_some_and(|rate| rate >= SLOW);
        Self {
            rtt: rtt.map_or(0, |rtt| 1 + steps(rtt.as_millis())),
            rate: rate.map_or(0, |rate| 1 + steps(u128::from(rate.as_bps() / 1_000_000)) / 2),
            is_comparable: is_fast,
        }
    }

    /// True if it is not known in advance which way is faster.
    pub(super) const fn is_comparable(self) -> bool {
        self.is_comparable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_slow_and_unknown_links_are_not_compared() {
        let class = |rtt: u64, mbps: u64| {
            LinkClass::new(Some(Duration::from_millis(rtt)), Some(BitRate::kbps(mbps * 1000)))
        };
        assert!(class(1, 1000).is_comparable() && class(60, 20).is_comparable());
        assert!(!class(600, 20).is_comparable() && !class(60, 1).is_comparable());
        assert!(!LinkClass::new(None, Some(BitRate::kbps(50_000))).is_comparable());
        assert_eq!(class(60, 20), class(50, 30));
        assert_ne!(class(60, 20), class(60, 100));
        assert_ne!(class(60, 20), class(5, 20));
    }
}
