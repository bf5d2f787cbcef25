//! Delta bases: bodies that a device's agent holds and against which other bodies can be encoded, such as the
//! previous version, pages of the same kind, and files under an older name (docs/protocol/body.md section 2).
//!
//! A base is never shared between devices, clients, partitions ([`Partition`]), origins or users of a site. A request
//! with cookies by another site or an unknown requester has no base
//! (docs/protocol/session.md section 7.5). The sizes of bodies that may be personal are padded
//! ([`longhaul_codec::BodyEncoder::pad`]). Dictionaries ([`longhaul_codec::dictionary`]) belong to no user:
//! any body may be encoded against one if the agent has it.
mod delta_key;
mod held_bodies;

use std::collections::BTreeMap;

use parking_lot::Mutex;

use bytes::Bytes;
use longhaul_cache::{Cache, Partition, RecordKey, RecordKind};
use longhaul_codec::{MAX_BASE, MemoryReservation, MemoryShare};
use longhaul_types::{BitRate, ByteCount, ContentHash};

pub use self::delta_key::DeltaKey;
use self::held_bodies::{HeldBodies, HeldBody};
use super::mirror::Mirror;

/// Maximum number of bases that the coder tries for one body.
const MAX_CANDIDATES: usize = 3;
/// Minimum length, in bytes, of a body for which a base is read.
const SMALLEST: u64 = 300;
/// Maximum length of a base, in bytes: of a longer body only a small part would be used.
const LARGEST: u64 = 2 * MAX_BASE as u64;
/// Link rate from which no base is used: the transfer costs less than reading the base.
const FAST: BitRate = BitRate::kbps(200_000);
/// Maximum number of records in memory, each of one origin in one partition; the others are in the cache.
const MAX_ORIGINS: usize = 64;
/// Memory for all bases in use: some hundred pages.
pub const DELTA_BASE_MEMORY: ByteCount = ByteCount::mib(128);

/// The bodies that a device's agent holds, by partition and origin.
#[derive(Debug)]
pub struct DeltaBases {
    cache: Option<Cache>,
    memory: MemoryShare,
    by_origin: Mutex<BTreeMap<OriginKey, HeldBodies>>,
}

/// A partition and an origin.
type OriginKey = (Partition, String);

/// Candidate bases for one body, the most similar first.
#[derive(Debug, Default)]
pub struct DeltaCandidates {
    /// CHKs of `bodies`.
    pub hashes: Vec<ContentHash>,
    /// Candidate bases.
    pub bodies: Vec<Bytes>,
    /// Number of the dictionary set that may also serve; 0 for none.
    pub dictionaries: u32,
    /// True if the body's size must be padded.
    pub is_personal: bool,
    /// Memory for context mixing, if the agent accepts it. Used only if no base is used.
    pub mixing: Option<MemoryShare>,
    /// Memory of the bases, given back when the encoding ends.
    pub memory: Option<MemoryReservation>,
}

impl DeltaBases {
    /// Creates the delta bases of a device. `memory` is the device's part of the memory of all bases in use.
    pub fn new(cache: Option<Cache>, memory: MemoryShare) -> Self {
        Self {
            cache,
            memory,
            by_origin: Mutex::default(),
        }
    }

    /// Returns the candidate bases of a body, whose `length` in bytes may be unknown.
    pub async fn offers(
        &self,
        delta_key: &DeltaKey,
        length: Option<u64>,
        link: Option<BitRate>,
        mirror: &Mirror,
    ) -> DeltaCandidates {
        let worth = length.is_none_or(|length| length >= SMALLEST) && link.is_none_or(|link| link < FAST);
        let Some(cache) = self.cache.as_ref().filter(|_| worth) else {
            return DeltaCandidates::default();
        };
        let origin_key = origin_key(delta_key);
        self.load(cache, &origin_key).await;
        let likely = self.by_origin.lock().get(&origin_key).map(|held| {
            held.likely(delta_key, |held| {
                (SMALLEST..=LARGEST).contains(&held.length)
                    && mirror.holds(Some(&delta_key.partition), &held.hash)
            })
        });
        let likely = likely.unwrap_or_default();
        let mut candidates = DeltaCandidates {
            is_personal: delta_key.is_personal(),
            ..DeltaCandidates::default()
        };
        let needed: u64 = likely.iter().take(MAX_CANDIDATES).map(|held| held.length).sum();
        let Some(memory) = self.memory.reserve(needed) else {
            return DeltaCandidates::default();
        };
        candidates.memory = Some(memory);
        for held in likely.into_iter().take(MAX_CANDIDATES) {
            if let Some(body) = cache.body(held.hash).await
                && let Some(body) = body.collect().await
            {
                candidates.hashes.push(held.hash);
                candidates.bodies.push(body);
            }
        }
        candidates
    }

    /// Records that the agent stores this body.
    pub async fn learn(&self, delta_key: &DeltaKey, hash: ContentHash, length: u64) {
        let Some(cache) = &self.cache else { return };
        let origin_key = origin_key(delta_key);
        self.load(cache, &origin_key).await;
        let record = {
            let mut by_origin = self.by_origin.lock();
            let held = by_origin.get_mut(&origin_key);
            held.and_then(|held| {
                held.add(HeldBody::of(delta_key, hash, length))
                    .then(|| held.encode())
            })
        };
        if let Some(record) = record {
            cache
                .put_record(RecordKind::Bases, &key(&origin_key), record)
                .await;
        }
    }

    /// Discards the records in memory, after data was deleted from the cache.
    pub fn reload(&self) {
        self.by_origin.lock().clear();
    }

    /// Loads the record of an origin into memory.
    async fn load(&self, cache: &Cache, origin_key: &OriginKey) {
        if self.by_origin.lock().contains_key(origin_key) {
            return;
        }
        let record = cache.record(RecordKind::Bases, &key(origin_key)).await;
        let held = record
            .and_then(|record| HeldBodies::decode(&record))
            .unwrap_or_default();
        let mut by_origin = self.by_origin.lock();
        if by_origin.len() >= MAX_ORIGINS && !by_origin.contains_key(origin_key) {
            by_origin.pop_first();
        }
        by_origin.entry(origin_key.clone()).or_insert(held);
    }
}

fn origin_key(delta_key: &DeltaKey) -> OriginKey {
    (delta_key.partition.clone(), delta_key.origin.clone())
}

/// The key depends on the partition, because the records reveal what a user loaded.
fn key((partition, origin): &OriginKey) -> RecordKey {
    RecordKey::new(partition, Some(origin), b"")
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method, StatusCode};
    use longhaul_cache::{CacheConfig, Cost};
    use longhaul_codec::MemoryShares;
    use longhaul_http::request_context::CredentialsSecret;
    use longhaul_session::CacheStateId;
    use longhaul_types::{ClientId, SecretKey};
    use longhaul_webcache::RequesterIdentity;
    use url::Url;

    use super::*;

    fn cache(dir: &std::path::Path) -> Cache {
        let config = CacheConfig {
            dir: dir.to_owned(),
            file: "test.db",
            quota: ByteCount::mib(8),
        };
        Cache::open(config, 1).unwrap().cache
    }

    async fn store(cache: &Cache, body: &[u8]) -> ContentHash {
        let mut writer = cache.writer(Cost::unknown());
        writer.write(Bytes::copy_from_slice(body)).await;
        writer.commit().await.unwrap()
    }

    fn delta_key_of(device: u8, referrer: &str, url: &str, cookie: Option<&str>) -> DeltaKey {
        let mut request = HeaderMap::new();
        request.insert("referer", referrer.parse().unwrap());
        request.insert("sec-fetch-site", "same-site".parse().unwrap());
        if let Some(cookie) = cookie {
            request.insert("cookie", cookie.parse().unwrap());
        }
        let response = HeaderMap::from_iter([(http::header::CONTENT_TYPE, "text/html".parse().unwrap())]);
        let who = (SecretKey::from_bytes([device; 32]).public(), ClientId::OWNER);
        let secret = CredentialsSecret::derived_from(&[7]);
        let identity = RequesterIdentity::of(who, &secret, &Method::GET, url, &request);
        let url = Url::parse(url).unwrap();
        DeltaKey::of(&url, &identity, &request, StatusCode::OK, &response).unwrap()
    }

    fn delta_key(url: &str, cookie: Option<&str>) -> DeltaKey {
        let origin = Url::parse(url).unwrap().origin().ascii_serialization();
        delta_key_of(1, &origin.replace("://", "://www."), url, cookie)
    }

    #[tokio::test]
    async fn bases_are_per_device_origin_and_user_and_outlive_the_session() {
        let home = tempfile::tempdir().unwrap();
        let cache = cache(home.path());
        let memory = MemoryShares::new(DELTA_BASE_MEMORY);
        let device = |n: u8| SecretKey::from_bytes([n; 32]).public();
        let bases = || DeltaBases::new(Some(cache.clone()), memory.of(device(1)));
        let mirror = Mirror::new(Some(cache.clone()), device(1));
        mirror.open(CacheStateId::new(7)).await;
        let first = bases();
        let (page, other) = (vec![b'x'; 900], vec![b'y'; 900]);
        let (page, other) = (store(&cache, &page).await, store(&cache, &other).await);
        first
            .learn(&delta_key("http://a.test/story/1", None), page, 900)
            .await;
        first
            .learn(&delta_key("http://a.test/story/2", Some("sid=1")), other, 900)
            .await;
        let later = bases();
        let found = async |bases: &DeltaBases, url: &str, cookie| {
            let candidates = bases.offers(&delta_key(url, cookie), None, None, &mirror).await;
            candidates.hashes
        };
        assert!(
            found(&later, "http://a.test/story/3", None).await.is_empty(),
            "the agent does not hold it"
        );
        let partition = delta_key("http://a.test/story/3", None).partition;
        mirror
            .add(Some(&partition), vec![page, other], mirror.evictions())
            .await;
        assert_eq!(found(&later, "http://a.test/story/3", None).await, [page]);
        assert_eq!(
            found(&later, "http://a.test/story/3", Some("sid=1")).await,
            [other]
        );
        assert!(
            found(&later, "http://a.test/story/3", Some("sid=2"))
                .await
                .is_empty()
        );
        assert!(found(&later, "http://b.test/story/3", None).await.is_empty());
        for (device, referrer) in [(2, "http://www.a.test/"), (1, "http://b.a.test:8/")] {
            let delta_key = delta_key_of(device, referrer, "http://a.test/story/3", None);
            let candidates = later.offers(&delta_key, None, None, &mirror).await;
            assert_eq!(candidates.hashes.is_empty(), device == 2, "{referrer}");
        }
        later.reload();
        assert_eq!(found(&later, "http://a.test/story/3", None).await, [page]);
        let third = delta_key("http://a.test/story/3", None);
        let fast = later.offers(&third, None, Some(FAST), &mirror).await;
        assert!(fast.hashes.is_empty());
        assert_eq!(memory.used(), ByteCount::new(0), "all of it was given back");
    }

    const OLD: &str = "http://a.test/story/1";
    const NEW: &str = "http://a.test/story/2";

    /// Bases of one held body, and the mirror that holds it.
    async fn one_base(cache: &Cache, memory: &MemoryShares, body: &[u8]) -> (DeltaBases, Mirror) {
        let device = SecretKey::from_bytes([1; 32]).public();
        let bases = DeltaBases::new(Some(cache.clone()), memory.of(device));
        let mirror = Mirror::new(Some(cache.clone()), device);
        mirror.open(CacheStateId::new(7)).await;
        let (old, hash) = (delta_key(OLD, None), store(cache, body).await);
        bases.learn(&old, hash, body.len() as u64).await;
        mirror
            .add(Some(&old.partition), vec![hash], mirror.evictions())
            .await;
        (bases, mirror)
    }

    #[tokio::test]
    async fn bases_are_read_for_bodies_and_links_that_gain_by_them() {
        let home = tempfile::tempdir().unwrap();
        let (cache, memory) = (cache(home.path()), MemoryShares::new(DELTA_BASE_MEMORY));
        let (bases, mirror) = one_base(&cache, &memory, &[b'x'; 900]).await;
        let slower = BitRate::bps(FAST.as_bps() - 1);
        for (length, link, expected) in [
            (None, None, 1),
            (Some(SMALLEST), Some(slower), 1),
            (Some(SMALLEST - 1), None, 0),
            (None, Some(FAST), 0),
        ] {
            let offers = bases.offers(&delta_key(NEW, None), length, link, &mirror).await;
            assert_eq!(offers.bodies.len(), expected, "{length:?} {link:?}");
            let used = if expected == 1 { 900 } else { 0 };
            assert_eq!(memory.used(), ByteCount::new(used), "as long as they are in use");
        }
    }

    #[tokio::test]
    async fn no_base_is_offered_when_the_memory_of_bases_is_in_use() {
        let home = tempfile::tempdir().unwrap();
        let (cache, memory) = (cache(home.path()), MemoryShares::new(ByteCount::new(2600)));
        let (bases, mirror) = one_base(&cache, &memory, &[b'x'; 900]).await;
        let in_use = bases.offers(&delta_key(NEW, None), None, None, &mirror).await;
        let second = bases.offers(&delta_key(NEW, None), None, None, &mirror).await;
        assert_eq!((in_use.bodies.len(), second.bodies.len()), (1, 0));
        drop(in_use);
        let third = bases.offers(&delta_key(NEW, None), None, None, &mirror).await;
        assert_eq!(third.bodies.len(), 1);
    }

    #[tokio::test]
    async fn records_of_deleted_data_offer_no_base() {
        let home = tempfile::tempdir().unwrap();
        let (cache, memory) = (cache(home.path()), MemoryShares::new(DELTA_BASE_MEMORY));
        let (bases, mirror) = one_base(&cache, &memory, &[b'x'; 900]).await;
        cache
            .forget(longhaul_cache::Deletion {
                whose: longhaul_cache::OwnerSelection::Everybody,
                what: longhaul_cache::DeletionScope::All,
            })
            .await;
        bases.reload();
        let offers = bases.offers(&delta_key(NEW, None), None, None, &mirror).await;
        assert!(offers.hashes.is_empty());
        assert!(
            bases
                .by_origin
                .lock()
                .values()
                .all(|held| *held == HeldBodies::default())
        );
    }

    #[tokio::test]
    async fn records_of_few_origins_are_in_memory_and_the_others_in_the_cache() {
        let home = tempfile::tempdir().unwrap();
        let (cache, memory) = (cache(home.path()), MemoryShares::new(DELTA_BASE_MEMORY));
        let (bases, mirror) = one_base(&cache, &memory, &[b'x'; 900]).await;
        for n in 0..=MAX_ORIGINS {
            let other = delta_key(&format!("http://b{n}.test/"), None);
            bases.offers(&other, None, None, &mirror).await;
            assert!(bases.by_origin.lock().len() <= MAX_ORIGINS);
        }
        assert_eq!(bases.by_origin.lock().len(), MAX_ORIGINS);
        let offers = bases.offers(&delta_key(NEW, None), None, None, &mirror).await;
        assert_eq!(offers.bodies.len(), 1);
    }
}
