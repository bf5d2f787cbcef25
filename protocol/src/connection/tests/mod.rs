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

mod faults;
mod networks;
mod path_model;
mod path_mtu;
mod path_probes;
mod rate_probing;
mod transfers;

/// xorshift64*: tests need repeatable noise, not quality.
#[derive(Clone)]
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    fn below(&mut self, bound: usize) -> usize {
        usize_of(self.next() % bound as u64)
    }
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
    fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.unit() < p
    }
}

/// Number of seeds for tests with random links.
fn seeds() -> u64 {
    let wanted = std::env::var("LONGHAUL_SEEDS").ok();
    wanted.and_then(|number| number.parse().ok()).unwrap_or(40)
}

fn usize_of(value: u64) -> usize {
    usize::try_from(value).expect("fits")
}

#[derive(Clone)]
struct Link {
    rate: u64,
    delay: Duration,
    queue: u64,
    /// Larger packets are lost.
    mtu: u64,
    loss: f64,
    reorder: f64,
    duplicate: f64,
    corrupt: f64,
    /// Start and end of periods in which packets are lost.
    outages: Vec<(Duration, Duration)>,
    /// Number of a packet that is lost, counted from 1.
    lose_nth: Option<u64>,
    carried: u64,
    free_at: Timestamp,
    busy: Duration,
    bytes: u64,
    first: Option<Timestamp>,
    dropped: u64,
}

impl Link {
    fn new(rate: u64, delay_ms: u64, queue: u64) -> Self {
        Self {
            rate,
            delay: Duration::from_millis(delay_ms),
            queue,
            mtu: 1500,
            loss: 0.0,
            reorder: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
            outages: Vec::new(),
            lose_nth: None,
            carried: 0,
            free_at: Timestamp::ZERO,
            busy: Duration::ZERO,
            bytes: 0,
            first: None,
            dropped: 0,
        }
    }

    fn carry(&mut self, now: Timestamp, datagram: Vec<u8>, noise: &mut Noise) -> Vec<(Timestamp, Vec<u8>)> {
        let size = datagram.len() as u64 + IP_UDP_HEADERS;
        let waiting = ByteCount::new(0) + BitRate::bps(self.rate) * self.free_at.saturating_since(now);
        if size > self.mtu || waiting.bytes() + size > self.queue {
            self.dropped += 1;
            return Vec::new();
        }
        let takes = ByteCount::new(size) / BitRate::bps(self.rate);
        self.first.get_or_insert(now);
        self.free_at = self.free_at.max(now) + takes;
        self.busy += takes;
        self.bytes += size;
        let since = now.saturating_since(Timestamp::ZERO);
        let out = self
            .outages
            .iter()
            .any(|(from, to)| since >= *from && since < *to);
        self.carried += 1;
        if out || self.lose_nth == Some(self.carried) || noise.chance(self.loss) {
            return Vec::new();
        }
        let mut at = self.free_at + self.delay;
        if noise.chance(self.reorder) {
            at += Duration::from_micros(noise.next() % 30_000);
        }
        let mut datagram = datagram;
        if noise.chance(self.corrupt) {
            let index = noise.below(datagram.len());
            datagram[index] ^= 1 << (noise.next() % 8);
        }
        if noise.chance(self.duplicate) {
            return vec![(at, datagram.clone()), (at + Duration::from_millis(3), datagram)];
        }
        vec![(at, datagram)]
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Flying(std::cmp::Reverse<(Timestamp, u64)>, bool, Vec<u8>);

struct Pair {
    now: Timestamp,
    agent: Connection,
    gateway: Connection,
    up: Link,
    down: Link,
    noise: Noise,
    flying: BinaryHeap<Flying>,
    sequence: u64,
    steps: u64,
    events: Vec<(Timestamp, bool, Event)>,
    largest_book: usize,
    from: Path,
    /// The agent does not run: it neither sends nor receives.
    suspended: bool,
}

fn keys() -> SessionKeys {
    SessionKeys {
        agent_to_gateway: PacketKey::new(&[1; 32]),
        gateway_to_agent: PacketKey::new(&[2; 32]),
        exporter: Zeroizing::new([3; 32]),
    }
}

impl Pair {
    fn new(profile: Option<&str>, up: Link, down: Link, seed: u64) -> Self {
        let profile: Option<LinkProfile> = profile.map(|name| name.parse().expect("known"));
        Self::with(
            TransportConfig::agent(profile),
            TransportConfig::gateway(),
            up,
            down,
            seed,
        )
    }

    fn with(config: TransportConfig, server: TransportConfig, up: Link, down: Link, seed: u64) -> Self {
        let now = Timestamp::ZERO + Duration::from_secs(1);
        let from = Path::Udp(([192, 0, 2, 1], 4000).into());
        let to = Path::Udp(([192, 0, 2, 2], 4001).into());
        let mut agent = Connection::agent(&config, None, to, config.profile, now);
        agent.init_frames(now, 1000, &mut Vec::new());
        let parameters = config.parameters();
        let validated = Validation::Validated;
        let gateway = Connection::gateway(&server, keys(), None, 9, parameters, from, validated, now);
        agent.handshake_done(now, keys(), 77, server.parameters(), EarlyOutcome::Rejected);
        Self {
            now,
            agent,
            gateway,
            up,
            down,
            noise: Noise(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            flying: BinaryHeap::new(),
            sequence: 0,
            steps: 0,
            events: Vec::new(),
            largest_book: 0,
            from,
            suspended: false,
        }
    }

    fn flush(&mut self) {
        for up in [true, false] {
            if up && self.suspended {
                continue;
            }
            loop {
                let mut datagram = Vec::new();
                let from = if up { &mut self.agent } else { &mut self.gateway };
                if from.poll_transmit(self.now, &mut datagram).is_none() {
                    assert!(datagram.is_empty());
                    break;
                }
                assert!(datagram.len() <= 1472);
                let link = if up { &mut self.up } else { &mut self.down };
                for (at, datagram) in link.carry(self.now, datagram, &mut self.noise) {
                    self.sequence += 1;
                    self.flying
                        .push(Flying(std::cmp::Reverse((at, self.sequence)), up, datagram));
                }
            }
            while let Some(event) = if up {
                self.agent.poll_event()
            } else {
                self.gateway.poll_event()
            } {
                self.events.push((self.now, up, event));
            }
        }
        let book = self
            .agent
            .stats()
            .bookkeeping
            .0
            .max(self.gateway.stats().bookkeeping.0);
        self.largest_book = self.largest_book.max(book);
    }

    /// Advances to the next event; returns `false` if there is none before `until`.
    fn step(&mut self, until: Timestamp) -> bool {
        self.flush();
        let agent = self.agent.poll_timeout().filter(|_| !self.suspended);
        let timers = [agent, self.gateway.poll_timeout()];
        let flight = self.flying.peek().map(|flying| flying.0.0.0);
        let Some(next) = timers.into_iter().flatten().chain(flight).min() else {
            return false;
        };
        if next > until {
            self.now = until;
            return false;
        }
        self.steps += 1;
        assert!(self.steps < 30_000_000, "the simulation spins");
        self.now = self.now.max(next);
        while self.flying.peek().is_some_and(|flying| flying.0.0.0 <= self.now) {
            let Flying(_, up, mut datagram) = self.flying.pop().expect("peeked");
            if self.suspended && !up {
                continue;
            }
            let (length, to) = if up {
                (IndexLength::Gateway, &mut self.gateway)
            } else {
                (IndexLength::Agent, &mut self.agent)
            };
            let Ok((header, header_len)) = ShortHeader::parse(&datagram, length) else {
                continue;
            };
            let remote = if up {
                self.from
            } else {
                Path::Udp(([192, 0, 2, 2], 4001).into())
            };
            to.handle_short(self.now, remote, header, header_len, &mut datagram);
        }
        for (is_suspended, connection) in [(self.suspended, &mut self.agent), (false, &mut self.gateway)] {
            if is_suspended {
                continue;
            }
            if connection.poll_timeout().is_some_and(|at| at <= self.now) {
                connection.handle_timeout(self.now);
            }
        }
        true
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.step(until) {}
    }
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

fn hop(name: &str) -> (Link, Link) {
    let profile: LinkProfile = name.parse().expect("known");
    let one_way = u64::try_from(profile.rtt.as_millis()).expect("short") / 2;
    let queue = (profile.down.as_bps() / 4).max(120_000);
    (
        Link::new(profile.up.as_bps(), one_way, 120_000),
        Link::new(profile.down.as_bps(), one_way, queue),
    )
}
