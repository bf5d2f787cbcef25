//! Metrics of page loads: manifests and pushes.
use prometheus_client::{metrics::counter::Counter, registry::Registry};

use super::page_load_refusal::RefusalCounters;

/// Pushed bytes of a page load on the hop, used and unused by the browser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Bytes of pushed bodies that a browser requested.
    pub taken_bytes: u64,
    /// Number of these bodies.
    pub taken_objects: u64,
    /// Bytes of pushed bodies that no browser requested.
    pub wasted_bytes: u64,
}

/// Counters of all page loads of a gateway.
#[derive(Debug, Default)]
pub struct PageLoadCounters {
    pages: Counter,
    entries: Counter,
    manifest_bytes: Counter,
    pushed_bytes: Counter,
    pushed_objects: Counter,
    held_objects: Counter,
    taken_bytes: Counter,
    taken_objects: Counter,
    wasted_bytes: Counter,
    wanted: Counter,
    promised: Counter,
    absent_hosts: Counter,
    refused: RefusalCounters,
}

impl PageLoadCounters {
    /// Counts a page load.
    pub fn page(&self) {
        self.pages.inc();
    }

    /// Counts records of a manifest and their bytes.
    pub fn manifest(&self, entries: u64, bytes: usize) {
        self.entries.inc_by(entries);
        self.manifest_bytes.inc_by(bytes as u64);
    }

    /// Counts bytes of pushed bodies.
    pub fn pushing(&self, bytes: usize) {
        self.pushed_bytes.inc_by(bytes as u64);
    }

    /// Counts a body that was pushed.
    pub fn pushed(&self) {
        self.pushed_objects.inc();
    }

    /// Counts an announced body that the agent holds.
    pub fn held(&self) {
        self.held_objects.inc();
    }

    /// Counts what browsers took of a page load's pushes.
    pub fn taken(&self, taken: Taken) {
        self.taken_bytes.inc_by(taken.taken_bytes);
        self.taken_objects.inc_by(taken.taken_objects);
        self.wasted_bytes.inc_by(taken.wasted_bytes);
    }

    /// Counts an announced body that a browser wanted before its push.
    pub fn wanted(&self) {
        self.wanted.inc();
    }

    /// Counts a request that was answered by an announcement.
    pub fn promised(&self) {
        self.promised.inc();
    }

    /// Counts a host that was announced as absent.
    pub fn absent_host(&self) {
        self.absent_hosts.inc();
    }

    /// Counters of the requests that visits do not teach.
    pub const fn refused(&self) -> &RefusalCounters {
        &self.refused
    }

    /// Adds the metrics to a registry.
    pub fn register(&self, registry: &mut Registry) {
        for (name, help, counter) in [
            ("page_loads", "Page loads whose pages were parsed", &self.pages),
            ("manifest_entries", "Entries of manifests", &self.entries),
            (
                "manifest_bytes",
                "Bytes of manifests on the hop",
                &self.manifest_bytes,
            ),
            (
                "pushed_bytes",
                "Bytes of pushed bodies on the hop",
                &self.pushed_bytes,
            ),
            (
                "pushed_objects",
                "Bodies that were pushed completely",
                &self.pushed_objects,
            ),
            (
                "push_held_objects",
                "Entries whose bodies were not sent, because the agent stores them or another entry has the same body",
                &self.held_objects,
            ),
            (
                "push_taken_bytes",
                "Pushed bytes of objects that the browser requested, as agents report",
                &self.taken_bytes,
            ),
            (
                "push_taken_objects",
                "Pushed bodies that the browser requested",
                &self.taken_objects,
            ),
            (
                "push_wasted_bytes",
                "Pushed bytes of objects that the browser did not request",
                &self.wasted_bytes,
            ),
            (
                "push_wanted",
                "Bodies that the agent requested although its mirror listed them, or that arrived damaged",
                &self.wanted,
            ),
            (
                "manifest_promised_fetches",
                "Fetches that a manifest entry answered",
                &self.promised,
            ),
            (
                "manifest_absent_hosts",
                "Hosts that manifests announced as unreachable",
                &self.absent_hosts,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        registry.register(
            "learned_refused",
            "Unplanned requests of browsers that a visit does not teach, by reason",
            self.refused.family(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{super::page_load_refusal::Refusal, *};

    #[test]
    fn counters_are_rendered() {
        let counters = PageLoadCounters::default();
        counters.page();
        counters.manifest(3, 100);
        counters.pushing(50);
        counters.taken(Taken {
            taken_bytes: 20,
            taken_objects: 1,
            wasted_bytes: 30,
        });
        counters.refused().add(Refusal::Host, 2);
        let mut registry = Registry::with_prefix("longhaul");
        counters.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "longhaul_page_loads_total 1",
            "longhaul_manifest_entries_total 3",
            "longhaul_manifest_bytes_total 100",
            "longhaul_pushed_bytes_total 50",
            "longhaul_push_wasted_bytes_total 30",
            "longhaul_learned_refused_total{reason=\"host\"} 2",
            "longhaul_learned_refused_total{reason=\"page\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
