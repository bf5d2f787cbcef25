//! Two connections in virtual time over a simulated hop, with fixed keys instead of a handshake.
use std::collections::{BTreeMap, BinaryHeap};

use bytes::Bytes;
use longhaul_types::{BitRate, ByteCount, StreamId};

use super::*;
use crate::{
    crypto::SessionKeys,
    endpoint::CloseReason,
    streams::{Priority, ReadOutcome, WriteError},
    wire::{EarlyOutcome, IndexLength, ShortHeader},
};

mod datagrams;
mod faults;
mod lifetime;
mod networks;
mod pair;
mod path_model;
mod path_mtu;
mod path_probes;
mod rate_probing;
mod switches;
mod transfers;

use pair::{Noise, Pair, hop, keys};

/// Number of seeds for tests with random links.
fn seeds() -> u64 {
    let wanted = std::env::var("LONGHAUL_SEEDS").ok();
    wanted.and_then(|number| number.parse().ok()).unwrap_or(40)
}

fn usize_of(value: u64) -> usize {
    usize::try_from(value).expect("fits")
}

fn body(len: usize, tag: u64) -> Bytes {
    let mut noise = Noise(tag * 2 + 1);
    (0..len)
        .map(|_| noise.next().to_be_bytes()[0])
        .collect::<Vec<u8>>()
        .into()
}

/// User of one side: answers every stream of the peer with `response` bytes, or collects the received bytes.
#[derive(Default)]
struct User {
    received: BTreeMap<StreamId, Vec<u8>>,
    finished: BTreeMap<StreamId, Timestamp>,
    writing: BTreeMap<StreamId, Bytes>,
    answers: BTreeMap<StreamId, StreamId>,
}

impl User {
    fn send(&mut self, now: Timestamp, connection: &mut Connection, class: u8, data: Bytes) -> StreamId {
        let id = connection
            .open(Priority::new(class), EarlyData::Allowed)
            .expect("stream");
        connection.announce(id, data.len() as u64);
        self.writing.insert(id, data);
        self.push(now, connection);
        id
    }

    fn push(&mut self, now: Timestamp, connection: &mut Connection) {
        self.writing.retain(|id, data| {
            if !data.is_empty() {
                match connection.write(now, *id, data.clone()) {
                    Ok(taken) => *data = data.slice(taken..),
                    Err(WriteError::Blocked) => return true,
                    Err(error) => panic!("{id} {error}"),
                }
            }
            if data.is_empty() {
                connection.finish(*id).expect("open");
            }
            !data.is_empty()
        });
    }

    fn pull(&mut self, now: Timestamp, connection: &mut Connection) -> Vec<StreamId> {
        while let Some(id) = connection.accept() {
            self.received.entry(id).or_default();
        }
        let mut complete = Vec::new();
        for (id, bytes) in &mut self.received {
            if self.finished.contains_key(id) {
                continue;
            }
            loop {
                match connection.read(now, *id) {
                    Ok(ReadOutcome::Data(data)) => bytes.extend_from_slice(&data),
                    Ok(ReadOutcome::Blocked) => break,
                    Ok(ReadOutcome::Finished) => {
                        self.finished.insert(*id, now);
                        complete.push(*id);
                        break;
                    }
                    Err(error) => panic!("{id} {error}"),
                }
            }
        }
        complete
    }
}

/// Sends `fetches` as requests of 400 bytes, each answered by a body of the given size; returns the time
/// until all have arrived.
fn fetch(pair: &mut Pair, users: &mut (User, User), fetches: &[usize], limit: Duration) -> Duration {
    let began = pair.now;
    let mut expected = BTreeMap::new();
    for (i, size) in fetches.iter().enumerate() {
        let id = users
            .0
            .send(pair.now, &mut pair.agent, 1, body(400, i as u64 + 100));
        expected.insert(id, *size);
    }
    let goal = users.0.finished.len() + fetches.len();
    while users.0.finished.len() < goal {
        assert!(
            pair.step(began + limit),
            "{} of {goal} after {:?}; agent {:?} gateway {:?}",
            users.0.finished.len(),
            limit,
            pair.agent.stats(),
            pair.gateway.stats()
        );
        for id in users.1.pull(pair.now, &mut pair.gateway) {
            let size = expected[&id];
            let answer = users.1.send(pair.now, &mut pair.gateway, 3, body(size, id.0 + 1));
            users.0.answers.insert(answer, id);
        }
        users.1.push(pair.now, &mut pair.gateway);
        users.0.push(pair.now, &mut pair.agent);
        for id in users.0.pull(pair.now, &mut pair.agent) {
            let request = users.0.answers[&id];
            assert!(
                users.0.received[&id] == body(expected[&request], request.0 + 1),
                "stream {id} differs"
            );
        }
    }
    pair.now.saturating_since(began)
}
