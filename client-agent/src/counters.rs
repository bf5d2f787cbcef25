//! The agent's counters since its start.
mod phase_exit;

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use longhaul_codec::dictionary;
use longhaul_session::ShortHash;

pub use phase_exit::PhaseExit;

use crate::savings::Savings;

/// A monotonic counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }
    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }
    /// The current value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A value that is replaced.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Replaces the value.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
    /// The current value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The counters of an agent. The sessions count the bytes on the hop (`gateway::Gateway::traffic`).
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests of browsers, including CONNECT.
    pub requests: Counter,
    /// Requests that ended with an error page or an aborted connection.
    pub failures: Counter,
    /// Tunnels opened for CONNECT.
    pub tunnels: Counter,
    /// Requests and tunnels sent directly, without the gateway.
    pub direct_requests: Counter,
    /// Requests repeated in another session or outside early data.
    pub repeated: Counter,
    /// Body windows that did not match their check.
    pub windows_bad: Counter,
    /// Bodies requested again from an offset.
    pub resumed: Counter,
    /// Bodies that were truncated.
    pub truncated: Counter,
    /// Decoded and verified body bytes delivered to browsers.
    pub body_bytes_decoded: Counter,
    /// Body bytes received from browsers, before encoding.
    pub upload_bytes: Counter,
    /// Raw bytes of tunnels in both directions.
    pub tunnel_bytes: Counter,
    /// Page loads started.
    pub pages: Counter,
    /// Entries of manifests.
    pub announced: Counter,
    /// Encoded bytes of pushed bodies on the hop.
    pub pushed_bytes: Counter,
    /// Pushed bodies received completely.
    pub pushed_objects: Counter,
    /// Bytes of [`Self::pushed_bytes`] that belong to bodies used by browsers.
    pub push_taken_bytes: Counter,
    /// Pushed bodies used by browsers.
    pub push_taken_objects: Counter,
    /// Bytes of [`Self::pushed_bytes`] that belong to bodies that no browser had used at the end of their
    /// page load.
    pub push_wasted_bytes: Counter,
    /// Bodies requested again with `Want`: damaged, or not held although the gateway's mirror contained them.
    pub wanted: Counter,
    /// Manifests kept for the next load of their page.
    pub manifests_kept: Counter,
    /// Bodies served from the cache because the gateway reported them as held.
    pub held_hits: Counter,
    /// Bodies encoded against a base of the cache.
    pub bases_used: Counter,
    /// Bodies encoded against a dictionary.
    pub dictionaries_used: Counter,
    /// Bodies encoded against a base that the cache did not have, and requested again.
    pub bases_missing: Counter,
    /// Accelerated TLS connections.
    pub accelerated: Counter,
    /// The highest rate of the link towards the agent that the current session has shown, in bit/s; 0 if none is known.
    pub link_rate: Gauge,
    /// What was saved.
    pub savings: Savings,
    /// Exits of requests from their phases.
    pub exits: Exits,
}

impl Counters {
    /// Counts a body that is encoded against the base of this name.
    pub(crate) fn base_used(&self, name: &ShortHash) {
        if dictionary::knows(name.as_bytes()) {
            self.dictionaries_used.increment();
        } else {
            self.bases_used.increment();
        }
    }
}

/// Counts of [`PhaseExit`]s.
#[derive(Debug)]
pub struct Exits([Counter; PhaseExit::ALL.len()]);

impl Default for Exits {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl Exits {
    /// Counts one exit.
    pub fn count(&self, exit: PhaseExit) {
        // The discriminants are the indices in `ALL`; a test checks this.
        if let Some(counter) = self.0.get(exit as usize) {
            counter.increment();
        }
    }

    /// Returns the nonzero counts by name.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let counted = PhaseExit::ALL
            .iter()
            .zip(&self.0)
            .map(|(exit, counter)| (exit.name(), counter.get()));
        counted
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
    }
}
