//! State of the model: two connections, the packets between them, and what is known of them.
use std::{
    collections::VecDeque,
    fmt::{self, Write as _},
    hash::{Hash, Hasher},
    net::SocketAddr,
};

use super::{AGENT, Bounds, GATEWAY};
use crate::{connection::tests::*, path::LinkId};

/// What is known of a sender's packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Book {
    /// Packets that were counted as outstanding.
    pub(super) counted: u64,
    /// Counted and lost packets at the last change of the path.
    pub(super) at_change: (u64, u64),
    /// A packet was still outstanding after the change, or was counted twice.
    pub(super) is_wrong: bool,
}

#[derive(Clone)]
pub(super) struct Link {
    pub(super) id: LinkId,
    /// Packets on the way, up and down.
    pub(super) lanes: [VecDeque<Vec<u8>>; 2],
}

#[derive(Clone)]
pub(super) struct State {
    pub(super) now: Timestamp,
    pub(super) ends: [Connection; 2],
    pub(super) books: [Book; 2],
    /// Packets on the way over UDP, up and down.
    pub(super) udp: [Vec<Vec<u8>>; 2],
    pub(super) udp_works: [bool; 2],
    pub(super) link: Option<Link>,
    pub(super) links: u64,
    /// Paths that the agent has chosen, and the last of them to which the gateway has followed.
    pub(super) chosen: Vec<Path>,
    pub(super) followed: usize,
    /// The gateway left a path for one that the agent had chosen earlier, or never.
    pub(super) went_back: bool,
    pub(super) left: Bounds,
    /// Stream of each end.
    pub(super) streams: [StreamId; 2],
    pub(super) received: [Vec<u8>; 2],
    pub(super) finished: [bool; 2],
    pub(super) closed: bool,
    /// Digest of everything above.
    pub(super) digest: [u8; 32],
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = [self.ends[AGENT].path(), self.ends[GATEWAY].path()];
        let on_link = self
            .link
            .as_ref()
            .map(|link| link.lanes.each_ref().map(VecDeque::len));
        let lost = self.ends.each_ref().map(|end| end.stats().packets_lost);
        write!(
            f,
            "{:?} paths {paths:?} udp {:?} link {on_link:?} received {:?} lost {lost:?} books {:?}",
            self.now,
            self.udp.each_ref().map(Vec::len),
            self.received.each_ref().map(Vec::len),
            self.books
        )
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

/// Writes text into a hash.
struct Digest(blake3::Hasher);

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

pub(super) fn udp(end: usize) -> Path {
    let address: ([u8; 4], u16) = [([192, 0, 2, 1], 4000), ([192, 0, 2, 2], 4001)][end];
    Path::from(SocketAddr::from(address))
}

/// What an end receives.
pub(super) fn content(bounds: &Bounds, end: usize) -> Bytes {
    match end {
        AGENT => body(DOWN * usize::from(bounds.data), 1),
        _ => body(UP, 2),
    }
}

/// Bytes of a body from the gateway for each of its packets.
const DOWN: usize = 1_000;
/// Body from the agent: one packet.
const UP: usize = 300;

impl State {
    pub(super) fn new(bounds: Bounds) -> Self {
        let now = Timestamp::ZERO + Duration::from_secs(1);
        let profile = Some("lte".parse().expect("known"));
        let (config, server) = (TransportConfig::agent(profile), TransportConfig::gateway());
        let mut agent = Connection::agent(&config, None, udp(GATEWAY), config.profile, now);
        agent.init_frames(now, 1000, &mut Vec::new());
        let validated = Validation::Validated;
        let parameters = config.parameters();
        let gateway = Connection::gateway(&server, keys(), None, 9, parameters, udp(AGENT), validated, now);
        agent.handshake_done(now, keys(), 77, server.parameters(), EarlyOutcome::Rejected);
        let mut state = Self {
            now,
            ends: [agent, gateway],
            books: [Book::default(); 2],
            udp: [const { Vec::new() }; 2],
            udp_works: [true; 2],
            link: None,
            links: 0,
            chosen: vec![udp(GATEWAY)],
            followed: 0,
            went_back: false,
            left: bounds,
            streams: [StreamId(0); 2],
            received: [const { Vec::new() }; 2],
            finished: [false; 2],
            closed: false,
            digest: [0; 32],
        };
        for end in [AGENT, GATEWAY] {
            let connection = &mut state.ends[end];
            let early = EarlyData::Forbidden;
            let id = connection.open(Priority::new(1), early).expect("a stream");
            state.streams[end] = id;
            let bytes = content(&bounds, 1 - end);
            connection.announce(id, bytes.len() as u64);
            let written = connection.write(now, id, bytes.clone()).expect("room");
            assert_eq!(written, bytes.len());
            connection.finish(id).expect("open");
        }
        state.settle();
        state.digest = state.to_digest();
        state
    }

    pub(super) fn lost(&self, end: usize) -> u64 {
        self.ends[end].stats().packets_lost
    }

    pub(super) fn awaited(&self, end: usize) -> u64 {
        self.ends[end].sent_packets.awaited()
    }

    pub(super) fn to_digest(&self) -> [u8; 32] {
        let mut digest = Digest(blake3::Hasher::new());
        let ways = (
            &self.udp_works,
            self.link.as_ref().map(|link| link.id),
            &self.left,
            self.chosen.get(self.followed..),
        );
        write!(digest, "{:?} {:?} {ways:?} {:?}", self.now, self.ends, self.books).expect("a hash");
        for (end, lane) in self.udp.iter().enumerate() {
            write!(digest, " udp {end}").expect("a hash");
            for packet in lane {
                digest.0.update(packet);
            }
        }
        for (end, lane) in self.link.iter().flat_map(|link| link.lanes.iter().enumerate()) {
            write!(digest, " link {end}").expect("a hash");
            for packet in lane {
                digest.0.update(packet);
            }
        }
        *digest.0.finalize().as_bytes()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.finished == [true; 2] && [AGENT, GATEWAY].iter().all(|end| self.awaited(*end) == 0)
    }

    pub(super) fn on_the_way(&self) -> usize {
        let on_links = self
            .link
            .iter()
            .flat_map(|link| link.lanes.iter().map(VecDeque::len));
        self.udp.iter().map(Vec::len).chain(on_links).sum()
    }

    pub(super) fn next_timer(&self) -> Option<Timestamp> {
        self.ends.iter().filter_map(Connection::poll_timeout).min()
    }
}
