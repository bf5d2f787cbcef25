//! What the gateway takes a device's agent to hold.
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use longhaul_cache::{Cache, MAX_HELD};
use longhaul_protocol::session::{MirrorState, ShortHash};
use longhaul_types::{ContentHash, PublicKey};
use tokio::{sync::watch, time::timeout};

/// How long a page waits for the agent's `Hello`, which normally came before it: on streams of their own they may
/// overtake one another.
const HELLO: Duration = Duration::from_millis(500);

/// The mirror of one device's cache, in one session.
///
/// A mistake costs a body sent twice, or a `Want`.
#[derive(Debug)]
pub(crate) struct Mirror {
    /// Without one the mirror lasts as long as the session.
    cache: Option<Cache>,
    device: PublicKey,
    /// That of the agent's cache.
    state: AtomicU64,
    held: Mutex<Held>,
    opened: watch::Sender<Option<MirrorState>>,
}

/// By short hash; the whole one is not known of what the agent itself named.
type Held = BTreeMap<ShortHash, Option<ContentHash>>;

impl Mirror {
    pub(crate) fn new(cache: Option<Cache>, device: PublicKey) -> Self {
        Self {
            cache,
            device,
            state: AtomicU64::new(0),
            held: Mutex::default(),
            opened: watch::Sender::new(None),
        }
    }

    /// Whether the agent is one without a cache, or has not said yet.
    fn keeps_nothing(&self) -> bool {
        self.state.load(Relaxed) == 0
    }

    /// Loads what is known of the agent's cache in the state that its `Hello` named; 0 stands for an agent without one.
    pub(crate) async fn open(&self, state: u64) -> MirrorState {
        self.state.store(state, Relaxed);
        let known = match &self.cache {
            Some(cache) if state != 0 => cache.mirror(self.device).await,
            // It holds nothing that matters, or nothing is remembered.
            Some(_) | None => None,
        };
        let agreed = match known {
            Some(mirror) if mirror.state == state => {
                self.lock()
                    .extend(mirror.held.iter().map(|hash| (short(hash), Some(*hash))));
                MirrorState::Agreed
            }
            Some(_) | None => {
                if let Some(cache) = &self.cache {
                    cache.mirror_reset(self.device, state).await;
                }
                if state == 0 {
                    MirrorState::Agreed
                } else {
                    MirrorState::Unknown
                }
            }
        };
        self.opened.send_replace(Some(agreed));
        agreed
    }

    /// Waits until the mirror is loaded, or it takes too long.
    pub(crate) async fn ready(&self) {
        let mut opened = self.opened.subscribe();
        // A page without a mirror is pushed whole.
        let _late = timeout(HELLO, opened.wait_for(Option::is_some)).await;
    }

    /// Whether the agent holds a body.
    pub(crate) fn holds(&self, hash: &ContentHash) -> bool {
        let held = self.lock().get(&short(hash)).copied();
        held.is_some_and(|known| known.is_none_or(|known| known == *hash))
    }

    /// The agent stores these bodies.
    pub(crate) async fn add(&self, hashes: Vec<ContentHash>) {
        if self.keeps_nothing() {
            return;
        }
        let new: Vec<ContentHash> = {
            let mut held = self.lock();
            let new = hashes.into_iter().filter(|hash| {
                let known = held.get(&short(hash));
                known != Some(&Some(*hash)) && (known.is_some() || held.len() < MAX_HELD)
            });
            let new: Vec<_> = new.collect();
            held.extend(new.iter().map(|hash| (short(hash), Some(*hash))));
            new
        };
        if let Some(cache) = &self.cache
            && !new.is_empty()
        {
            cache.mirror_add(self.device, new).await;
        }
    }

    /// The agent named what it holds.
    pub(crate) fn named(&self, hashes: &[ShortHash]) {
        let mut held = self.lock();
        for hash in hashes {
            if held.len() < MAX_HELD {
                held.entry(*hash).or_insert(None);
            }
        }
    }

    /// The agent does not hold these.
    pub(crate) async fn remove(&self, hashes: &[ShortHash]) {
        let gone: Vec<ContentHash> = {
            let mut held = self.lock();
            hashes
                .iter()
                .filter_map(|hash| held.remove(hash).flatten())
                .collect()
        };
        if let Some(cache) = &self.cache
            && !gone.is_empty()
        {
            cache.mirror_remove(self.device, gone).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        // A map is whole between any two calls.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A CHK's first bytes.
pub(crate) fn short(hash: &ContentHash) -> ShortHash {
    let mut short = ShortHash::default();
    short.copy_from_slice(&hash.as_bytes()[..6]);
    short
}

#[cfg(test)]
mod tests {
    use longhaul_cache::CacheConfig;
    use longhaul_types::{ByteCount, SecretKey};

    use super::*;

    fn mirror(cache: &Cache) -> Mirror {
        Mirror::new(Some(cache.clone()), SecretKey::from_bytes([3; 32]).public())
    }

    #[tokio::test]
    async fn what_is_held_outlives_the_session_while_the_state_is_the_same() {
        let home = tempfile::tempdir().unwrap();
        let config = CacheConfig {
            dir: home.path().to_owned(),
            file: "test.db",
            quota: ByteCount::new(1 << 20),
        };
        let cache = Cache::open(config, 1).unwrap().cache;
        let [a, b, c] = [b"a", b"b", b"c"].map(|body| ContentHash::of(body));
        let first = mirror(&cache);
        assert_eq!(first.open(5).await, MirrorState::Unknown);
        first.add(vec![a, b]).await;
        first.named(&[short(&c)]);
        assert!(first.holds(&a) && first.holds(&b) && first.holds(&c));
        first.remove(&[short(&b)]).await;
        assert!(!first.holds(&b));

        let second = mirror(&cache);
        assert_eq!(second.open(5).await, MirrorState::Agreed);
        second.ready().await;
        assert!(second.holds(&a) && !second.holds(&b));

        let reset = mirror(&cache);
        assert_eq!(reset.open(6).await, MirrorState::Unknown);
        assert!(!reset.holds(&a));
        let empty = mirror(&cache);
        assert_eq!(empty.open(0).await, MirrorState::Agreed);
        empty.add(vec![a]).await;
        assert!(!empty.holds(&a));
    }
}
