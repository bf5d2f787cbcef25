//! Metrics of the HTTP cache.
use longhaul_cache::Usage;
use prometheus_client::{
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::ConstGauge,
    },
    registry::Registry,
};

use super::response::CacheStatus;

/// Label and value of a metric's series.
type Label = [(&'static str, &'static str); 1];

/// Cache results of the answered requests.
#[derive(Debug)]
pub struct CacheCounters {
    answers: Family<Label, Counter>,
}

impl Default for CacheCounters {
    fn default() -> Self {
        let answers = Family::default();
        for status in CacheStatus::ALL {
            // A series exists before its first event, so that rates can be computed from it.
            drop(answers.get_or_create(&label(status)));
        }
        Self { answers }
    }
}

const fn label(status: CacheStatus) -> Label {
    let result = match status {
        CacheStatus::Hit => "hit",
        CacheStatus::Revalidated => "revalidated",
        CacheStatus::Miss => "miss",
        CacheStatus::Coalesced => "coalesced",
        CacheStatus::Stale => "stale",
    };
    [("result", result)]
}

impl CacheCounters {
    /// Counts a response.
    pub(crate) fn answered(&self, status: CacheStatus) {
        self.answers.get_or_create(&label(status)).inc();
    }

    /// Adds the metrics to a registry; `usage` is the cache's own state, if a cache exists.
    pub fn register(&self, registry: &mut Registry, usage: Option<&Usage>) {
        let registry = registry.sub_registry_with_prefix("cache");
        registry.register("answers", "Responses by cache result", self.answers.clone());
        let Some(usage) = usage else { return };
        let gauges = [
            ("bytes", "Used bytes of the cache file", usage.bytes.bytes()),
            ("quota_bytes", "Maximum of the used bytes", usage.quota.bytes()),
            ("bodies", "Stored bodies", usage.bodies),
            ("responses", "Stored responses", usage.responses),
        ];
        for (name, help, value) in gauges {
            registry.register(name, help, ConstGauge::new(value));
        }
        let counters = [
            ("evicted", "Bodies that were evicted", usage.evicted),
            (
                "damaged",
                "Bodies and rows that did not match their hashes and were removed",
                usage.damaged,
            ),
            (
                "resets",
                "Losses of the whole content while the cache was open",
                usage.resets,
            ),
        ];
        for (name, help, value) in counters {
            registry.register(name, help, ConstCounter::new(value));
        }
    }
}
