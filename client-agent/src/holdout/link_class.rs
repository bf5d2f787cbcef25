//! Classes of links whose times are comparable.
use std::time::Duration;

use longhaul_driver::ConnectionStats;
use longhaul_types::BitRate;

/// Round-trip times from which a direct visit is certainly slower: each of its round trips costs the user as much, and
/// the answer is known.
const LONG: Duration = Duration::from_millis(150);
/// Rates below which a direct visit is certainly slower.
const SLOW: BitRate = BitRate::kbps(2000);

/// Shorter round-trip times are one class: there the processor's load decides.
const SHORT: Duration = Duration::from_millis(8);
/// Higher rates are one class: the times of visits no longer follow the rate.
const FAST: BitRate = BitRate::kbps(64_000);
/// A measured value that leaves the class of the link by less than this factor does not end it: measurements vary, and
/// each class needs comparisons of its own.
const MARGIN: u32 = 2;

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
    /// The class of a session's link whose class was `before`, if it had one.
    pub(super) fn of(stats: &ConnectionStats, before: Option<Self>) -> Self {
        let (rtt, rate) = (stats.measured_srtt, stats.estimated_capacity.or(stats.link_rate));
        Self::new(rtt, rate).after(before, rtt, rate)
    }

    /// The class of a link with this round-trip time and rate; neither need be known.
    pub(super) fn new(rtt: Option<Duration>, rate: Option<BitRate>) -> Self {
        let is_fast = rtt.is_some_and(|rtt| rtt < LONG) && rate.is_some_and(|rate| rate >= SLOW);
        Self {
            rtt: rtt.map_or(0, rtt_class),
            rate: rate.map_or(0, rate_class),
            is_comparable: is_fast,
        }
    }

    /// This class, with the parts of the class before that the measured values have not clearly left.
    fn after(mut self, before: Option<Self>, rtt: Option<Duration>, rate: Option<BitRate>) -> Self {
        let Some(before) = before else { return self };
        if let Some(rtt) = rtt
            && (rtt_class(rtt / MARGIN)..=rtt_class(rtt * MARGIN)).contains(&before.rtt)
        {
            self.rtt = before.rtt;
        }
        if let Some(bps) = rate.map(|rate| rate.as_bps()) {
            let margin = u64::from(MARGIN);
            let [low, high] = [bps / margin, bps.saturating_mul(margin)].map(BitRate::bps);
            if (rate_class(low)..=rate_class(high)).contains(&before.rate) {
                self.rate = before.rate;
            }
        }
        self
    }

    /// The numbers of the classes of round-trip time and rate.
    pub(super) const fn numbers(self) -> (u8, u8) {
        (self.rtt, self.rate)
    }

    /// The class of comparable links with these numbers; `None` if there is none.
    pub(super) fn of_numbers(rtt: u8, rate: u8) -> Option<Self> {
        let rtts = rtt_class(Duration::ZERO)..=rtt_class(LONG * MARGIN);
        let rates = rate_class(SLOW)..=rate_class(FAST);
        (rtts.contains(&rtt) && rates.contains(&rate)).then_some(Self {
            rtt,
            rate,
            is_comparable: true,
        })
    }

    /// True if it is not known in advance which way is faster.
    pub(super) const fn is_comparable(self) -> bool {
        self.is_comparable
    }
}

fn rtt_class(rtt: Duration) -> u8 {
    1 + steps(rtt.max(SHORT).as_millis())
}

fn rate_class(rate: BitRate) -> u8 {
    1 + steps(u128::from(rate.min(FAST).as_bps() / 1_000_000)) / 2
}

/// The power of two below a value.
fn steps(value: u128) -> u8 {
    u8::try_from(value.max(1).ilog2()).unwrap_or(u8::MAX)
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
        assert_eq!(class(0, 64), class(15, 1000));
    }

    #[test]
    fn a_class_lasts_until_measurements_clearly_leave_it() {
        let class = |before, rtt: u64, mbps: u64| {
            let (rtt, rate) = (Duration::from_millis(rtt), BitRate::kbps(mbps * 1000));
            LinkClass::new(Some(rtt), Some(rate)).after(before, Some(rtt), Some(rate))
        };
        let first = class(None, 40, 20);
        for (rtt, mbps) in [(20, 20), (17, 20), (120, 20), (40, 9), (40, 120)] {
            assert_eq!(class(Some(first), rtt, mbps), first, "{rtt} ms, {mbps} Mbit/s");
        }
        for (rtt, mbps) in [(15, 20), (130, 20), (40, 7), (40, 130)] {
            assert_ne!(class(Some(first), rtt, mbps), first, "{rtt} ms, {mbps} Mbit/s");
        }
        let fast = class(None, 1, 900);
        assert_eq!(class(Some(fast), 31, 40), fast);
    }
}
