//! The agent's cache: a private one (RFC 9111), and the bodies that page loads build on.
//!
//! What is stored by URL answers only requests of the same client, site and credentials (see
//! [`RequestContext`]), so that no page can find out what other sites were visited. Bodies are shared by hash: to use one takes a gateway that names it.
mod lookup;
mod open;
mod tee;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use longhaul_cache::{
    BodyWriter, Cache, Cost, Forget, ForgetWhat, Owner, Partition, RecordKey, RecordKind, StoredBody,
    StoredResponse, Usage, Whose,
};
use longhaul_codec::{MAX_BASE, dictionary};
use longhaul_http::{
    request_context::{CredentialsKey, RequestContext, origin_of},
    site::SchemefulSite,
    vary,
};
use longhaul_protocol::session::ShortHash;
use longhaul_types::{ClientId, ContentHash, UnixTime};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout_at},
};

pub(crate) use lookup::{Lookup, Query};
pub(crate) use tee::Tee;

/// Missing bodies that wait to be told to the gateway. It only saves a round trip later, so more are dropped.
const MISSING: usize = 256;
/// Agents' records other than manifests do not exist; this is a manifest's size at most.
const KIND: RecordKind = RecordKind::Manifest;

/// How long a body that the gateway takes to be held is waited for. The gateway knows from the transport that it has
/// arrived, which may be before the cache has it. To ask again costs more than this on the hops this is made for.
const ON_ITS_WAY: Duration = Duration::from_millis(300);

/// The largest body that serves as a base: the gateway's own bound.
const MAX_BASE_BODY: u64 = 2 * MAX_BASE as u64;

/// The cache, or none. Clones are the same.
#[derive(Clone, Debug)]
pub struct Store(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    cache: Cache,
    missing: mpsc::Sender<ContentHash>,
    /// What [`Store::losses`] reads.
    losses: Mutex<Option<Losses>>,
    usage: watch::Sender<Option<Usage>>,
    /// Bodies that are being stored.
    busy: watch::Sender<usize>,
    /// Resets before this run.
    resets: u64,
}

/// Bodies that the gateway may believe to be held and that are not.
#[derive(Debug)]
pub(crate) struct Losses {
    evicted: mpsc::Receiver<Vec<ContentHash>>,
    missing: mpsc::Receiver<ContentHash>,
}

impl Losses {
    /// The next ones; `None` when there will be none. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Vec<ContentHash>> {
        tokio::select! {
            hashes = self.evicted.recv() => hashes,
            Some(hash) = self.missing.recv() => Some(vec![hash]),
        }
    }
}

impl Store {
    /// No cache: nothing is kept, and nothing is found.
    pub const fn off() -> Self {
        Self(None)
    }

    fn of(cache: Cache, resets: u64) -> Self {
        let (missing, of_missing) = mpsc::channel(MISSING);
        let losses = Losses {
            evicted: cache.evictions(),
            missing: of_missing,
        };
        Self(Some(Arc::new(Inner {
            cache,
            missing,
            losses: Mutex::new(Some(losses)),
            usage: watch::Sender::new(None),
            busy: watch::Sender::new(0),
            resets,
        })))
    }

    fn cache(&self) -> Option<&Cache> {
        self.0.as_ref().map(|inner| &inner.cache)
    }

    /// Whether there is a cache.
    pub(crate) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Names the cache's state to the gateway; zero without a cache: then the gateway takes nothing to be held.
    pub(crate) fn state_id(&self) -> u64 {
        self.cache().map_or(0, Cache::state_id)
    }

    /// What the gateway must be told, once.
    pub(crate) fn losses(&self) -> Option<Losses> {
        let inner = self.0.as_ref()?;
        inner.losses.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The gateway takes this body to be held, which it is not.
    pub(crate) fn report_missing(&self, chk: ContentHash) {
        if let Some(inner) = &self.0 {
            let _full = inner.missing.try_send(chk);
        }
    }

    // ---- bodies ----

    /// Whether a body is there.
    pub(crate) async fn has(&self, chk: ContentHash) -> bool {
        match self.cache() {
            Some(cache) => cache.has(chk).await,
            None => false,
        }
    }

    /// The body whose CHK begins so.
    pub(crate) async fn find_prefix(&self, prefix: &[u8]) -> Option<ContentHash> {
        self.cache()?.find_prefix(prefix).await
    }

    /// A body that the gateway takes to be held, waited for in case that it is being stored.
    pub(crate) async fn body(&self, chk: ContentHash) -> Option<StoredBody> {
        let mut stored = self.stored();
        loop {
            if let Some(body) = self.cache()?.body(chk).await {
                return Some(body);
            }
            stored.next().await?;
        }
    }

    /// The body whose CHK begins so, which the gateway takes to be held, waited for like [`Self::body`].
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

    /// Tells when bodies have been stored, from now on and for a little time.
    fn stored(&self) -> Arrivals {
        Arrivals {
            busy: self.0.as_ref().map(|inner| inner.busy.subscribe()),
            until: Instant::now() + ON_ITS_WAY,
        }
    }

    /// A body that another one is coded against, named by the first bytes of its CHK.
    pub(crate) async fn base(&self, name: &ShortHash) -> Option<Bytes> {
        if let Some(dictionary) = dictionary::find(name) {
            return Some(dictionary);
        }
        let body = self.body_of_prefix(name).await?;
        if body.length() > MAX_BASE_BODY {
            return None;
        }
        body.collect().await
    }

    /// Begins to store a body.
    pub(crate) fn writer(&self) -> Option<BodyWriter> {
        self.cache().map(|cache| cache.writer(Cost::unknown()))
    }

    /// The length of a body that is there.
    pub(crate) async fn length(&self, chk: ContentHash) -> Option<u64> {
        Some(self.cache()?.body(chk).await?.length())
    }

    // ---- responses ----

    /// Keeps a response, whose body is there.
    pub(crate) async fn put(&self, response: StoredResponse) {
        if let Some(cache) = self.cache() {
            cache.put(response).await;
        }
    }

    /// Forgets a client's responses to a URL that an unsafe request may have changed (RFC 9111 section 4.4).
    pub(crate) async fn invalidate(&self, client: ClientId, url: &str) {
        if let Some(cache) = self.cache() {
            cache.forget_url(Owner::local(client), url).await;
        }
    }

    /// Forgets what a client has of an origin, which asked for it (`Clear-Site-Data`).
    pub(crate) async fn clear(&self, client: ClientId, url: &str) {
        if let (Some(cache), Some(origin)) = (self.cache(), origin_of(url)) {
            let what = ForgetWhat::Origin(origin.to_owned());
            let whose = Whose::local(client);
            cache.forget(Forget { whose, what }).await;
        }
    }

    /// Forgets what was fetched from a site or for it, by its registrable domain, or all. Of one client, or of all.
    /// Nothing of it is in the file when this returns.
    pub(crate) async fn forget(&self, client: Option<ClientId>, site: Option<&str>) {
        if let Some(cache) = self.cache() {
            let whose = client.map_or(Whose::Everybody, Whose::local);
            let what = site.map_or(ForgetWhat::All, |site| ForgetWhat::Site(site.to_owned()));
            cache.forget(Forget { whose, what }).await;
        }
    }

    // ---- manifests ----

    /// Keeps the manifest of a page.
    pub(crate) async fn keep_manifest(&self, context: &RequestContext, url: &str, record: Bytes) {
        if let (Some(cache), Some(key)) = (self.cache(), manifest_key(context, url)) {
            cache.put_record(KIND, &key, record).await;
        }
    }

    /// The manifest that was kept of a page.
    pub(crate) async fn manifest(&self, context: &RequestContext, url: &str) -> Option<Bytes> {
        let key = manifest_key(context, url)?;
        self.cache()?.record(KIND, &key).await
    }

    // ---- figures and end ----

    /// Waits until no body is being stored, and all is in the file.
    pub async fn settle(&self) {
        if let Some(inner) = &self.0 {
            let mut busy = inner.busy.subscribe();
            // The sender lives in this store.
            drop(busy.wait_for(|busy| *busy == 0).await);
            inner.cache.flush().await;
        }
    }

    /// Notes that a body is being stored.
    pub(crate) fn busy(&self) -> Busy {
        if let Some(inner) = &self.0 {
            inner.busy.send_modify(|busy| *busy += 1);
        }
        Busy(self.clone())
    }

    /// Reads the cache's figures, for the next status.
    pub async fn refresh_usage(&self) {
        if let Some(inner) = &self.0 {
            let mut usage = inner.cache.usage().await;
            usage.resets += inner.resets;
            inner.usage.send_replace(Some(usage));
        }
    }

    /// The figures as they were read last.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.0.as_ref().and_then(|inner| inner.usage.borrow().clone())
    }

    /// Writes what is left and closes the file.
    pub(crate) async fn close(&self) {
        if let Some(cache) = self.cache() {
            cache.clone().close().await;
        }
    }
}

/// See [`Store::stored`].
struct Arrivals {
    busy: Option<watch::Receiver<usize>>,
    until: Instant,
}

impl Arrivals {
    /// Waits until the next body is stored; `None` when that takes too long.
    async fn next(&mut self) -> Option<()> {
        timeout_at(self.until, self.busy.as_mut()?.changed())
            .await
            .ok()?
            .ok()
    }
}

/// A body is being stored, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Busy(Store);

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(inner) = &self.0.0 {
            inner.busy.send_modify(|busy| *busy = busy.saturating_sub(1));
        }
    }
}

/// The wall clock, by which caches reckon.
pub(crate) fn now() -> UnixTime {
    UnixTime::new(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn manifest_key(context: &RequestContext, url: &str) -> Option<RecordKey> {
    Some(RecordKey::new(
        &Partition::local(context)?,
        Some(url),
        b"manifest",
    ))
}

/// For whom a response is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keeper {
    partition: Partition,
    credentials: Option<CredentialsKey>,
}

impl Keeper {
    /// For requests like this one, whose response was fetched with its credentials. None: nothing is kept for it.
    pub(crate) fn of(context: &RequestContext) -> Option<Self> {
        Some(Self {
            partition: Partition::local(context)?,
            credentials: context.credentials(),
        })
    }

    /// For what a site's own documents load, fetched without credentials.
    pub(crate) fn of_site(client: ClientId, site: SchemefulSite) -> Self {
        Self {
            partition: Partition::of_site(Owner::local(client), site),
            credentials: None,
        }
    }

    /// The same for a response that was fetched without credentials.
    pub(crate) fn anonymous(self) -> Self {
        Self {
            credentials: None,
            ..self
        }
    }
}

/// A response as the cache keeps it, without its body. `request` needs only the fields that `Vary` names.
pub(crate) fn response_of(
    keeper: &Keeper,
    url: &str,
    request: &HeaderMap,
    status: StatusCode,
    fields: &HeaderMap,
) -> StoredResponse {
    let now = now();
    StoredResponse {
        partition: keeper.partition.clone(),
        url: url.to_owned(),
        vary: vary::key(fields, request).unwrap_or_default(),
        credentials: keeper.credentials,
        request_fields: pairs(&vary::nominated(fields, request)),
        status: status.as_u16(),
        fields: pairs(fields),
        chk: None,
        length: 0,
        requested_at: now,
        received_at: now,
    }
}

fn pairs(fields: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    fields
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect()
}
