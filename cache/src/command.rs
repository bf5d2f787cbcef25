//! What the handles ask of the thread that owns the file.
use std::sync::{Arc, Weak};

use bytes::Bytes;
use longhaul_types::{ContentHash, PublicKey};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Cost, Forget, Owner, Partition, PartitionLabel, RecordKey, RecordKind, StoreError, StoredResponse, Usage,
};

/// Requests under way: as many as browsers open connections (Chromium: 225), with some to spare.
pub(crate) const READ_QUEUE: usize = 256;
/// Each may carry a chunk of 64 KiB, so this bounds memory to 2 MiB; a body that is put whole carries up to 256 KiB.
pub(crate) const WRITE_QUEUE: usize = 32;
/// Bytes in a row. Large enough that a row costs little, small enough to be a step of work.
pub(crate) const CHUNK: usize = 64 * 1024;
/// Bodies up to here are compared with their hash before the first byte is handed out.
pub(crate) const VERIFIED_WHOLE: u64 = 1 << 20;

/// Both queues, always held together, so that the thread ends when the last holder is gone.
#[derive(Clone, Debug)]
pub(crate) struct Queues {
    pub(crate) reads: mpsc::Sender<Read>,
    pub(crate) writes: mpsc::Sender<Write>,
}

impl Queues {
    /// Sends a request and waits for the answer; none if the store is closed.
    pub(crate) async fn ask<T>(&self, read: impl FnOnce(oneshot::Sender<T>) -> Read) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.reads.send(read(reply)).await.ok()?;
        answer.await.ok()
    }

    /// As `ask`, for what changes the file.
    pub(crate) async fn tell<T>(&self, write: impl FnOnce(oneshot::Sender<T>) -> Write) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.writes.send(write(reply)).await.ok()?;
        answer.await.ok()
    }
}

/// A body in the file. The number is never given twice while the store is open.
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
    /// All of it if it is short enough to be verified whole, else nothing.
    pub(crate) parts: Vec<Bytes>,
    /// While it lives, the body is not evicted.
    pub(crate) pin: Arc<()>,
}

/// A row of a long body: the bytes and the hash that they must have.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) data: Bytes,
    pub(crate) hash: ContentHash,
}

/// Requests that change nothing but the books.
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
    /// The body's bytes are not those of its hash.
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

/// Requests that change the file. Their answers are sent when the change is committed.
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
    Forget {
        forget: Forget,
        reply: oneshot::Sender<()>,
    },
    ForgetUrl {
        owner: Owner,
        url: String,
        reply: oneshot::Sender<()>,
    },
    /// Hashes of a device's mirror after `after`, in ascending order; none if the device is not known.
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
    /// Nothing: lets the thread look after what was left behind.
    Tidy,
    Flush {
        reply: oneshot::Sender<()>,
    },
    Close {
        reply: oneshot::Sender<()>,
    },
}

/// A body that is put at once.
#[derive(Debug)]
pub(crate) struct WholeBody {
    pub(crate) chk: ContentHash,
    pub(crate) length: u64,
    pub(crate) parts: Vec<Part>,
    pub(crate) cost: Cost,
}
