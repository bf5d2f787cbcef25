//! The mirror: the gateway's record of the bodies that a device's agent holds, by the partition for which it
//! received them.
//!
//! A page that learns that a body is held learns that somebody loaded it, so the body must have been loaded
//! for the page's own partition.
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use longhaul_cache::{Cache, MAX_HELD, Partition, PartitionLabel};
use longhaul_session::{CacheStateId, MirrorState, ShortHash};
use longhaul_types::{ContentHash, PublicKey};
use tokio::{sync::watch, time::timeout};

/// Maximum time that a page waits for the agent's `Hello`. `Hello` is usually first, but streams may overtake
/// one another.
const HELLO: Duration = Duration::from_millis(500);
/// Number of evictions that are remembered for bodies whose acknowledgement is awaited. An agent reports a body that it
/// cannot store when the last byte has arrived, so few others come between.
const RECENT_EVICTIONS: usize = 256;

/// The mirror of one device's cache in one session.
///
/// An error costs a repeated body or a `Want`.
#[derive(Debug)]
pub struct Mirror {
    /// Without a cache the mirror lasts as long as the session.
    cache: Option<Cache>,
    device: PublicKey,
    /// Cache state of the agent.
    state: Mutex<Option<CacheStateId>>,
    held: Mutex<Held>,
    recent: Mutex<RecentEvictions>,
    opened: watch::Sender<Option<MirrorState>>,
}

/// Held bodies by short hash and partition. The full hash is `None` for bodies that the agent itself listed.
type Held = BTreeMap<(ShortHash, PartitionLabel), Option<ContentHash>>;

/// Number of bodies that the agent had reported as missing at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvictionCount(u64);

/// The newest bodies that the agent reported as missing, and the number of all.
#[derive(Debug, Default)]
struct RecentEvictions {
    all: EvictionCount,
    newest: VecDeque<ShortHash>,
}

impl RecentEvictions {
    fn record(&mut self, hashes: &[ShortHash]) {
        self.all.0 += hashes.len() as u64;
        let kept = &hashes[hashes.len().saturating_sub(RECENT_EVICTIONS)..];
        self.newest.extend(kept);
        let surplus = self.newest.len().saturating_sub(RECENT_EVICTIONS);
        self.newest.drain(..surplus);
    }

    fn has_since(&self, since: EvictionCount, hash: ShortHash) -> bool {
        let count = usize::try_from(self.all.0.saturating_sub(since.0)).unwrap_or(usize::MAX);
        self.newest.iter().rev().take(count).any(|other| *other == hash)
    }
}

impl Mirror {
    /// Creates the empty mirror of a device.
    pub fn new(cache: Option<Cache>, device: PublicKey) -> Self {
        Self {
            cache,
            device,
            state: Mutex::default(),
            held: Mutex::default(),
            recent: Mutex::default(),
            opened: watch::Sender::new(None),
        }
    }

    /// Returns true if the agent has no cache, or has not sent its cache state.
    fn keeps_nothing(&self) -> bool {
        self.state().is_none()
    }

    /// Loads the mirror for the cache state of the agent's `Hello`; `None` is an agent without a cache.
    pub async fn open(&self, state: Option<CacheStateId>) -> MirrorState {
        *self.state() = state;
        let known = match &self.cache {
            Some(cache) if state.is_some() => cache.mirror(self.device).await,
            // The agent holds nothing, or the gateway has no cache.
            Some(_) | None => None,
        };
        let agreed = match known {
            Some(mirror) if Some(mirror.state) == state.map(CacheStateId::number) => {
                self.lock().extend(held(&mirror.held));
                MirrorState::Agreed
            }
            Some(_) | None => {
                if let Some(cache) = &self.cache {
                    // The cache stores 0 for an agent without a cache.
                    let number = state.map_or(0, CacheStateId::number);
                    cache.mirror_reset(self.device, number).await;
                }
                if state.is_none() {
                    MirrorState::Agreed
                } else {
                    MirrorState::Unknown
                }
            }
        };
        self.opened.send_replace(Some(agreed));
        agreed
    }

    /// Waits until the mirror is loaded, up to a limit.
    pub async fn ready(&self) {
        let mut opened = self.opened.subscribe();
        // After a timeout the page is pushed in full.
        let _late = timeout(HELLO, opened.wait_for(Option::is_some)).await;
    }

    /// Returns true if the agent received the body for this partition and holds it; false if the partition is
    /// unknown.
    pub fn holds(&self, partition: Option<&Partition>, hash: &ContentHash) -> bool {
        let Some(partition) = partition else { return false };
        let held = self
            .lock()
            .get(&(ShortHash::of(hash), partition.label()))
            .copied();
        held.is_some_and(|known| known.is_none_or(|known| known == *hash))
    }

    /// Number of bodies that the agent has reported as missing.
    pub fn evictions(&self) -> EvictionCount {
        self.recent.lock().all
    }

    /// Records that the agent stores these bodies, received for this partition, except those that it has reported as
    /// missing since they were sent: such a report may overtake the acknowledgement of its body.
    pub async fn add(
        &self,
        partition: Option<&Partition>,
        mut hashes: Vec<ContentHash>,
        since: EvictionCount,
    ) {
        let Some(partition) = partition.filter(|_| !self.keeps_nothing()) else {
            return;
        };
        {
            let recent = self.recent.lock();
            hashes.retain(|hash| !recent.has_since(since, ShortHash::of(hash)));
        }
        let label = partition.label();
        let new: Vec<ContentHash> = {
            let mut held = self.lock();
            let new = hashes.into_iter().filter(|hash| {
                let known = held.get(&(ShortHash::of(hash), label));
                known != Some(&Some(*hash)) && (known.is_some() || held.len() < MAX_HELD)
            });
            let new: Vec<_> = new.collect();
            held.extend(new.iter().map(|hash| ((ShortHash::of(hash), label), Some(*hash))));
            new
        };
        if let Some(cache) = &self.cache
            && !new.is_empty()
        {
            cache.mirror_add(self.device, partition, new).await;
        }
    }

    /// Records the bodies of a page's previous manifest that the agent listed as held, for the page's
    /// partition.
    pub fn named(&self, partition: Option<&Partition>, hashes: &[ShortHash]) {
        let Some(partition) = partition else { return };
        let label = partition.label();
        let mut held = self.lock();
        for hash in hashes {
            if held.len() < MAX_HELD {
                held.entry((*hash, label)).or_insert(None);
            }
        }
    }

    /// Replaces the mirror in memory by the one in the cache, after a deletion.
    pub async fn reload(&self) {
        let known = match &self.cache {
            Some(cache) if !self.keeps_nothing() => cache.mirror(self.device).await,
            Some(_) | None => None,
        };
        let known = known.unwrap_or_default();
        *self.lock() = held(&known.held).collect();
    }

    /// Removes bodies in all partitions: the agent does not hold them.
    pub async fn remove(&self, hashes: &[ShortHash]) {
        self.recent.lock().record(hashes);
        let mut gone: Vec<ContentHash> = {
            let mut held = self.lock();
            let places = |held: &Held, hash: ShortHash| {
                let of_hash = held.range((hash, PartitionLabel::FIRST)..=(hash, PartitionLabel::LAST));
                of_hash.map(|(place, _)| *place).collect::<Vec<_>>()
            };
            let places: Vec<_> = hashes.iter().flat_map(|hash| places(&held, *hash)).collect();
            places
                .iter()
                .filter_map(|place| held.remove(place).flatten())
                .collect()
        };
        gone.dedup();
        if let Some(cache) = &self.cache
            && !gone.is_empty()
        {
            cache.mirror_remove(self.device, gone).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, Option<CacheStateId>> {
        self.state.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock()
    }
}

fn held(
    hashes: &[(ContentHash, PartitionLabel)],
) -> impl Iterator<Item = ((ShortHash, PartitionLabel), Option<ContentHash>)> {
    hashes
        .iter()
        .map(|(hash, label)| ((ShortHash::of(hash), *label), Some(*hash)))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};
    use longhaul_cache::CacheConfig;
    use longhaul_http::request_context::CredentialsSecret;
    use longhaul_types::{ByteCount, ClientId, SecretKey};
    use longhaul_webcache::RequesterIdentity;

    use super::*;

    fn partition(client: u64, site: &str) -> Partition {
        let device = SecretKey::from_bytes([3; 32]).public();
        let headers = HeaderMap::from_iter([(http::header::REFERER, site.parse().unwrap())]);
        let secret = CredentialsSecret::derived_from(&[7]);
        let who = (device, ClientId(client));
        let identity = RequesterIdentity::of(who, &secret, &Method::GET, "http://x.test/", &headers);
        identity.partition().unwrap()
    }

    fn cache(dir: &std::path::Path) -> Cache {
        let config = CacheConfig {
            dir: dir.to_owned(),
            file: "test.db",
            quota: ByteCount::new(1 << 20),
        };
        Cache::open(config, 1).unwrap().cache
    }

    fn mirror(cache: &Cache) -> Mirror {
        Mirror::new(Some(cache.clone()), SecretKey::from_bytes([3; 32]).public())
    }

    #[tokio::test]
    async fn held_bodies_outlive_the_session_if_the_cache_state_is_unchanged() {
        let home = tempfile::tempdir().unwrap();
        let cache = cache(home.path());
        let [a, b, c] = [b"a", b"b", b"c"].map(|body| ContentHash::of(body));
        let first = mirror(&cache);
        assert_eq!(first.open(CacheStateId::new(5)).await, MirrorState::Unknown);
        let site = partition(0, "http://a.test/");
        let (site, others) = (
            Some(&site),
            [partition(0, "http://b.test/"), partition(1, "http://a.test/")],
        );
        first.add(site, vec![a, b], first.evictions()).await;
        first.add(Some(&others[0]), vec![b], first.evictions()).await;
        first.named(site, &[ShortHash::of(&c)]);
        assert!(first.holds(site, &a) && first.holds(site, &b) && first.holds(site, &c));
        for other in others.iter().map(Some).chain([None]) {
            assert!(!first.holds(other, &a) && !first.holds(other, &c), "{other:?}");
        }
        assert!(first.holds(Some(&others[0]), &b));
        first.remove(&[ShortHash::of(&b)]).await;
        assert!(!first.holds(site, &b) && !first.holds(Some(&others[0]), &b));

        let second = mirror(&cache);
        assert_eq!(second.open(CacheStateId::new(5)).await, MirrorState::Agreed);
        second.ready().await;
        assert!(second.holds(site, &a) && !second.holds(site, &b));
        assert!(!second.holds(Some(&others[0]), &a) && !second.holds(Some(&others[1]), &a));

        let reset = mirror(&cache);
        assert_eq!(reset.open(CacheStateId::new(6)).await, MirrorState::Unknown);
        assert!(!reset.holds(site, &a));
        let empty = mirror(&cache);
        assert_eq!(empty.open(CacheStateId::new(0)).await, MirrorState::Agreed);
        empty.add(site, vec![a], empty.evictions()).await;
        assert!(!empty.holds(site, &a));
    }

    #[tokio::test]
    async fn bodies_of_deleted_data_are_not_held_after_a_reload() {
        let home = tempfile::tempdir().unwrap();
        let cache = cache(home.path());
        let [a, b] = [b"a", b"b"].map(|body| ContentHash::of(body));
        let mirror = mirror(&cache);
        mirror.open(CacheStateId::new(5)).await;
        let (site, other) = (partition(0, "http://a.test/"), partition(0, "http://b.test/"));
        mirror.add(Some(&site), vec![a], mirror.evictions()).await;
        mirror.add(Some(&other), vec![b], mirror.evictions()).await;
        mirror.reload().await;
        assert!(mirror.holds(Some(&site), &a) && mirror.holds(Some(&other), &b));
        cache.mirror_reset(mirror.device, 5).await;
        assert!(mirror.holds(Some(&site), &a));
        mirror.reload().await;
        assert!(!mirror.holds(Some(&site), &a) && !mirror.holds(Some(&other), &b));
    }

    #[tokio::test]
    async fn the_mirror_of_an_agent_without_a_cache_is_neither_loaded_nor_extended() {
        let home = tempfile::tempdir().unwrap();
        let cache = cache(home.path());
        let a = ContentHash::of(b"a");
        let site = partition(0, "http://a.test/");
        let mirror = mirror(&cache);
        assert_eq!(mirror.open(None).await, MirrorState::Agreed);
        cache.mirror_add(mirror.device, &site, vec![a]).await;
        mirror.reload().await;
        assert!(!mirror.holds(Some(&site), &a));
        let again = self::mirror(&cache);
        assert_eq!(again.open(None).await, MirrorState::Agreed);
        assert!(!again.holds(Some(&site), &a));
    }

    #[tokio::test]
    async fn a_full_mirror_replaces_what_it_knows_and_takes_nothing_new() {
        let mirror = Mirror::new(None, SecretKey::from_bytes([3; 32]).public());
        mirror.open(CacheStateId::new(5)).await;
        let site = partition(0, "http://a.test/");
        let [known, new] = [b"a", b"b"].map(|body| ContentHash::of(body));
        let short = |number: usize| ShortHash::of(&ContentHash::of(&number.to_be_bytes()));
        mirror.named(Some(&site), &[ShortHash::of(&known)]);
        let others: Vec<_> = (0..MAX_HELD - 2).map(short).collect();
        mirror.named(Some(&site), &others);
        let add = async |hash| mirror.add(Some(&site), vec![hash], mirror.evictions()).await;
        let last = ContentHash::of(b"last");
        add(last).await;
        assert!(mirror.holds(Some(&site), &last));
        assert_eq!(mirror.lock().len(), MAX_HELD);
        add(new).await;
        mirror.named(Some(&site), &[ShortHash::of(&new)]);
        assert!(!mirror.holds(Some(&site), &new));
        add(known).await;
        let place = (ShortHash::of(&known), site.label());
        assert_eq!(
            mirror.lock().get(&place),
            Some(&Some(known)),
            "now with its full hash"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_waits_half_a_second_for_the_mirror() {
        let mirror = Mirror::new(None, SecretKey::from_bytes([3; 32]).public());
        let begun = tokio::time::Instant::now();
        mirror.ready().await;
        assert_eq!(begun.elapsed(), HELLO);
        mirror.open(CacheStateId::new(5)).await;
        mirror.ready().await;
        assert_eq!(begun.elapsed(), HELLO, "it is loaded");
    }

    #[tokio::test]
    async fn a_report_may_overtake_the_acknowledgement_of_its_body() {
        let mirror = Mirror::new(None, SecretKey::from_bytes([3; 32]).public());
        mirror.open(CacheStateId::new(5)).await;
        let site = partition(0, "http://a.test/");
        let site = Some(&site);
        let [a, b] = [b"a", b"b"].map(|body| ContentHash::of(body));
        let sent = mirror.evictions();
        mirror.remove(&[ShortHash::of(&a)]).await;
        mirror.add(site, vec![a, b], sent).await;
        assert!(!mirror.holds(site, &a) && mirror.holds(site, &b));
        mirror.add(site, vec![a], mirror.evictions()).await;
        assert!(mirror.holds(site, &a), "sent again after the report");
        let many: Vec<ShortHash> = (0..1000_u32)
            .map(|number| ShortHash::of(&ContentHash::of(&number.to_be_bytes())))
            .collect();
        let sent = mirror.evictions();
        mirror.remove(&many).await;
        assert_eq!(mirror.recent.lock().newest.len(), RECENT_EVICTIONS);
        let last = ContentHash::of(&999_u32.to_be_bytes());
        mirror.add(site, vec![last], sent).await;
        assert!(!mirror.holds(site, &last));
    }
}
