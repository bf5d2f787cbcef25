//! A response's decoded body in memory between the origin fetch and its readers.
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;

use super::overflow::OverflowPart;

/// Bytes that a coalesced fetch keeps by default. Most bodies of pages are smaller: they are fetched at the
/// origin's pace, a later reader can still read them from the start, and their hash is known before the hop
/// has carried them.
pub(super) const KEEP: u64 = 1024 * 1024;
/// Maximum bytes that a reader can make a coalesced fetch keep: the maximum of a pushed body.
const MAX_KEEP: u64 = 8 * 1024 * 1024;
/// Bytes that a coalesced fetch keeps while memory is short.
const SHORT_KEEP: u64 = 64 * 1024;
/// Total bytes of all coalesced fetches above which memory is short.
const MAX_TOTAL: u64 = 256 * 1024 * 1024;
/// Overhead of a chunk in bytes, so that tiny chunks also count.
const CHUNK_COST: u64 = 64;

/// Bytes kept by all coalesced fetches.
#[derive(Debug, Default)]
pub(super) struct SpoolBudget(AtomicU64);

/// A chunk of a body.
#[derive(Clone, Debug)]
pub(super) enum Chunk {
    Memory(Bytes),
    /// On disk, because the device of the body was away.
    Disk(OverflowPart),
}

impl Chunk {
    /// Cost in memory.
    const fn cost(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64 + CHUNK_COST,
            Self::Disk(_) => CHUNK_COST,
        }
    }
}

/// State of the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// More chunks are accepted.
    Free,
    /// Readers must take chunks first.
    Full,
}

/// The chunks of one body.
#[derive(Debug)]
pub(super) struct Spool {
    budget: Arc<SpoolBudget>,
    chunks: VecDeque<Chunk>,
    /// Number of chunks dropped from the front.
    dropped: u64,
    kept: u64,
    keep: u64,
    /// Next chunk of each reader, counted from the start of the body.
    readers: BTreeMap<u64, u64>,
    next_reader: u64,
}

impl Spool {
    pub(super) fn new(budget: Arc<SpoolBudget>) -> Self {
        Self {
            budget,
            chunks: VecDeque::new(),
            dropped: 0,
            kept: 0,
            keep: KEEP,
            readers: BTreeMap::new(),
            next_reader: 0,
        }
    }

    /// Adds a reader of the whole body; `None` if its first chunk was dropped.
    pub(super) fn join(&mut self) -> Option<u64> {
        (self.dropped == 0).then(|| self.add_reader())
    }

    /// Adds a reader of the chunks that are still present.
    pub(super) fn add_reader(&mut self) -> u64 {
        let reader = self.next_reader;
        self.next_reader += 1;
        self.readers.insert(reader, self.dropped);
        reader
    }

    pub(super) fn leave(&mut self, reader: u64) {
        self.readers.remove(&reader);
    }

    pub(super) fn readers(&self) -> usize {
        self.readers.len()
    }

    /// Raises the limit to `bytes`, so that a body of this length can be kept completely.
    pub(super) fn keep(&mut self, bytes: u64) {
        self.keep = self.keep.max(bytes.min(MAX_KEEP));
    }

    /// Drops chunks that every reader has taken until there is room.
    pub(super) fn room(&mut self) -> Room {
        let short = self.budget.0.load(Relaxed) > MAX_TOTAL;
        let keep = if short { SHORT_KEEP } else { self.keep };
        while self.kept >= keep {
            let slowest = self.readers.values().min().copied().unwrap_or(u64::MAX);
            if slowest <= self.dropped {
                return Room::Full;
            }
            self.drop_first();
        }
        Room::Free
    }

    pub(super) fn push(&mut self, chunk: Chunk) {
        let cost = chunk.cost();
        self.kept += cost;
        self.budget.0.fetch_add(cost, Relaxed);
        self.chunks.push_back(chunk);
    }

    /// Returns the reader's next chunk, if present.
    pub(super) fn peek(&self, reader: u64) -> Option<&Chunk> {
        let next = self.readers.get(&reader)?;
        let index = usize::try_from(next.saturating_sub(self.dropped)).ok()?;
        self.chunks.get(index)
    }

    /// Moves the reader behind its next chunk.
    pub(super) fn advance(&mut self, reader: u64) {
        if let Some(next) = self.readers.get_mut(&reader) {
            *next += 1;
        }
    }

    fn drop_first(&mut self) {
        self.dropped += 1;
        if let Some(chunk) = self.chunks.pop_front() {
            let cost = chunk.cost();
            self.kept -= cost;
            self.budget.0.fetch_sub(cost, Relaxed);
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.kept, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk() -> Chunk {
        Chunk::Memory(Bytes::from(vec![7; 64 * 1024]))
    }

    fn take(spool: &mut Spool, reader: u64) -> Option<usize> {
        let length = match spool.peek(reader)? {
            Chunk::Memory(bytes) => bytes.len(),
            Chunk::Disk(_) => 0,
        };
        spool.advance(reader);
        Some(length)
    }

    fn fill(spool: &mut Spool) -> u64 {
        let mut pushed = 0;
        while spool.room() == Room::Free {
            spool.push(chunk());
            pushed += 1;
            assert!(pushed < 1000, "no bound");
        }
        pushed
    }

    #[test]
    fn a_large_body_waits_for_its_slowest_reader() {
        let budget = Arc::new(SpoolBudget::default());
        let mut spool = Spool::new(Arc::clone(&budget));
        let (quick, slow) = (spool.join().unwrap(), spool.join().unwrap());
        assert_eq!(fill(&mut spool), 16);
        while take(&mut spool, quick).is_some() {}
        assert_eq!(spool.room(), Room::Full);
        assert!(spool.join().is_some(), "the beginning is still there");
        spool.leave(2);
        assert!(take(&mut spool, slow).is_some());
        assert_eq!(spool.room(), Room::Free);
        assert_eq!(spool.join(), None, "the beginning is gone");
        spool.push(chunk());
        assert_eq!(take(&mut spool, quick), Some(64 * 1024));
        spool.leave(slow);
        spool.leave(quick);
        assert_eq!(spool.room(), Room::Free, "nobody reads");
        drop(spool);
        assert_eq!(budget.0.load(Relaxed), 0);
    }

    #[test]
    fn a_reader_can_raise_the_buffer_limit() {
        let mut spool = Spool::new(Arc::default());
        let _reader = spool.join();
        spool.keep(4 * 1024 * 1024);
        assert_eq!(fill(&mut spool), 64);
        spool.keep(u64::MAX);
        assert_eq!(fill(&mut spool), 64, "but not without bound");
    }

    #[test]
    fn little_is_buffered_while_memory_is_short() {
        let budget = Arc::new(SpoolBudget::default());
        budget.0.store(MAX_TOTAL + 1, Relaxed);
        let mut spool = Spool::new(Arc::clone(&budget));
        let _reader = spool.join();
        assert_eq!(fill(&mut spool), 1);
    }

    #[test]
    fn small_chunks_count_with_their_overhead() {
        let mut spool = Spool::new(Arc::default());
        let _reader = spool.join();
        let mut pushed = 0;
        while spool.room() == Room::Free {
            spool.push(Chunk::Memory(Bytes::from_static(b"x")));
            pushed += 1;
        }
        assert!(pushed <= KEEP / CHUNK_COST, "{pushed}");
    }

    #[test]
    fn memory_is_short_above_the_total_limit_only() {
        let budget = Arc::new(SpoolBudget::default());
        let mut spool = Spool::new(Arc::clone(&budget));
        let _reader = spool.join();
        spool.push(chunk());
        budget.0.store(MAX_TOTAL, Relaxed);
        assert_eq!(spool.room(), Room::Free);
        budget.0.store(MAX_TOTAL + 1, Relaxed);
        assert_eq!(spool.room(), Room::Full);
    }
}
