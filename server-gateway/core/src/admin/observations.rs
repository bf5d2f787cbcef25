//! What the gateway observes of durations, ends of sessions, limits, and of bytes at origins and on the hop.
use std::time::Duration;

use longhaul_driver::CloseReason;
use longhaul_session::{Flow, OriginReport};
use prometheus_client::{
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

/// Label and value of a series.
type Label = [(&'static str, &'static str); 1];

/// Bounds in seconds: from a cached answer on a fast link to a download on the slowest one.
const FETCH: [f64; 11] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0];
/// Bounds in seconds: from the gateway's cache to the longest answer of an origin.
const FIRST_BYTE: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// Bounds in seconds: from a cable to two satellite hops and a queue.
const RTT: [f64; 10] = [0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 10.0];

/// Limits that are counted.
const LIMITS: [&str; 3] = ["sessions", "streams", "quota"];
/// Ends of sessions.
const CLOSES: [&str; 8] = [
    "agent-closed",
    "going-away",
    "internal",
    "protocol-violation",
    "replaced",
    "reset",
    "revoked",
    "timed-out",
];
/// Causes of the difference between bytes at origins and on the hop.
const CAUSES: [&str; 6] = ["heads", "coding", "base", "pictures", "unchanged", "tunnels"];

/// Histograms and families.
#[derive(Debug)]
pub struct Observations {
    fetch: Histogram,
    first_byte: Histogram,
    rtt: Histogram,
    closes: Family<Label, Counter>,
    limits: Family<Label, Counter>,
    origin: Family<Label, Counter>,
    hop: Family<Label, Counter>,
}

impl Default for Observations {
    fn default() -> Self {
        // A series exists before its first event, so that rates can be computed from it.
        let family = |label: &'static str, values: &[&'static str]| {
            let family = Family::<Label, Counter>::default();
            for value in values {
                drop(family.get_or_create(&[(label, *value)]));
            }
            family
        };
        Self {
            fetch: Histogram::new(FETCH),
            first_byte: Histogram::new(FIRST_BYTE),
            rtt: Histogram::new(RTT),
            closes: family("reason", &CLOSES),
            limits: family("limit", &LIMITS),
            origin: family("cause", &CAUSES),
            hop: family("cause", &CAUSES),
        }
    }
}

impl Observations {
    /// A fetch has been served completely in this time.
    pub fn fetched(&self, time: Duration) {
        self.fetch.observe(time.as_secs_f64());
    }

    /// The head of a response was there after this time.
    pub fn first_byte(&self, time: Duration) {
        self.first_byte.observe(time.as_secs_f64());
    }

    /// An open session has this round-trip time.
    pub fn round_trip(&self, time: Duration) {
        self.rtt.observe(time.as_secs_f64());
    }

    /// A session has ended.
    pub fn closed(&self, reason: &CloseReason) {
        self.closes.get_or_create(&[("reason", name_of(reason))]).inc();
    }

    /// Work waited or was refused because of a limit.
    pub(super) fn limit_reached(&self, limit: &'static str) {
        self.limits.get_or_create(&[("limit", limit)]).inc();
    }

    /// Counts what a report tells an agent.
    pub fn reported(&self, report: &OriginReport) {
        let unchanged = Flow {
            origin: report.unchanged,
            hop: 0,
        };
        let tunnels = Flow {
            origin: report.tunnels,
            hop: report.tunnels,
        };
        for (cause, flow) in [
            ("heads", report.heads),
            ("coding", report.coding),
            ("base", report.base),
            ("pictures", report.pictures),
            ("unchanged", unchanged),
            ("tunnels", tunnels),
        ] {
            self.origin.get_or_create(&[("cause", cause)]).inc_by(flow.origin);
            self.hop.get_or_create(&[("cause", cause)]).inc_by(flow.hop);
        }
    }

    /// Adds the metrics to a registry.
    pub(super) fn register(&self, registry: &mut Registry) {
        for (name, help, histogram) in [
            (
                "fetch_seconds",
                "Time of completely served fetches, in seconds",
                &self.fetch,
            ),
            (
                "first_byte_seconds",
                "Time from a request to the head of its response at the gateway, in seconds",
                &self.first_byte,
            ),
            (
                "session_rtt_seconds",
                "Round-trip times of open sessions, one observation for each in ten seconds",
                &self.rtt,
            ),
        ] {
            registry.register(name, help, histogram.clone());
        }
        for (name, help, family) in [
            ("sessions_closed", "Sessions that ended, by reason", &self.closes),
            (
                "limits_reached",
                "Sessions and requests that were refused because of a limit",
                &self.limits,
            ),
            (
                "delivered_origin_bytes",
                "Bytes at origins of what was delivered to agents, by what was done with them",
                &self.origin,
            ),
            (
                "delivered_hop_bytes",
                "Bytes on the hop of what was delivered to agents, by what was done with them",
                &self.hop,
            ),
        ] {
            registry.register(name, help, family.clone());
        }
    }
}

const fn name_of(reason: &CloseReason) -> &'static str {
    match reason {
        CloseReason::PeerClosed { .. } => "agent-closed",
        CloseReason::Local { error: 0 | 1 } => "going-away",
        CloseReason::Local { error: 4 } => "revoked",
        CloseReason::PeerViolation { .. } | CloseReason::Local { error: 2 | 3 } => "protocol-violation",
        CloseReason::Local { error: 6 } | CloseReason::Replaced => "replaced",
        CloseReason::Reset => "reset",
        CloseReason::TimedOut => "timed-out",
        CloseReason::Refused(_) | CloseReason::VersionMismatch(_) | CloseReason::Local { .. } => "internal",
    }
}
