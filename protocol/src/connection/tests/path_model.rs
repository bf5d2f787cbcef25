//! Model of two connections with two paths, a UDP path and an ordered link (docs/protocol/transport.md sections 7 and 8):
//! stateright visits every order of deliveries, losses, changes of the path and expired timers within the bounds.
//!
//! The states are pairs of real connections, not a description of them: a step of the model calls the connection. Steps
//! other than an expired timer take no time, so that steps which do not influence each other lead to the same state in
//! either order.
use std::{
    collections::VecDeque,
    fmt::{self, Write as _},
    hash::{Hash, Hasher},
    net::SocketAddr,
};

use stateright::{Checker as _, Model, Property};

use super::*;
use crate::path::LinkId;

const AGENT: usize = 0;
const GATEWAY: usize = 1;
/// Bytes of a body from the gateway for each of its packets.
const DOWN: usize = 1_000;
/// Body from the agent: one packet.
const UP: usize = 300;
/// Unsent packets at which a link accepts no more, as in the driver.
const FULL_LINK: usize = 2;
/// Rounds of the fair end of a run: each one delivers everything, or lets a timer expire.
const ROUNDS: usize = 400;

/// Bounds of the state space.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Packets of the body from the gateway.
    data: u8,
    /// Packets on the way at the same time.
    packets: usize,
    /// Losses of one packet.
    losses: u8,
    /// Changes of a path: by the agent, or of what works.
    changes: u8,
    /// Expired timers.
    waits: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    /// A packet arrives over UDP: any one of those on the way, up from the agent (0) or down to it (1).
    Deliver(usize, usize),
    /// A packet is lost on the UDP path.
    Lose(usize, usize),
    /// The next packet arrives over the link.
    DeliverOnLink(usize),
    /// The next timer of either end expires.
    Wait,
    /// The agent changes to its link, and opens one if it has none.
    ToLink,
    /// The agent changes to UDP.
    ToUdp,
    /// The agent finds out whether UDP works.
    ProbeUdp,
    /// The link ends with everything on it.
    EndLink,
    /// UDP loses everything in this direction from now on.
    UdpDies(usize),
}

/// What is known of a sender's packets.
#[derive(Clone, Copy, Debug, Default)]
struct Book {
    /// Packets that were counted as outstanding.
    counted: u64,
    /// Counted and lost packets at the last change of the path.
    at_change: (u64, u64),
    /// A packet was still outstanding after the change, or was counted twice.
    is_wrong: bool,
}

#[derive(Clone)]
struct Link {
    id: LinkId,
    /// Packets on the way, up and down.
    lanes: [VecDeque<Vec<u8>>; 2],
}

#[derive(Clone)]
struct State {
    now: Timestamp,
    ends: [Connection; 2],
    books: [Book; 2],
    /// Packets on the way over UDP, up and down.
    udp: [Vec<Vec<u8>>; 2],
    udp_works: [bool; 2],
    link: Option<Link>,
    links: u64,
    /// Paths that the agent has chosen, and the last of them to which the gateway has followed.
    chosen: Vec<Path>,
    followed: usize,
    /// The gateway left a path for one that the agent had chosen earlier, or never.
    went_back: bool,
    left: Bounds,
    /// Stream of each end.
    streams: [StreamId; 2],
    received: [Vec<u8>; 2],
    finished: [bool; 2],
    closed: bool,
    /// Digest of everything above.
    digest: [u8; 32],
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

fn udp(end: usize) -> Path {
    let address: ([u8; 4], u16) = [([192, 0, 2, 1], 4000), ([192, 0, 2, 2], 4001)][end];
    Path::Udp(SocketAddr::from(address))
}

/// What an end receives.
fn content(bounds: &Bounds, end: usize) -> Bytes {
    match end {
        AGENT => body(DOWN * usize::from(bounds.data), 1),
        _ => body(UP, 2),
    }
}

impl State {
    fn new(bounds: Bounds) -> Self {
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

    fn lost(&self, end: usize) -> u64 {
        self.ends[end].stats().packets_lost
    }

    fn awaited(&self, end: usize) -> u64 {
        self.ends[end].sent_packets.awaited()
    }

    /// Does everything that takes no time: expired timers, packets, what the users read.
    fn settle(&mut self) {
        for end in [AGENT, GATEWAY] {
            if self.ends[end].poll_timeout().is_some_and(|at| at <= self.now) {
                self.ends[end].handle_timeout(self.now);
            }
            self.transmit(end);
            self.read(end);
            while let Some(event) = self.ends[end].poll_event() {
                self.closed |= matches!(event, Event::Closed(_));
            }
            let settled = self.lost(end) + self.awaited(end);
            let book = &mut self.books[end];
            book.is_wrong |= settled > book.counted;
        }
    }

    fn to_digest(&self) -> [u8; 32] {
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

    fn transmit(&mut self, end: usize) {
        loop {
            let (is_blocked, before) = (self.is_blocked(end), self.awaited(end));
            let connection = &mut self.ends[end];
            connection.set_blocked(is_blocked);
            let mut packet = Vec::new();
            let path = if is_blocked {
                connection.transmit_probing(self.now, &mut packet)
            } else {
                connection.poll_transmit(self.now, &mut packet)
            };
            let Some(path) = path else { return };
            let counted = self.awaited(end).saturating_sub(before);
            self.books[end].counted += counted;
            match path {
                Path::Udp(_) if !self.udp_works[end] => {}
                Path::Udp(_) => {
                    self.udp[end].push(packet);
                    // The UDP path has no order: equal sets of packets are one state.
                    self.udp[end].sort_unstable();
                }
                Path::Link(id) => {
                    if let Some(link) = self.link.as_mut().filter(|link| link.id == id) {
                        link.lanes[end].push_back(packet);
                    }
                }
            }
        }
    }

    /// As the endpoint: a link that is full or has ended accepts no packet.
    fn is_blocked(&self, end: usize) -> bool {
        let Path::Link(id) = self.ends[end].path() else {
            return false;
        };
        self.link
            .as_ref()
            .filter(|link| link.id == id)
            .is_none_or(|link| link.lanes[end].len() >= FULL_LINK)
    }

    fn read(&mut self, end: usize) {
        let connection = &mut self.ends[end];
        let peers_stream = self.streams[1 - end];
        let _first = connection.accept();
        loop {
            match connection.read(self.now, peers_stream) {
                Ok(ReadOutcome::Data(data)) => self.received[end].extend_from_slice(&data),
                Ok(ReadOutcome::Finished) => {
                    self.finished[end] = true;
                    return;
                }
                Ok(ReadOutcome::Blocked) | Err(_) => return,
            }
        }
    }

    /// A packet from `end` arrives at the other one.
    fn arrive(&mut self, end: usize, path: Path, mut packet: Vec<u8>) {
        let to = 1 - end;
        let length = [IndexLength::Gateway, IndexLength::Agent][end];
        let (header, header_len) = ShortHeader::parse(&packet, length).expect("a short packet");
        let before = self.ends[to].path();
        self.ends[to].handle_short(self.now, path, header, header_len, &mut packet);
        if self.ends[to].path() != before {
            self.on_changed_path(to);
            self.on_followed();
        }
    }

    /// What was on the way on the abandoned path counts as lost now, and never again.
    fn on_changed_path(&mut self, end: usize) {
        let (lost, is_settled) = (self.lost(end), self.awaited(end) == 0);
        let book = &mut self.books[end];
        book.is_wrong |= !is_settled;
        book.at_change = (book.counted, lost);
    }

    /// The gateway has followed a packet: with the highest number, which the agent sent on a later path.
    fn on_followed(&mut self) {
        let class = self.ends[GATEWAY].path().class();
        let link = Some(self.ends[GATEWAY].path()).filter(|path| path.udp().is_none());
        let mut later = self.chosen.iter().enumerate().skip(self.followed);
        let found = later.find(|(_, path)| path.class() == class && link.is_none_or(|link| link == **path));
        self.went_back |= found.is_none();
        self.followed = found.map_or(self.followed, |(index, _)| index);
    }

    fn change_path(&mut self, path: Path) {
        if self.ends[AGENT].path() != path {
            self.ends[AGENT].change_path(self.now, path);
            self.on_changed_path(AGENT);
        }
        self.chosen.push(path);
    }

    fn change_to_link(&mut self) {
        let id = self.link.as_ref().map_or_else(
            || {
                self.links += 1;
                LinkId::ordered(self.links)
            },
            |link| link.id,
        );
        let lanes = [const { VecDeque::new() }; 2];
        self.link.get_or_insert(Link { id, lanes });
        self.change_path(Path::Link(id));
    }

    fn is_complete(&self) -> bool {
        self.finished == [true; 2] && [AGENT, GATEWAY].iter().all(|end| self.awaited(*end) == 0)
    }

    fn on_the_way(&self) -> usize {
        let on_links = self
            .link
            .iter()
            .flat_map(|link| link.lanes.iter().map(VecDeque::len));
        self.udp.iter().map(Vec::len).chain(on_links).sum()
    }

    fn next_timer(&self) -> Option<Timestamp> {
        self.ends.iter().filter_map(Connection::poll_timeout).min()
    }

    fn apply(&mut self, action: &Action) {
        self.perform(action);
        self.digest = self.to_digest();
    }

    fn perform(&mut self, action: &Action) {
        match *action {
            Action::Deliver(end, index) => {
                let packet = self.udp[end].remove(index);
                self.arrive(end, udp(end), packet);
            }
            Action::Lose(end, index) => {
                self.left.losses -= 1;
                self.udp[end].remove(index);
            }
            Action::DeliverOnLink(end) => {
                if let Some(link) = &mut self.link
                    && let Some(packet) = link.lanes[end].pop_front()
                {
                    let path = Path::Link(link.id);
                    self.arrive(end, path, packet);
                }
            }
            Action::Wait => {
                self.left.waits -= 1;
                self.now = self.next_timer().map_or(self.now, |at| at.max(self.now));
            }
            Action::ToLink | Action::ToUdp | Action::ProbeUdp | Action::EndLink | Action::UdpDies(_) => {
                self.left.changes -= 1;
                self.change(action);
            }
        }
        self.settle();
    }

    fn change(&mut self, action: &Action) {
        match *action {
            Action::ToLink => self.change_to_link(),
            Action::ToUdp => self.change_path(udp(GATEWAY)),
            Action::ProbeUdp => self.ends[AGENT].probe_path(udp(GATEWAY)),
            Action::EndLink => {
                self.link = None;
                // The driver's rule: until another link is open, UDP is the only path.
                self.change_path(udp(GATEWAY));
            }
            Action::UdpDies(end) => {
                self.udp_works[end] = false;
                self.udp[end].clear();
            }
            Action::Deliver(..) | Action::Lose(..) | Action::DeliverOnLink(_) | Action::Wait => {}
        }
    }

    /// The next packet that arrives if all do, in an order that the links permit.
    fn next_delivery(&self) -> Option<Action> {
        let link = self.link.as_ref();
        [AGENT, GATEWAY].into_iter().find_map(|end| {
            let on_link = link.is_some_and(|link| !link.lanes[end].is_empty());
            let on_udp = !self.udp[end].is_empty();
            on_udp
                .then_some(Action::Deliver(end, 0))
                .or_else(|| on_link.then_some(Action::DeliverOnLink(end)))
        })
    }

    /// True if the agent uses a path that does not work.
    fn needs_a_link(&self) -> bool {
        self.ends[AGENT].path().udp().is_some() && self.udp_works != [true; 2]
    }

    /// Returns true if everything arrives when from now on nothing is lost and the agent uses a path that works.
    fn ends_well(&self) -> bool {
        let mut state = self.clone();
        if state.needs_a_link() {
            state.change_to_link();
            state.settle();
        } else if let Some(action) = state.next_delivery() {
            state.perform(&action);
            // The checker visits that state as well, and the end is the same.
            if state.on_the_way() <= self.left.packets {
                return true;
            }
        }
        for _ in 0..ROUNDS {
            if state.is_complete() {
                break;
            }
            match (state.next_delivery(), state.next_timer()) {
                (Some(action), _) => state.perform(&action),
                (None, Some(at)) => {
                    state.now = state.now.max(at);
                    state.settle();
                }
                (None, None) => return false,
            }
        }
        let paths = [
            state.ends[AGENT].path().class(),
            state.ends[GATEWAY].path().class(),
        ];
        state.is_complete() && state.is_right() && paths[0] == paths[1]
    }

    /// Each byte once and in order; losses counted once; the session where the agent has been.
    fn is_right(&self) -> bool {
        self.bytes_are_right() && self.losses_are_right() && self.gateway_follows()
    }

    fn bytes_are_right(&self) -> bool {
        !self.closed
            && [AGENT, GATEWAY].iter().all(|end| {
                let (sent, received) = (content(&self.left, *end), &self.received[*end]);
                sent.starts_with(received) && (!self.finished[*end] || sent.len() == received.len())
            })
    }

    fn losses_are_right(&self) -> bool {
        [AGENT, GATEWAY].iter().all(|end| {
            let book = self.books[*end];
            let (counted, lost) = book.at_change;
            !book.is_wrong && self.lost(*end) - lost <= book.counted - counted
        })
    }

    const fn gateway_follows(&self) -> bool {
        !self.went_back
    }
}

#[derive(Clone, Debug)]
struct TwoPaths(Bounds);

impl Model for TwoPaths {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.0)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for end in [AGENT, GATEWAY] {
            for index in 0..state.udp[end].len() {
                actions.push(Action::Deliver(end, index));
                if state.left.losses > 0 {
                    actions.push(Action::Lose(end, index));
                }
            }
            if state
                .link
                .as_ref()
                .is_some_and(|link| !link.lanes[end].is_empty())
            {
                actions.push(Action::DeliverOnLink(end));
            }
            if state.left.changes > 0 && state.udp_works[end] {
                actions.push(Action::UdpDies(end));
            }
        }
        if state.left.waits > 0 && !state.is_complete() {
            actions.push(Action::Wait);
        }
        if state.left.changes > 0 {
            let is_on_udp = state.ends[AGENT].path().udp().is_some();
            let change = if is_on_udp { Action::ToLink } else { Action::ToUdp };
            actions.push(change);
            if !is_on_udp {
                actions.push(Action::ProbeUdp);
            }
            if state.link.is_some() {
                actions.push(Action::EndLink);
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        state.apply(&action);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("each byte arrives once and in order", |_, state: &State| {
                state.bytes_are_right()
            }),
            Property::always("a packet counts as lost once", |_, state: &State| {
                state.losses_are_right()
            }),
            Property::always("only the agent's choice moves the gateway", |_, state: &State| {
                state.gateway_follows()
            }),
            Property::always("everything arrives if a path works", |_, state: &State| {
                state.ends_well()
            }),
            Property::sometimes("everything has arrived", |_, state: &State| state.is_complete()),
        ];
        // That the bounds permit what the rules are about.
        let reached = [
            Property::sometimes("the gateway has followed to the link", |_, state: &State| {
                state.ends[GATEWAY].path().udp().is_none()
            }),
            Property::sometimes("the session has returned to UDP", |_, state: &State| {
                state.links > 0 && state.chosen.len() > 2 && state.ends[GATEWAY].path().udp().is_some()
            }),
            Property::sometimes("packets of an abandoned path are lost", |_, state: &State| {
                state.books[GATEWAY].at_change.1 > 0
            }),
        ];
        if self.0.changes > 1 {
            properties.extend(reached);
        }
        properties
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.on_the_way() <= state.left.packets
    }
}

fn check(bounds: Bounds) {
    let checked = TwoPaths(bounds).checker().threads(2).spawn_dfs().join();
    println!(
        "{bounds:?}: {} steps, {} states, at most {} steps deep",
        checked.state_count(),
        checked.unique_state_count(),
        checked.max_depth()
    );
    checked.assert_properties();
}

/// Bounds of the ordinary test run, each with more of one kind of event: packets of the body, packets on the way, losses,
/// changes, timers.
const BOUNDS: &str = "2,6,0,1,0 2,4,1,1,0 1,3,0,2,0 1,3,1,1,1";

#[test]
fn two_paths_deliver_each_byte_once_whatever_happens() {
    let wanted = std::env::var("LONGHAUL_MODEL_BOUNDS").unwrap_or_else(|_| BOUNDS.to_owned());
    for bounds in wanted.split(' ') {
        let numbers: Vec<u8> = bounds
            .split(',')
            .map(|part| part.parse().expect("a number"))
            .collect();
        let &[data, packets, losses, changes, waits] = numbers.as_slice() else {
            panic!("LONGHAUL_MODEL_BOUNDS has five numbers for each run");
        };
        check(Bounds {
            data,
            packets: packets.into(),
            losses,
            changes,
            waits,
        });
    }
}
