//! Counters of images and workers.
use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use super::places::Use;

/// Outcome of an image that was to be transcoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
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

const FATES: [(Fate, &str); 8] = [
    (Fate::Smaller, "smaller"),
    (Fate::Kept, "kept"),
    (Fate::TooLarge, "too-large"),
    (Fate::Late, "late"),
    (Fate::Died, "died"),
    (Fate::TimedOut, "timed-out"),
    (Fate::Cancelled, "cancelled"),
    (Fate::Suspended, "suspended"),
];

/// Counters of images and workers.
#[derive(Debug, Default)]
pub(super) struct Counters {
    fates: [AtomicU64; FATES.len()],
    started: AtomicU64,
    failed_starts: AtomicU64,
    died: AtomicU64,
}

impl Counters {
    pub(super) fn picture(&self, fate: Fate) {
        self.fates[fate as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn started(&self) {
        self.started.fetch_add(1, Relaxed);
    }

    pub(super) fn failed_start(&self) {
        self.failed_starts.fetch_add(1, Relaxed);
    }

    /// Counts a worker that died, while working or idle, or that was ended after its time limit.
    pub(super) fn died(&self) {
        self.died.fetch_add(1, Relaxed);
    }

    /// Renders the text form for Prometheus; `idle` is the number of idle workers.
    pub(super) fn render(&self, now: Use, idle: usize) -> String {
        let mut text = String::from(
            "# HELP longhaul_pictures_total Pictures that were to be made smaller, by what became of them.\n\
             # TYPE longhaul_pictures_total counter\n",
        );
        for ((_, label), count) in FATES.iter().zip(&self.fates) {
            let count = count.load(Relaxed);
            let _infallible = writeln!(text, "longhaul_pictures_total{{result=\"{label}\"}} {count}");
        }
        for (name, kind, help, value) in [
            (
                "pictures_waiting",
                "gauge",
                "Pictures that wait for a worker.",
                now.waiting as u64,
            ),
            (
                "pictures_working",
                "gauge",
                "Pictures that workers work on.",
                now.working as u64,
            ),
            (
                "pictures_memory_bytes",
                "gauge",
                "Memory that is set aside for them.",
                now.memory,
            ),
            (
                "picture_workers_idle",
                "gauge",
                "Worker processes without a picture.",
                idle as u64,
            ),
            (
                "picture_workers_started_total",
                "counter",
                "Worker processes that were started.",
                self.started.load(Relaxed),
            ),
            (
                "picture_workers_failed_starts_total",
                "counter",
                "Worker processes that could not be started.",
                self.failed_starts.load(Relaxed),
            ),
            (
                "picture_workers_died_total",
                "counter",
                "Worker processes that died or were ended because they took too long.",
                self.died.load(Relaxed),
            ),
        ] {
            let _infallible = writeln!(
                text,
                "# HELP longhaul_{name} {help}\n# TYPE longhaul_{name} {kind}\nlonghaul_{name} {value}"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fate_has_its_line() {
        let counters = Counters::default();
        for (place, (fate, _)) in FATES.iter().enumerate() {
            assert_eq!(*fate as usize, place);
            counters.picture(*fate);
        }
        counters.died();
        let text = counters.render(Use::default(), 2);
        let ones = text.lines().filter(|line| line.ends_with("\"} 1")).count();
        assert_eq!(ones, FATES.len(), "{text}");
        for line in [
            "longhaul_picture_workers_idle 2",
            "longhaul_picture_workers_died_total 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
