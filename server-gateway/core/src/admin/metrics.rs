//! Metrics of the gateway.
use longhaul_driver::Refusal;
use longhaul_origin::StatsSnapshot;
use longhaul_session::FailureReason;
use prometheus_client::{
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::Gauge,
    },
    registry::Registry,
};

use super::{
    failure_names::{FAILURE_REASONS, name_of},
    observations::Observations,
    transport_totals::TransportTotals,
};

/// Outcome of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The agent received the whole response.
    Complete,
    /// The origin truncated the response after its head.
    Truncated,
    /// No response; the agent received the failure's reason.
    Failed,
    /// The agent cancelled the fetch, or its session ended.
    Cancelled,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Complete, Self::Truncated, Self::Failed, Self::Cancelled];

    const fn label(self) -> OutcomeLabel {
        let outcome = match self {
            Self::Complete => "complete",
            Self::Truncated => "truncated",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        };
        [("outcome", outcome)]
    }
}

/// Label and value of a series of `longhaul_fetches_total`.
type OutcomeLabel = [(&'static str, &'static str); 1];

/// Label and value of a series of `longhaul_sessions_refused_total`.
type RefusalLabel = [(&'static str, &'static str); 1];

const REFUSALS: [Refusal; 5] = [
    Refusal::UnknownDevice,
    Refusal::Revoked,
    Refusal::Expired,
    Refusal::TooManySessions,
    Refusal::Draining,
];

const fn refusal_label(refusal: Refusal) -> RefusalLabel {
    let reason = match refusal {
        Refusal::UnknownDevice => "unknown-device",
        Refusal::Revoked => "revoked",
        Refusal::Expired => "invite-expired",
        Refusal::TooManySessions => "too-many-sessions",
        Refusal::Draining => "draining",
    };
    [("reason", reason)]
}

/// Bytes on the hop per direction, including IP and UDP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkBytes {
    /// Towards agents.
    pub sent: u64,
    /// From agents.
    pub received: u64,
}

/// Counters and gauges of the gateway.
#[derive(Debug)]
pub struct Metrics {
    sessions: Counter,
    sessions_open: Gauge,
    fetches_open: Gauge,
    tunnels: Counter,
    tunnels_open: Gauge,
    tunnel_bytes_received: Counter,
    tunnel_bytes_sent: Counter,
    associations: Counter,
    associations_open: Gauge,
    association_bytes_received: Counter,
    association_bytes_sent: Counter,
    outcomes: Family<OutcomeLabel, Counter>,
    refusals: Family<RefusalLabel, Counter>,
    /// Durations, ends of sessions, limits and flows.
    pub observed: Observations,
    /// Failures by the name of their reason.
    failures: Family<[(&'static str, &'static str); 1], Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let outcomes = Family::default();
        for outcome in Outcome::ALL {
            // A series exists before its first event, so that rates can be computed from it.
            drop(outcomes.get_or_create(&outcome.label()));
        }
        let refusals = Family::default();
        for refusal in REFUSALS {
            drop(refusals.get_or_create(&refusal_label(refusal)));
        }
        let failures = Family::default();
        for reason in FAILURE_REASONS {
            drop(failures.get_or_create(&[("reason", name_of(reason))]));
        }
        Self {
            sessions: Counter::default(),
            sessions_open: Gauge::default(),
            fetches_open: Gauge::default(),
            tunnels: Counter::default(),
            tunnels_open: Gauge::default(),
            tunnel_bytes_received: Counter::default(),
            tunnel_bytes_sent: Counter::default(),
            associations: Counter::default(),
            associations_open: Gauge::default(),
            association_bytes_received: Counter::default(),
            association_bytes_sent: Counter::default(),
            outcomes,
            refusals,
            failures,
            observed: Observations::default(),
        }
    }
}

/// Guard that counts an activity in a gauge until it is dropped.
#[derive(Debug)]
pub struct UnderWay<'a>(&'a Gauge);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Counts a session until the result is dropped.
    pub fn session(&self) -> UnderWay<'_> {
        self.sessions.inc();
        under_way(&self.sessions_open)
    }

    /// Counts a refused device.
    pub fn refused(&self, refusal: Refusal) {
        self.refusals.get_or_create(&refusal_label(refusal)).inc();
    }

    /// Counts a fetch until the result is dropped.
    pub fn fetch(&self) -> UnderWay<'_> {
        under_way(&self.fetches_open)
    }

    /// Counts a tunnel until the result is dropped.
    pub fn tunnel(&self) -> UnderWay<'_> {
        self.tunnels.inc();
        under_way(&self.tunnels_open)
    }

    /// Counts bytes from the host of a tunnel.
    pub fn tunnel_received(&self, bytes: usize) {
        self.tunnel_bytes_received.inc_by(bytes as u64);
    }

    /// Counts bytes to the host of a tunnel.
    pub fn tunnel_sent(&self, bytes: usize) {
        self.tunnel_bytes_sent.inc_by(bytes as u64);
    }

    /// Counts a UDP association until the result is dropped.
    pub fn association(&self) -> UnderWay<'_> {
        self.associations.inc();
        under_way(&self.associations_open)
    }

    /// Counts bytes of a UDP association from remote hosts.
    pub fn association_received(&self, bytes: usize) {
        self.association_bytes_received.inc_by(bytes as u64);
    }

    /// Counts bytes of a UDP association to remote hosts.
    pub fn association_sent(&self, bytes: usize) {
        self.association_bytes_sent.inc_by(bytes as u64);
    }

    /// Counts how a fetch was answered.
    pub fn outcome(&self, outcome: Outcome) {
        self.outcomes.get_or_create(&outcome.label()).inc();
    }

    /// Counts a failure.
    pub fn failure(&self, reason: FailureReason) {
        self.failures.get_or_create(&[("reason", name_of(reason))]).inc();
    }

    /// Counts work that waited or was refused because of a limit.
    pub fn limit_reached(&self, limit: &'static str) {
        self.observed.limit_reached(limit);
    }

    /// Devices that were refused a session since the start, by reason.
    pub fn refusals(&self) -> Vec<(&'static str, u64)> {
        let counted = REFUSALS.map(refusal_label);
        let counts = counted
            .iter()
            .map(|label| (label[0].1, self.refusals.get_or_create(label).get()));
        counts.collect()
    }

    /// Number of fetches with this outcome.
    pub fn fetches(&self, outcome: Outcome) -> u64 {
        self.outcomes.get_or_create(&outcome.label()).get()
    }

    /// Adds the metrics to a registry.
    pub fn register(&self, registry: &mut Registry, origin: &StatsSnapshot, transport: &TransportTotals) {
        for (name, help, value) in [
            (
                "link_sent_bytes",
                "Bytes sent to agents, including IP and UDP headers",
                transport.bytes.sent,
            ),
            (
                "link_received_bytes",
                "Bytes received from agents, including IP and UDP headers",
                transport.bytes.received,
            ),
            (
                "origin_received_bytes",
                "Bytes that fetches received from origins",
                origin.bytes_received.bytes(),
            ),
            (
                "origin_sent_bytes",
                "Bytes that fetches sent to origins",
                origin.bytes_sent.bytes(),
            ),
            ("packets_sent", "Packets sent to agents", transport.packets_sent),
            (
                "packets_received",
                "Packets received from agents",
                transport.packets_received,
            ),
            (
                "packets_lost",
                "Packets to agents that were lost",
                transport.packets_lost,
            ),
            (
                "packets_missing",
                "Packets of agents that were lost",
                transport.packets_missing,
            ),
            (
                "retransmitted_bytes",
                "Bytes of streams that were sent again",
                transport.retransmitted_bytes,
            ),
            (
                "session_stalls",
                "Times at which a session heard nothing of its agent for a while",
                transport.stalls,
            ),
            ("origin_connections", "Connections to origins", origin.connections),
            (
                "origin_retries",
                "Requests that were sent once more",
                origin.retries,
            ),
            ("dns_lookups", "DNS lookups", origin.dns_lookups),
        ] {
            registry.register(name, help, ConstCounter::new(value));
        }
        for (name, help, gauge) in [
            ("sessions_open", "Open sessions", &self.sessions_open),
            ("fetches_open", "Fetches in progress", &self.fetches_open),
            ("tunnels_open", "Open tunnels", &self.tunnels_open),
            (
                "associations_open",
                "Open UDP associations",
                &self.associations_open,
            ),
        ] {
            registry.register(name, help, gauge.clone());
        }
        for (name, help, counter) in [
            ("sessions", "Accepted sessions", &self.sessions),
            ("tunnels", "Requested tunnels", &self.tunnels),
            (
                "tunnel_received_bytes",
                "Bytes received from the hosts of tunnels",
                &self.tunnel_bytes_received,
            ),
            (
                "tunnel_sent_bytes",
                "Bytes sent to the hosts of tunnels",
                &self.tunnel_bytes_sent,
            ),
            ("associations", "Requested UDP associations", &self.associations),
            (
                "association_received_bytes",
                "Bytes of datagrams received from the hosts of UDP associations",
                &self.association_bytes_received,
            ),
            (
                "association_sent_bytes",
                "Bytes of datagrams sent to the hosts of UDP associations",
                &self.association_bytes_sent,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        registry.register("fetches", "Fetches by outcome", self.outcomes.clone());
        registry.register(
            "sessions_refused",
            "Devices that were refused a session, by reason",
            self.refusals.clone(),
        );
        registry.register(
            "failures",
            "Fetches and tunnels without a response, by reason",
            self.failures.clone(),
        );
        let refused = [("reason", name_of(FailureReason::AddressRefused))];
        registry.register(
            "guard_refusals",
            "Fetches and tunnels to addresses that the address guard refuses",
            ConstCounter::new(self.failures.get_or_create(&refused).get()),
        );
        self.observed.register(registry);
    }
}

pub(super) fn under_way(gauge: &Gauge) -> UnderWay<'_> {
    gauge.inc();
    UnderWay(gauge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_fall_and_counters_stay() {
        let metrics = Metrics::default();
        drop(metrics.session());
        let open = metrics.session();
        metrics.outcome(Outcome::Truncated);
        metrics.failure(FailureReason::TlsExpired);
        metrics.refused(Refusal::Expired);
        let mut registry = Registry::with_prefix("longhaul");
        let transport = TransportTotals {
            bytes: LinkBytes { sent: 7, received: 9 },
            ..TransportTotals::default()
        };
        metrics.register(&mut registry, &StatsSnapshot::default(), &transport);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "longhaul_sessions_total 2",
            "longhaul_sessions_open 1",
            "longhaul_link_sent_bytes_total 7",
            "longhaul_link_received_bytes_total 9",
            "longhaul_fetches_total{outcome=\"truncated\"} 1",
            "longhaul_fetches_total{outcome=\"failed\"} 0",
            "longhaul_sessions_refused_total{reason=\"invite-expired\"} 1",
            "longhaul_sessions_refused_total{reason=\"revoked\"} 0",
            "longhaul_failures_total{reason=\"tls_expired\"} 1",
            "longhaul_failures_total{reason=\"quota_reached\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        drop(open);
    }
}
