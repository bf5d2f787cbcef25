//! Counts of a period, which can be added up. Pure.
use longhaul_session::Flow;

use crate::savings::{SavedBytes, Totals};

/// Names of the counts, which are the columns of the file.
pub(super) const COLUMNS: [&str; 14] = [
    "heads_origin",
    "heads_hop",
    "coding_origin",
    "coding_hop",
    "base_origin",
    "base_hop",
    "pictures_origin",
    "pictures_hop",
    "unchanged",
    "held",
    "tunnels",
    "cached",
    "hop",
    "time_us",
];

/// Bytes on the hop between two additions that an idle session may cause: a few datagrams that keep it open.
const IDLE_HOP: i64 = 512;

/// What was counted in a period: the counts behind the savings, the bytes on the hop, and the estimated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub(super) [i64; COLUMNS.len()]);

impl Counts {
    /// Creates the counts of a run of the agent: `hop` is the number of bytes that crossed the hop towards the agent.
    pub(super) fn of(totals: &Totals, hop: u64, time_us: i64) -> Self {
        let Totals {
            heads,
            coding,
            base,
            pictures,
            unchanged,
            held,
            tunnels,
            cached,
        } = *totals;
        let [h, c, b, p] =
            [heads, coding, base, pictures].map(|Flow { origin, hop }| (signed(origin), signed(hop)));
        let [unchanged, held, tunnels, cached, hop] = [unchanged, held, tunnels, cached, hop].map(signed);
        Self([
            h.0, h.1, c.0, c.1, b.0, b.1, p.0, p.1, unchanged, held, tunnels, cached, hop, time_us,
        ])
    }

    /// What was counted since `before`. A count may have decreased: a use that the gateway reports later is no longer
    /// counted here.
    pub(super) fn since(&self, before: &Self) -> Self {
        let mut difference = *self;
        for (amount, earlier) in difference.0.iter_mut().zip(before.0) {
            *amount = amount.saturating_sub(earlier);
        }
        difference
    }

    /// The sum of two periods.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = *self;
        for (amount, more) in sum.0.iter_mut().zip(other.0) {
            *amount = amount.saturating_add(more);
        }
        sum
    }

    /// The same counts with another estimate of the time.
    pub(super) const fn with_time(mut self, time_us: i64) -> Self {
        let [.., time] = &mut self.0;
        *time = time_us;
        self
    }

    /// The counts behind the savings.
    pub fn totals(&self) -> Totals {
        let [h, h2, c, c2, b, b2, p, p2, unchanged, held, tunnels, cached, _, _] = self.0.map(unsigned);
        let flow = |origin, hop| Flow { origin, hop };
        Totals {
            heads: flow(h, h2),
            coding: flow(c, c2),
            base: flow(b, b2),
            pictures: flow(p, p2),
            unchanged,
            held,
            tunnels,
            cached,
        }
    }

    /// Bytes that crossed the hop towards the agent.
    pub fn hop(&self) -> u64 {
        let [.., hop, _] = self.0;
        unsigned(hop)
    }

    /// What was saved.
    pub fn saved(&self) -> SavedBytes {
        self.totals().saved(self.hop())
    }

    /// Estimated time that was saved, in s: the time that the saved bytes would have taken at the highest rate that the
    /// session had shown when they were counted. Never negative.
    #[expect(clippy::cast_precision_loss, reason = "an estimate for people")]
    pub fn saved_time_s(&self) -> f64 {
        let [.., time_us] = self.0;
        time_us.max(0) as f64 / 1e6
    }

    /// True if nothing was counted but the few bytes on the hop of an idle session. More bytes belong to responses that
    /// were counted before: a session reports its bytes later than the responses.
    pub(super) fn is_idle(&self) -> bool {
        let [counts @ .., hop, _] = &self.0;
        counts.iter().all(|count| *count == 0) && *hop < IDLE_HOP
    }
}

/// Time in µs that so many bytes take at a rate in bit/s.
pub(super) fn transfer_time_us(bytes: i64, rate_bps: u64) -> i64 {
    let microseconds = i128::from(bytes) * 8_000_000;
    let time = microseconds.checked_div(i128::from(rate_bps)).unwrap_or(0);
    i64::try_from(time).unwrap_or(0)
}

/// No count exceeds the range in practice.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The sum of a period may be negative if a count was taken back at its beginning.
fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_time_is_that_of_the_bytes_at_the_rate() {
        assert_eq!(transfer_time_us(125_000, 1_000_000), 1_000_000);
        assert_eq!(transfer_time_us(-125_000, 1_000_000), -1_000_000);
        assert_eq!(transfer_time_us(5, 0), 0, "no rate is known");
    }

    proptest! {
        #[test]
        fn counts_are_the_totals_that_they_were_made_of(amounts in prop::array::uniform13(0..1_u64 << 40)) {
            let [a, b, c, d, e, f, g, h, unchanged, held, tunnels, cached, hop] = amounts;
            let flow = |origin, hop| Flow { origin, hop };
            let totals = Totals {
                heads: flow(a, b), coding: flow(c, d), base: flow(e, f), pictures: flow(g, h),
                unchanged, held, tunnels, cached,
            };
            let counts = Counts::of(&totals, hop, 7);
            prop_assert_eq!(counts.totals(), totals);
            prop_assert_eq!(counts.hop(), hop);
            prop_assert_eq!(counts.saved(), totals.saved(hop));
            prop_assert_eq!(counts.since(&Counts::default()), counts);
            prop_assert!(counts.since(&counts).is_idle());
        }
    }
}
