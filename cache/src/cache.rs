//! The handle of a cache.
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use bytes::{Bytes, BytesMut};
use longhaul_types::{ByteCount, ContentHash, PublicKey};
use tokio::sync::{mpsc, watch};

use crate::{
    BodyWriter, CacheConfig, Cost, Forget, Mirror, OpenError, Opened, Owner, Partition, RecordKey,
    RecordKind, StoredBody, StoredResponse, Usage,
    command::{Queues, Read, Write, WriterId},
    store,
    usage::Counters,
};

/// Hashes in one change of a mirror: a step of the thread's work.
const MIRROR_STEP: usize = 256;

/// An open cache: a cheap handle to the thread that owns the file. The thread ends when the last handle, reader and
/// writer is dropped, or with [`close`](Self::close). After that everything is absent and nothing is stored.
#[derive(Clone, Debug)]
pub struct Cache {
    queues: Queues,
    shared: Arc<Shared>,
}

/// What handles and thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: watch::Sender<u64>,
    pub(crate) counters: Counters,
    pub(crate) evictions_taken: AtomicBool,
    /// Evictions were dropped before anybody asked for them.
    pub(crate) evictions_lost: AtomicBool,
    evictions: Mutex<Option<mpsc::Receiver<Vec<ContentHash>>>>,
    next_writer: AtomicU64,
    /// The longest body in bytes that is stored.
    body_limit: u64,
}

impl Shared {
    pub(crate) fn new(state: u64, body_limit: u64, evictions: mpsc::Receiver<Vec<ContentHash>>) -> Self {
        Self {
            state: watch::Sender::new(state),
            counters: Counters::default(),
            evictions_taken: AtomicBool::new(false),
            evictions_lost: AtomicBool::new(false),
            evictions: Mutex::new(Some(evictions)),
            next_writer: AtomicU64::new(0),
            body_limit,
        }
    }
}

impl Cache {
    /// Opens the cache, or makes it. `entropy` is a random number, of which state ids are made.
    ///
    /// A damaged file, or one of a newer version, is set aside and an empty one begun; where no file can be written
    /// the cache works in memory. [`Opened`] says so.
    ///
    /// # Errors
    /// If another process has the file, or the system is out of threads or memory.
    pub fn open(config: CacheConfig, entropy: u64) -> Result<Opened, OpenError> {
        store::open(config, entropy)
    }

    pub(crate) fn new(queues: Queues, shared: Arc<Shared>) -> Self {
        Self { queues, shared }
    }

    pub(crate) fn queues(&self) -> &Queues {
        &self.queues
    }

    /// A number that names what is in the cache now: it changes whenever the cache loses bodies without reporting
    /// each of them in [`evictions`](Self::evictions).
    pub fn state_id(&self) -> u64 {
        *self.shared.state.borrow()
    }

    /// The state id and its changes.
    pub fn state_changes(&self) -> watch::Receiver<u64> {
        self.shared.state.subscribe()
    }

    /// Whether a body is there. It is not read, so it may yet turn out to be damaged.
    pub async fn has(&self, chk: ContentHash) -> bool {
        self.queues
            .ask(|reply| Read::Has { chk, reply })
            .await
            .unwrap_or(false)
    }

    /// The body whose hash begins with `prefix`; none if there is no such body, or more than one.
    pub async fn find_prefix(&self, prefix: &[u8]) -> Option<ContentHash> {
        let prefix = prefix.to_vec();
        self.queues
            .ask(|reply| Read::Prefix { prefix, reply })
            .await
            .flatten()
    }

    /// A body, to be read piece by piece.
    pub async fn body(&self, chk: ContentHash) -> Option<StoredBody> {
        self.body_within(chk, u64::MAX).await
    }

    /// A body in one piece; none if it is absent, damaged or longer than `limit`.
    pub async fn whole(&self, chk: ContentHash, limit: ByteCount) -> Option<Bytes> {
        let mut body = self.body_within(chk, limit.bytes()).await?;
        let first = body.next().await;
        let Some(first) = first.transpose().ok()? else {
            return Some(Bytes::new());
        };
        if first.len() as u64 == body.length() {
            return Some(first);
        }
        let mut whole = BytesMut::with_capacity(ByteCount::new(body.length()).as_usize());
        whole.extend_from_slice(&first);
        while let Some(piece) = body.next().await {
            whole.extend_from_slice(&piece.ok()?);
        }
        Some(whole.freeze())
    }

    async fn body_within(&self, chk: ContentHash, limit: u64) -> Option<StoredBody> {
        let found = self
            .queues
            .ask(|reply| Read::Open { chk, limit, reply })
            .await
            .flatten();
        let body = match found {
            Some(found) => StoredBody::checked(self.clone(), chk, found).await,
            None => None,
        };
        let counters = &self.shared.counters;
        if body.is_some() {
            &counters.hits
        } else {
            &counters.misses
        }
        .add(1);
        body
    }

    /// Begins to store a body. `cost` is what fetching it again would cost, as far as it is known now.
    pub fn writer(&self, cost: Cost) -> BodyWriter {
        let writer = WriterId(self.shared.next_writer.fetch_add(1, Ordering::Relaxed));
        BodyWriter::new(self.queues.clone(), writer, cost, self.shared.body_limit)
    }

    /// Stores a response in place of the one with the same partition, URL and secondary key. Its body must have been
    /// stored before: a response whose body is not there is not kept, nor is one above [`crate::MAX_RESPONSE`].
    pub async fn put(&self, response: StoredResponse) {
        let response = Box::new(response);
        self.queues
            .tell(|reply| Write::Response { response, reply })
            .await;
    }

    /// The stored responses to a URL, all variants, the newest first.
    pub async fn find(&self, partition: &Partition, url: &str) -> Vec<StoredResponse> {
        let (partition, url) = (partition.clone(), url.to_owned());
        let found = self
            .queues
            .ask(|reply| Read::Responses {
                partition,
                url,
                reply,
            })
            .await;
        found.unwrap_or_default()
    }

    /// Forgets all stored responses to a URL.
    pub async fn remove(&self, partition: &Partition, url: &str) {
        let (partition, url) = (partition.clone(), url.to_owned());
        self.queues
            .tell(|reply| Write::Remove {
                partition,
                url,
                reply,
            })
            .await;
    }

    /// Forgets all stored responses of a client to a URL, in all its partitions (RFC 9111 section 4.4).
    pub async fn forget_url(&self, owner: Owner, url: &str) {
        let url = url.to_owned();
        self.queues
            .tell(|reply| Write::ForgetUrl { owner, url, reply })
            .await;
    }

    /// Forgets responses, records, and bodies that no response is left to name. Unless an origin asked for it, nothing
    /// of that is in the file when this returns.
    pub async fn forget(&self, forget: Forget) {
        self.queues.tell(|reply| Write::Forget { forget, reply }).await;
    }

    /// Keeps a record in place of the one with the same kind and key.
    pub async fn put_record(&self, kind: RecordKind, key: &RecordKey, value: Bytes) {
        let key = Box::new(key.clone());
        self.queues
            .tell(|reply| Write::Record {
                kind,
                key,
                value,
                reply,
            })
            .await;
    }

    /// A record.
    pub async fn record(&self, kind: RecordKind, key: &RecordKey) -> Option<Bytes> {
        let key = key.hash;
        self.queues
            .ask(|reply| Read::Record { kind, key, reply })
            .await
            .flatten()
    }

    /// The bodies that were evicted or found damaged, as it happens. There is one such channel: the second call gets
    /// one that is closed. If it is not read, up to 65,536 hashes wait; beyond that they are dropped and the state id
    /// changes instead ("everything is unknown").
    pub fn evictions(&self) -> mpsc::Receiver<Vec<ContentHash>> {
        self.shared.evictions_taken.store(true, Ordering::Release);
        let mut evictions = self
            .shared
            .evictions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // The thread changes the state id if it had to drop hashes before this call.
        let _ = self.queues.writes.try_send(Write::Tidy);
        evictions.take().unwrap_or_else(|| mpsc::channel(1).1)
    }

    /// The cache in figures; once it is closed it holds nothing.
    pub async fn usage(&self) -> Usage {
        let usage = self.queues.ask(|reply| Read::Usage { reply }).await;
        usage.unwrap_or_else(|| self.shared.counters.usage())
    }

    /// What a device is believed to hold; none if it is not known.
    pub async fn mirror(&self, device: PublicKey) -> Option<Mirror> {
        let mut mirror = Mirror::default();
        let mut after = None;
        loop {
            let page = self
                .queues
                .tell(|reply| Write::Mirror { device, after, reply })
                .await
                .flatten()?;
            if after.is_some() && page.0 != mirror.state {
                // Reset in between: begin again.
                (mirror, after) = (Mirror::default(), None);
                continue;
            }
            mirror.state = page.0;
            let Some(last) = page.1.last() else {
                return Some(mirror);
            };
            after = Some(*last);
            mirror.held.extend(page.1);
        }
    }

    /// Begins a device's mirror anew: it holds nothing, and its cache has the given state id.
    pub async fn mirror_reset(&self, device: PublicKey, state: u64) {
        let _ = self
            .queues
            .writes
            .send(Write::MirrorReset { device, state })
            .await;
    }

    /// The device holds these bodies, which it got in this partition. Without a [`mirror_reset`](Self::mirror_reset)
    /// before, nothing is remembered.
    pub async fn mirror_add(&self, device: PublicKey, partition: &Partition, hashes: Vec<ContentHash>) {
        for step in hashes.chunks(MIRROR_STEP) {
            let (partition, hashes) = (Box::new(partition.clone()), step.to_vec());
            let add = Write::MirrorAdd {
                device,
                partition,
                hashes,
            };
            let _ = self.queues.writes.send(add).await;
        }
    }

    /// The device does not hold these bodies any more.
    pub async fn mirror_remove(&self, device: PublicKey, hashes: Vec<ContentHash>) {
        for step in hashes.chunks(MIRROR_STEP) {
            let hashes = step.to_vec();
            let _ = self
                .queues
                .writes
                .send(Write::MirrorRemove { device, hashes })
                .await;
        }
    }

    /// Waits until everything asked for before is in the file, as far as a crash of this process goes.
    pub async fn flush(&self) {
        self.queues.tell(|reply| Write::Flush { reply }).await;
    }

    /// Writes what is left, closes the file and gives up its lock.
    pub async fn close(self) {
        self.queues.tell(|reply| Write::Close { reply }).await;
    }
}
