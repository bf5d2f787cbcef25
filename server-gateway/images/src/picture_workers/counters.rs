//! Metrics of images and workers.
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::ConstGauge},
    registry::Registry,
};

use super::worker_slots::Use;

/// Outcome of an image that was to be transcoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// A smaller image was made.
    Smaller,
    /// The original is sent: it cannot be made smaller, or cannot be decoded.
    Kept,
    /// The image exceeds a limit.
    TooLarge,
    /// No worker was available in time.
    Late,
    /// The worker died.
    Died,
    /// The worker reached the time limit.
    TimedOut,
    /// The request was cancelled.
    Cancelled,
    /// Transcoding is suspended: the device's images crash workers, or workers cannot be started.
    Suspended,
}

impl Fate {
    const ALL: [Self; 8] = [
        Self::Smaller,
        Self::Kept,
        Self::TooLarge,
        Self::Late,
        Self::Died,
        Self::TimedOut,
        Self::Cancelled,
        Self::Suspended,
    ];

    const fn label(self) -> Label {
        let result = match self {
            Self::Smaller => "smaller",
            Self::Kept => "kept",
            Self::TooLarge => "too-large",
            Self::Late => "late",
            Self::Died => "died",
            Self::TimedOut => "timed-out",
            Self::Cancelled => "cancelled",
            Self::Suspended => "suspended",
        };
        [("result", result)]
    }
}

/// Label and value of a metric's series.
type Label = [(&'static str, &'static str); 1];

/// Counters of images and workers.
#[derive(Debug)]
pub(super) struct Counters {
    fates: Family<Label, Counter>,
    started: Counter,
    failed_starts: Counter,
    died: Counter,
}

impl Default for Counters {
    fn default() -> Self {
        let fates = Family::default();
        for fate in Fate::ALL {
            // A series exists before its first event, so that rates can be computed from it.
            drop(fates.get_or_create(&fate.label()));
        }
        Self {
            fates,
            started: Counter::default(),
            failed_starts: Counter::default(),
            died: Counter::default(),
        }
    }
}

impl Counters {
    pub(super) fn picture(&self, fate: Fate) {
        self.fates.get_or_create(&fate.label()).inc();
    }

    pub(super) fn started(&self) {
        self.started.inc();
    }

    pub(super) fn failed_start(&self) {
        self.failed_starts.inc();
    }

    /// Counts a worker that died, while working or idle, or that was ended after its time limit.
    pub(super) fn died(&self) {
        self.died.inc();
    }

    /// Adds the metrics to a registry; `idle` is the number of idle workers.
    pub(super) fn register(&self, registry: &mut Registry, now: Use, idle: usize) {
        registry.register(
            "pictures",
            "Images to be transcoded, by result",
            self.fates.clone(),
        );
        for (name, help, value) in [
            (
                "pictures_waiting",
                "Images that wait for a worker",
                now.waiting as u64,
            ),
            (
                "pictures_working",
                "Images that workers transcode",
                now.working as u64,
            ),
            (
                "pictures_memory_bytes",
                "Memory that is reserved for the images of workers",
                now.memory,
            ),
            (
                "picture_workers_idle",
                "Worker processes without an image",
                idle as u64,
            ),
        ] {
            registry.register(name, help, ConstGauge::new(value));
        }
        for (name, help, counter) in [
            (
                "picture_workers_started",
                "Worker processes that were started",
                &self.started,
            ),
            (
                "picture_workers_failed_starts",
                "Worker processes that could not be started",
                &self.failed_starts,
            ),
            (
                "picture_workers_died",
                "Worker processes that died or were ended after their time limit",
                &self.died,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_metric() {
        let counters = Counters::default();
        for fate in Fate::ALL {
            counters.picture(fate);
        }
        counters.died();
        let mut registry = Registry::with_prefix("longhaul");
        counters.register(&mut registry, Use::default(), 2);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let ones = text.lines().filter(|line| line.ends_with("\"} 1")).count();
        assert_eq!(ones, Fate::ALL.len(), "{text}");
        for line in [
            "longhaul_picture_workers_idle 2",
            "longhaul_picture_workers_died_total 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
