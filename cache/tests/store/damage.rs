//! Damaged, foreign and locked files: the cache opens, and never returns a wrong byte.
use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
};

use crate::support::{FILE, body, open, open_sound, read, response, store};
use bytes::Bytes;
use longhaul_cache::{Cache, CacheConfig, OpenError, Partition, ReadError, ResetReason, Storage};
use longhaul_types::{ByteCount, ContentHash};

const QUOTA: ByteCount = ByteCount::mib(32);
const BODIES: u32 = 60;

fn url(number: u32) -> String {
    format!("http://example.org/{number}")
}

/// Bodies of all sizes up to 300 kB, and one that is read in pieces.
fn bodies() -> Vec<Bytes> {
    let length = |number: u32| {
        if number == 7 {
            2_000_000
        } else {
            5_000 * number as usize
        }
    };
    (0..BODIES).map(|number| body(number, length(number))).collect()
}

async fn fill(dir: &Path) -> u64 {
    let cache = open_sound(dir, QUOTA);
    for (body, number) in bodies().iter().zip(0..) {
        let chk = store(&cache, body).await.unwrap();
        cache
            .put(response(&Partition::Shared, &url(number), 0, Some(chk)))
            .await;
        cache
            .put_record(
                longhaul_cache::RecordKind::Plan,
                &longhaul_cache::RecordKey::shared(url(number).as_bytes()),
                body.clone(),
            )
            .await;
    }
    let state = cache.state_id();
    cache.close().await;
    state
}

/// Checks that all bodies are correct or absent, and that new ones are stored. Returns the number of bodies.
async fn examine(cache: &Cache) -> usize {
    let mut there = 0;
    for (body, number) in bodies().iter().zip(0..) {
        let chk = ContentHash::of(body);
        let found = read(cache, chk).await;
        there += usize::from(found.is_some());
        assert!(found.is_none_or(|found| found == *body));
        for found in cache.find(&Partition::Shared, &url(number)).await {
            assert_eq!(found, response(&Partition::Shared, &url(number), 0, Some(chk)));
        }
        let record = cache
            .record(
                longhaul_cache::RecordKind::Plan,
                &longhaul_cache::RecordKey::shared(url(number).as_bytes()),
            )
            .await;
        assert!(record.is_none_or(|record| record == *body));
    }
    let mut stored = false;
    // The first attempt may detect the damage.
    for attempt in 0..3 {
        let new = body(1_000 + attempt, 90_000);
        if let Ok(chk) = store(cache, &new).await {
            stored |= read(cache, chk).await == Some(new);
        }
    }
    assert!(stored, "the cache works again");
    there
}

fn overwrite(dir: &Path, at: u64, with: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(dir.join(FILE)).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(with).unwrap();
}

fn length(dir: &Path) -> u64 {
    fs::metadata(dir.join(FILE)).unwrap().len()
}

#[tokio::test]
async fn a_file_with_a_garbage_header_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let state = fill(dir.path()).await;
    overwrite(dir.path(), 0, &[0xa5; 100]);
    let opened = open(dir.path(), QUOTA);
    assert_eq!(opened.reset, Some(ResetReason::Damaged));
    assert_ne!(opened.cache.state_id(), state);
    assert_eq!(examine(&opened.cache).await, 0);
    let aside = dir.path().join("cache.db.damaged");
    assert!(aside.exists());
    opened.cache.close().await;
    open_sound(dir.path(), QUOTA);
    assert!(!aside.exists(), "kept until the next sound start only");
}

#[tokio::test]
async fn truncated_files_are_survived() {
    for (numerator, denominator) in [(0, 1), (1, 1000), (1, 10), (1, 2), (9, 10), (999, 1000)] {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path()).await;
        let file = OpenOptions::new()
            .write(true)
            .open(dir.path().join(FILE))
            .unwrap();
        file.set_len(length(dir.path()) * numerator / denominator)
            .unwrap();
        let opened = open(dir.path(), QUOTA);
        examine(&opened.cache).await;
        opened.cache.close().await;
        let cache = open_sound(dir.path(), QUOTA);
        examine(&cache).await;
    }
}

#[tokio::test]
async fn damaged_bytes_are_never_read_back() {
    let seed = blake3::hash(&std::process::id().to_le_bytes());
    println!("seed {seed}");
    let mut positions = blake3::Hasher::new().update(seed.as_bytes()).finalize_xof();
    let master = tempfile::tempdir().unwrap();
    fill(master.path()).await;
    let (mut lost, mut dropped) = (0, 0);
    for _ in 0..25 {
        let dir = tempfile::tempdir().unwrap();
        fs::copy(master.path().join(FILE), dir.path().join(FILE)).unwrap();
        for _ in 0..6 {
            let mut position = [0; 8];
            positions.fill(&mut position);
            let at = u64::from_le_bytes(position) % (length(dir.path()) - 16);
            overwrite(dir.path(), at, &position);
        }
        let opened = open(dir.path(), QUOTA);
        let there = examine(&opened.cache).await;
        lost += usize::from(there == 0);
        dropped += opened.cache.usage().await.damaged;
        opened.cache.close().await;
        let again = open(dir.path(), QUOTA);
        examine(&again.cache).await;
    }
    println!("{lost} of 25 files were begun anew, {dropped} rows were dropped alone");
    assert!(dropped > 0);
}

#[tokio::test]
async fn a_file_damaged_while_open_is_replaced_by_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    let cache = open_sound(dir.path(), QUOTA);
    let state = cache.state_id();
    let mut changes = cache.state_changes();
    let half = vec![0x5a; usize::try_from(length(dir.path()) - 8192).unwrap()];
    overwrite(dir.path(), 8192, &half);
    let there = examine(&cache).await;
    assert!(there < BODIES as usize);
    changes.changed().await.unwrap();
    assert_ne!(cache.state_id(), state);
    assert!(cache.usage().await.resets >= 1);
    cache.close().await;
    let cache = open_sound(dir.path(), QUOTA);
    assert!(cache.usage().await.bodies >= 1, "what was stored after the reset");
}

#[tokio::test]
async fn reading_a_body_stops_at_a_damaged_piece() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    let long = &bodies()[7];
    let needle = &long[1_500_000..1_500_032];
    let mut content = Vec::new();
    File::open(dir.path().join(FILE))
        .unwrap()
        .read_to_end(&mut content)
        .unwrap();
    let found: Vec<_> = content
        .windows(32)
        .enumerate()
        .filter(|(_, window)| *window == needle)
        .collect();
    assert!(
        found.len() == 1,
        "{} times: the record of this length is not kept, so the body is there once",
        found.len()
    );
    overwrite(dir.path(), found[0].0 as u64, b"flip");

    let cache = open_sound(dir.path(), QUOTA);
    let mut evictions = cache.evictions();
    let chk = ContentHash::of(long);
    let mut reader = cache.body(chk).await.unwrap();
    let mut right = 0;
    let error = loop {
        match reader.next().await.expect("it does not end well") {
            Ok(piece) => {
                assert!(piece == long[right..right + piece.len()]);
                right += piece.len();
            }
            Err(error) => break error,
        }
    };
    assert_eq!(error, ReadError::Damaged);
    assert!((1_200_000..=1_500_000).contains(&right), "{right}");
    assert!(reader.next().await.is_none());
    assert!(!cache.has(chk).await);
    assert_eq!(evictions.recv().await, Some(vec![chk]));
    assert_eq!(cache.usage().await.damaged, 1);
    assert_eq!(cache.usage().await.bodies, u64::from(BODIES) - 1);
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_set_aside_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    // The user version is in bytes 60 to 63 of the header (sqlite.org/fileformat2.html, section 1.3).
    overwrite(dir.path(), 60, &9_u32.to_be_bytes());
    let before = fs::read(dir.path().join(FILE)).unwrap();
    let opened = open(dir.path(), QUOTA);
    assert_eq!(opened.reset, Some(ResetReason::Newer { version: 9 }));
    assert_eq!(examine(&opened.cache).await, 0);
    assert!(fs::read(dir.path().join("cache.db.v9")).unwrap() == before);
    opened.cache.close().await;
    open_sound(dir.path(), QUOTA);
    assert!(dir.path().join("cache.db.v9").exists(), "not ours to remove");
}

#[tokio::test]
async fn a_file_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let config = CacheConfig {
        dir: dir.path().to_owned(),
        file: FILE,
        quota: QUOTA,
    };
    let error = Cache::open(config.clone(), 1).unwrap_err();
    assert!(
        matches!(&error, OpenError::InUse { path } if path.ends_with(FILE)),
        "{error}"
    );
    cache.close().await;
    assert!(Cache::open(config, 1).is_ok());
}

#[tokio::test]
async fn without_a_writable_directory_the_cache_is_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a file, not a directory");
    fs::write(&file, "").unwrap();
    let opened = open(&file.join("below"), ByteCount::mib(100));
    assert!(matches!(&opened.storage, Storage::Memory { cause } if !cause.is_empty()));
    let cache = opened.cache;
    for number in 0..400 {
        let body = body(number, 100_000);
        let chk = store(&cache, &body).await.unwrap();
        assert!(
            read(&cache, chk).await == Some(body),
            "{number} of {:?}",
            cache.usage().await
        );
    }
    let usage = cache.usage().await;
    assert!(
        usage.bytes <= ByteCount::mib(17) && usage.bodies > 100,
        "{usage:?}"
    );
    assert_eq!((usage.storage, usage.resets), (opened.storage, 0));
}

#[cfg(unix)]
#[tokio::test]
async fn other_users_cannot_read_the_cache_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("cache");
    let cache = open_sound(&dir, QUOTA);
    store(&cache, &body(1, 1_000)).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for entry in fs::read_dir(&dir).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}
