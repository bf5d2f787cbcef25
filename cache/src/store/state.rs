//! State of the store in memory, beside the file.
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Weak},
    time::Instant,
};

use longhaul_types::{ByteCount, ContentHash, PublicKey};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{backend::Backend, file::CacheFile};
use crate::{Cost, RecordKind, Storage, StoreError, command::WriterId, shared::Shared};

/// The file and its state in memory.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) connection: Connection,
    /// None for a cache in memory.
    pub(super) cache_file: Option<CacheFile>,
    pub(super) storage: Storage,
    pub(super) shared: Arc<Shared>,
    pub(super) quota: ByteCount,
    pub(super) entropy: u64,
    pub(super) resets: u64,
    pub(super) next_body: i64,
    /// Last value of the clock that orders records and devices by use.
    pub(super) clock: i64,
    pub(super) group: Option<Group>,
    pub(super) groups: u64,
    pub(super) uploads: BTreeMap<WriterId, Upload>,
    pub(super) pins: BTreeMap<i64, Weak<()>>,
    /// Number of requests for bodies since their priority was last written.
    pub(super) touched: BTreeMap<i64, u32>,
    /// Unnamed bodies whose chunks are to be removed.
    pub(super) garbage: VecDeque<i64>,
    pub(super) eviction: Eviction,
    pub(super) totals: Totals,
    pub(super) mirrors: Mirrors,
    pub(super) writing: Writing,
    /// Bytes written since the last checkpoint.
    pub(super) unmoved: u64,
}

impl Store {
    pub(super) fn new(backend: Backend, shared: Arc<Shared>, entropy: u64, eviction: Eviction) -> Self {
        Self {
            connection: backend.connection,
            cache_file: backend.cache_file,
            storage: backend.storage,
            shared,
            quota: backend.quota,
            entropy,
            resets: 0,
            next_body: 1,
            clock: 0,
            group: None,
            groups: 0,
            uploads: BTreeMap::new(),
            pins: BTreeMap::new(),
            touched: BTreeMap::new(),
            garbage: VecDeque::new(),
            eviction,
            totals: Totals::default(),
            mirrors: Mirrors::default(),
            writing: Writing::Yes,
            unmoved: 0,
        }
    }
}

/// An open transaction.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) answers: Vec<Answer>,
    /// Bodies evicted in this transaction.
    pub(super) evicted: Vec<ContentHash>,
    pub(super) operations: u32,
    pub(super) bytes: u64,
}

/// An answer that is sent after the commit.
#[derive(Debug)]
pub(super) enum Answer {
    Body(oneshot::Sender<Result<ContentHash, StoreError>>, ContentHash),
    Done(oneshot::Sender<()>),
}

impl Answer {
    /// If the receiver is gone, the answer is dropped.
    pub(super) fn send(self, outcome: Result<(), StoreError>) {
        match self {
            Self::Body(reply, chk) => {
                let _ = reply.send(outcome.map(|()| chk));
            }
            Self::Done(reply) => {
                let _ = reply.send(());
            }
        }
    }
}

/// A body that is being written.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) body: i64,
    /// Expires with the writer.
    pub(super) alive: Weak<()>,
    pub(super) cost: Cost,
    pub(super) parts: u32,
    pub(super) length: u64,
    /// The last group in which the body was written.
    pub(super) group: u64,
    pub(super) failed: Option<StoreError>,
}

/// State of eviction.
#[derive(Debug)]
pub(super) struct Eviction {
    /// `L`: the priority of the last evicted body.
    pub(super) floor: f64,
    /// A size limit below the quota and its end, after the disk was full.
    pub(super) modest: Option<(u64, Instant)>,
    pub(super) reports: mpsc::Sender<Vec<ContentHash>>,
    pub(super) unsent: VecDeque<ContentHash>,
}

impl Eviction {
    pub(super) fn new(reports: mpsc::Sender<Vec<ContentHash>>) -> Self {
        Self {
            floor: 0.0,
            modest: None,
            reports,
            unsent: VecDeque::new(),
        }
    }

    pub(super) fn floor(&self) -> f64 {
        self.floor
    }

    pub(super) fn limit_to(&mut self, size: u64, until: Instant) {
        self.modest = Some((size, until));
    }

    /// Clears the state after a reset, which the state id reports.
    pub(super) fn forget(&mut self) {
        self.floor = 0.0;
        self.unsent.clear();
    }
}

/// Counts that are kept up to date to enforce limits.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// Count and bytes of values by kind.
    pub(super) records: BTreeMap<RecordKind, (usize, u64)>,
    /// Responses without a body.
    pub(super) bodiless: usize,
}

/// The devices that have a mirror.
#[derive(Debug, Default)]
pub(super) struct Mirrors {
    pub(super) devices: BTreeMap<PublicKey, Device>,
    /// Numbers of mirrors whose rows are to be removed.
    pub(super) garbage: VecDeque<i64>,
    pub(super) next: i64,
}

#[derive(Debug)]
pub(super) struct Device {
    pub(super) number: i64,
    pub(super) state: u64,
    pub(super) held: usize,
    pub(super) used: i64,
    /// Position of partial removal. Hashes are uniformly distributed, so their order is as good as random.
    pub(super) cursor: ContentHash,
}

/// Acceptance of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    Yes,
    /// The disk is full: the store first shrinks to this many bytes.
    Shrinking {
        to: u64,
    },
    /// The disk is full and shrinking did not help: read-only.
    Paused {
        until: Instant,
    },
}
