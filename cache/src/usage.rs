//! Statistics of a cache.
use std::sync::atomic::{AtomicU64, Ordering};

use longhaul_types::ByteCount;

use crate::Storage;

/// Statistics of a cache, for dashboards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Size of the used part of the file: bodies, responses, records, mirrors and their indexes.
    pub bytes: ByteCount,
    /// Maximum of `bytes`.
    pub quota: ByteCount,
    /// Number of bodies.
    pub bodies: u64,
    /// Number of responses.
    pub responses: u64,
    /// Requested and returned bodies, since the cache was opened.
    pub hits: u64,
    /// Requested bodies that were absent.
    pub misses: u64,
    /// Bodies, responses and records that did not match their hashes and were dropped.
    pub damaged: u64,
    /// Evicted bodies.
    pub evicted: u64,
    /// Number of losses of all contents while the cache was open (a damaged file, a full disk).
    pub resets: u64,
    /// Location of the stored data.
    pub storage: Storage,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) damaged: Counter,
    pub(crate) evicted: Counter,
    pub(crate) resets: Counter,
}

impl Counters {
    /// Returns the counters with the figures of an empty cache.
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            bytes: ByteCount::ZERO,
            quota: ByteCount::ZERO,
            bodies: 0,
            responses: 0,
            hits: self.hits.get(),
            misses: self.misses.get(),
            damaged: self.damaged.get(),
            evicted: self.evicted.get(),
            resets: self.resets.get(),
            storage: Storage::File,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
