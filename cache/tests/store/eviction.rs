//! Eviction within the quota: bodies that are expensive to fetch again stay longest, and evictions are
//! reported.
use std::{collections::BTreeSet, time::Duration};

use crate::support::{FILE, body, flush_until, open_sound, read, response, store, store_at};
use longhaul_cache::{Cost, Partition};
use longhaul_types::{ByteCount, ContentHash};

const QUOTA: ByteCount = ByteCount::mib(8);

#[tokio::test]
async fn evictions_keep_the_quota_and_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let mut evictions = cache.evictions();
    let mut all = BTreeSet::new();
    for number in 0..400 {
        let chk = store(&cache, &body(number, 50_000)).await.unwrap();
        cache
            .put(response(
                &Partition::Shared,
                &format!("http://example.org/{number}"),
                0,
                Some(chk),
            ))
            .await;
        all.insert(chk);
    }
    let usage = cache.usage().await;
    assert!(usage.bytes <= QUOTA + ByteCount::kib(512), "{usage:?}");
    assert!(usage.bodies >= 120, "{usage:?}");
    assert_eq!(usage.bodies + usage.evicted, 400);
    assert_eq!(usage.responses, usage.bodies, "responses leave with their bodies");
    let mut reported = BTreeSet::new();
    while reported.len() < usize::try_from(usage.evicted).unwrap() {
        reported.extend(evictions.recv().await.expect("all are reported"));
    }
    for chk in all {
        assert_eq!(cache.has(chk).await, !reported.contains(&chk));
    }
    assert!(
        cache.evictions().recv().await.is_none(),
        "there is one such channel"
    );
}

/// More batches than the channel of reports holds: the rest follows as they are read, without another change.
#[tokio::test]
async fn waiting_eviction_reports_follow_without_another_change() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), ByteCount::mib(1));
    let mut evictions = cache.evictions();
    // Each flush commits, and its evictions are a separate batch.
    for number in 0..80 {
        store(&cache, &body(number, 100_000)).await.unwrap();
        cache.flush().await;
    }
    let evicted = cache.usage().await.evicted;
    let mut reported = BTreeSet::new();
    let mut batches = 0;
    while reported.len() < usize::try_from(evicted).unwrap() {
        reported.extend(evictions.recv().await.expect("all are reported"));
        batches += 1;
    }
    assert!(batches > 16, "{batches} batches did not fill the way");
}

#[tokio::test]
async fn bodies_of_high_cost_or_frequent_use_are_not_evicted() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let cheap = Cost::measured(Duration::from_millis(100));
    let dear = store_at(&cache, &body(1, 50_000), Cost::measured(Duration::from_secs(8)))
        .await
        .unwrap();
    let asked_for = store_at(&cache, &body(2, 50_000), cheap).await.unwrap();
    let neither = store_at(&cache, &body(3, 50_000), cheap).await.unwrap();
    for _ in 0..5 {
        assert!(read(&cache, asked_for).await.is_some());
    }
    for number in 10..310 {
        store_at(&cache, &body(number, 50_000), cheap).await.unwrap();
    }
    assert!(cache.has(dear).await);
    assert!(cache.has(asked_for).await);
    assert!(!cache.has(neither).await);
    // Bodies that are no longer requested are evicted eventually.
    for number in 400..1_800 {
        store_at(&cache, &body(number, 50_000), cheap).await.unwrap();
    }
    assert!(!cache.has(asked_for).await);
}

#[tokio::test]
async fn a_body_is_not_evicted_while_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), ByteCount::mib(24));
    let long = body(1, 3_000_000 - 7);
    let chk = store_at(&cache, &long, Cost::measured(Duration::from_millis(1)))
        .await
        .unwrap();
    let mut reader = cache.body(chk).await.unwrap();
    let mut got = reader.next().await.unwrap().unwrap().to_vec();
    for number in 10..300 {
        store(&cache, &body(number, 200_000)).await.unwrap();
    }
    while let Some(piece) = reader.next().await {
        got.extend_from_slice(&piece.unwrap());
    }
    assert!(got == long);
    drop(reader);
    for number in 300..600 {
        store(&cache, &body(number, 200_000)).await.unwrap();
    }
    assert!(!cache.has(chk).await, "now it may leave");
}

#[tokio::test]
async fn replaced_versions_are_evicted_first() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let url = "http://example.org/page";
    let dear = Cost::measured(Duration::from_secs(60));
    let old = store_at(&cache, &body(1, 50_000), dear).await.unwrap();
    cache.put(response(&Partition::Shared, url, 0, Some(old))).await;
    let new = store_at(&cache, &body(2, 50_000), dear).await.unwrap();
    cache.put(response(&Partition::Shared, url, 0, Some(new))).await;
    assert!(cache.has(old).await, "it may serve as a base");
    for number in 10..300 {
        store(&cache, &body(number, 50_000)).await.unwrap();
    }
    assert!(!cache.has(old).await);
    assert!(cache.has(new).await);
}

#[tokio::test]
async fn a_lowered_quota_shrinks_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), ByteCount::mib(32));
    for number in 0..200 {
        store(&cache, &body(number, 100_000)).await.unwrap();
    }
    cache.close().await;
    let length = || std::fs::metadata(dir.path().join(FILE)).unwrap().len();
    assert!(length() > 20_000_000);
    let cache = open_sound(dir.path(), ByteCount::mib(4));
    flush_until(&cache, "the quota is kept", async || {
        cache.usage().await.bytes <= ByteCount::mib(4)
    })
    .await;
    let kept = cache.usage().await.bodies;
    assert!(kept >= 30, "{kept}");
    // Pages are returned to the disk in idle moments: each answer follows one.
    flush_until(&cache, "the file is short", async || length() <= 5_000_000).await;
    let mut sound = 0;
    for number in 0..200 {
        sound += u64::from(
            read(&cache, ContentHash::of(&body(number, 100_000)))
                .await
                .is_some(),
        );
    }
    assert_eq!(sound, kept);
}
