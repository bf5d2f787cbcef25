//! Requests of the handles to the thread that owns the file.
use std::sync::{Arc, Weak};

use bytes::Bytes;
use longhaul_types::{ContentHash, PublicKey};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Cost, Deletion, Owner, Partition, PartitionLabel, RecordKey, RecordKind, StoreError, StoredResponse,
    Usage,
};

/// Requests in progress: as many as browsers open connections (Chromium: 225), and some more.
pub(crate) const READ_QUEUE: usize = 256;
/// Each write may contain a chunk of 64 KiB, so this limits memory to 2 MiB; a body written at once contains
/// up to 256 KiB.
pub(crate) const WRITE_QUEUE: usize = 32;
/// Bytes per row: large enough for little overhead per row, small enough for short steps of work.
pub(crate) const CHUNK: usize = 64 * 1024;
/// Bodies up to this length are verified by their hash before the first byte is returned.
pub(crate) const VERIFIED_WHOLE: u64 = 1 << 20;

/// Both queues, always held together, so that the thread ends with the last holder.
#[derive(Clone, Debug)]
pub(crate) struct Queues {
    pub(crate) reads: mpsc::Sender<Read>,
    pub(crate) writes: mpsc::Sender<Write>,
}

impl Queues {
    /// Sends a read request and waits for the answer; none if the store is closed.
    pub(crate) async fn ask<T>(&self, read: impl FnOnce(oneshot::Sender<T>) -> Read) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.reads.send(read(reply)).await.ok()?;
        answer.await.ok()
    }

    /// As `ask`, for write requests.
    pub(crate) async fn tell<T>(&self, write: impl FnOnce(oneshot::Sender<T>) -> Write) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.writes.send(write(reply)).await.ok()?;
        answer.await.ok()
    }
}

/// A body in the file. Numbers are not reused while the store is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyId(pub(crate) i64);

/// A body that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WriterId(pub(crate) u64);

/// A body that was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) body: BodyId,
    pub(crate) length: u64,
    /// The whole body if it is short enough to be verified at once, else empty.
    pub(crate) parts: Vec<Bytes>,
    /// The body is not evicted while this pin exists.
    pub(crate) pin: Arc<()>,
}

/// A row of a long body: the bytes and their expected hash.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) data: Bytes,
    pub(crate) hash: ContentHash,
}

/// Requests that are answered at once, without waiting for a commit.
#[derive(Debug)]
pub(crate) enum Read {
    Has {
        chk: ContentHash,
        reply: oneshot::Sender<bool>,
    },
    Prefix {
        prefix: Vec<u8>,
        reply: oneshot::Sender<Option<ContentHash>>,
    },
    Open {
        chk: ContentHash,
        limit: u64,
        reply: oneshot::Sender<Option<Found>>,
    },
    Parts {
        body: BodyId,
        first: u32,
        reply: oneshot::Sender<Vec<Part>>,
    },
    /// Reports that the body's bytes do not match its hash.
    Damaged {
        body: BodyId,
        reply: oneshot::Sender<()>,
    },
    Responses {
        partition: Partition,
        url: String,
        reply: oneshot::Sender<Vec<StoredResponse>>,
    },
    Record {
        kind: RecordKind,
        key: [u8; 32],
        reply: oneshot::Sender<Option<Bytes>>,
    },
    Usage {
        reply: oneshot::Sender<Usage>,
    },
}

/// A page of a mirror: the state id of the device's cache and hashes in ascending order.
pub(crate) type MirrorPage = (u64, Vec<(ContentHash, PartitionLabel)>);

/// Requests that change the file. Their answers are sent after the commit.
#[derive(Debug)]
pub(crate) enum Write {
    /// A body that is short enough to be written at once.
    Body {
        body: WholeBody,
        reply: oneshot::Sender<Result<ContentHash, StoreError>>,
    },
    Begin {
        writer: WriterId,
        alive: Weak<()>,
        cost: Cost,
    },
    Append {
        writer: WriterId,
        part: Part,
    },
    Finish {
        writer: WriterId,
        chk: ContentHash,
        reply: oneshot::Sender<Result<ContentHash, StoreError>>,
    },
    Response {
        response: Box<StoredResponse>,
        reply: oneshot::Sender<()>,
    },
    Remove {
        partition: Partition,
        url: String,
        reply: oneshot::Sender<()>,
    },
    Record {
        kind: RecordKind,
        key: Box<RecordKey>,
        value: Bytes,
        reply: oneshot::Sender<()>,
    },
    Deletion {
        forget: Deletion,
        reply: oneshot::Sender<()>,
    },
    ForgetUrl {
        owner: Owner,
        url: String,
        reply: oneshot::Sender<()>,
    },
    /// Requests hashes of a device's mirror after `after`, in ascending order; none if the device is not
    /// known.
    Mirror {
        device: PublicKey,
        after: Option<(ContentHash, PartitionLabel)>,
        reply: oneshot::Sender<Option<MirrorPage>>,
    },
    MirrorReset {
        device: PublicKey,
        state: u64,
    },
    MirrorAdd {
        device: PublicKey,
        partition: Box<Partition>,
        hashes: Vec<ContentHash>,
    },
    MirrorRemove {
        device: PublicKey,
        hashes: Vec<ContentHash>,
    },
    /// No operation: wakes the thread so that it removes abandoned data.
    Tidy,
    Flush {
        reply: oneshot::Sender<()>,
    },
    Close {
        reply: oneshot::Sender<()>,
    },
}

/// A body that is written at once.
#[derive(Debug)]
pub(crate) struct WholeBody {
    pub(crate) chk: ContentHash,
    pub(crate) length: u64,
    pub(crate) parts: Vec<Part>,
    pub(crate) cost: Cost,
}
