//! Two endpoints in virtual time, with a wire between them that can lose, hold and forge datagrams.
mod golden;
mod handshake;
mod hostile;
mod malicious;
mod race;
mod rate_probing;
mod refusal;
mod session;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Duration,
};

use bytes::Bytes;
use longhaul_types::{PublicKey, SecretKey, StreamId, Timestamp, UnixTime};

use super::*;
use crate::{
    connection::{EarlyData, RateProbing},
    crypto::{EpochKeys, ResetKey},
    streams::{Priority, ReadError, ReadOutcome},
    wire::{EarlyOutcome, KeySpace, PacketKind, ShortHeader},
};

const AGENT_KEY: SecretKey = SecretKey::from_bytes([0x11; 32]);
const GATEWAY_KEY: SecretKey = SecretKey::from_bytes([0x22; 32]);
const ONE_WAY: Duration = Duration::from_millis(50);
const RTT: Duration = Duration::from_millis(100);
const UNIX: UnixTime = UnixTime::new(Duration::from_secs(1_760_000_000));

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Agent,
    Gateway,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Agent => Self::Gateway,
            Self::Gateway => Self::Agent,
        }
    }
}

/// A sent datagram.
#[derive(Clone, Debug)]
struct Sent {
    at: Timestamp,
    from: Side,
    source: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

impl Sent {
    fn kind(&self) -> Option<PacketKind> {
        PacketKind::classify(&self.bytes)
    }
}

/// A stream that was read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Received {
    bytes: Vec<u8>,
    early: bool,
    at: Timestamp,
}

type Fate = Box<dyn FnMut(&Sent) -> bool>;

struct Pair {
    now: Timestamp,
    agent: Endpoint,
    gateway: Endpoint,
    agent_address: SocketAddr,
    gateway_address: SocketAddr,
    /// Addresses of both sides in the other family.
    others: [SocketAddr; 2],
    flying: BTreeMap<(Timestamp, u64), Sent>,
    sequence: u64,
    sent: Vec<Sent>,
    events: Vec<(Side, ConnectionHandle, Event)>,
    /// Returns true for a datagram that is lost.
    loses: Fate,
    /// Data of incomplete streams for each side's user, and complete streams.
    partial: BTreeMap<(Side, ConnectionHandle, StreamId), Vec<u8>>,
    received: Vec<(Side, Received)>,
    /// Size of the gateway user's response to each request; 0 for no response.
    response: usize,
}

fn gateway_config(epoch: u32) -> GatewayEndpointConfig {
    GatewayEndpointConfig {
        secret: GATEWAY_KEY,
        epoch: EpochKeys { epoch, key: [7; 32] },
        reset_key: ResetKey::new([8; 32]),
        transport: TransportConfig::default(),
        max_sessions: 100,
    }
}

fn gateway_endpoint(epoch: u32, seed: u8) -> Endpoint {
    let mut gateway = Endpoint::gateway(gateway_config(epoch), UNIX, [seed; 32]);
    gateway.set_devices(
        Timestamp::ZERO,
        BTreeMap::from([(AGENT_KEY.public(), DeviceStatus::Admitted)]),
    );
    gateway
}

fn agent_endpoint(seed: u8) -> Endpoint {
    let config = AgentEndpointConfig {
        secret: AGENT_KEY,
        transport: TransportConfig::default(),
    };
    Endpoint::agent(config, UNIX, [seed; 32])
}

impl Pair {
    fn new() -> Self {
        Self {
            now: Timestamp::from_nanos(1_000_000_000),
            agent: agent_endpoint(1),
            gateway: gateway_endpoint(1, 2),
            agent_address: "192.0.2.1:4000".parse().unwrap(),
            gateway_address: "198.51.100.1:443".parse().unwrap(),
            others: ["[2001:db8::1]:4000", "[2001:db8::2]:443"].map(|of| of.parse().unwrap()),
            flying: BTreeMap::new(),
            sequence: 0,
            sent: Vec::new(),
            events: Vec::new(),
            loses: Box::new(|_| false),
            partial: BTreeMap::new(),
            received: Vec::new(),
            response: 20,
        }
    }

    /// A pair whose agent does not measure the link: the handshake alone.
    fn without_probing() -> Self {
        let config = AgentEndpointConfig {
            secret: AGENT_KEY,
            transport: TransportConfig {
                rate_probing: RateProbing::Off,
                ..TransportConfig::default()
            },
        };
        Self {
            agent: Endpoint::agent(config, UNIX, [1; 32]),
            ..Self::new()
        }
    }

    fn token(&mut self) -> Option<Token> {
        self.gateway.mint_token(self.now, AGENT_KEY.public())
    }

    fn connect_to(&self, token: Option<Token>) -> ConnectTo {
        ConnectTo {
            gateway: GATEWAY_KEY.public(),
            remote: self.gateway_address.into(),
            token,
            profile: None,
            last_stamp: None,
        }
    }

    /// Opens a session whose first stream carries `request`, as early data if there is a token.
    fn open(&mut self, token: Option<Token>, request: &[u8]) -> ConnectionHandle {
        let to = self.connect_to(token);
        let handle = self.agent.connect(self.now, to).unwrap();
        self.request(handle, request);
        self.agent.start(handle);
        handle
    }

    fn request(&mut self, handle: ConnectionHandle, request: &[u8]) {
        let connection = self.agent.connection(handle).unwrap();
        let stream = connection.open(Priority::NORMAL, EarlyData::Allowed).unwrap();
        connection
            .write(self.now, stream, Bytes::copy_from_slice(request))
            .unwrap();
        connection.finish(stream).unwrap();
    }

    fn endpoint(&mut self, side: Side) -> &mut Endpoint {
        match side {
            Side::Agent => &mut self.agent,
            Side::Gateway => &mut self.gateway,
        }
    }

    /// Reaction of the user of `side` to an event.
    fn react(&mut self, side: Side, handle: ConnectionHandle, event: Event) {
        let (now, response) = (self.now, self.response);
        if let Some(connection) = self.endpoint(side).connection(handle) {
            let mut streams: BTreeSet<StreamId> = BTreeSet::new();
            while let Some(stream) = connection.accept() {
                streams.insert(stream);
            }
            let known = self.partial.keys().filter(|key| (key.0, key.1) == (side, handle));
            streams.extend(known.map(|key| key.2));
            for stream in streams {
                self.read(side, handle, stream, now, response);
            }
        }
        self.events.push((side, handle, event));
    }

    fn read(
        &mut self,
        side: Side,
        handle: ConnectionHandle,
        stream: StreamId,
        now: Timestamp,
        response: usize,
    ) {
        let mut bytes = self.partial.remove(&(side, handle, stream)).unwrap_or_default();
        let connection = self.endpoint(side).connection(handle).unwrap();
        let early = connection.was_early(stream);
        loop {
            match connection.read(now, stream) {
                Ok(ReadOutcome::Data(data)) => bytes.extend_from_slice(&data),
                Ok(ReadOutcome::Blocked) => {
                    self.partial.insert((side, handle, stream), bytes);
                    return;
                }
                Ok(ReadOutcome::Finished) => break,
                Err(ReadError::Cancelled(_) | ReadError::NotOpen | ReadError::Closed) => return,
            }
        }
        // A session that its peer has just closed accepts no response.
        if side == Side::Gateway
            && response > 0
            && let Ok(stream) = connection.open(Priority::NORMAL, EarlyData::Forbidden)
        {
            connection
                .write(now, stream, Bytes::from(vec![b'r'; response]))
                .unwrap();
            connection.finish(stream).unwrap();
        }
        self.received.push((
            side,
            Received {
                bytes,
                early,
                at: now,
            },
        ));
    }

    /// Lets both sides send all pending datagrams and events.
    fn pump(&mut self) {
        for side in [Side::Agent, Side::Gateway] {
            while let Some((handle, event)) = self.endpoint(side).poll_event() {
                self.react(side, handle, event);
            }
            let now = self.now;
            let mut buf = Vec::new();
            for turn in 0.. {
                assert!(turn < 10_000, "{side:?} sends without end at {now:?}");
                let Some(transmit) = self.endpoint(side).poll_transmit(now, &mut buf) else {
                    break;
                };
                assert_eq!(transmit.len, buf.len());
                assert!(buf.len() <= 1472);
                let to = transmit.remote.udp().expect("no session has a link here");
                let is_other = to.is_ipv6() != self.gateway_address.is_ipv6();
                let [agent, gateway] = if is_other {
                    self.others
                } else {
                    [self.agent_address, self.gateway_address]
                };
                let (source, expected) = match side {
                    Side::Agent => (agent, gateway),
                    Side::Gateway => (gateway, to),
                };
                assert_eq!(to, expected);
                let sent = Sent {
                    at: now,
                    from: side,
                    source,
                    to,
                    bytes: buf.clone(),
                };
                self.sent.push(sent.clone());
                if !(self.loses)(&sent) {
                    self.sequence += 1;
                    self.flying.insert((now + ONE_WAY, self.sequence), sent);
                }
            }
            while let Some((handle, event)) = self.endpoint(side).poll_event() {
                self.react(side, handle, event);
            }
        }
    }

    fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    fn run_until(&mut self, end: Timestamp) {
        for turn in 0.. {
            assert!(turn < 1_000_000, "no end at {:?}", self.now);
            self.pump();
            let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
            let timers = [self.agent.poll_timeout(), self.gateway.poll_timeout()];
            let next = timers.into_iter().flatten().chain(arrival).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            while let Some(entry) = self
                .flying
                .first_entry()
                .filter(|entry| entry.key().0 <= self.now)
            {
                let sent = entry.remove();
                self.deliver(&sent);
            }
            let now = self.now;
            self.agent.handle_timeout(now);
            self.gateway.handle_timeout(now);
        }
    }

    fn deliver(&mut self, sent: &Sent) {
        let now = self.now;
        let mut bytes = sent.bytes.clone();
        self.endpoint(sent.from.other())
            .handle_datagram(now, sent.source, &mut bytes);
    }

    fn bytes_of(&self, side: Side) -> Vec<&[u8]> {
        let of_side = self.received.iter().filter(|(of, _)| *of == side);
        of_side.map(|(_, received)| &received.bytes[..]).collect()
    }

    fn closed(&self, side: Side) -> Vec<&CloseReason> {
        let of_side = self.events.iter().filter(|(of, ..)| *of == side);
        of_side
            .filter_map(|(.., event)| {
                if let Event::Closed(reason) = event {
                    Some(reason)
                } else {
                    None
                }
            })
            .collect()
    }

    fn connected(&self) -> Vec<EarlyOutcome> {
        let connected = self.events.iter().filter_map(|(.., event)| {
            if let Event::Connected { early } = event {
                Some(*early)
            } else {
                None
            }
        });
        connected.collect()
    }

    fn sent_of(&self, kind: PacketKind) -> Vec<&Sent> {
        self.sent
            .iter()
            .filter(|sent| sent.kind() == Some(kind))
            .collect()
    }
}

fn device(byte: u8) -> PublicKey {
    SecretKey::from_bytes([byte; 32]).public()
}
