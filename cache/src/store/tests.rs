//! Tests of the store without its thread: old files, page limits, rolled-back groups, left-over rows.
use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use longhaul_types::{ByteCount, ContentHash, PublicKey};
use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use super::{
    content,
    schema::{self, PART_BITS},
    state::{Answer, Store, Writing},
};
use crate::{
    CacheConfig, Cost, Partition, RecordKind, ResetReason, StoreError, StoredResponse,
    command::{Part, WholeBody, WriterId},
};

const QUOTA: ByteCount = ByteCount::mib(16);

fn open(dir: &Path) -> (Store, Option<ResetReason>) {
    let config = CacheConfig {
        dir: dir.to_owned(),
        file: "store.db",
        quota: QUOTA,
    };
    Store::open(config, 3).unwrap()
}

fn open_sound(dir: &Path) -> Store {
    let (store, reset) = open(dir);
    assert_eq!(reset, None);
    assert!(store.storage.is_file());
    store
}

fn content(number: u32, length: usize) -> Bytes {
    let mut body = vec![0; length];
    blake3::Hasher::new()
        .update(&number.to_le_bytes())
        .finalize_xof()
        .fill(&mut body);
    Bytes::from(body)
}

fn part(data: Bytes) -> Part {
    Part {
        hash: ContentHash::of(&data),
        data,
    }
}

fn whole(number: u32) -> WholeBody {
    let data = content(number, 50_000);
    let (chk, length) = (ContentHash::of(&data), data.len() as u64);
    WholeBody {
        chk,
        length,
        parts: vec![part(data)],
        cost: Cost::unknown(),
    }
}

fn put(store: &mut Store, number: u32) -> Result<ContentHash, StoreError> {
    let (reply, mut answer) = oneshot::channel();
    let body = whole(number);
    let put = store.change(|store| store.put_body(&body));
    store.settle(put, reply, body.chk);
    store.commit();
    answer.try_recv().unwrap()
}

fn is_there(store: &mut Store, number: u32) -> bool {
    let found = store.open_body(whole(number).chk, u64::MAX).unwrap();
    found.is_some_and(|found| found.parts.concat() == content(number, 50_000))
}

/// Runs idle steps until there is nothing left to do.
fn settle_down(store: &mut Store) {
    while store.idle() {}
}

fn response(chk: Option<ContentHash>) -> StoredResponse {
    StoredResponse {
        partition: Partition::Shared,
        url: "http://example.org/".to_owned(),
        vary: [0; 8],
        credentials: None,
        request_fields: Vec::new(),
        status: 200,
        fields: vec![("etag".to_owned(), b"x".to_vec())],
        chk,
        length: 50_000,
        requested_at: longhaul_types::UnixTime::default(),
        received_at: longhaul_types::UnixTime::default(),
        origin_bytes: None,
    }
}

#[test]
fn a_file_of_version_1_keeps_its_bodies_and_loses_its_index() {
    let dir = tempfile::tempdir().unwrap();
    let (body, response) = (whole(1), response(Some(whole(1).chk)));
    let old = Connection::open(dir.path().join("store.db")).unwrap();
    schema::make_old(&old, 1).unwrap();
    assert_eq!(schema::version(&old).unwrap(), 1);
    old.execute("INSERT INTO meta VALUES ('state', ?1)", [77_u64.to_be_bytes()])
        .unwrap();
    old.execute(
        "INSERT INTO bodies VALUES (5, ?1, 50000, 12.5, 1, 12.5)",
        [body.chk.as_bytes()],
    )
    .unwrap();
    let chunk = &body.parts[0];
    let values = params![5_i64 << PART_BITS, chunk.hash.as_bytes(), &chunk.data[..]];
    old.execute("INSERT INTO chunks VALUES (?1, ?2, ?3)", values)
        .unwrap();
    let text = content::encode(&response);
    let values = params![
        content::key(&response.partition, &response.url),
        [0_u8; 8],
        content::sum(&text),
        text
    ];
    old.execute("INSERT INTO responses VALUES (1, ?1, ?2, 5, ?3, ?4)", values)
        .unwrap();
    let values = params![[9_u8; 32], content::sum(b"plan"), b"plan"];
    old.execute("INSERT INTO records VALUES (2, ?1, 1, ?2, ?3)", values)
        .unwrap();
    drop(old);

    let mut store = open_sound(dir.path());
    assert_eq!(
        schema::version(&store.connection).unwrap(),
        i64::from(schema::VERSION)
    );
    assert_eq!(*store.shared.state.borrow(), 77);
    assert!(is_there(&mut store, 1));
    assert_eq!(store.find(&response.partition, &response.url).unwrap(), []);
    assert_eq!(store.record(RecordKind::Plan, [9; 32]).unwrap(), None);
    let device = PublicKey::from_bytes([1; 32]);
    store.mirror_reset(device, 4).unwrap();
    store.mirror_add(device, &Partition::Shared, &[body.chk]).unwrap();
    assert_eq!(
        store.mirror(device, None).unwrap(),
        Some((4, vec![(body.chk, Partition::Shared.label())]))
    );
    assert!(put(&mut store, 2).is_ok());
}

#[test]
fn missing_tables_are_damage() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_sound(dir.path());
    store.connection.execute_batch("DROP TABLE records").unwrap();
    drop(store);
    let (mut store, reset) = open(dir.path());
    assert_eq!(reset, Some(ResetReason::Damaged));
    assert!(put(&mut store, 1).is_ok());
}

#[test]
fn when_the_disk_is_full_the_store_shrinks_and_continues() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open_sound(dir.path());
    store
        .connection
        .pragma_update(None, "max_page_count", 300)
        .unwrap();
    let mut refused = 0;
    for number in 0..200 {
        match put(&mut store, number) {
            Ok(_) => assert!(is_there(&mut store, number)),
            Err(StoreError::Full) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        settle_down(&mut store);
        assert_eq!(store.writing, Writing::Yes);
    }
    assert!((1..20).contains(&refused), "{refused}");
    assert_eq!(store.resets, 0);
    assert!(store.usage().unwrap().bodies > 10);
}

#[test]
fn when_shrinking_fails_reads_still_succeed() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open_sound(dir.path());
    put(&mut store, 1).unwrap();
    store.writing = Writing::Paused {
        until: Instant::now() + Duration::from_secs(3600),
    };
    assert_eq!(put(&mut store, 2), Err(StoreError::Full));
    assert!(is_there(&mut store, 1));
    assert!(!is_there(&mut store, 2));
    settle_down(&mut store);
    store.writing = Writing::Paused {
        until: Instant::now(),
    };
    assert!(put(&mut store, 2).is_ok());
}

#[test]
fn a_failed_group_commit_is_rolled_back_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open_sound(dir.path());
    put(&mut store, 1).unwrap();
    let (reply, mut answer) = oneshot::channel();
    let alive = Arc::new(());
    store.put_body(&whole(2)).unwrap();
    store.answer(Answer::Body(reply, whole(2).chk));
    store.take_out(1, whole(1).chk).unwrap();
    store
        .begin_upload(WriterId(1), Arc::downgrade(&alive), Cost::unknown())
        .unwrap();
    store.append(WriterId(1), &part(content(3, 1000))).unwrap();
    let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
    store.handle_sqlite_error(&rusqlite::Error::SqliteFailure(full, None));

    assert_eq!(answer.try_recv().unwrap(), Err(StoreError::Full));
    assert!(is_there(&mut store, 1), "its removal is undone");
    assert!(!is_there(&mut store, 2));
    settle_down(&mut store);
    assert!(is_there(&mut store, 1));
    store.append(WriterId(1), &part(content(4, 1000))).unwrap();
    assert_eq!(
        store.finish(WriterId(1), ContentHash::of(b"?")).unwrap(),
        Err(StoreError::Full)
    );
}

#[test]
fn partial_bodies_of_a_crash_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open_sound(dir.path());
    let empty = store.used().unwrap();
    let alive = Arc::new(());
    store
        .begin_upload(WriterId(1), Arc::downgrade(&alive), Cost::unknown())
        .unwrap();
    for number in 0..40 {
        store.append(WriterId(1), &part(content(number, 60_000))).unwrap();
    }
    store.commit();
    drop(store);
    let mut store = open_sound(dir.path());
    assert!(store.used().unwrap() > empty + 2_000_000);
    settle_down(&mut store);
    assert!(store.used().unwrap() <= empty + 3 * super::file::PAGE);
}

#[test]
fn unread_eviction_reports_change_the_state_id() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open_sound(dir.path());
    let state = *store.shared.state.borrow();
    let hashes = |batch: u32| {
        (0..1024_u32)
            .map(|number| ContentHash::of(&(batch * 1024 + number).to_le_bytes()))
            .collect()
    };
    for batch in 0..200 {
        store.report(hashes(batch));
    }
    settle_down(&mut store);
    assert_eq!(*store.shared.state.borrow(), state, "nobody listens");
    store.shared.evictions_taken.store(true, Ordering::Release);
    settle_down(&mut store);
    let changed = *store.shared.state.borrow();
    assert_ne!(changed, state);
    drop(store);
    assert_eq!(
        *open_sound(dir.path()).shared.state.borrow(),
        changed,
        "it is kept"
    );
}

#[test]
fn mirrors_of_devices_absent_for_long_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open_sound(dir.path());
    let device = |number: usize| {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        PublicKey::from_bytes(key)
    };
    let hash = [ContentHash::of(b"held")];
    for number in 0..crate::MAX_DEVICES + 5 {
        store.mirror_reset(device(number), 1).unwrap();
        store
            .mirror_add(device(number), &Partition::Shared, &hash)
            .unwrap();
        store.mirror(device(0), None).unwrap();
    }
    assert!(
        store.mirror(device(0), None).unwrap().is_some(),
        "it comes back all the time"
    );
    assert_eq!(store.mirror(device(5), None).unwrap(), None);
    assert!(store.mirror(device(6), None).unwrap().is_some());
    settle_down(&mut store);
    let rows: usize = store
        .connection
        .query_row("SELECT count(*) FROM mirrors", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, crate::MAX_DEVICES);
}
