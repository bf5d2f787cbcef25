//! The counts, and the savings that follow from them. Pure.
use longhaul_session::{Flow, OriginReport};
use serde::{Deserialize, Serialize};

/// Counts in bytes. Counts of sessions whose gateway sends no reports are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Heads of responses.
    pub heads: Flow,
    /// Bodies that were compressed, or sent as they are.
    pub coding: Flow,
    /// Bodies that were encoded against a body that the agent holds.
    pub base: Flow,
    /// Images that the gateway replaced.
    pub pictures: Flow,
    /// Bodies that origins sent and that did not cross the hop, because the agent holds them.
    pub unchanged: u64,
    /// Uses of other held bodies: what they took on the hop when they were transferred.
    pub held: u64,
    /// Bytes of tunnels towards the agent.
    pub tunnels: u64,
    /// Answers of the agent's cache: what the bodies took on the hop when they were transferred.
    pub cached: u64,
}

/// Saved bytes; negative if more crossed the hop than origins sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedBytes {
    /// Bytes that origins sent and that the agent's cache answered, less the bytes that crossed the hop
    /// towards the agent. The sum of `by_cause`.
    pub bytes: i64,
    /// The same by cause.
    pub by_cause: SavedByCause,
}

/// Saved bytes by cause. A cause is negative if it cost more than it saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedByCause {
    /// Compression of bodies.
    pub coding: i64,
    /// Deltas against bodies that the agent holds.
    pub base: i64,
    /// Smaller images.
    pub pictures: i64,
    /// Answers of the agent's cache, and uses of held bodies that the gateway's cache confirmed.
    pub cache: i64,
    /// Bodies that origins sent and that were not sent on, because the agent holds them.
    pub unchanged: i64,
    /// Heads of responses. Contains the rest: the transport's overhead for heads and tunnels.
    pub headers: i64,
}

/// Bytes of the same responses on both sides of the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowBytes {
    /// From origins.
    pub origin: u64,
    /// On the hop, without the overhead of the transport.
    pub hop: u64,
}

/// What the gateway reported, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedFlows {
    /// Heads of responses; on the hop also manifests.
    pub heads: FlowBytes,
    /// Bodies that were compressed, or sent as they are.
    pub coding: FlowBytes,
    /// Bodies that were encoded against a body that the agent holds.
    pub base: FlowBytes,
    /// Images that the gateway replaced.
    pub pictures: FlowBytes,
    /// Bodies that were not sent because the agent holds them.
    pub unchanged: FlowBytes,
    /// Tunnels towards the agent.
    pub tunnels: FlowBytes,
}

impl From<Flow> for FlowBytes {
    fn from(Flow { origin, hop }: Flow) -> Self {
        Self { origin, hop }
    }
}

impl Totals {
    /// What the gateway reported.
    pub fn flows(&self) -> ReportedFlows {
        ReportedFlows {
            heads: self.heads.into(),
            coding: self.coding.into(),
            base: self.base.into(),
            pictures: self.pictures.into(),
            unchanged: FlowBytes {
                origin: self.unchanged,
                hop: 0,
            },
            tunnels: FlowBytes {
                origin: self.tunnels,
                hop: self.tunnels,
            },
        }
    }

    /// Adds a report of the gateway.
    pub fn add(&mut self, report: &OriginReport) {
        for (total, flow) in [
            (&mut self.heads, report.heads),
            (&mut self.coding, report.coding),
            (&mut self.base, report.base),
            (&mut self.pictures, report.pictures),
        ] {
            total.origin = total.origin.saturating_add(flow.origin);
            total.hop = total.hop.saturating_add(flow.hop);
        }
        self.unchanged = self.unchanged.saturating_add(report.unchanged);
        self.tunnels = self.tunnels.saturating_add(report.tunnels);
    }

    /// Computes the savings. `hop` is the number of bytes that crossed the hop towards the agent in the
    /// counted sessions, including headers of IP and UDP.
    ///
    /// The difference between `hop` and the bytes of the gateway's streams is the overhead of the transport:
    /// headers, acknowledgements, retransmissions and control messages. Each cause bears the part of the
    /// overhead that corresponds to its part of the streams' bytes; `headers` also bears that of tunnels.
    pub fn saved(&self, hop: u64) -> SavedBytes {
        let bodies = [self.coding, self.base, self.pictures];
        let sum = |of: fn(&Flow) -> u64| bodies.iter().map(|flow| i128::from(of(flow))).sum::<i128>();
        let streams = sum(|flow| flow.hop) + i128::from(self.heads.hop) + i128::from(self.tunnels);
        let overhead = i128::from(hop) - streams;
        let [coding, base, pictures] = bodies.map(|flow| {
            let (origin, carried) = (i128::from(flow.origin), i128::from(flow.hop));
            let share = overhead.saturating_mul(carried).checked_div(streams).unwrap_or(0);
            clamp(origin - carried - share)
        });
        let unchanged = clamp(i128::from(self.unchanged));
        // No website sent the held bodies either: the gateway's cache confirmed them.
        let cache = clamp(i128::from(self.cached) + i128::from(self.held));
        let bytes = sum(|flow| flow.origin)
            + i128::from(self.heads.origin)
            + i128::from(self.tunnels)
            + i128::from(self.unchanged)
            + i128::from(self.held)
            + i128::from(self.cached)
            - i128::from(hop);
        let others = [coding, base, pictures, cache, unchanged];
        SavedBytes {
            bytes: clamp(bytes),
            by_cause: SavedByCause {
                coding,
                base,
                pictures,
                cache,
                unchanged,
                headers: clamp(bytes - others.map(i128::from).iter().sum::<i128>()),
            },
        }
    }
}

impl SavedByCause {
    /// The sum of all causes.
    pub fn sum(&self) -> i64 {
        let Self {
            coding,
            base,
            pictures,
            cache,
            unchanged,
            headers,
        } = *self;
        let causes = [coding, base, pictures, cache, unchanged, headers];
        clamp(causes.map(i128::from).iter().sum())
    }
}

/// No count of bytes exceeds the range in practice; a hostile gateway must not cause an overflow.
fn clamp(bytes: i128) -> i64 {
    i64::try_from(bytes).unwrap_or(if bytes < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn flow(origin: u64, hop: u64) -> Flow {
        Flow { origin, hop }
    }

    #[test]
    fn each_cause_bears_its_share_of_the_overhead() {
        let totals = Totals {
            heads: flow(9_000, 1_000),
            coding: flow(60_000, 20_000),
            pictures: flow(300_000, 40_000),
            ..Totals::default()
        };
        // 10 % overhead.
        let saved = totals.saved(67_100);
        assert_eq!(saved.bytes, 369_000 - 67_100);
        assert_eq!(saved.by_cause.coding, 38_000);
        assert_eq!(saved.by_cause.pictures, 256_000);
        assert_eq!(saved.by_cause.headers, 7_900);
        assert_eq!(
            (
                saved.by_cause.base,
                saved.by_cause.cache,
                saved.by_cause.unchanged
            ),
            (0, 0, 0)
        );
    }

    #[test]
    fn the_flows_are_the_sums_of_the_reports() {
        let report = OriginReport {
            heads: flow(900, 100),
            coding: flow(6_000, 2_000),
            unchanged: 50,
            tunnels: 7,
            ..OriginReport::default()
        };
        let mut totals = Totals::default();
        totals.add(&report);
        totals.add(&report);
        let bytes = |origin, hop| FlowBytes { origin, hop };
        let expected = ReportedFlows {
            heads: bytes(1_800, 200),
            coding: bytes(12_000, 4_000),
            unchanged: bytes(100, 0),
            tunnels: bytes(14, 14),
            ..ReportedFlows::default()
        };
        assert_eq!(totals.flows(), expected);
    }

    #[test]
    fn a_tunnel_saves_nothing_and_its_overhead_is_shown() {
        let totals = Totals {
            tunnels: 100_000,
            ..Totals::default()
        };
        let saved = totals.saved(104_000);
        assert_eq!(saved.bytes, -4_000);
        assert_eq!(saved.by_cause.headers, -4_000);
        assert_eq!(saved.by_cause.sum(), -4_000);
    }

    #[test]
    fn extreme_reports_do_not_overflow() {
        let most = flow(u64::MAX, u64::MAX);
        let report = OriginReport {
            heads: most,
            coding: most,
            base: most,
            pictures: most,
            unchanged: u64::MAX,
            tunnels: u64::MAX,
            unchanged_entries: Vec::new(),
        };
        let mut totals = Totals::default();
        totals.add(&report);
        totals.add(&report);
        for hop in [0, 1, u64::MAX] {
            let _saved = totals.saved(hop);
        }
        assert_eq!(Totals::default().saved(0), SavedBytes::default());
    }

    prop_compose! {
        fn flows()(origin in 0..1_u64 << 40, hop in 0..1_u64 << 40) -> Flow {
            flow(origin, hop)
        }
    }

    proptest! {
        #[test]
        fn the_causes_add_up_to_the_bytes(
            heads in flows(), coding in flows(), base in flows(), pictures in flows(),
            [unchanged, held, tunnels, cached, hop] in [0..1_u64 << 40, 0..1_u64 << 40, 0..1_u64 << 40, 0..1_u64 << 40, 0..1_u64 << 40],
        ) {
            let totals = Totals { heads, coding, base, pictures, unchanged, held, tunnels, cached };
            let saved = totals.saved(hop);
            prop_assert_eq!(saved.by_cause.sum(), saved.bytes);
            let origins = heads.origin + coding.origin + base.origin + pictures.origin + unchanged + tunnels;
            let expected = i128::from(origins + held + cached) - i128::from(hop);
            prop_assert_eq!(i128::from(saved.bytes), expected);
        }
    }
}
