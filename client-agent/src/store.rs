//! The agent's cache: a private cache (RFC 9111) that also holds the bodies that page loads refer to.
//!
//! A response stored by URL answers only requests of the same client, site and credentials (see
//! [`RequestContext`]), so that no page can detect which other sites were visited. Bodies are shared by hash:
//! only a gateway that names the hash can use one.
mod cache_writer;
pub(crate) mod credentials_secret;
mod framed_sites;
mod lookup;
mod open;
mod storage_context;

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use bytes::Bytes;
use longhaul_cache::{
    BodyWriter, Cache, Cost, Deletion, DeletionScope, Owner, OwnerSelection, Partition, RecordKey,
    RecordKind, StoredBody, StoredResponse, Usage,
};
use longhaul_codec::{MAX_BASE, dictionary};
use longhaul_http::request_context::{CredentialsSecret, RequestContext, origin_of};
use longhaul_session::{CacheStateId, ShortHash};
use longhaul_types::{ClientId, ContentHash};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout_at},
};

pub(crate) use cache_writer::CacheWriter;
pub use framed_sites::FramedSites;
pub(crate) use lookup::{Lookup, Query};
pub(crate) use storage_context::{StorageContext, response_of};

/// Maximum number of missing bodies that wait to be reported to the gateway. A report only saves a round trip
/// later, so more are dropped.
const MAX_MISSING_REPORTS: usize = 256;
/// Kind of the agent's records, which are all manifests; a record has at most a manifest's size.
const RECORD_KIND: RecordKind = RecordKind::Manifest;

/// Wait for a body that the gateway considers held. The gateway knows from the transport that the body has
/// arrived, possibly before the cache has stored it. A repeated request costs more than this time on slow
/// hops.
const STORING_WAIT: Duration = Duration::from_millis(300);

/// Maximum size of a base: the gateway's limit.
const MAX_BASE_BODY: u64 = 2 * MAX_BASE as u64;

/// Handle of the cache, and of the rules by which requests may use it.
#[derive(Debug)]
pub struct Storage {
    /// The agent's cache.
    pub store: Store,
    /// Secret of the credentials keys.
    pub credentials_secret: CredentialsSecret,
    /// Sites that were recently loaded in frames of other sites.
    pub framed_sites: FramedSites,
}

/// The cache, or none. Clones share the same cache.
#[derive(Clone, Debug)]
pub struct Store(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    cache: Cache,
    missing: mpsc::Sender<ContentHash>,
    /// The receiver that [`Store::eviction_reports`] returns.
    eviction_reports: Mutex<Option<EvictionReports>>,
    usage: watch::Sender<Option<Usage>>,
    /// Number of bodies that are being stored.
    busy: watch::Sender<usize>,
    /// Resets before this run.
    resets: u64,
}

/// Bodies that the gateway's mirror may contain and that the agent does not hold.
#[derive(Debug)]
pub(crate) struct EvictionReports {
    evicted: mpsc::Receiver<Vec<ContentHash>>,
    missing: mpsc::Receiver<ContentHash>,
}

impl EvictionReports {
    /// Returns the next hashes; `None` if the cache is closed. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Vec<ContentHash>> {
        tokio::select! {
            hashes = self.evicted.recv() => hashes,
            Some(hash) = self.missing.recv() => Some(vec![hash]),
        }
    }
}

impl Store {
    /// Returns a disabled cache: nothing is stored or found.
    pub const fn off() -> Self {
        Self(None)
    }

    fn of(cache: Cache, resets: u64) -> Self {
        let (missing, of_missing) = mpsc::channel(MAX_MISSING_REPORTS);
        let eviction_reports = EvictionReports {
            evicted: cache.evictions(),
            missing: of_missing,
        };
        Self(Some(Arc::new(Inner {
            cache,
            missing,
            eviction_reports: Mutex::new(Some(eviction_reports)),
            usage: watch::Sender::new(None),
            busy: watch::Sender::new(0),
            resets,
        })))
    }

    fn cache(&self) -> Option<&Cache> {
        self.0.as_ref().map(|inner| &inner.cache)
    }

    /// True if the cache is enabled.
    pub(crate) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the cache state (docs/protocol/session.md section 7.2); `None` without a cache, so that the
    /// gateway considers no body held.
    pub(crate) fn state_id(&self) -> Option<CacheStateId> {
        CacheStateId::new(self.cache()?.state_id())
    }

    /// Returns the receiver of missing bodies, once.
    pub(crate) fn eviction_reports(&self) -> Option<EvictionReports> {
        let inner = self.0.as_ref()?;
        inner.eviction_reports.lock().take()
    }

    /// Reports a body that the gateway considers held and that the cache does not have.
    pub(crate) fn report_missing(&self, chk: ContentHash) {
        if let Some(inner) = &self.0 {
            let _full = inner.missing.try_send(chk);
        }
    }

    // ---- bodies ----

    /// True if the cache has a body.
    pub(crate) async fn has(&self, chk: ContentHash) -> bool {
        match self.cache() {
            Some(cache) => cache.has(chk).await,
            None => false,
        }
    }

    /// Returns the CHK that begins with `prefix`.
    pub(crate) async fn find_prefix(&self, prefix: &[u8]) -> Option<ContentHash> {
        self.cache()?.find_prefix(prefix).await
    }

    /// Returns a body that the gateway considers held; waits for it if it may be being stored.
    pub(crate) async fn body(&self, chk: ContentHash) -> Option<StoredBody> {
        let mut stored = self.stored();
        loop {
            if let Some(body) = self.cache()?.body(chk).await {
                return Some(body);
            }
            stored.next().await?;
        }
    }

    /// Returns the body whose CHK begins with `prefix`; waits for it like [`Self::body`].
    pub(crate) async fn body_of_prefix(&self, prefix: &[u8]) -> Option<StoredBody> {
        let mut stored = self.stored();
        loop {
            if let Some(chk) = self.find_prefix(prefix).await
                && let Some(body) = self.cache()?.body(chk).await
            {
                return Some(body);
            }
            stored.next().await?;
        }
    }

    /// Returns a waiter for stored bodies, with a deadline.
    fn stored(&self) -> StoredBodies {
        StoredBodies {
            busy: self.0.as_ref().map(|inner| inner.busy.subscribe()),
            until: Instant::now() + STORING_WAIT,
        }
    }

    /// Returns a base, named by the short hash of its CHK: a dictionary or a body of the cache.
    pub(crate) async fn base(&self, name: &ShortHash) -> Option<Bytes> {
        if let Some(dictionary) = dictionary::find(name.as_bytes()) {
            return Some(dictionary);
        }
        let body = self.body_of_prefix(name.as_bytes()).await?;
        if body.length() > MAX_BASE_BODY {
            return None;
        }
        body.collect().await
    }

    /// Creates a writer for a body.
    pub(crate) fn writer(&self) -> Option<BodyWriter> {
        self.cache().map(|cache| cache.writer(Cost::unknown()))
    }

    /// Returns the length of a body in the cache.
    pub(crate) async fn length(&self, chk: ContentHash) -> Option<u64> {
        Some(self.cache()?.body(chk).await?.length())
    }

    // ---- responses ----

    /// Stores a response whose body is in the cache.
    pub(crate) async fn put(&self, response: StoredResponse) {
        if let Some(cache) = self.cache() {
            cache.put(response).await;
        }
    }

    /// Invalidates a client's responses to a URL that an unsafe request may have changed (RFC 9111 section
    /// 4.4).
    pub(crate) async fn invalidate(&self, client: ClientId, url: &str) {
        if let Some(cache) = self.cache() {
            cache.forget_url(Owner::local(client), url).await;
        }
    }

    /// Deletes a client's data of an origin (`Clear-Site-Data`).
    pub(crate) async fn clear(&self, client: ClientId, url: &str) {
        if let (Some(cache), Some(origin)) = (self.cache(), origin_of(url)) {
            let what = DeletionScope::Origin(origin.to_owned());
            let whose = OwnerSelection::local(client);
            cache.forget(Deletion { whose, what }).await;
        }
    }

    /// Deletes what was fetched from a site or for it, by its registrable domain, or everything; of one
    /// client, or of all clients. The file contains none of this data when the call returns.
    pub(crate) async fn forget(&self, client: Option<ClientId>, site: Option<&str>) {
        if let Some(cache) = self.cache() {
            let whose = client.map_or(OwnerSelection::Everybody, OwnerSelection::local);
            let what = site.map_or(DeletionScope::All, |site| DeletionScope::Site(site.to_owned()));
            cache.forget(Deletion { whose, what }).await;
        }
    }

    // ---- manifests ----

    /// Stores the manifest of a page.
    pub(crate) async fn store_manifest(&self, context: &RequestContext, url: &str, record: Bytes) {
        if let (Some(cache), Some(key)) = (self.cache(), manifest_key(context, url)) {
            cache.put_record(RECORD_KIND, &key, record).await;
        }
    }

    /// Returns the kept manifest of a page.
    pub(crate) async fn manifest(&self, context: &RequestContext, url: &str) -> Option<Bytes> {
        let key = manifest_key(context, url)?;
        self.cache()?.record(RECORD_KIND, &key).await
    }

    // ---- statistics and end ----

    /// Waits until no body is being stored and all data is in the file.
    pub async fn settle(&self) {
        if let Some(inner) = &self.0 {
            let mut busy = inner.busy.subscribe();
            // The sender is part of this store.
            drop(busy.wait_for(|busy| *busy == 0).await);
            inner.cache.flush().await;
        }
    }

    /// Counts a body that is being stored, until the guard is dropped.
    pub(crate) fn busy(&self) -> StoringGuard {
        if let Some(inner) = &self.0 {
            inner.busy.send_modify(|busy| *busy += 1);
        }
        StoringGuard(self.clone())
    }

    /// Reads the cache's usage, for the next status.
    pub async fn refresh_usage(&self) {
        if let Some(inner) = &self.0 {
            let mut usage = inner.cache.usage().await;
            usage.resets += inner.resets;
            inner.usage.send_replace(Some(usage));
        }
    }

    /// Returns the usage as last read.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.0.as_ref().and_then(|inner| inner.usage.borrow().clone())
    }

    /// Writes pending data and closes the file.
    pub(crate) async fn close(&self) {
        if let Some(cache) = self.cache() {
            cache.clone().close().await;
        }
    }
}

/// See [`Store::stored`].
struct StoredBodies {
    busy: Option<watch::Receiver<usize>>,
    until: Instant,
}

impl StoredBodies {
    /// Waits until the next body is stored; returns `None` at the deadline.
    async fn next(&mut self) -> Option<()> {
        timeout_at(self.until, self.busy.as_mut()?.changed())
            .await
            .ok()?
            .ok()
    }
}

/// Guard of a body that is being stored.
#[derive(Debug)]
pub(crate) struct StoringGuard(Store);

impl Drop for StoringGuard {
    fn drop(&mut self) {
        if let Some(inner) = &self.0.0 {
            inner.busy.send_modify(|busy| *busy = busy.saturating_sub(1));
        }
    }
}

fn manifest_key(context: &RequestContext, url: &str) -> Option<RecordKey> {
    Some(RecordKey::new(
        &Partition::local(context)?,
        Some(url),
        b"manifest",
    ))
}
