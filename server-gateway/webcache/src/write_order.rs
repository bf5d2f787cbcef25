//! Order of cache writes: lookups wait for a response that is being stored, and a response that was requested
//! before an invalidation of its URL is not stored.
//!
//! And the order of fetches and unsafe requests: who wrote to a site gets no response that was requested before.
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use longhaul_cache::Owner;
use longhaul_http::{request_context::origin_of, site::SchemefulSite};
use tokio::{sync::Notify, time::timeout};

/// Maximum wait for a response that is being stored: the origin usually responds sooner.
const MAX_WAIT: Duration = Duration::from_millis(250);
/// Number of counters that URLs share: a collision costs one response that is not stored, or one more fetch.
const BUCKETS: usize = 1024;

/// Pending writes and invalidation counters.
#[derive(Debug)]
pub(super) struct Writes {
    /// Number of complete bodies that are being stored, by URL. Bounded by the number of coalesced fetches.
    storing: Mutex<BTreeMap<String, usize>>,
    stored: Notify,
    invalidations: Vec<AtomicU64>,
    /// The number of the newest fetch or unsafe request.
    newest: AtomicU64,
    /// Numbers of the newest unsafe requests, by owner and site.
    unsafe_requests: Vec<AtomicU64>,
}

/// Position in the order of fetches and unsafe requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OrderNumber(u64);

/// Guard of a response that is being stored.
#[derive(Debug)]
pub(super) struct Storing {
    writes: Arc<Writes>,
    url: String,
}

/// Invalidation counters of a URL and of its origin at the time of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch(u64, u64);

impl Default for Writes {
    fn default() -> Self {
        Self {
            storing: Mutex::default(),
            stored: Notify::new(),
            invalidations: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            newest: AtomicU64::new(0),
            unsafe_requests: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Writes {
    /// Announces a write, before others learn that the response is complete.
    pub(super) fn begin(self: &Arc<Self>, url: &str) -> Storing {
        *self.lock().entry(url.to_owned()).or_insert(0) += 1;
        Storing {
            writes: Arc::clone(self),
            url: url.to_owned(),
        }
    }

    /// Waits, within bounds, until no response of the URL is being stored.
    pub(super) async fn settled(&self, url: &str) {
        let settle = async {
            loop {
                let stored = self.stored.notified();
                tokio::pin!(stored);
                // Registered before the check, so that no notification is missed.
                stored.as_mut().enable();
                if !self.lock().contains_key(url) {
                    return;
                }
                stored.await;
            }
        };
        // After the limit the request ignores the pending write.
        let _too_long = timeout(MAX_WAIT, settle).await;
    }

    /// Waits, within bounds, until nothing is being stored.
    pub(super) async fn finished(&self) {
        let finish = async {
            loop {
                let stored = self.stored.notified();
                tokio::pin!(stored);
                stored.as_mut().enable();
                if self.lock().is_empty() {
                    return;
                }
                stored.await;
            }
        };
        let _too_long = timeout(MAX_WAIT, finish).await;
    }

    /// Returns the current epoch; a later different value means an invalidation.
    pub(super) fn epoch(&self, url: &str) -> Epoch {
        let of = |name: &str| self.bucket(name).map_or(0, |count| count.load(Relaxed));
        Epoch(of(url), of(origin_of(url).unwrap_or_default()))
    }

    /// Prevents storing responses of the URL, or of the origin of this name, that were requested before now.
    pub(super) fn invalidate(&self, url_or_origin: &str) {
        if let Some(count) = self.bucket(url_or_origin) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Prevents storing any response that was requested before now.
    pub(super) fn invalidate_all(&self) {
        for count in &self.invalidations {
            count.fetch_add(1, Relaxed);
        }
    }

    /// The number of a fetch that begins now.
    pub(super) fn number_fetch(&self) -> OrderNumber {
        OrderNumber(self.newest.fetch_add(1, SeqCst) + 1)
    }

    /// Records that an unsafe request of this owner to the site of a URL begins, or is over.
    pub(super) fn record_unsafe(&self, owner: &Owner, url: &str) {
        let number = self.newest.fetch_add(1, SeqCst) + 1;
        if let Some(newest) = self.unsafe_bucket(owner, url) {
            newest.fetch_max(number, SeqCst);
        }
    }

    /// The newest unsafe request of this owner to the site of a URL. A response that was requested before may lack what
    /// the owner wrote.
    pub(super) fn newest_unsafe(&self, owner: &Owner, url: &str) -> OrderNumber {
        let bucket = self.unsafe_bucket(owner, url);
        OrderNumber(bucket.map_or(0, |newest| newest.load(SeqCst)))
    }

    fn unsafe_bucket(&self, owner: &Owner, url: &str) -> Option<&AtomicU64> {
        let site = SchemefulSite::of_url(url).map(|site| site.to_string());
        let mut hash = blake3::Hasher::new();
        hash.update(&owner.device);
        hash.update(&owner.client.0.to_be_bytes());
        hash.update(site.unwrap_or_default().as_bytes());
        self.unsafe_requests.get(bucket_of(&hash.finalize()))
    }

    fn bucket(&self, name: &str) -> Option<&AtomicU64> {
        self.invalidations.get(bucket_of(&blake3::hash(name.as_bytes())))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.storing.lock()
    }
}

fn bucket_of(hash: &blake3::Hash) -> usize {
    let [first, second, ..] = *hash.as_bytes();
    usize::from(u16::from_be_bytes([first, second])) % BUCKETS
}

impl Drop for Storing {
    fn drop(&mut self) {
        let mut storing = self.writes.lock();
        if let Some(count) = storing.get_mut(&self.url) {
            *count -= 1;
            if *count == 0 {
                storing.remove(&self.url);
            }
        }
        drop(storing);
        self.writes.stored.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalidation_changes_the_epoch_of_earlier_requests() {
        let writes = Writes::default();
        let (one, other) = (writes.epoch("http://a.test/"), writes.epoch("http://b.test/"));
        writes.invalidate("http://a.test/");
        assert_ne!(writes.epoch("http://a.test/"), one);
        assert_eq!(writes.epoch("http://b.test/"), other);
        writes.invalidate("http://b.test");
        assert_ne!(writes.epoch("http://b.test/"), other, "with its origin");
        let all = writes.epoch("http://c.test/");
        writes.invalidate_all();
        assert_ne!(writes.epoch("http://c.test/"), all);
    }

    #[test]
    fn fetches_before_an_unsafe_request_are_known_to_its_owner_and_site_only() {
        let writes = Writes::default();
        let [ann, bob] = [1, 2].map(|device| Owner {
            device: [device; 32],
            client: longhaul_types::ClientId::OWNER,
        });
        let before = writes.number_fetch();
        writes.record_unsafe(&ann, "https://api.a.test/list");
        let after = writes.number_fetch();
        let newest = writes.newest_unsafe(&ann, "https://www.a.test/count.js");
        assert!(before < newest && newest < after);
        for (owner, url) in [(ann, "https://b.test/list"), (bob, "https://api.a.test/list")] {
            assert!(before > writes.newest_unsafe(&owner, url), "{url}");
        }
    }

    #[tokio::test]
    async fn lookups_wait_for_responses_being_stored() {
        let writes = Arc::new(Writes::default());
        let (first, second) = (writes.begin("http://a.test/"), writes.begin("http://a.test/"));
        writes.settled("http://b.test/").await;
        drop(first);
        let waiting = writes.settled("http://a.test/");
        tokio::pin!(waiting);
        assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
        drop(second);
        waiting.await;
        assert!(writes.lock().is_empty());
    }

    #[tokio::test]
    async fn a_deletion_waits_for_all_responses_being_stored() {
        let writes = Arc::new(Writes::default());
        writes.finished().await;
        let storing = writes.begin("http://a.test/");
        let mut waiting = Box::pin(writes.finished());
        assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
        drop(storing);
        waiting.await;
    }
}
