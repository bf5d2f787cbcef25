//! The cache handle.
use std::sync::{Arc, atomic::Ordering};

use bytes::{Bytes, BytesMut};
use longhaul_types::{ByteCount, ContentHash, PublicKey};
use tokio::sync::{mpsc, watch};

use crate::{
    BodyWriter, CacheConfig, Cost, Deletion, Mirror, OpenError, Owner, Partition, RecordKey, RecordKind,
    ResetReason, Storage, StoredBody, StoredResponse, Usage,
    command::{Queues, Read, Write, WriterId},
    shared::Shared,
    store,
};

/// Hashes per change of a mirror, so that the thread's steps stay short.
const MIRROR_STEP: usize = 256;

/// An open cache: a cheap handle to the thread that owns the file. The thread ends when the last handle,
/// reader and writer is dropped, or with [`close`](Self::close). After that every lookup misses and nothing
/// is stored.
#[derive(Clone, Debug)]
pub struct Cache {
    queues: Queues,
    shared: Arc<Shared>,
}

/// An open cache.
#[derive(Debug)]
pub struct Opened {
    /// The handle.
    pub cache: Cache,
    /// Reason for the loss of the earlier contents, if they were lost.
    pub reset: Option<ResetReason>,
    /// Location of the stored data.
    pub storage: Storage,
}

impl Cache {
    /// Opens the cache, or creates it. `entropy` is a random number, from which state ids are derived.
    ///
    /// A damaged file, or one of a newer version, is set aside and replaced by an empty one. If no file can
    /// be written, the cache works in memory. [`Opened`] reports both.
    ///
    /// # Errors
    /// Another process has the file open, or the system lacks threads or memory.
    pub fn open(config: CacheConfig, entropy: u64) -> Result<Opened, OpenError> {
        let running = store::open(config, entropy)?;
        Ok(Opened {
            cache: Self {
                queues: running.queues,
                shared: running.shared,
            },
            reset: running.reset,
            storage: running.storage,
        })
    }

    pub(crate) fn queues(&self) -> &Queues {
        &self.queues
    }

    /// The state id: a number that identifies the contents of the cache. It changes whenever the cache loses
    /// bodies without reporting each of them in [`evictions`](Self::evictions).
    pub fn state_id(&self) -> u64 {
        *self.shared.state.borrow()
    }

    /// The state id and its changes.
    pub fn state_changes(&self) -> watch::Receiver<u64> {
        self.shared.state.subscribe()
    }

    /// Returns true if the cache has the body. The body is not read, so it may still turn out to be damaged.
    pub async fn has(&self, chk: ContentHash) -> bool {
        self.queues
            .ask(|reply| Read::Has { chk, reply })
            .await
            .unwrap_or(false)
    }

    /// Returns the content hash of the body whose hash begins with `prefix`; none if there is no such body or
    /// more than one.
    pub async fn find_prefix(&self, prefix: &[u8]) -> Option<ContentHash> {
        let prefix = prefix.to_vec();
        self.queues
            .ask(|reply| Read::Prefix { prefix, reply })
            .await
            .flatten()
    }

    /// Opens a body for reading in pieces.
    pub async fn body(&self, chk: ContentHash) -> Option<StoredBody> {
        self.body_within(chk, u64::MAX).await
    }

    /// Reads a whole body; none if it is absent, damaged or longer than `limit`.
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

    /// Returns a writer that stores a body. `cost` is the cost of fetching the body again, as known now.
    pub fn writer(&self, cost: Cost) -> BodyWriter {
        let writer = WriterId(self.shared.next_writer.fetch_add(1, Ordering::Relaxed));
        BodyWriter::new(self.queues.clone(), writer, cost, self.shared.body_limit)
    }

    /// Stores a response and replaces the one with the same partition, URL and secondary key. The body must
    /// be stored already: a response without its body is not stored, nor is one larger than
    /// [`crate::MAX_RESPONSE`].
    pub async fn put(&self, response: StoredResponse) {
        let response = Box::new(response);
        self.queues
            .tell(|reply| Write::Response { response, reply })
            .await;
    }

    /// Returns the stored responses of a URL, all variants, newest first.
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

    /// Removes all stored responses of a URL.
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

    /// Invalidates all stored responses of a client for a URL, in all its partitions (RFC 9111 section 4.4).
    pub async fn forget_url(&self, owner: Owner, url: &str) {
        let url = url.to_owned();
        self.queues
            .tell(|reply| Write::ForgetUrl { owner, url, reply })
            .await;
    }

    /// Deletes responses, records, and bodies that no remaining response refers to. Unless an origin
    /// requested the deletion, the file contains none of the data when this function returns.
    pub async fn forget(&self, forget: Deletion) {
        self.queues.tell(|reply| Write::Deletion { forget, reply }).await;
    }

    /// Stores a record and replaces the one with the same kind and key.
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

    /// Returns a record.
    pub async fn record(&self, kind: RecordKind, key: &RecordKey) -> Option<Bytes> {
        let key = key.hash;
        self.queues
            .ask(|reply| Read::Record { kind, key, reply })
            .await
            .flatten()
    }

    /// Returns the channel of the bodies that were evicted or found damaged, in order. There is only one such
    /// channel: a second call returns a closed one. If the channel is not read, up to 65,536 hashes wait;
    /// beyond that the hashes are dropped and the state id changes instead (all held bodies are then
    /// unknown).
    pub fn evictions(&self) -> mpsc::Receiver<Vec<ContentHash>> {
        self.shared.evictions_taken.store(true, Ordering::Release);
        let mut evictions = self.shared.evictions.lock();
        // The thread changes the state id if it dropped hashes before this call.
        let _ = self.queues.writes.try_send(Write::Tidy);
        evictions.take().unwrap_or_else(|| mpsc::channel(1).1)
    }

    /// Returns statistics of the cache; a closed cache is empty.
    pub async fn usage(&self) -> Usage {
        let usage = self.queues.ask(|reply| Read::Usage { reply }).await;
        usage.unwrap_or_else(|| self.shared.counters.usage())
    }

    /// Returns the mirror of a device; none if it is not known.
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
                // The mirror was reset in between: start again.
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

    /// Resets a device's mirror: it is empty, and the device's cache has the given state id.
    pub async fn mirror_reset(&self, device: PublicKey, state: u64) {
        let _ = self
            .queues
            .writes
            .send(Write::MirrorReset { device, state })
            .await;
    }

    /// Adds bodies that the device received in this partition to its mirror. Without an earlier
    /// [`mirror_reset`](Self::mirror_reset) nothing is recorded.
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

    /// Removes bodies that the device no longer holds from its mirror.
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

    /// Waits until all earlier changes are in the file and would survive a crash of this process.
    pub async fn flush(&self) {
        self.queues.tell(|reply| Write::Flush { reply }).await;
    }

    /// Writes the remaining data, closes the file and releases its lock.
    pub async fn close(self) {
        self.queues.tell(|reply| Write::Close { reply }).await;
    }
}
