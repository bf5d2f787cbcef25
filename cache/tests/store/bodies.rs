//! Bodies: whole, in pieces, twice, abandoned, and after reopening the file.
use crate::support::{body, open, open_sound, read, store};
use bytes::Bytes;
use longhaul_cache::{Cost, StoreError};
use longhaul_types::{ByteCount, ContentHash};

const QUOTA: ByteCount = ByteCount::mib(64);

#[tokio::test]
async fn bodies_of_all_lengths_round_trip_also_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let chunk = 64 * 1024;
    let mib = 1 << 20;
    let mut lengths = vec![0, 1, 100_000, 5 * mib + 1];
    for edge in [chunk, 4 * chunk, mib, mib + chunk] {
        lengths.extend([edge - 1, edge, edge + 1]);
    }
    let bodies: Vec<_> = lengths
        .iter()
        .zip(0..)
        .map(|(length, number)| body(number, *length))
        .collect();

    let cache = open_sound(dir.path(), QUOTA);
    for body in &bodies {
        let chk = store(&cache, body).await.unwrap();
        assert_eq!(chk, ContentHash::of(body));
        assert!(
            read(&cache, chk).await.as_ref() == Some(body),
            "{} bytes",
            body.len()
        );
        assert!(cache.whole(chk, QUOTA).await.as_ref() == Some(body));
    }
    let state = cache.state_id();
    cache.close().await;

    let cache = open_sound(dir.path(), QUOTA);
    assert_eq!(cache.state_id(), state);
    for body in &bodies {
        let chk = ContentHash::of(body);
        assert!(cache.has(chk).await);
        assert!(read(&cache, chk).await.as_ref() == Some(body));
        assert_eq!(cache.find_prefix(&chk.as_bytes()[..6]).await, Some(chk));
    }
    let usage = cache.usage().await;
    assert_eq!(
        (usage.bodies, usage.hits, usage.misses, usage.damaged),
        (bodies.len() as u64, bodies.len() as u64, 0, 0)
    );
}

#[tokio::test]
async fn unknown_bodies_are_absent() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let chk = store(&cache, &body(1, 3000)).await.unwrap();
    let other = ContentHash::of(b"other");
    assert!(!cache.has(other).await);
    assert!(cache.body(other).await.is_none());
    assert_eq!(cache.whole(chk, ByteCount::new(2999)).await, None);
    assert_eq!(cache.find_prefix(&other.as_bytes()[..16]).await, None);
    assert_eq!(cache.find_prefix(&[0; 33]).await, None);
    assert_eq!(cache.find_prefix(&[]).await, Some(chk), "the only body there is");
    store(&cache, &body(2, 10)).await.unwrap();
    assert_eq!(cache.find_prefix(&[]).await, None, "not clear which");
    assert_eq!(cache.usage().await.misses, 2);
}

#[tokio::test]
async fn equal_bodies_are_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    for length in [30_000, 3_000_000] {
        let body = body(1, length);
        store(&cache, &body).await.unwrap();
        let once = cache.usage().await.bytes;
        for _ in 0..3 {
            store(&cache, &body).await.unwrap();
        }
        cache.flush().await;
        // A second copy in progress is removed step by step in idle moments: each answer follows one.
        while cache.usage().await.bytes > once {
            cache.flush().await;
        }
        assert!(read(&cache, ContentHash::of(&body)).await == Some(body));
    }
    assert_eq!(cache.usage().await.bodies, 2);
}

#[tokio::test]
async fn aborted_writes_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let empty = cache.usage().await.bytes;
    for length in [10, 300_000, 4_000_000] {
        let body = body(1, length);
        let mut writer = cache.writer(Cost::unknown());
        writer.write(body.clone()).await;
        drop(writer);
        assert!(!cache.has(ContentHash::of(&body)).await);
    }
    cache.flush().await;
    while cache.usage().await.bytes > empty + ByteCount::kib(64) {
        cache.flush().await;
    }
    assert_eq!(cache.usage().await.bodies, 0);
}

#[tokio::test]
async fn a_body_above_an_eighth_of_the_quota_is_hashed_and_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), ByteCount::mib(8));
    let body = body(1, (1 << 20) + 1);
    assert_eq!(store(&cache, &body).await, Err(StoreError::TooLarge));
    assert!(!cache.has(ContentHash::of(&body)).await);
}

#[tokio::test]
async fn many_bodies_are_written_and_read_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let tasks: Vec<_> = (0..40)
        .map(|number| {
            let cache = cache.clone();
            tokio::spawn(async move {
                let body = body(number, 20_000 * (number as usize + 1));
                let chk = store(&cache, &body).await.unwrap();
                assert!(read(&cache, chk).await == Some(body));
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(cache.usage().await.bodies, 40);
}

#[tokio::test]
async fn a_closed_cache_finds_and_stores_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let chk = store(&cache, &Bytes::from_static(b"body")).await.unwrap();
    let mut streaming = cache.writer(Cost::unknown());
    streaming.write(body(1, 400_000)).await;
    cache.clone().close().await;
    assert!(!cache.has(chk).await);
    assert_eq!(store(&cache, &body(2, 10)).await, Err(StoreError::Closed));
    assert_eq!(streaming.commit().await, Err(StoreError::Closed));
    assert_eq!(open(dir.path(), QUOTA).reset, None, "the lock is free again");
}
