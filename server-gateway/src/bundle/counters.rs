//! Counters of page bundles.
use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use super::plan::Taken;

/// Counters of all page bundles of a gateway.
#[derive(Debug, Default)]
pub(crate) struct BundleCounters {
    pages: AtomicU64,
    entries: AtomicU64,
    manifest_bytes: AtomicU64,
    pushed_bytes: AtomicU64,
    pushed_objects: AtomicU64,
    held_objects: AtomicU64,
    taken_bytes: AtomicU64,
    taken_objects: AtomicU64,
    wasted_bytes: AtomicU64,
    wanted: AtomicU64,
    promised: AtomicU64,
}

impl BundleCounters {
    pub(crate) fn page(&self) {
        self.pages.fetch_add(1, Relaxed);
    }

    pub(crate) fn manifest(&self, entries: u64, bytes: usize) {
        self.entries.fetch_add(entries, Relaxed);
        self.manifest_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn pushing(&self, bytes: usize) {
        self.pushed_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn pushed(&self) {
        self.pushed_objects.fetch_add(1, Relaxed);
    }

    pub(crate) fn held(&self) {
        self.held_objects.fetch_add(1, Relaxed);
    }

    pub(crate) fn taken(&self, taken: Taken) {
        self.taken_bytes.fetch_add(taken.taken_bytes, Relaxed);
        self.taken_objects.fetch_add(taken.taken_objects, Relaxed);
        self.wasted_bytes.fetch_add(taken.wasted_bytes, Relaxed);
    }

    pub(crate) fn wanted(&self) {
        self.wanted.fetch_add(1, Relaxed);
    }

    pub(crate) fn promised(&self) {
        self.promised.fetch_add(1, Relaxed);
    }

    /// Renders the text form for Prometheus.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        for (name, help, value) in [
            ("pages_total", "Page loads that were looked through.", &self.pages),
            ("entries_total", "Entries of manifests.", &self.entries),
            (
                "manifest_bytes_total",
                "Bytes of manifests on the hop.",
                &self.manifest_bytes,
            ),
            (
                "pushed_bytes_total",
                "Bytes of pushed bodies on the hop.",
                &self.pushed_bytes,
            ),
            (
                "pushed_objects_total",
                "Bodies that were pushed to their end.",
                &self.pushed_objects,
            ),
            (
                "held_objects_total",
                "Entries whose bodies did not travel: held by the agent, or doubles.",
                &self.held_objects,
            ),
            (
                "push_taken_bytes_total",
                "Pushed bytes whose objects the browser took, as agents report it.",
                &self.taken_bytes,
            ),
            (
                "push_taken_objects_total",
                "Pushed bodies that the browser took.",
                &self.taken_objects,
            ),
            (
                "push_wasted_bytes_total",
                "Pushed bytes whose objects the browser did not take.",
                &self.wasted_bytes,
            ),
            (
                "wanted_total",
                "Bodies that an agent was wrongly taken to hold, or that came damaged.",
                &self.wanted,
            ),
            (
                "promised_total",
                "Fetches that an entry answered.",
                &self.promised,
            ),
        ] {
            let value = value.load(Relaxed);
            let _infallible = writeln!(
                text,
                "# HELP longhaul_bundle_{name} {help}\n# TYPE longhaul_bundle_{name} counter\nlonghaul_bundle_{name} {value}"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_tells_the_counters() {
        let counters = BundleCounters::default();
        counters.page();
        counters.manifest(3, 100);
        counters.pushing(50);
        counters.taken(Taken {
            taken_bytes: 20,
            taken_objects: 1,
            wasted_bytes: 30,
        });
        let text = counters.render();
        for line in [
            "longhaul_bundle_pages_total 1",
            "longhaul_bundle_entries_total 3",
            "longhaul_bundle_manifest_bytes_total 100",
            "longhaul_bundle_pushed_bytes_total 50",
            "longhaul_bundle_push_wasted_bytes_total 30",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
