//! Shared helpers of the cache's tests: real files in separate directories.
use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bytes::Bytes;
use longhaul_cache::{Cache, CacheConfig, Cost, Opened, OriginBytes, Partition, StoreError, StoredResponse};
use longhaul_types::{ByteCount, ContentHash, UnixTime};
use tokio::time::timeout;

pub(crate) const FILE: &str = "cache.db";

pub(crate) fn open(dir: &Path, quota: ByteCount) -> Opened {
    let config = CacheConfig {
        dir: dir.to_owned(),
        file: FILE,
        quota,
    };
    // A random number in production; here only unique.
    static ENTROPY: AtomicU64 = AtomicU64::new(0);
    Cache::open(config, ENTROPY.fetch_add(1, Ordering::Relaxed)).expect("the cache opens")
}

/// Longer than any step of a test; a hang fails instead of lasting.
const PATIENCE: Duration = Duration::from_secs(60);

/// Flushes the cache until `condition` holds, at most a minute. `what` names the condition in the failure.
pub(crate) async fn flush_until(cache: &Cache, what: &str, condition: impl AsyncFn() -> bool) {
    let waiting = timeout(PATIENCE, async {
        while !condition().await {
            cache.flush().await;
        }
    });
    assert!(waiting.await.is_ok(), "{what} does not come true");
}

/// Opens a cache whose file is valid.
pub(crate) fn open_sound(dir: &Path, quota: ByteCount) -> Cache {
    let opened = open(dir, quota);
    assert_eq!(opened.reset, None);
    assert_eq!(opened.storage, longhaul_cache::Storage::File);
    opened.cache
}

/// A unique body that does not compress.
pub(crate) fn body(number: u32, length: usize) -> Bytes {
    let mut body = vec![0; length];
    blake3::Hasher::new()
        .update(&number.to_le_bytes())
        .finalize_xof()
        .fill(&mut body);
    Bytes::from(body)
}

pub(crate) async fn store(cache: &Cache, body: &Bytes) -> Result<ContentHash, StoreError> {
    store_at(cache, body, Cost::unknown()).await
}

/// Stores a body in pieces of odd lengths.
pub(crate) async fn store_at(cache: &Cache, body: &Bytes, cost: Cost) -> Result<ContentHash, StoreError> {
    let mut writer = cache.writer(cost);
    let mut rest = body.clone();
    for length in [1, 700, 65_535, 65_537, 100_000].into_iter().cycle() {
        if rest.is_empty() {
            break;
        }
        writer.write(rest.split_to(length.min(rest.len()))).await;
    }
    assert_eq!(writer.hash(), ContentHash::of(body));
    writer.commit().await
}

/// Reads a body to its end and checks every byte; none if it is absent or reading fails.
pub(crate) async fn read(cache: &Cache, chk: ContentHash) -> Option<Bytes> {
    let mut body = cache.body(chk).await?;
    let mut whole = Vec::new();
    while let Some(piece) = body.next().await {
        whole.extend_from_slice(&piece.ok()?);
    }
    assert_eq!(whole.len() as u64, body.length());
    assert_eq!(ContentHash::of(&whole), chk, "a wrong body came out of the cache");
    Some(Bytes::from(whole))
}

pub(crate) fn site(host: &str) -> Partition {
    let owner = longhaul_cache::Owner::local(longhaul_types::ClientId::OWNER);
    Partition::of_site(owner, longhaul_http::site::SchemefulSite::of("http", host))
}

pub(crate) fn response(
    partition: &Partition,
    url: &str,
    vary: u8,
    chk: Option<ContentHash>,
) -> StoredResponse {
    let time = |seconds| UnixTime::new(Duration::new(seconds, 123_456_789));
    StoredResponse {
        partition: partition.clone(),
        url: url.to_owned(),
        vary: [vary; 8],
        credentials: None,
        request_fields: vec![("accept-language".to_owned(), vec![vary])],
        status: 200,
        fields: vec![
            ("etag".to_owned(), b"\"1\"".to_vec()),
            ("x-odd".to_owned(), vec![0xff, 0]),
        ],
        chk,
        length: 17,
        requested_at: time(1_700_000_000),
        received_at: time(1_700_000_001),
        origin_bytes: Some(OriginBytes { head: 300, body: 9 }),
    }
}
