//! The cache compared with a model: maps in memory.
use std::{collections::BTreeMap, path::Path};

use crate::support::{body, open_sound, read, response, site, store};
use longhaul_cache::{Cache, Cost, MAX_VARIANTS, Partition, RecordKind};
use longhaul_types::{ByteCount, ContentHash};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Store(u8),
    Abandon(u8),
    Read(u8),
    Put {
        partition: bool,
        url: u8,
        vary: u8,
        body: Option<u8>,
    },
    Find {
        partition: bool,
        url: u8,
    },
    Remove {
        partition: bool,
        url: u8,
    },
    PutRecord(u8, u8),
    Record(u8),
    Reopen,
}

fn ops() -> impl Strategy<Value = Op> {
    let bodies = 0..24_u8;
    prop_oneof![
        6 => bodies.clone().prop_map(Op::Store),
        1 => bodies.clone().prop_map(Op::Abandon),
        6 => bodies.clone().prop_map(Op::Read),
        6 => (any::<bool>(), 0..6_u8, 0..3_u8, prop::option::of(bodies))
            .prop_map(|(partition, url, vary, body)| Op::Put { partition, url, vary, body }),
        4 => (any::<bool>(), 0..6_u8).prop_map(|(partition, url)| Op::Find { partition, url }),
        1 => (any::<bool>(), 0..6_u8).prop_map(|(partition, url)| Op::Remove { partition, url }),
        1 => (0..4_u8, any::<u8>()).prop_map(|(key, value)| Op::PutRecord(key, value)),
        1 => (0..4_u8).prop_map(Op::Record),
        1 => Just(Op::Reopen),
    ]
}

/// Short, buffered, streamed, and read in pieces.
fn length(number: u8) -> usize {
    [0, 700, 64 * 1024, 120_000, 300_000, 1_100_000][usize::from(number) % 6] + usize::from(number)
}

fn content(number: u8) -> bytes::Bytes {
    body(number.into(), length(number))
}

fn partition(first: bool) -> Partition {
    if first {
        Partition::Shared
    } else {
        site("example.org")
    }
}

fn url(number: u8) -> String {
    format!("http://example.org/{number}")
}

/// The responses of a URL, newest first: secondary key and body.
type Variants = Vec<(u8, Option<ContentHash>)>;

/// The data that may be found; with a small quota, any of them may be missing.
#[derive(Default)]
struct Model {
    bodies: BTreeMap<u8, ContentHash>,
    responses: BTreeMap<(bool, u8), Variants>,
    records: BTreeMap<u8, u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Ample,
    Scarce,
}

struct Bench<'a> {
    dir: &'a Path,
    quota: ByteCount,
    room: Room,
    cache: Cache,
    model: Model,
}

impl Bench<'_> {
    async fn apply(&mut self, op: Op) {
        match op {
            Op::Store(number) => {
                let chk = store(&self.cache, &content(number)).await.unwrap();
                self.model.bodies.insert(number, chk);
            }
            Op::Abandon(number) => {
                let mut writer = self.cache.writer(Cost::unknown());
                writer.write(content(number)).await;
            }
            Op::Read(number) => {
                let found = read(&self.cache, ContentHash::of(&content(number))).await;
                match self.model.bodies.contains_key(&number) {
                    true if self.room == Room::Scarce && found.is_none() => {}
                    true => assert!(found == Some(content(number))),
                    false => assert!(found.is_none()),
                }
            }
            Op::Put {
                partition: first,
                url: number,
                vary,
                body,
            } => self.put(first, number, vary, body).await,
            Op::Find {
                partition: first,
                url: number,
            } => self.find(first, number).await,
            Op::Remove {
                partition: first,
                url: number,
            } => {
                self.cache.remove(&partition(first), &url(number)).await;
                self.model.responses.remove(&(first, number));
            }
            Op::PutRecord(key, value) => {
                self.cache
                    .put_record(
                        RecordKind::Plan,
                        &longhaul_cache::RecordKey::shared(&[key]),
                        vec![value; 100].into(),
                    )
                    .await;
                self.model.records.insert(key, value);
            }
            Op::Record(key) => {
                let expected = self.model.records.get(&key).map(|value| vec![*value; 100].into());
                assert_eq!(
                    self.cache
                        .record(RecordKind::Plan, &longhaul_cache::RecordKey::shared(&[key]))
                        .await,
                    expected
                );
            }
            Op::Reopen => {
                let state = self.cache.state_id();
                self.cache.clone().close().await;
                self.cache = open_sound(self.dir, self.quota);
                assert_eq!(self.cache.state_id(), state);
            }
        }
    }

    async fn put(&mut self, first: bool, number: u8, vary: u8, body: Option<u8>) {
        let chk = body.map(|body| ContentHash::of(&content(body)));
        self.cache
            .put(response(&partition(first), &url(number), vary, chk))
            .await;
        let variants = self.model.responses.entry((first, number)).or_default();
        variants.retain(|(other, _)| *other != vary);
        if body.is_none_or(|body| self.model.bodies.contains_key(&body)) {
            variants.insert(0, (vary, chk));
            variants.truncate(MAX_VARIANTS);
        }
    }

    async fn find(&self, first: bool, number: u8) {
        let found = self.cache.find(&partition(first), &url(number)).await;
        let expected = self.model.responses.get(&(first, number)).into_iter().flatten();
        let expected: Vec<_> = expected
            .map(|(vary, chk)| response(&partition(first), &url(number), *vary, *chk))
            .collect();
        match self.room {
            Room::Ample => assert_eq!(found, expected),
            Room::Scarce => assert!(found.iter().all(|response| expected.contains(response))),
        }
    }
}

fn run(quota: ByteCount, room: Room, ops: Vec<Op>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let cache = open_sound(dir.path(), quota);
        let mut bench = Bench {
            dir: dir.path(),
            quota,
            room,
            cache,
            model: Model::default(),
        };
        for op in ops {
            bench.apply(op).await;
            let usage = bench.cache.usage().await;
            // Beyond the quota: at most the data that are being removed step by step, and one body in
            // progress.
            assert!(usage.bytes <= quota + ByteCount::mib(3), "{usage:?}");
        }
        let usage = bench.cache.usage().await;
        assert_eq!((usage.damaged, usage.resets), (0, 0));
        assert!(room == Room::Scarce || usage.evicted == 0);
        bench.cache.close().await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn below_the_quota_no_body_is_lost(ops in prop::collection::vec(ops(), 1..60)) {
        run(ByteCount::mib(64), Room::Ample, ops);
    }

    #[test]
    fn above_the_quota_every_hit_is_correct(ops in prop::collection::vec(ops(), 1..60)) {
        // Bodies of up to an eighth of the quota are stored.
        run(ByteCount::mib(9), Room::Scarce, ops);
    }
}
