//! Several sessions and TCP connections that share a hop.
use std::time::Duration;

use longhaul_netem::{Hop, HopConfig, Packet, Side as End};
use longhaul_types::{ByteCount, LinkProfile, Timestamp};

use crate::{
    cubic::{ACK, Ack, CubicReceiver, CubicSender, SEGMENT},
    datagram::{HEADERS, TraceHash},
    plan::Exchange,
    side::Side,
    world::{GivenToken, Moves, Setting, World, client_socket},
};

/// Maximum turns without progress of time; more indicate an endless loop.
const MAX_TURNS: u32 = 50_000;

#[derive(Clone, Debug)]
enum Load {
    Datagram(Vec<u8>),
    Segment { number: u64, ack_now: bool },
    Ack(Ack),
}

/// A packet with the number of its flow.
#[derive(Clone, Debug)]
struct Tagged {
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

/// A flow on the hop with its start. Each flow is an endless download.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Session(Option<LinkProfile>),
    Cubic,
}

enum State {
    Session(Box<(Side, Side)>),
    Cubic(CubicSender, CubicReceiver),
}

struct Flow {
    starts: Timestamp,
    state: State,
}

pub(crate) struct Crossing {
    now: Timestamp,
    hop: Hop<Tagged>,
    flows: Vec<Flow>,
    hash: TraceHash,
}

impl Crossing {
    pub(crate) fn new(hop: &HopConfig, flows: &[(Duration, Kind)], seed: u64) -> Self {
        let flow = |(number, (at, kind)): (usize, &(Duration, Kind))| {
            let starts = Timestamp::ZERO + *at;
            let state = match kind {
                Kind::Cubic => State::Cubic(CubicSender::new(starts), CubicReceiver::default()),
                Kind::Session(profile) => {
                    let world = World::new(Setting {
                        hop: hop.clone(),
                        profile: *profile,
                        plan: vec![Exchange::fetch(*at, 1 << 40)],
                        token: GivenToken::Valid,
                        moves: Moves::Silent,
                        seed: seed * 64 + number as u64,
                    });
                    State::Session(Box::new((world.agent, world.gateway)))
                }
            };
            Flow { starts, state }
        };
        Self {
            now: Timestamp::ZERO,
            hop: Hop::new(hop.clone(), seed),
            flows: flows.iter().enumerate().map(flow).collect(),
            hash: TraceHash::default(),
        }
    }

    /// Bytes that the link has delivered for each flow.
    pub(crate) fn delivered(&mut self) -> Vec<u64> {
        let count = |flow: &mut Flow| match &mut flow.state {
            State::Session(sides) => sides.0.stats().map_or(0, |stats| stats.bytes_received),
            State::Cubic(_, receiver) => receiver.packets * SEGMENT,
        };
        self.flows.iter_mut().map(count).collect()
    }

    pub(crate) fn run(&mut self, until: Timestamp) {
        let mut turns = 0;
        loop {
            self.turn();
            let next = self.next_event().filter(|next| *next <= until);
            let Some(next) = next else {
                self.now = until;
                return;
            };
            if next > self.now {
                self.now = next;
                turns = 0;
            }
            turns += 1;
            assert!(turns < MAX_TURNS, "endless loop at {:?}", self.now);
        }
    }

    fn next_event(&self) -> Option<Timestamp> {
        let of_flow = |flow: &Flow| {
            if flow.starts > self.now {
                return Some(flow.starts);
            }
            match &flow.state {
                State::Session(sides) => {
                    let actions = sides.0.application.next_action();
                    let timers = [&sides.0, &sides.1].map(|side| side.endpoint.poll_timeout());
                    timers.into_iter().flatten().chain(actions).min()
                }
                State::Cubic(sender, _) => sender.poll_timeout(),
            }
        };
        let flows = self.flows.iter().filter_map(of_flow);
        flows.chain(self.hop.next_event()).min()
    }

    fn turn(&mut self) {
        let now = self.now;
        while let Some(delivery) = self.hop.poll_client(now) {
            let Tagged { flow, load } = delivery.packet;
            match (&mut self.flows[flow].state, load) {
                (State::Session(sides), Load::Datagram(mut payload)) => {
                    let from = std::net::SocketAddr::from(World::GATEWAY);
                    sides.0.endpoint.handle_datagram(now, from, &mut payload);
                }
                (State::Cubic(_, receiver), Load::Segment { number, ack_now }) => {
                    if let Some(ack) = receiver.on_packet(number, ack_now) {
                        let load = Load::Ack(ack);
                        self.hop.send(now, End::Client, Tagged { flow, load });
                    }
                }
                _ => unreachable!("the packet belongs to another flow"),
            }
        }
        while let Some(arrival) = self.hop.poll_gateway(now) {
            let Tagged { flow, load } = arrival.delivery.packet;
            match (&mut self.flows[flow].state, load) {
                (State::Session(sides), Load::Datagram(mut payload)) => {
                    let from = client_socket(arrival.from);
                    sides.1.endpoint.handle_datagram(now, from, &mut payload);
                }
                (State::Cubic(sender, _), Load::Ack(ack)) => sender.on_ack(now, ack),
                _ => unreachable!("the packet belongs to another flow"),
            }
        }
        for number in 0..self.flows.len() {
            if self.flows[number].starts <= now {
                self.send(number);
            }
        }
    }

    fn send(&mut self, flow: usize) {
        let now = self.now;
        match &mut self.flows[flow].state {
            State::Session(sides) => {
                let (agent, gateway) = &mut **sides;
                for (side, end) in [(agent, End::Client), (gateway, End::Gateway)] {
                    if side.endpoint.poll_timeout().is_some_and(|at| at <= now) {
                        side.endpoint.handle_timeout(now);
                    }
                    side.use_connection(now, &mut self.hash);
                    let mut datagram = Vec::new();
                    while side.endpoint.poll_transmit(now, &mut datagram).is_some() {
                        let load = Load::Datagram(std::mem::take(&mut datagram));
                        self.hop.send(now, end, Tagged { flow, load });
                    }
                }
            }
            State::Cubic(sender, _) => {
                sender.handle_timeout(now);
                while let Some((number, ack_now)) = sender.poll(now) {
                    let load = Load::Segment { number, ack_now };
                    self.hop.send(now, End::Gateway, Tagged { flow, load });
                }
            }
        }
    }
}
