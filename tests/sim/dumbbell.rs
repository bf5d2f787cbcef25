//! A dumbbell topology: sessions and TCP connections that share one hop, with a clock for each host.
//!
//! Invariants are checked at each datagram of a session: the packet number is new, data is within the credit,
//! the session is not closed, the memory of streams is bounded, and a side that waits has a timer. The users
//! check every received byte.
mod checks;
mod shares;

use std::time::Duration;

use longhaul_netem::{Hop, HopConfig, Packet, Side as End};
use longhaul_protocol::connection::{ConnectionStats, TransportConfig};
use longhaul_types::{ByteCount, LinkProfile, Timestamp};

use self::checks::{check_credit, check_datagram, check_memory, check_timer};
pub(crate) use self::shares::Watched;
use crate::{
    application::User,
    clock::Clock,
    cubic::{ACK, Ack, CubicReceiver, SEGMENT},
    datagram::{HEADERS, TraceHash},
    plan::Exchange,
    side::{Bounds, Side},
    tcp::{Congestion, TcpSender},
    world::{GivenToken, Moves, Setting, World, client_socket},
};

/// Maximum turns without progress of time; more indicate an endless loop.
const MAX_TURNS: u32 = 50_000;

/// Description of a session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) starts: Duration,
    pub(crate) profile: Option<LinkProfile>,
    /// Times are those of the agent's clock, which shows zero at the start.
    pub(crate) plan: Vec<Exchange>,
    pub(crate) agent_clock: Clock,
    pub(crate) gateway_clock: Clock,
}

impl Session {
    /// A session with exact clocks that starts at time zero.
    pub(crate) fn new(profile: Option<LinkProfile>, plan: Vec<Exchange>) -> Self {
        Self {
            starts: Duration::ZERO,
            profile,
            plan,
            agent_clock: Clock::default(),
            gateway_clock: Clock::default(),
        }
    }

    /// A session with an endless download.
    pub(crate) fn bulk(profile: Option<LinkProfile>) -> Self {
        Self::new(profile, vec![Exchange::fetch(Duration::ZERO, 1 << 40)])
    }

    /// The same session with start time `starts`.
    pub(crate) fn starting(self, starts: Duration) -> Self {
        Self { starts, ..self }
    }
}

/// A TCP connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rival {
    pub(crate) congestion: Congestion,
    pub(crate) starts: Duration,
    /// Time after the start for which it has data.
    pub(crate) lasts: Duration,
    /// The end that sends the data.
    pub(crate) sender: End,
}

#[derive(Clone, Debug)]
pub(crate) enum Load {
    Datagram(Vec<u8>),
    Segment { number: u64, ack_now: bool },
    Ack(Ack),
}

/// A packet with the number of its flow.
#[derive(Clone, Debug)]
pub(crate) struct Tagged {
    flow: usize,
    load: Load,
}

impl Packet for Tagged {
    fn len_on_link(&self) -> ByteCount {
        ByteCount::new(match &self.load {
            Load::Datagram(payload) => payload.len() as u64 + HEADERS,
            Load::Segment { .. } => SEGMENT,
            Load::Ack(_) => ACK,
        })
    }

    fn flip_bit(&mut self, _: u64) {}
}

/// Both ends of a session.
struct Pair {
    sides: [Side; 2],
    clocks: [Clock; 2],
    bounds: [Bounds; 2],
}

enum Kind {
    Session(Box<Pair>),
    Tcp(Box<TcpSender>, CubicReceiver, Source),
}

/// Where the data of a TCP connection comes from, and until when.
#[derive(Clone, Copy)]
struct Source {
    end: End,
    ends: Timestamp,
}

struct Flow {
    starts: Timestamp,
    kind: Kind,
    /// Time of its next timer or action.
    next: Option<Timestamp>,
    /// Set if a packet for it has just arrived.
    touched: bool,
}

/// Time for which an endless TCP connection has data.
pub(crate) const ENDLESS: Duration = Duration::from_secs(1_000_000);

const USERS: [User; 2] = [User::Agent, User::Gateway];
const ENDS: [End; 2] = [End::Client, End::Gateway];

pub(crate) struct Dumbbell {
    pub(crate) now: Timestamp,
    pub(crate) hop: Hop<Tagged>,
    flows: Vec<Flow>,
    hash: TraceHash,
}

impl Dumbbell {
    /// Flow numbers count the sessions first, then the TCP connections.
    pub(crate) fn new(hop: &HopConfig, sessions: &[Session], rivals: &[Rival], seed: u64) -> Self {
        let session = |(number, session): (usize, &Session)| {
            let world = World::new(Setting {
                hop: hop.clone(),
                profile: session.profile,
                plan: session.plan.clone(),
                token: GivenToken::Valid,
                moves: Moves::Silent,
                seed: seed * 64 + number as u64,
            });
            let starts = Timestamp::ZERO + session.starts;
            let pair = Pair {
                sides: [world.agent, world.gateway],
                clocks: [&session.agent_clock, &session.gateway_clock]
                    .map(|clock| clock.clone().beginning(starts)),
                bounds: [
                    Bounds::of(&TransportConfig::agent(session.profile)),
                    Bounds::of(&TransportConfig::gateway()),
                ],
            };
            Flow {
                starts,
                kind: Kind::Session(Box::new(pair)),
                next: Some(starts),
                touched: false,
            }
        };
        let rival = |rival: &Rival| {
            let starts = Timestamp::ZERO + rival.starts;
            Flow {
                starts,
                kind: Kind::Tcp(
                    Box::new(TcpSender::new(rival.congestion, starts)),
                    CubicReceiver::default(),
                    Source {
                        end: rival.sender,
                        ends: starts + rival.lasts,
                    },
                ),
                next: Some(starts),
                touched: false,
            }
        };
        let sessions = sessions.iter().enumerate().map(session);
        Self {
            now: Timestamp::ZERO,
            hop: Hop::new(hop.clone(), seed),
            flows: sessions.chain(rivals.iter().map(rival)).collect(),
            hash: TraceHash::default(),
        }
    }

    fn pair(&self, flow: usize) -> &Pair {
        match &self.flows[flow].kind {
            Kind::Session(pair) => pair,
            Kind::Tcp(..) => panic!("flow {flow} is not a session"),
        }
    }

    /// One end of a session.
    pub(crate) fn side(&self, flow: usize, user: User) -> &Side {
        let [agent, gateway] = &self.pair(flow).sides;
        match user {
            User::Agent => agent,
            User::Gateway => gateway,
        }
    }

    /// Counters of one end of a session; zeros before it exists.
    pub(crate) fn stats(&self, flow: usize, user: User) -> ConnectionStats {
        stats(self.side(flow, user)).unwrap_or_default()
    }

    /// Bytes that the link has delivered for each flow, in the direction of its data.
    pub(crate) fn delivered(&self) -> Vec<u64> {
        let count = |flow: &Flow| match &flow.kind {
            Kind::Session(pair) => stats(&pair.sides[0]).map_or(0, |stats| stats.bytes_received),
            Kind::Tcp(_, receiver, _) => receiver.packets * SEGMENT,
        };
        self.flows.iter().map(count).collect()
    }

    /// Hash of all events: two runs with the same seed have the same hash.
    pub(crate) fn trace_hash(&self) -> u64 {
        let mut hash = self.hash;
        hash.word(self.hop.event_hash());
        hash.value()
    }

    /// Runs until `until`.
    pub(crate) fn run(&mut self, until: Timestamp) {
        self.run_while(until, |_| true);
    }

    /// Runs while `going` returns true, at most until `limit`; returns true if `going` returned false.
    pub(crate) fn run_while(&mut self, limit: Timestamp, mut going: impl FnMut(&Self) -> bool) -> bool {
        let mut turns = 0;
        loop {
            self.turn();
            if !going(self) {
                return true;
            }
            let own = self.flows.iter().filter_map(|flow| flow.next).min();
            let next = own.into_iter().chain(self.hop.next_event()).min();
            let Some(next) = next.filter(|next| *next <= limit) else {
                self.now = limit;
                return false;
            };
            if next > self.now {
                self.now = next;
                turns = 0;
            }
            turns += 1;
            assert!(turns < MAX_TURNS, "endless loop at {:?}", self.now);
        }
    }

    fn turn(&mut self) {
        let now = self.now;
        while let Some(delivery) = self.hop.poll_client(now) {
            self.arrive(End::Client, delivery.packet);
        }
        while let Some(arrival) = self.hop.poll_gateway(now) {
            self.arrive(End::Gateway, arrival.delivery.packet);
        }
        for number in 0..self.flows.len() {
            let flow = &mut self.flows[number];
            if flow.starts <= now && (flow.touched || flow.next.is_some_and(|at| at <= now)) {
                flow.touched = false;
                self.send(number);
            }
        }
    }

    fn arrive(&mut self, at: End, Tagged { flow, load }: Tagged) {
        let now = self.now;
        self.flows[flow].touched = true;
        match (&mut self.flows[flow].kind, load) {
            (Kind::Session(pair), Load::Datagram(mut payload)) => {
                let (which, from) = match at {
                    End::Client => (0, World::GATEWAY.into()),
                    End::Gateway => (1, client_socket(self.hop.client_address(now))),
                };
                let local = pair.clocks[which].read(now);
                pair.sides[which]
                    .endpoint
                    .handle_datagram(local, from, &mut payload);
            }
            (Kind::Tcp(_, receiver, _), Load::Segment { number, ack_now }) => {
                if let Some(ack) = receiver.on_packet(number, ack_now) {
                    let load = Load::Ack(ack);
                    self.hop.send(now, at, Tagged { flow, load });
                }
            }
            (Kind::Tcp(sender, ..), Load::Ack(ack)) => sender.on_ack(now, ack),
            _ => unreachable!("the packet belongs to another flow"),
        }
    }

    fn send(&mut self, flow: usize) {
        let now = self.now;
        let Flow { kind, next, .. } = &mut self.flows[flow];
        *next = match kind {
            Kind::Session(pair) => {
                let mut earliest = None;
                for (which, end) in ENDS.into_iter().enumerate() {
                    let mut send = |payload| {
                        let load = Load::Datagram(payload);
                        self.hop.send(now, end, Tagged { flow, load });
                    };
                    pair.turn(now, which, &mut self.hash, &mut send);
                    earliest = earliest.into_iter().chain(pair.next(which)).min();
                }
                earliest
            }
            Kind::Tcp(_, _, source) if now >= source.ends => None,
            Kind::Tcp(sender, _, source) => {
                sender.handle_timeout(now);
                while let Some((number, ack_now)) = sender.poll(now) {
                    let load = Load::Segment { number, ack_now };
                    self.hop.send(now, source.end, Tagged { flow, load });
                }
                sender.poll_timeout()
            }
        };
    }
}

fn stats(side: &Side) -> Option<ConnectionStats> {
    Some(side.endpoint.peek(side.handle?)?.stats())
}

impl Pair {
    /// Time of the next timer or action of this end, in true time.
    fn next(&self, which: usize) -> Option<Timestamp> {
        let side = &self.sides[which];
        let is_open = side.handle.is_some() && side.closed.is_none();
        let action = side.application.next_action().filter(|_| is_open);
        let local = side.endpoint.poll_timeout().into_iter().chain(action).min()?;
        Some(self.clocks[which].when(local))
    }

    fn turn(&mut self, now: Timestamp, which: usize, hash: &mut TraceHash, send: &mut impl FnMut(Vec<u8>)) {
        let local = self.clocks[which].read(now);
        let side = &mut self.sides[which];
        if side.endpoint.poll_timeout().is_some_and(|at| at <= local) {
            side.endpoint.handle_timeout(local);
        }
        side.use_connection(local, hash);
        let mut datagram = Vec::new();
        loop {
            let before = stats(side);
            let Some(transmit) = side.endpoint.poll_transmit(local, &mut datagram) else {
                break;
            };
            check_datagram(side, USERS[which], &transmit, &datagram);
            check_credit(USERS[which], local, before, stats(side));
            hash.word(now.as_nanos());
            hash.bytes(&datagram);
            send(std::mem::take(&mut datagram));
        }
        check_memory(side, self.bounds[which]);
        check_timer(side, USERS[which], local);
    }
}

#[test]
fn runs_of_one_seed_are_the_same() {
    let profile = crate::links::named("umts-384");
    let run = |seed| {
        let known = crate::links::Knowledge::Known.of(profile);
        let skewed = Session {
            agent_clock: Clock::fast_by(300),
            ..Session::bulk(known).starting(Duration::from_secs(1))
        };
        let rival = Rival {
            congestion: Congestion::Cubic,
            starts: Duration::from_secs(2),
            lasts: ENDLESS,
            sender: End::Client,
        };
        let hop = HopConfig::from(profile);
        let mut dumbbell = Dumbbell::new(&hop, &[Session::bulk(known), skewed], &[rival], seed);
        dumbbell.run(Timestamp::ZERO + Duration::from_secs(20));
        (dumbbell.trace_hash(), dumbbell.delivered())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}
