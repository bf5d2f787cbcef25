//! Metrics of the encoded cache.
use std::borrow::Cow;

use longhaul_codec::Coder;
use longhaul_webcache::CpuPool;
use prometheus_client::{
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::ConstGauge,
    },
    registry::Registry,
};

/// Counters of stored encoded bodies.
#[derive(Debug, Default)]
pub(super) struct Counters {
    reused: Counter,
    kept: Counter,
    recoded: Counter,
    given_up: Counter,
    /// Number of bodies by coder and level; at most about 30 series.
    codings: Family<[(&'static str, Cow<'static, str>); 1], Counter>,
}

impl Counters {
    pub(super) fn reused(&self) {
        self.reused.inc();
    }

    /// Counts a body that was freshly encoded, with or without a base.
    pub(super) fn coded(&self, coder: Coder) {
        let name = match coder {
            Coder::Identity => "identity-0".into(),
            Coder::Zstd { level } => format!("zstd-{level}").into(),
            Coder::Brotli { quality } => format!("brotli-{quality}").into(),
        };
        self.codings.get_or_create(&[("coder", name)]).inc();
    }

    pub(super) fn kept(&self) {
        self.kept.inc();
    }

    pub(super) fn recoded(&self) {
        self.recoded.inc();
    }

    pub(super) fn given_up(&self) {
        self.given_up.inc();
    }

    /// Returns the number of stored encoded bodies.
    #[cfg(test)]
    pub(super) fn count_kept(&self) -> u64 {
        self.kept.get()
    }

    /// Returns the number of bodies that were recoded in idle time.
    #[cfg(test)]
    pub(super) fn count_recoded(&self) -> u64 {
        self.recoded.get()
    }

    /// Adds the metrics to a registry.
    pub(super) fn register(&self, registry: &mut Registry, cpu_pool: &CpuPool) {
        for (name, help, counter) in [
            (
                "coded_reused",
                "Bodies sent in a stored encoded form",
                &self.reused,
            ),
            ("coded_kept", "Encoded bodies that were stored", &self.kept),
            (
                "coded_recoded",
                "Popular bodies that were recoded in idle time",
                &self.recoded,
            ),
            (
                "coded_given_up",
                "Recodings in idle time that ended early, for other work or for their duration",
                &self.given_up,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        let jobs = ConstGauge::new(cpu_pool.jobs() as u64);
        registry.register("computing_jobs", "Encoding jobs that run or wait", jobs);
        registry.register(
            "codings",
            "Bodies that were encoded, by coder and level",
            self.codings.clone(),
        );
        registry.register(
            "computing_seconds",
            "Time of encoding jobs on their threads",
            ConstCounter::new(cpu_pool.spent().as_secs_f64()),
        );
    }
}
