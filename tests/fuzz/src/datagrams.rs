//! Arbitrary datagrams at endpoints in each state that is reachable without keys (docs/protocol/transport.md
//! sections 3 and 7).
use std::{collections::BTreeMap, net::SocketAddr, sync::OnceLock, time::Duration};

use bytes::Bytes;
use longhaul_protocol::{
    connection::{EarlyData, TransportConfig},
    crypto::{EpochKeys, Mac1Key, ResetKey},
    endpoint::{
        AgentEndpointConfig, ConnectTo, ConnectionHandle, DeviceStatus, Endpoint, Event,
        GatewayEndpointConfig,
    },
    path::Path,
    streams::{Priority, ReadOutcome},
    wire::{Init, PacketKind, Resp, VERSION, Versions, init::InitOutline},
};
use longhaul_types::{SecretKey, StreamId, Timestamp, UnixTime};

const AGENT_KEY: SecretKey = SecretKey::from_bytes([0x11; 32]);
const GATEWAY_KEY: SecretKey = SecretKey::from_bytes([0x22; 32]);
const UNIX: UnixTime = UnixTime::new(Duration::from_secs(1_760_000_000));
const BEGIN: Timestamp = Timestamp::from_nanos(1_000_000_000);
/// Transit time of a datagram, and step of the virtual clock.
const FLIGHT: Duration = Duration::from_millis(20);
/// Steps in which a small stream must arrive: 20 s, sufficient for every probe and for an interval between
/// INITs.
const PATIENCE: u32 = 1000;
/// An endpoint that sends more packets than this at one time sends endlessly.
const BURST: u32 = 10_000;
/// More than a gateway may send to an address that it has not validated, so that only the amplification limit
/// applies.
const LARGE: usize = 64 * 1024;

fn agent_address() -> SocketAddr {
    ([192, 0, 2, 1], 4000).into()
}

fn gateway_address() -> SocketAddr {
    ([198, 51, 100, 1], 443).into()
}

fn agent() -> Endpoint {
    let config = AgentEndpointConfig {
        secret: AGENT_KEY,
        transport: TransportConfig::default(),
    };
    Endpoint::agent(config, UNIX, [1; 32])
}

fn gateway() -> Endpoint {
    let config = GatewayEndpointConfig {
        secret: GATEWAY_KEY,
        epoch: EpochKeys {
            epoch: 1,
            key: [7; 32],
        },
        reset_key: ResetKey::new([8; 32]),
        transport: TransportConfig::default(),
        max_sessions: 100,
    };
    let mut gateway = Endpoint::gateway(config, UNIX, [2; 32]);
    gateway.set_devices(
        BEGIN,
        BTreeMap::from([(AGENT_KEY.public(), DeviceStatus::Admitted)]),
    );
    gateway
}

/// Presence of a token, and thereby of early data and a validated address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Invited {
    Yes,
    No,
}

/// Returns all datagrams that `endpoint` sends at `now`.
fn drain(endpoint: &mut Endpoint, now: Timestamp) -> Vec<(Path, Vec<u8>)> {
    let mut sent = Vec::new();
    let mut buf = Vec::new();
    for _ in 0..BURST {
        let Some(transmit) = endpoint.poll_transmit(now, &mut buf) else {
            return sent;
        };
        assert_eq!(transmit.len, buf.len());
        sent.push((transmit.remote, buf.clone()));
    }
    panic!("an endpoint sends endlessly")
}

fn events(endpoint: &mut Endpoint) -> Vec<(ConnectionHandle, Event)> {
    std::iter::from_fn(|| endpoint.poll_event()).collect()
}

fn send_stream(endpoint: &mut Endpoint, now: Timestamp, handle: ConnectionHandle, bytes: Bytes) {
    let connection = endpoint.connection(handle).expect("a session");
    let stream = connection
        .open(Priority::NORMAL, EarlyData::Allowed)
        .expect("a stream");
    connection.write(now, stream, bytes).expect("room");
    connection.finish(stream).expect("an open stream");
}

/// Two endpoints and the link between them.
struct Pair {
    now: Timestamp,
    agent: Endpoint,
    gateway: Endpoint,
    handle: ConnectionHandle,
    /// All datagrams of both sides.
    sent: Vec<Vec<u8>>,
    /// Data received by the gateway.
    partial: BTreeMap<(ConnectionHandle, StreamId), Vec<u8>>,
    streams: Vec<Vec<u8>>,
}

impl Pair {
    /// Creates a pair whose agent opened a session and has sent nothing yet.
    fn new(invited: Invited) -> Self {
        let mut gateway = gateway();
        let token = match invited {
            Invited::Yes => gateway.mint_token(BEGIN, AGENT_KEY.public()),
            Invited::No => None,
        };
        let to = ConnectTo {
            gateway: GATEWAY_KEY.public(),
            remote: gateway_address().into(),
            token,
            profile: None,
            last_stamp: None,
        };
        let mut agent = agent();
        let handle = agent.connect(BEGIN, to).expect("the first session");
        send_stream(&mut agent, BEGIN, handle, Bytes::from_static(b"GET /"));
        agent.start(handle);
        Self {
            now: BEGIN,
            agent,
            gateway,
            handle,
            sent: Vec::new(),
            partial: BTreeMap::new(),
            streams: Vec::new(),
        }
    }

    fn step(&mut self) {
        let now = self.now;
        let to_gateway = drain(&mut self.agent, now);
        let to_agent = drain(&mut self.gateway, now);
        self.now += FLIGHT;
        let now = self.now;
        for (_, mut bytes) in to_gateway {
            self.sent.push(bytes.clone());
            self.gateway.handle_datagram(now, agent_address(), &mut bytes);
        }
        for (_, mut bytes) in to_agent {
            self.sent.push(bytes.clone());
            self.agent.handle_datagram(now, gateway_address(), &mut bytes);
        }
        self.agent.handle_timeout(now);
        self.gateway.handle_timeout(now);
        events(&mut self.agent);
        events(&mut self.gateway);
        self.read();
    }

    fn read(&mut self) {
        let handles: Vec<_> = self.gateway.handles().collect();
        for handle in handles {
            let Some(connection) = self.gateway.connection(handle) else {
                continue;
            };
            while let Some(stream) = connection.accept() {
                self.partial.insert((handle, stream), Vec::new());
            }
            let now = self.now;
            self.partial.retain(|(of, stream), bytes| {
                if *of != handle {
                    return true;
                }
                loop {
                    match connection.read(now, *stream) {
                        Ok(ReadOutcome::Data(data)) => bytes.extend_from_slice(&data),
                        Ok(ReadOutcome::Blocked) => return true,
                        Ok(ReadOutcome::Finished) => {
                            self.streams.push(std::mem::take(bytes));
                            return false;
                        }
                        Err(_) => return false,
                    }
                }
            });
        }
    }

    /// Runs until a stream with these bytes has arrived at the gateway.
    fn run_until_arrived(&mut self, wanted: &[u8]) {
        for _ in 0..PATIENCE {
            if self.streams.iter().any(|bytes| bytes == wanted) {
                return;
            }
            self.step();
        }
        panic!("{} bytes did not arrive", wanted.len())
    }
}

/// Datagrams of a handshake without a token and of one with a token. All pairs are equal, so these datagrams
/// authenticate in each of them.
struct Capture {
    datagrams: Vec<Vec<u8>>,
    token: [u8; 32],
    /// INIT of the handshake without a token.
    init: Vec<u8>,
    resp: Vec<u8>,
}

fn capture() -> &'static Capture {
    static CAPTURE: OnceLock<Capture> = OnceLock::new();
    CAPTURE.get_or_init(|| {
        let record = |invited| {
            let mut pair = Pair::new(invited);
            pair.run_until_arrived(b"GET /");
            (0..10).for_each(|_| pair.step());
            pair.sent
        };
        let sent = record(Invited::Yes);
        let without = record(Invited::No);
        let first = |sent: &[Vec<u8>], kind| {
            let mut sent = sent.iter();
            let found = sent.find(|bytes| PacketKind::classify(bytes) == Some(kind));
            found.expect("a handshake has it").clone()
        };
        let init = first(&without, PacketKind::Init);
        let resp = first(&without, PacketKind::Resp);
        let invited = first(&sent, PacketKind::Init);
        let outline = InitOutline::parse(&invited).expect("an INIT");
        let token = Init::parse(outline.covered).expect("an INIT").token;
        Capture {
            token: token.expect("it was invited"),
            datagrams: sent.into_iter().chain(without).collect(),
            init,
            resp,
        }
    })
}

/// Arbitrary datagrams at a gateway, at an agent that waits for its RESP, and at both ends of a session.
pub(crate) fn datagrams(bytes: &[u8]) {
    at_gateway(bytes);
    if let Ok(outline) = InitOutline::parse(bytes) {
        // Anyone with the gateway's public key can compute it, so the code behind this check must be robust
        // on its own.
        let mac1 = Mac1Key::new(&GATEWAY_KEY.public()).tag(outline.covered);
        if mac1 != outline.mac1 {
            at_gateway(&[outline.covered, &mac1].concat());
        }
    }
    at_waiting_agent(bytes);
    at_session(bytes);
}

fn at_gateway(bytes: &[u8]) {
    let mut gateway = gateway();
    gateway.handle_datagram(BEGIN, agent_address(), &mut bytes.to_vec());
    for (handle, event) in events(&mut gateway) {
        if matches!(event, Event::Accepted { .. }) {
            send_stream(&mut gateway, BEGIN, handle, Bytes::from(vec![b'r'; LARGE]));
        }
    }
    let mut answered = 0;
    let mut now = BEGIN;
    // Timers may make it send again; two seconds contain several probes.
    for _ in 0..100 {
        for (remote, answer) in drain(&mut gateway, now) {
            assert_eq!(remote, agent_address());
            answered += answer.len();
        }
        if gateway.handles().next().is_none() {
            break;
        }
        now += FLIGHT;
        gateway.handle_timeout(now);
        events(&mut gateway);
    }
    let outline = InitOutline::parse(bytes);
    let init = outline.and_then(|outline| Init::parse(outline.covered));
    let validated = init.is_ok_and(|init| init.token == Some(capture().token));
    assert!(
        validated || answered <= 3 * bytes.len(),
        "{answered} bytes answer {} from an address that is not validated",
        bytes.len()
    );
}

fn at_waiting_agent(bytes: &[u8]) {
    let mut pair = Pair::new(Invited::No);
    let now = pair.now;
    let sent = drain(&mut pair.agent, now);
    assert_eq!(sent.first().map(|(_, init)| init), Some(&capture().init));
    pair.agent
        .handle_datagram(now, gateway_address(), &mut bytes.to_vec());
    drain(&mut pair.agent, now);
    let genuine = Resp::parse(&capture().resp).expect("it was captured").0;
    let authentic = Resp::parse(bytes).is_ok_and(|(resp, _)| resp == genuine);
    // VERSIONS is not authenticated: it is accepted before a RESP.
    let other_version = Versions::parse(bytes).is_ok_and(|versions| {
        versions.agent_index == genuine.agent_index && !versions.versions.contains(&VERSION)
    });
    let received = events(&mut pair.agent);
    let connected = received
        .iter()
        .any(|(_, event)| matches!(event, Event::Connected { .. }));
    assert_eq!(connected, authentic, "{received:?}");
    let waits = pair.agent.handles().any(|handle| handle == pair.handle);
    assert_eq!(waits, !other_version, "{received:?}");
    assert!(authentic || other_version || received.is_empty(), "{received:?}");
}

fn at_session(bytes: &[u8]) {
    let mut pair = Pair::new(Invited::Yes);
    pair.run_until_arrived(b"GET /");
    // The RESP is still in flight.
    (0..4).for_each(|_| pair.step());
    let now = pair.now;
    pair.gateway
        .handle_datagram(now, agent_address(), &mut bytes.to_vec());
    pair.agent
        .handle_datagram(now, gateway_address(), &mut bytes.to_vec());
    let more = vec![b'm'; 3000];
    send_stream(&mut pair.agent, now, pair.handle, Bytes::copy_from_slice(&more));
    pair.run_until_arrived(&more);
    let requests = pair.streams.iter().filter(|stream| *stream == b"GET /");
    assert_eq!(requests.count(), 1, "early data was accepted twice");
}

pub(crate) fn datagram_seeds() -> Vec<Vec<u8>> {
    let mut seeds = capture().datagrams.clone();
    seeds.sort();
    seeds.dedup();
    seeds
}
