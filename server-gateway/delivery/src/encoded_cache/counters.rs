//! Counters of the encoded cache.
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use longhaul_codec::Coder;
use longhaul_webcache::CpuPool;

/// Counters of stored coded results.
#[derive(Debug, Default)]
pub(super) struct Counters {
    reused: AtomicU64,
    pub(super) kept: AtomicU64,
    pub(super) recoded: AtomicU64,
    given_up: AtomicU64,
    /// Number of bodies by coder and level; at most about 30 keys.
    codings: Mutex<BTreeMap<(&'static str, u8), u64>>,
}

impl Counters {
    pub(super) fn reused(&self) {
        self.reused.fetch_add(1, Relaxed);
    }

    /// Counts a body that was freshly encoded, with or without a base.
    pub(super) fn coded(&self, coder: Coder) {
        let name = match coder {
            Coder::Identity => ("identity", 0),
            Coder::Zstd { level } => ("zstd", level),
            Coder::Brotli { quality } => ("brotli", quality),
        };
        let mut codings = self.codings.lock().unwrap_or_else(PoisonError::into_inner);
        *codings.entry(name).or_insert(0) += 1;
    }

    pub(super) fn kept(&self) {
        self.kept.fetch_add(1, Relaxed);
    }

    pub(super) fn recoded(&self) {
        self.recoded.fetch_add(1, Relaxed);
    }

    pub(super) fn given_up(&self) {
        self.given_up.fetch_add(1, Relaxed);
    }

    /// Renders the text form for Prometheus.
    pub(super) fn render(&self, cpu_pool: &CpuPool) -> String {
        let mut text = String::new();
        for (name, kind, help, value) in [
            (
                "coded_reused_total",
                "counter",
                "Bodies that were sent as they had been coded before.",
                self.reused.load(Relaxed),
            ),
            (
                "coded_kept_total",
                "counter",
                "EncodedCache results that were kept.",
                self.kept.load(Relaxed),
            ),
            (
                "coded_recoded_total",
                "counter",
                "PopularBodies bodies that were coded anew in idle time.",
                self.recoded.load(Relaxed),
            ),
            (
                "coded_given_up_total",
                "counter",
                "Codings in idle time that were given up since work arrived or they took too long.",
                self.given_up.load(Relaxed),
            ),
            (
                "computing_jobs",
                "gauge",
                "Coding jobs that run or wait.",
                cpu_pool.jobs() as u64,
            ),
        ] {
            let _infallible = writeln!(
                text,
                "# HELP longhaul_{name} {help}\n# TYPE longhaul_{name} {kind}\nlonghaul_{name} {value}"
            );
        }
        text.push_str(
            "# HELP longhaul_codings_total Bodies that were coded, by coder and level.\n# TYPE longhaul_codings_total counter\n",
        );
        for ((name, level), count) in &*self.codings.lock().unwrap_or_else(PoisonError::into_inner) {
            let _infallible = writeln!(text, "longhaul_codings_total{{coder=\"{name}-{level}\"}} {count}");
        }
        let _infallible = writeln!(
            text,
            "# HELP longhaul_computing_seconds_total Time that coding jobs took on their threads.\n# TYPE longhaul_computing_seconds_total counter\nlonghaul_computing_seconds_total {:.6}",
            cpu_pool.spent().as_secs_f64()
        );
        text
    }
}
