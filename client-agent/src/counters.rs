//! What the agent counts since its start.
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use longhaul_codec::dictionary;
use longhaul_protocol::session::ShortHash;

use crate::request::PhaseExit;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn one(&self) {
        self.add(1);
    }
    /// `amount` more.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }
    /// The value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The counters of an agent. Those of the hop's bytes are with the sessions (`session::Gateway::traffic`).
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests that browsers made, CONNECT included.
    pub requests: Counter,
    /// Requests that ended in an error page or a broken connection.
    pub failures: Counter,
    /// Tunnels opened for CONNECT.
    pub tunnels: Counter,
    /// Requests and tunnels that went around the gateway.
    pub direct_requests: Counter,
    /// Requests repeated in another session or outside early data.
    pub repeated: Counter,
    /// Windows of bodies that did not match their hash.
    pub windows_bad: Counter,
    /// Bodies asked for again from an offset.
    pub resumed: Counter,
    /// Bodies that broke off before their end.
    pub truncated: Counter,
    /// Verified body bytes handed to browsers, decoded.
    pub body_bytes_decoded: Counter,
    /// Body bytes taken from browsers, before coding.
    pub upload_bytes: Counter,
    /// Raw bytes of tunnels in both directions.
    pub tunnel_bytes: Counter,
    /// Page loads begun.
    pub pages: Counter,
    /// Entries of manifests.
    pub announced: Counter,
    /// Bytes of pushed bodies on the hop, coded.
    pub pushed_bytes: Counter,
    /// Pushed bodies that are complete.
    pub pushed_objects: Counter,
    /// Of [`Self::pushed_bytes`], those of bodies that browsers took.
    pub push_taken_bytes: Counter,
    /// Pushed bodies that browsers took.
    pub push_taken_objects: Counter,
    /// Of [`Self::pushed_bytes`], those of bodies that no browser had taken when their page load ended.
    pub push_wasted_bytes: Counter,
    /// Pushed or announced bodies asked for again: damaged, or not held although the gateway thought so.
    pub wanted: Counter,
    /// Manifests kept for the next load of their page.
    pub manifests_kept: Counter,
    /// Bodies answered from the cache because the gateway said that nothing changed.
    pub held_hits: Counter,
    /// Bodies that were coded against another one, which is held.
    pub bases_used: Counter,
    /// Bodies that were coded against a dictionary.
    pub dictionaries_used: Counter,
    /// Bodies that were coded against one that is not held, and were asked for again.
    pub bases_missing: Counter,
    /// Accelerated TLS connections.
    pub accelerated: Counter,
    /// How requests left their phases.
    pub exits: Exits,
}

impl Counters {
    /// A body is coded against the base of this name.
    pub(crate) fn base_used(&self, name: &ShortHash) {
        if dictionary::knows(name) {
            self.dictionaries_used.one();
        } else {
            self.bases_used.one();
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
    /// One more.
    pub fn one(&self, exit: PhaseExit) {
        // The discriminants are the places in `ALL`, which a test checks.
        if let Some(counter) = self.0.get(exit as usize) {
            counter.one();
        }
    }

    /// Those that happened, by name.
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
