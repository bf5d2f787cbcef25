//! Two endpoints, the datagrams between them, and an attacker who changes them.
mod actions;

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    time::Duration,
};

use longhaul_protocol::{
    connection::{State, TransportConfig},
    crypto::{EpochKeys, ResetKey},
    endpoint::{
        AgentEndpointConfig, ConnectTo, ConnectionHandle, DeviceStatus, Endpoint, Event,
        GatewayEndpointConfig,
    },
    streams::ReadOutcome,
};
use longhaul_types::{SecretKey, StreamId, Timestamp, UnixTime};

const FLIGHT: Duration = Duration::from_millis(50);
/// Time until a side that waits for an answer on a link that is down detects the stall: 2.5 SRTT + 0.8 s with
/// an SRTT of at most 4 s, after a probe timeout of at most 6 s (transport.md sections 5.3 and 7.3).
const STALL_KNOWN: Duration = Duration::from_secs(20);
/// Upper bound of the time until the end of a stall is detected: probes of a stall are sent at least every 15
/// s (section 7.3).
const RESUME_KNOWN: Duration = Duration::from_secs(17);
/// Time until a gateway knows the new address of an agent that moved without a report: the agent's next
/// packet, at the latest its keepalive.
const KEEPALIVE: Duration = Duration::from_secs(25);
/// Time until everything has arrived.
pub(super) const SETTLED: Duration = Duration::from_secs(120);
/// First byte of an INIT.
const INIT: u8 = 0x01;
pub(super) const LARGE: usize = 20_000;
const UNIX: UnixTime = UnixTime::new(Duration::from_secs(1_800_000_000));

pub(super) const AGENT: usize = 0;
pub(super) const GATEWAY: usize = 1;

fn gateway_address() -> SocketAddr {
    ([198, 51, 100, 1], 443).into()
}

/// Addresses below 100 are those of the agent in order; the others belong to the attacker.
fn address(number: u8) -> SocketAddr {
    ([192, 0, 2, number], 4000).into()
}

/// Bytes between an address and the gateway.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    came: usize,
    went: usize,
    /// The agent received a packet of the gateway at this address: its next packets may contain the answer to
    /// a challenge.
    heard: bool,
    /// A later packet of the agent has arrived.
    may_be_validated: bool,
}

/// A datagram in flight.
#[derive(Clone, Debug)]
struct Flying {
    at: Timestamp,
    /// Source or destination: the agent's address.
    address: SocketAddr,
    /// True if the agent sent the datagram after it received a packet of the gateway at this address.
    answers: bool,
    bytes: Vec<u8>,
}

pub(super) struct World {
    now: Timestamp,
    sides: [Endpoint; 2],
    handles: [Option<ConnectionHandle>; 2],
    /// Datagrams towards each side.
    ways: [VecDeque<Flying>; 2],
    pub(super) up: bool,
    /// Time since which the link has its state, without moves and attacks.
    since: Timestamp,
    agent_address: u8,
    attackers: u8,
    traffic: BTreeMap<SocketAddr, Traffic>,
    pub(super) states: [Option<State>; 2],
    pub(super) closed: [bool; 2],
    /// Number of streams opened by each side, and of those read to their end by the other.
    pub(super) opened: [usize; 2],
    pub(super) finished: [usize; 2],
    reading: [Vec<StreamId>; 2],
    /// Time since which the agent waits for an answer.
    waits_since: Option<Timestamp>,
}

impl World {
    pub(super) fn new() -> Self {
        let device = SecretKey::from_bytes([0x11; 32]);
        let secret = SecretKey::from_bytes([0x22; 32]);
        let config = GatewayEndpointConfig {
            secret: secret.clone(),
            epoch: EpochKeys {
                epoch: 1,
                key: [7; 32],
            },
            reset_key: ResetKey::new([8; 32]),
            transport: TransportConfig::gateway(),
            max_sessions: 4,
        };
        let mut gateway = Endpoint::gateway(config, UNIX, [2; 32]);
        gateway.set_devices(
            Timestamp::ZERO,
            [(device.public(), DeviceStatus::Admitted)].into(),
        );
        let to = ConnectTo {
            gateway: secret.public(),
            remote: gateway_address().into(),
            token: gateway.mint_token(Timestamp::ZERO, device.public()),
            profile: None,
            last_stamp: None,
        };
        let config = AgentEndpointConfig {
            secret: device,
            transport: TransportConfig::agent(None),
        };
        let mut agent = Endpoint::agent(config, UNIX, [1; 32]);
        let handle = agent.connect(Timestamp::ZERO, to).expect("the first session");
        agent.start(handle);
        let mut world = Self {
            now: Timestamp::ZERO,
            sides: [agent, gateway],
            handles: [Some(handle), None],
            ways: [VecDeque::new(), VecDeque::new()],
            up: true,
            since: Timestamp::ZERO,
            agent_address: 0,
            attackers: 100,
            traffic: BTreeMap::new(),
            states: [None, None],
            closed: [false; 2],
            opened: [0; 2],
            finished: [0; 2],
            reading: [Vec::new(), Vec::new()],
            waits_since: None,
        };
        // The token validates the first address.
        world.traffic.insert(
            address(0),
            Traffic {
                may_be_validated: true,
                ..Traffic::default()
            },
        );
        world
    }

    pub(super) fn run(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.turn();
            let timers = self.sides.iter().filter_map(Endpoint::poll_timeout);
            let arrivals = self.ways.iter().filter_map(|way| Some(way.front()?.at));
            let Some(next) = timers.chain(arrivals).min().filter(|next| *next <= until) else {
                self.now = until;
                return self.check_states();
            };
            self.now = self.now.max(next);
        }
    }

    pub(super) fn turn(&mut self) {
        for side in [AGENT, GATEWAY] {
            while self.ways[side]
                .front()
                .is_some_and(|flying| flying.at <= self.now)
            {
                let flying = self.ways[side].pop_front().expect("looked at");
                self.arrive(side, flying);
            }
            if self.sides[side].poll_timeout().is_some_and(|at| at <= self.now) {
                self.sides[side].handle_timeout(self.now);
            }
            self.use_session(side);
            self.transmit(side);
        }
        self.check_states();
    }

    fn arrive(&mut self, side: usize, mut flying: Flying) {
        let traffic = self.traffic.entry(flying.address).or_default();
        if side == GATEWAY {
            traffic.came += flying.bytes.len();
            // An INIT with a valid token validates its source address, whoever sends it (section 7.2).
            let is_init = flying.bytes.first() == Some(&INIT);
            traffic.may_be_validated |= flying.answers || is_init;
            self.sides[GATEWAY].handle_datagram(self.now, flying.address, &mut flying.bytes);
        } else if flying.address == address(self.agent_address) {
            traffic.heard = true;
            self.waits_since = None;
            self.sides[AGENT].handle_datagram(self.now, gateway_address(), &mut flying.bytes);
        }
    }

    fn transmit(&mut self, side: usize) {
        let mut bytes = Vec::new();
        while let Some(transmit) = self.sides[side].poll_transmit(self.now, &mut bytes) {
            let agent = if side == AGENT {
                address(self.agent_address)
            } else {
                transmit.remote.udp().expect("no link is open")
            };
            let traffic = self.traffic.entry(agent).or_default();
            if side == GATEWAY {
                traffic.went += bytes.len();
                assert!(
                    traffic.may_be_validated || traffic.went <= 3 * traffic.came,
                    "{agent} got {} bytes for {}, and cannot be validated",
                    traffic.went,
                    traffic.came
                );
            }
            let flying = Flying {
                at: self.now + FLIGHT,
                address: agent,
                answers: traffic.heard,
                bytes: std::mem::take(&mut bytes),
            };
            if self.up {
                self.ways[1 - side].push_back(flying);
            }
        }
    }

    fn use_session(&mut self, side: usize) {
        while let Some((handle, event)) = self.sides[side].poll_event() {
            if matches!(event, Event::Accepted { .. }) {
                self.begin_anew(handle);
            }
            if self.handles[side] != Some(handle) {
                continue;
            }
            assert!(!self.closed[side], "{event:?} after the end");
            let before = self.states[side];
            match event {
                Event::Closed(_) => self.closed[side] = true,
                Event::Stalled => {
                    assert_ne!(before, Some(State::Stalled), "told twice of a stall");
                    self.states[side] = Some(State::Stalled);
                }
                Event::Resumed => {
                    assert_eq!(before, Some(State::Stalled), "the end of a stall that was not");
                    self.states[side] = Some(State::Open);
                }
                Event::Connected { .. } => {
                    assert_eq!(before, Some(State::Early), "connected twice");
                    self.states[side] = Some(State::Open);
                }
                Event::Accepted { .. }
                | Event::Datagrams
                | Event::Token(_)
                | Event::Moved
                | Event::PathProbed { .. }
                | Event::Stream(_) => {}
            }
        }
        self.read(side);
    }

    /// The gateway accepted a session: the first one, or another one for an agent that never confirmed the
    /// previous one.
    fn begin_anew(&mut self, handle: ConnectionHandle) {
        self.handles[GATEWAY] = Some(handle);
        self.states[GATEWAY] = None;
        self.closed[GATEWAY] = false;
        self.opened[GATEWAY] = 0;
        self.finished[GATEWAY] = 0;
        self.reading[GATEWAY].clear();
    }

    fn read(&mut self, side: usize) {
        let Some(connection) = self.handles[side].and_then(|handle| self.sides[side].connection(handle))
        else {
            return;
        };
        while let Some(stream) = connection.accept() {
            self.reading[side].push(stream);
        }
        let now = self.now;
        let finished = &mut self.finished[side];
        self.reading[side].retain(|stream| {
            loop {
                match connection.read(now, *stream) {
                    Ok(ReadOutcome::Data(_)) => {}
                    Ok(ReadOutcome::Blocked) => return true,
                    Ok(ReadOutcome::Finished) => {
                        *finished += 1;
                        return false;
                    }
                    Err(_) => return false,
                }
            }
        });
    }

    /// Checks that the state of each side agrees with its events and with the wire.
    fn check_states(&mut self) {
        for side in [AGENT, GATEWAY] {
            let Some(connection) = self.handles[side].and_then(|handle| self.sides[side].peek(handle)) else {
                continue;
            };
            let state = connection.state();
            let before = self.states[side].replace(state);
            let legal = match (before, state) {
                (Some(before), state) if before == state => true,
                (None, State::Early | State::Open) => true,
                // Connected, Stalled and Resumed set the state before this check.
                (Some(_), State::Closed) => self.closed[side],
                _ => false,
            };
            assert!(
                legal,
                "side {side} went from {before:?} to {state:?} without a word"
            );
            let undisturbed = self.now - self.since;
            // A peer that closed while the link was down sends nothing more.
            if self.up && !self.closed[1 - side] {
                let known = if side == GATEWAY {
                    KEEPALIVE + RESUME_KNOWN
                } else {
                    RESUME_KNOWN
                };
                let stalled = state == State::Stalled && undisturbed > known;
                assert!(
                    !stalled,
                    "side {side} is stalled {undisturbed:?} after the link came back"
                );
            }
        }
        let waits = self.waits_since.filter(|_| !self.up);
        if let (Some(since), Some(State::Open)) = (waits, self.states[AGENT]) {
            let waited = self.now - since.max(self.since);
            assert!(
                waited <= STALL_KNOWN,
                "no stall after {waited:?} without an answer"
            );
        }
    }
}
