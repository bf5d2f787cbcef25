//! The order of what is written to the cache: a response that is being stored is waited for, and one that was asked
//! for before its URL was invalidated is not stored any more.
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use longhaul_http::request_context::origin_of;
use tokio::{sync::Notify, time::timeout};

/// Longest wait for a response that is being stored: the origin answers in less as a rule.
const MAX_WAIT: Duration = Duration::from_millis(250);
/// URLs share these: a collision costs one response that is not stored.
const BUCKETS: usize = 1024;

/// What is being stored, and what was invalidated.
#[derive(Debug)]
pub(super) struct Writes {
    /// Complete bodies on their way into the cache, by URL. As many as there are flights.
    storing: Mutex<BTreeMap<String, usize>>,
    stored: Notify,
    invalidations: Vec<AtomicU64>,
}

/// A response that is being stored, until this is dropped.
#[derive(Debug)]
pub(super) struct Storing {
    writes: Arc<Writes>,
    url: String,
}

/// The state of a URL, and of its origin, when it was asked for.
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
    /// Announces a response of which somebody may know already that it is complete.
    pub(super) fn begin(self: &Arc<Self>, url: &str) -> Storing {
        *self.lock().entry(url.to_owned()).or_insert(0) += 1;
        Storing {
            writes: Arc::clone(self),
            url: url.to_owned(),
        }
    }

    /// Waits until no response of the URL is being stored, within bounds.
    pub(super) async fn settled(&self, url: &str) {
        let settle = async {
            loop {
                let stored = self.stored.notified();
                tokio::pin!(stored);
                // Before the look, so that nothing that happens behind it is missed.
                stored.as_mut().enable();
                if !self.lock().contains_key(url) {
                    return;
                }
                stored.await;
            }
        };
        // Then it is looked for as if it were not being stored.
        let _too_long = timeout(MAX_WAIT, settle).await;
    }

    /// Waits until nothing is being stored, within bounds.
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

    /// Whether a URL is still what it is now can be asked with this.
    pub(super) fn epoch(&self, url: &str) -> Epoch {
        let of = |name: &str| self.bucket(name).map_or(0, |count| count.load(Relaxed));
        Epoch(of(url), of(origin_of(url).unwrap_or_default()))
    }

    /// Nothing of the URL, or of the origin of this name, that was asked for before now is to be stored.
    pub(super) fn invalidate(&self, url_or_origin: &str) {
        if let Some(count) = self.bucket(url_or_origin) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Nothing that was asked for before now is to be stored.
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
        // What the lock guards is whole between any two statements.
        self.storing.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn an_invalidation_is_seen_by_what_began_before() {
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
    async fn what_is_being_stored_is_waited_for() {
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
