//! Counters of the HTTP cache and their text form for Prometheus.
use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use longhaul_cache::Usage;

use super::response::CacheStatus;

/// Cache results of the answered requests.
#[derive(Debug, Default)]
pub struct CacheCounters {
    answers: [AtomicU64; STATUSES.len()],
}

const STATUSES: [(CacheStatus, &str); 5] = [
    (CacheStatus::Hit, "hit"),
    (CacheStatus::Revalidated, "revalidated"),
    (CacheStatus::Miss, "miss"),
    (CacheStatus::Coalesced, "coalesced"),
    (CacheStatus::Stale, "stale"),
];

impl CacheCounters {
    /// Counts a response.
    pub(crate) fn answered(&self, status: CacheStatus) {
        for ((counted, _), count) in STATUSES.iter().zip(&self.answers) {
            if *counted == status {
                count.fetch_add(1, Relaxed);
            }
        }
    }

    /// Renders the text form; `usage` is the cache's own state, if a cache exists.
    pub fn render(&self, usage: Option<&Usage>) -> String {
        let mut text = String::from(
            "# HELP longhaul_cache_answers_total Responses by where they came from.\n# TYPE longhaul_cache_answers_total counter\n",
        );
        for ((_, label), count) in STATUSES.iter().zip(&self.answers) {
            let _infallible = writeln!(
                text,
                "longhaul_cache_answers_total{{result=\"{label}\"}} {}",
                count.load(Relaxed)
            );
        }
        let Some(usage) = usage else { return text };
        for (name, kind, help, value) in [
            (
                "bytes",
                "gauge",
                "Bytes in use of the cache's file.",
                usage.bytes.bytes(),
            ),
            (
                "quota_bytes",
                "gauge",
                "Bytes that may be in use.",
                usage.quota.bytes(),
            ),
            ("bodies", "gauge", "Bodies that are stored.", usage.bodies),
            (
                "responses",
                "gauge",
                "Responses that are stored.",
                usage.responses,
            ),
            (
                "evicted_total",
                "counter",
                "Bodies dropped for others.",
                usage.evicted,
            ),
            (
                "damaged_total",
                "counter",
                "Bodies and rows that did not match their hashes and were dropped.",
                usage.damaged,
            ),
            (
                "resets_total",
                "counter",
                "How often the cache lost everything while it was open.",
                usage.resets,
            ),
        ] {
            let _infallible = writeln!(
                text,
                "# HELP longhaul_cache_{name} {help}\n# TYPE longhaul_cache_{name} {kind}\nlonghaul_cache_{name} {value}"
            );
        }
        text
    }
}
