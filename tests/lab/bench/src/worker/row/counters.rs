//! Counters before and after a load, and their growth.
use std::time::{Duration, Instant};

use longhaul_hosting::Exchange;
use longhaul_netem::{DelayHistogram, LinkStats};
use longhaul_report::Row;
use longhaul_types::Timestamp;
use longhaul_world::{LinkSample, Snapshot};
use serde_json::Value;

use super::{
    super::network::{Between, Network},
    late::Learning,
};

/// Counters at one time.
pub(super) struct Counters {
    pub(super) hop: Snapshot,
    pub(super) internet: Snapshot,
    pub(super) cpu: (Duration, Duration),
    pub(super) questions: u64,
    pub(super) connections: u64,
}

impl Counters {
    fn take(network: &Network) -> Self {
        Self {
            hop: network.world.hop().snapshot(),
            internet: network.world.internet().snapshot(),
            cpu: network.cpu(),
            questions: network.names.questions().total(),
            connections: network.hosting.statistics().connections,
        }
    }
}

/// Counters at the beginning of a load.
pub(in crate::worker) struct Start {
    pub(super) counters: Counters,
    pub(super) push: Option<Value>,
    /// What agent and gateway have recorded of earlier visits.
    pub(super) known: Learning,
}

impl Start {
    pub(in crate::worker) async fn take(network: &Network) -> Self {
        let (push, known) = (network.agent_counters().await, Learning::take(network).await);
        network.forget_memory();
        let _ = network.world.hop().take_queueing_delays();
        let _ = network.world.hop().take_lateness();
        let _ = network.world.hop().take_samples();
        let _ = network.hosting.take_exchanges();
        Self {
            counters: Counters::take(network),
            push,
            known,
        }
    }
}

/// Counters when the hop was idle after a load, before the browser navigated to another page.
pub(in crate::worker) struct End {
    pub(super) counters: Counters,
    pub(super) queueing: DelayHistogram,
    pub(super) lateness: DelayHistogram,
    pub(super) samples: Vec<LinkSample>,
    pub(super) memory: (Option<u64>, Option<u64>),
    /// Exchanges of the origins.
    pub(super) exchanges: Vec<Exchange>,
    /// The same time by the links' clock and the system's.
    pub(super) now: (Timestamp, Instant),
    /// The agent's counters after the page was left.
    pub(super) push: Option<Value>,
    /// What agent and gateway had recorded when the page was left.
    pub(super) left: Learning,
}

impl End {
    pub(in crate::worker) fn take(network: &Network) -> Self {
        let hop = network.world.hop();
        Self {
            counters: Counters::take(network),
            queueing: hop.take_queueing_delays().0,
            lateness: hop.take_lateness(),
            samples: hop.take_samples(),
            memory: network.memory(),
            exchanges: network.hosting.take_exchanges(),
            now: (hop.now(), Instant::now()),
            push: None,
            left: Learning::default(),
        }
    }

    /// Adds what is known only after the browser has left the page.
    pub(in crate::worker) async fn page_left(&mut self, network: &Network) {
        self.push = network.agent_counters().await;
        self.left = Learning::take(network).await;
    }
}

pub(super) fn counters(row: &mut Row, network: &Network, start: &Counters, end: &End) {
    let now = &end.counters;
    let grown = |now: &LinkStats, start: &LinkStats| {
        let (now, start) = (now.sent.bytes.bytes(), start.sent.bytes.bytes());
        now.saturating_sub(start)
    };
    row.bytes_down = grown(&now.hop.down, &start.hop.down);
    row.bytes_up = grown(&now.hop.up, &start.hop.up);
    row.origin_bytes = grown(&now.internet.down, &start.internet.down);
    if !matches!(
        network.between,
        Between::Proxy(_) | Between::Ziproxy(_) | Between::Http2Pair(_) | Between::Pair(_)
    ) {
        // Chromium does not report connections that carried no response.
        let accepted = now.connections.saturating_sub(start.connections);
        row.connections = row.connections.max(accepted);
        row.dns_lookups = now.questions.saturating_sub(start.questions);
    }
    row.queue_p95_s = end.queueing.percentile(95).as_secs_f64();
    row.emulator_lateness_s = end.lateness.percentile(99).as_secs_f64();
    row.cpu_agent_s = now.cpu.0.saturating_sub(start.cpu.0).as_secs_f64();
    row.cpu_gateway_s = now.cpu.1.saturating_sub(start.cpu.1).as_secs_f64();
    (row.rss_agent_bytes, row.rss_gateway_bytes) = end.memory;
}

/// Stores the growth of the agent's counters from before the load until the page was left. Counters that the
/// agent does not have are omitted.
pub(super) fn push_counters(row: &mut Row, start: Option<&Value>, end: Option<&Value>) {
    let (Some(start), Some(end)) = (start, end) else {
        return;
    };
    let grown = |key: &str| {
        Some(
            end[key]
                .as_u64()?
                .saturating_sub(start[key].as_u64().unwrap_or(0)),
        )
    };
    row.pushed_bytes = grown("pushed_bytes");
    row.pushed_objects = grown("pushed_objects");
    row.push_taken_bytes = grown("push_taken_bytes");
    row.push_taken_objects = grown("push_taken_objects");
    row.push_wasted_bytes = grown("push_wasted_bytes").unwrap_or(0);
    row.push_useful_bytes = share(row.push_taken_bytes, row.pushed_bytes);
    row.push_useful_objects = share(row.push_taken_objects, row.pushed_objects);
    row.cache_hits = grown("cache_hits");
    let exits = end["exits"].as_object().into_iter().flatten();
    row.exits = exits
        .filter_map(|(reason, count)| {
            let before = start["exits"][reason].as_u64().unwrap_or(0);
            let count = count.as_u64()?.saturating_sub(before);
            (count > 0).then(|| (reason.clone(), count))
        })
        .collect();
}

fn share(part: Option<u64>, whole: Option<u64>) -> Option<f64> {
    let (part, whole) = (part?, whole.filter(|whole| *whole > 0)?);
    #[expect(clippy::cast_precision_loss, reason = "bytes of one load")]
    Some(part as f64 / whole as f64)
}
