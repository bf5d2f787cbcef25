//! Order of cache writes: lookups wait for a response that is being stored, and a response that was requested
//! before an invalidation of its URL is not stored.
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use longhaul_http::request_context::origin_of;
use tokio::{sync::Notify, time::timeout};

/// Maximum wait for a response that is being stored: the origin usually responds sooner.
const MAX_WAIT: Duration = Duration::from_millis(250);
/// Number of counters that URLs share: a collision costs one response that is not stored.
const BUCKETS: usize = 1024;

/// Pending writes and invalidation counters.
#[derive(Debug)]
pub(super) struct Writes {
    /// Number of complete bodies that are being stored, by URL. Bounded by the number of coalesced fetches.
    storing: Mutex<BTreeMap<String, usize>>,
    stored: Notify,
    invalidations: Vec<AtomicU64>,
}

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

    fn bucket(&self, name: &str) -> Option<&AtomicU64> {
        let hash = blake3::hash(name.as_bytes());
        let [first, second, ..] = *hash.as_bytes();
        self.invalidations
            .get(usize::from(u16::from_be_bytes([first, second])) % BUCKETS)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.storing.lock()
    }
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
}
