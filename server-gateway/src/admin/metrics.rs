//! Counters of the gateway and their text form for Prometheus.
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use longhaul_origin::StatsSnapshot;
use longhaul_session::FailureReason;

/// Outcome of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
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

const OUTCOMES: [(Outcome, &str); 4] = [
    (Outcome::Complete, "complete"),
    (Outcome::Truncated, "truncated"),
    (Outcome::Failed, "failed"),
    (Outcome::Cancelled, "cancelled"),
];

/// Bytes on the hop per direction, including IP and UDP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkBytes {
    /// Towards agents.
    pub sent: u64,
    /// From agents.
    pub received: u64,
}

/// Counters of the gateway. Names without `open` are counters, which only grow; the others are gauges.
#[derive(Debug, Default)]
pub struct Metrics {
    sessions: AtomicU64,
    sessions_open: AtomicU64,
    fetches_open: AtomicU64,
    tunnels: AtomicU64,
    tunnels_open: AtomicU64,
    tunnel_bytes_received: AtomicU64,
    tunnel_bytes_sent: AtomicU64,
    outcomes: [AtomicU64; OUTCOMES.len()],
    failures: std::sync::Mutex<BTreeMap<String, u64>>,
}

/// Guard that counts an activity in a gauge until it is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay<'a>(&'a AtomicU64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Metrics {
    pub(crate) fn session(&self) -> UnderWay<'_> {
        self.sessions.fetch_add(1, Relaxed);
        under_way(&self.sessions_open)
    }

    pub(crate) fn fetch(&self) -> UnderWay<'_> {
        under_way(&self.fetches_open)
    }

    pub(crate) fn tunnel(&self) -> UnderWay<'_> {
        self.tunnels.fetch_add(1, Relaxed);
        under_way(&self.tunnels_open)
    }

    pub(crate) fn tunnel_received(&self, bytes: usize) {
        self.tunnel_bytes_received.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn tunnel_sent(&self, bytes: usize) {
        self.tunnel_bytes_sent.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn outcome(&self, outcome: Outcome) {
        self.outcomes[outcome as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn failure(&self, reason: FailureReason) {
        // The keys are the variants of a small enum, which bounds the map.
        let mut failures = self
            .failures
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *failures.entry(format!("{reason:?}")).or_insert(0) += 1;
    }

    /// Number of fetches with this outcome.
    pub fn fetches(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize].load(Relaxed)
    }

    /// Renders the text form (Prometheus exposition format 0.0.4).
    pub fn render(&self, origin: &StatsSnapshot, link: LinkBytes) -> String {
        let mut text = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, value: u64| {
            let _infallible = writeln!(
                text,
                "# HELP longhaul_{name} {help}\n# TYPE longhaul_{name} {kind}\nlonghaul_{name} {value}"
            );
        };
        metric(
            "link_sent_bytes_total",
            "counter",
            "Bytes sent to agents, IP and UDP headers included.",
            link.sent,
        );
        metric(
            "link_received_bytes_total",
            "counter",
            "Bytes received from agents, IP and UDP headers included.",
            link.received,
        );
        metric(
            "origin_received_bytes_total",
            "counter",
            "Bytes received from origins by fetches.",
            origin.bytes_received.bytes(),
        );
        metric(
            "origin_sent_bytes_total",
            "counter",
            "Bytes sent to origins by fetches.",
            origin.bytes_sent.bytes(),
        );
        metric(
            "origin_connections_total",
            "counter",
            "Connections to origins.",
            origin.connections,
        );
        metric(
            "origin_retries_total",
            "counter",
            "Requests repeated on a new connection.",
            origin.retries,
        );
        metric(
            "dns_lookups_total",
            "counter",
            "Names looked up.",
            origin.dns_lookups,
        );
        for (name, kind, help, value) in [
            ("sessions_total", "counter", "Sessions accepted.", &self.sessions),
            (
                "sessions_open",
                "gauge",
                "Sessions at present.",
                &self.sessions_open,
            ),
            ("fetches_open", "gauge", "Fetches under way.", &self.fetches_open),
            ("tunnels_total", "counter", "Tunnels asked for.", &self.tunnels),
            ("tunnels_open", "gauge", "Tunnels at present.", &self.tunnels_open),
            (
                "tunnel_received_bytes_total",
                "counter",
                "Bytes from hosts of tunnels.",
                &self.tunnel_bytes_received,
            ),
            (
                "tunnel_sent_bytes_total",
                "counter",
                "Bytes to hosts of tunnels.",
                &self.tunnel_bytes_sent,
            ),
        ] {
            metric(name, kind, help, value.load(Relaxed));
        }
        text.push_str(
            "# HELP longhaul_fetches_total Fetches by outcome.\n# TYPE longhaul_fetches_total counter\n",
        );
        for (outcome, label) in OUTCOMES {
            let _infallible = writeln!(
                text,
                "longhaul_fetches_total{{outcome=\"{label}\"}} {}",
                self.fetches(outcome)
            );
        }
        text.push_str("# HELP longhaul_failures_total Fetches and tunnels without response, by reason.\n");
        text.push_str("# TYPE longhaul_failures_total counter\n");
        let failures = self
            .failures
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        for (reason, count) in &*failures {
            let _infallible = writeln!(text, "longhaul_failures_total{{reason=\"{reason}\"}} {count}");
        }
        text
    }
}

fn under_way(gauge: &AtomicU64) -> UnderWay<'_> {
    gauge.fetch_add(1, Relaxed);
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
        let text = metrics.render(&StatsSnapshot::default(), LinkBytes { sent: 7, received: 9 });
        for line in [
            "longhaul_sessions_total 2",
            "longhaul_sessions_open 1",
            "longhaul_link_sent_bytes_total 7",
            "longhaul_link_received_bytes_total 9",
            "longhaul_fetches_total{outcome=\"truncated\"} 1",
            "longhaul_failures_total{reason=\"TlsExpired\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        drop(open);
    }
}
