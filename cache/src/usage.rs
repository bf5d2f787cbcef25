//! What a cache holds and what became of the requests to it.
use std::sync::atomic::{AtomicU64, Ordering};

use longhaul_types::ByteCount;

use crate::Storage;

/// A cache in figures, for status pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// What is in use of the file: bodies, responses, records, mirrors and their indexes.
    pub bytes: ByteCount,
    /// What may be in use.
    pub quota: ByteCount,
    /// The number of bodies.
    pub bodies: u64,
    /// The number of responses.
    pub responses: u64,
    /// Bodies asked for and handed out, since the cache was opened.
    pub hits: u64,
    /// Bodies asked for and not there.
    pub misses: u64,
    /// Bodies, responses and records that did not match their hashes and were dropped.
    pub damaged: u64,
    /// Bodies dropped for others.
    pub evicted: u64,
    /// How often the cache lost everything while it was open (a damaged file, a full disk).
    pub resets: u64,
    /// Where everything is kept.
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
    /// What is counted, of a cache that holds nothing.
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
