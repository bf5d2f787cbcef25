//! Agent and gateway with two paths, UDP and a link, which is ordered or carries datagrams.
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use bytes::Bytes;
use longhaul_netem::Profile;
use longhaul_protocol::{
    connection::{ConnectionStats, EarlyData, TransportConfig},
    crypto::{EpochKeys, ResetKey},
    endpoint::{
        AgentEndpointConfig, ConnectTo, ConnectionHandle, DeviceStatus, Endpoint, Event,
        GatewayEndpointConfig,
    },
    path::{LEAST_LINK_PAYLOAD, LinkId, Path},
    streams::{Priority, ReadOutcome, StreamEvent, WriteError},
};
use longhaul_types::{LinkProfile, SecretKey, StreamId, Timestamp, UnixTime};

use super::lane::Lane;
use crate::random::Random;

const UNIX: UnixTime = UnixTime::new(Duration::from_secs(1_760_000_000));
/// A run that takes longer does not end: the bodies need less than a minute at the rates of these paths.
const LIMIT: Duration = Duration::from_secs(600);

pub(super) fn agent_address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 4000))
}

pub(super) fn gateway_address() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 1], 4433))
}

/// A link.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: LinkId,
    /// Size in bytes of the largest packet.
    pub(super) payload: usize,
    pub(super) up: Lane,
    pub(super) down: Lane,
}

pub(super) const AGENT: usize = 0;
pub(super) const GATEWAY: usize = 1;

pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) random: Random,
    pub(super) sides: [Endpoint; 2],
    pub(super) handles: [Option<ConnectionHandle>; 2],
    pub(super) up: Lane,
    pub(super) down: Lane,
    pub(super) link: Option<Link>,
    pub(super) links: u64,
    pub(super) bodies: BTreeMap<StreamId, Bytes>,
    pub(super) writing: BTreeMap<StreamId, Bytes>,
    pub(super) received: BTreeMap<StreamId, Vec<u8>>,
    pub(super) finished: usize,
    pub(super) steps: u64,
    /// Greatest number of bytes in flight from the gateway since this was reset.
    pub(super) most_in_flight: u64,
    /// Bytes that arrived at the agent over links.
    pub(super) over_links: u64,
    /// Bytes of bodies that the agent's user has read.
    pub(super) arrived: u64,
    /// Result of the last probe of a path.
    pub(super) probed: Option<(Path, Option<Duration>)>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self::knowing(seed, None)
    }

    /// As [`World::new`], with a link of the benchmark, which the agent is told.
    pub(super) fn over(profile: Profile, seed: u64) -> Self {
        let known = profile
            .name()
            .parse()
            .expect("the agent knows all links of the benchmark");
        let mut world = Self::knowing(seed, Some(known));
        (world.up, world.down) = (Lane::of(&profile.up()), Lane::of(&profile.down()));
        world
    }

    /// As [`World::over`], with an agent that knows nothing about the link.
    pub(super) fn over_unknown(profile: Profile, seed: u64) -> Self {
        let mut world = Self::knowing(seed, None);
        (world.up, world.down) = (Lane::of(&profile.up()), Lane::of(&profile.down()));
        world
    }

    fn knowing(seed: u64, profile: Option<LinkProfile>) -> Self {
        let mut random = Random::new(seed, 40);
        let (secret, device) = (
            SecretKey::from_bytes(random.key()),
            SecretKey::from_bytes(random.key()),
        );
        let epoch = EpochKeys {
            epoch: 1,
            key: random.key(),
        };
        let token = epoch.mint(&device.public(), [1; 4], UNIX + Duration::from_secs(3600));
        let config = GatewayEndpointConfig {
            secret: secret.clone(),
            epoch,
            reset_key: ResetKey::new(random.key()),
            transport: TransportConfig::gateway(),
            max_sessions: 4,
        };
        let mut gateway = Endpoint::gateway(config, UNIX, random.key());
        let devices = BTreeMap::from([(device.public(), DeviceStatus::Admitted)]);
        gateway.set_devices(Timestamp::ZERO, devices);
        let config = AgentEndpointConfig {
            secret: device,
            transport: TransportConfig::agent(profile),
        };
        let mut agent = Endpoint::agent(config, UNIX, random.key());
        let to = ConnectTo {
            gateway: secret.public(),
            remote: gateway_address().into(),
            token: (!random.one_in(3)).then_some(token),
            profile,
            last_stamp: None,
        };
        let handle = agent.connect(Timestamp::ZERO, to).expect("the first session");
        agent.start(handle);
        let (up, down) = (Lane::new(&mut random), Lane::new(&mut random));
        Self {
            now: Timestamp::ZERO,
            random,
            sides: [agent, gateway],
            handles: [Some(handle), None],
            up,
            down,
            link: None,
            links: 0,
            bodies: BTreeMap::new(),
            writing: BTreeMap::new(),
            received: BTreeMap::new(),
            finished: 0,
            steps: 0,
            most_in_flight: 0,
            over_links: 0,
            arrived: 0,
            probed: None,
        }
    }

    pub(super) fn stats(&self, side: usize) -> ConnectionStats {
        let connection = self.handles[side].and_then(|handle| self.sides[side].peek(handle));
        connection
            .map(|connection| connection.stats())
            .unwrap_or_default()
    }

    pub(super) fn path(&self, side: usize) -> Option<Path> {
        Some(self.sides[side].peek(self.handles[side]?)?.path())
    }

    /// Opens a link at both ends; the earlier one ends.
    pub(super) fn open_link(&mut self) -> LinkId {
        let (up, down) = (Lane::new(&mut self.random), Lane::new(&mut self.random));
        self.open_link_over(up, down)
    }

    /// Opens a link with these directions.
    pub(super) fn open_link_over(&mut self, up: Lane, down: Lane) -> LinkId {
        self.links += 1;
        self.replace_link(Link {
            id: LinkId::ordered(self.links),
            payload: usize::MAX,
            up,
            down,
        })
    }

    /// Opens a link that loses and reorders packets, and takes smaller ones than UDP.
    pub(super) fn open_datagram_link(&mut self, payload: usize) -> LinkId {
        let mut lane = || {
            let mut lane = Lane::new(&mut self.random);
            lane.loss = 30 + self.random.below(100);
            lane.reordering = 20;
            lane
        };
        let (up, down) = (lane(), lane());
        self.links += 1;
        let id = self.replace_link(Link {
            id: LinkId::datagram(self.links),
            payload: LEAST_LINK_PAYLOAD,
            up,
            down,
        });
        self.set_link_payload(payload);
        id
    }

    fn replace_link(&mut self, link: Link) -> LinkId {
        self.close_link();
        let id = link.id;
        self.sides[AGENT].open_link(id, gateway_address(), true);
        self.sides[GATEWAY].open_link(id, agent_address(), true);
        self.link = Some(link);
        id
    }

    /// The carrier of the link has found out that the link takes packets of this size.
    pub(super) fn set_link_payload(&mut self, payload: usize) {
        if let Some(link) = &mut self.link {
            link.payload = payload;
            for side in &mut self.sides {
                side.set_link_payload(link.id, payload);
            }
        }
    }

    pub(super) fn close_link(&mut self) {
        if let Some(link) = self.link.take() {
            for side in &mut self.sides {
                side.close_link(link.id);
            }
        }
    }

    pub(super) fn change_path(&mut self, path: Path) {
        let handle = self.handles[AGENT].expect("connected at the start");
        if !self.sides[AGENT].add_path(self.now, handle, path) {
            self.sides[AGENT].change_path(self.now, handle, path);
        }
    }

    /// The agent finds out whether a path carries packets.
    pub(super) fn probe(&mut self, path: Path) {
        let handle = self.handles[AGENT].expect("connected at the start");
        self.sides[AGENT].probe_path(handle, path, 3);
    }

    /// The agent's user waits for data.
    pub(super) fn expect_data(&mut self) {
        self.set_expecting(true);
    }

    /// The agent's user waits for data, or for nothing.
    pub(super) fn set_expecting(&mut self, expects: bool) {
        let handle = self.handles[AGENT].expect("connected at the start");
        let now = self.now;
        let connection = self.sides[AGENT].connection(handle).expect("open");
        connection.expect_data(now, expects);
    }

    /// The gateway sends a body.
    pub(super) fn send_body(&mut self, len: u64) {
        let Some(handle) = self.handles[GATEWAY] else {
            return;
        };
        let mut body = vec![0; usize::try_from(len).expect("small")];
        self.random.fill(&mut body);
        let class = self.random.class();
        let connection = self.sides[GATEWAY].connection(handle).expect("open");
        let id = connection
            .open(Priority::new(class), EarlyData::Forbidden)
            .expect("a stream");
        connection.announce(id, len);
        self.bodies.insert(id, body.clone().into());
        self.writing.insert(id, body.into());
    }

    pub(super) fn write(&mut self) {
        let Some(handle) = self.handles[GATEWAY] else {
            return;
        };
        let now = self.now;
        let Some(connection) = self.sides[GATEWAY].connection(handle) else {
            panic!("the gateway's session has ended");
        };
        self.writing.retain(|id, left| {
            match connection.write(now, *id, left.clone()) {
                Ok(taken) => *left = left.slice(taken..),
                Err(WriteError::Blocked) => return true,
                Err(error) => panic!("{id}: {error}"),
            }
            if left.is_empty() {
                connection.finish(*id).expect("open");
            }
            !left.is_empty()
        });
    }

    pub(super) fn read(&mut self) {
        let handle = self.handles[AGENT].expect("connected at the start");
        let now = self.now;
        let Some(connection) = self.sides[AGENT].connection(handle) else {
            panic!("the agent's session has ended");
        };
        while let Some(id) = connection.accept() {
            self.received.insert(id, Vec::new());
        }
        let mut complete = Vec::new();
        for (id, bytes) in &mut self.received {
            loop {
                match connection.read(now, *id) {
                    Ok(ReadOutcome::Data(data)) => {
                        self.arrived += data.len() as u64;
                        bytes.extend_from_slice(&data);
                    }
                    Ok(ReadOutcome::Blocked) => break,
                    Ok(ReadOutcome::Finished) => {
                        complete.push(*id);
                        break;
                    }
                    Err(error) => panic!("{id}: {error}"),
                }
            }
        }
        for id in complete {
            let bytes = self.received.remove(&id).expect("read above");
            assert!(self.bodies[&id] == bytes, "{id} differs");
            self.finished += 1;
        }
    }

    pub(super) fn events(&mut self) {
        for side in [AGENT, GATEWAY] {
            while let Some((handle, event)) = self.sides[side].poll_event() {
                match event {
                    Event::Accepted { .. } => self.handles[GATEWAY] = Some(handle),
                    Event::Closed(reason) => panic!("side {side} closed: {reason}"),
                    Event::Stream(StreamEvent::Stopped(..) | StreamEvent::Cancelled(..)) => {
                        panic!("a stream ended early")
                    }
                    Event::Connected { .. }
                    | Event::Stream(_)
                    | Event::Datagrams
                    | Event::Stalled
                    | Event::Resumed
                    | Event::Token(_)
                    | Event::Moved => {}
                    Event::PathProbed { path, rtt } => self.probed = Some((path, rtt)),
                }
            }
        }
    }

    pub(super) fn transmit(&mut self) {
        for side in [AGENT, GATEWAY] {
            self.set_writable(side);
            let mut buffer = Vec::new();
            while let Some(transmit) = self.sides[side].poll_transmit(self.now, &mut buffer) {
                let lane = match transmit.remote {
                    Path::Udp(_) if side == AGENT => &mut self.up,
                    Path::Udp(path) => {
                        assert_eq!(path.remote, agent_address());
                        &mut self.down
                    }
                    Path::Link(id) => {
                        let link = self.link.as_mut().filter(|link| link.id == id);
                        let link = link.expect("nothing is sent over a link that has ended");
                        assert!(buffer.len() <= link.payload, "{} bytes do not fit", buffer.len());
                        if side == AGENT {
                            &mut link.up
                        } else {
                            &mut link.down
                        }
                    }
                };
                lane.send(self.now, buffer.clone(), &mut self.random);
                self.set_writable(side);
            }
        }
        self.most_in_flight = self.most_in_flight.max(self.stats(GATEWAY).outstanding.bytes());
    }

    /// As the driver: a packet is built only while less than 50 ms of the rate, or two packets, are unsent.
    pub(super) fn set_writable(&mut self, side: usize) {
        let rate = self.stats(side).send_rate;
        if let Some(link) = &mut self.link {
            let lane = if side == AGENT {
                &mut link.up
            } else {
                &mut link.down
            };
            let limit = (rate * Duration::from_millis(50)).bytes().max(3000);
            let unsent = lane.unsent(self.now) as u64;
            self.sides[side].set_link_writable(link.id, unsent < limit);
        }
    }

    /// Advances to the next event or to `until`.
    pub(super) fn step(&mut self, until: Timestamp) {
        self.steps += 1;
        assert!(self.steps < 5_000_000, "the endpoints spin");
        self.write();
        self.events();
        self.transmit();
        self.events();
        let timers = self.sides.iter().filter_map(Endpoint::poll_timeout);
        let lanes = [self.up.next(), self.down.next()];
        let link = self
            .link
            .iter()
            .flat_map(|link| [link.up.next(), link.down.next()]);
        let next = timers.chain(lanes.into_iter().chain(link).flatten()).min();
        self.now = next.map_or(until, |next| next.clamp(self.now, until));
        self.deliver();
        for side in &mut self.sides {
            side.handle_timeout(self.now);
        }
        self.events();
        self.read();
    }

    pub(super) fn deliver(&mut self) {
        for mut packet in self.up.arrived(self.now) {
            self.sides[GATEWAY].handle_datagram(self.now, agent_address(), &mut packet);
        }
        for mut packet in self.down.arrived(self.now) {
            self.sides[AGENT].handle_datagram(self.now, gateway_address(), &mut packet);
        }
        let Some(link) = &mut self.link else { return };
        for mut packet in link.up.arrived(self.now) {
            self.sides[GATEWAY].handle_datagram(self.now, link.id, &mut packet);
        }
        for mut packet in link.down.arrived(self.now) {
            self.over_links += packet.len() as u64;
            self.sides[AGENT].handle_datagram(self.now, link.id, &mut packet);
        }
    }

    pub(super) fn run_until(&mut self, until: Timestamp) {
        while self.now < until {
            self.step(until);
        }
    }

    pub(super) fn run_to_the_end(&mut self) {
        let end = self.now + LIMIT;
        while self.finished < self.bodies.len() {
            assert!(
                self.now < end,
                "{} of {} bodies; agent {:?} {:?}; gateway {:?} {:?}",
                self.finished,
                self.bodies.len(),
                self.path(AGENT),
                self.stats(AGENT),
                self.path(GATEWAY),
                self.stats(GATEWAY)
            );
            self.step(end);
        }
    }

    /// An event of the network or a decision of the agent's driver.
    pub(super) fn disturb(&mut self) {
        match self.random.below(9) {
            0 | 1 => {
                let id = if self.random.one_in(2) {
                    self.open_link()
                } else {
                    let more = usize::try_from(self.random.below(300)).unwrap_or(0);
                    self.open_datagram_link(LEAST_LINK_PAYLOAD + more)
                };
                self.change_path(id.into());
            }
            2 => self.change_path(gateway_address().into()),
            // The link ends: the driver selects UDP.
            3 => {
                self.close_link();
                self.change_path(gateway_address().into());
            }
            4 => self.up.works = !self.up.works,
            5 => self.down.works = !self.down.works,
            6 => {
                let pause = self.random.time(Duration::from_secs(5));
                if let Some(link) = &mut self.link {
                    link.up.pause(self.now, pause);
                    link.down.pause(self.now, pause);
                }
            }
            7 => self.probe(gateway_address().into()),
            _ => {
                let length = 1 + self.random.below(200_000);
                self.send_body(length);
            }
        }
    }
}
