//! Storage of learned plans in the cache.
use bytes::Bytes;
use longhaul_cache::{Cache, Partition, RecordKey, RecordKind};
use longhaul_page::learn::{Learned, RecordKeys};
use url::Url;

/// Reads the records of a page. A record that is damaged or of another version counts as absent.
pub(super) async fn read(cache: &Cache, partition: &Partition, page: &Url) -> Learned {
    let [exact, pattern] = keys(partition, page);
    let exact = cache.record(RecordKind::Plan, &exact).await;
    let pattern = cache.record(RecordKind::Plan, &pattern).await;
    Learned::read(page, exact.as_deref(), pattern.as_deref()).unwrap_or_else(|_| Learned::new(page))
}

pub(super) async fn put(cache: &Cache, key: &RecordKey, record: Vec<u8>) {
    cache.put_record(RecordKind::Plan, key, Bytes::from(record)).await;
}

/// Keys of the records of the page and of its pattern. The records reveal one user's visits, so they are in
/// the user's partition; see [`super::shared_lesson`] for the shared ones.
pub(super) fn keys(partition: &Partition, page: &Url) -> [RecordKey; 2] {
    let keys = RecordKeys::of(page);
    let origin = page.origin().ascii_serialization();
    [keys.page, keys.pattern].map(|key| RecordKey::new(partition, Some(&origin), key.as_bytes()))
}
