//! An end with an open session, whose peer sends the packets.
use super::*;

const AGENT_KEY: SecretKey = SecretKey::from_bytes([0x11; 32]);
const GATEWAY_KEY: SecretKey = SecretKey::from_bytes([0x22; 32]);
const UNIX: UnixTime = UnixTime::new(Duration::from_secs(1_760_000_000));
pub(super) const STEP: Duration = Duration::from_millis(40);

/// Bytes that the tested endpoint has to send, so that acknowledgements refer to data.
const LARGE: usize = 64 * 1024;
/// An endpoint that sends more packets than this at one time sends endlessly.
const BURST: usize = 10_000;

fn victim_of_agent() -> SocketAddr {
    ([198, 51, 100, 1], 443).into()
}

fn victim_of_gateway() -> SocketAddr {
    ([192, 0, 2, 1], 4000).into()
}

/// An endpoint with one session, and the keys to write packets of its peer.
pub(super) struct Victim {
    pub(super) now: Timestamp,
    pub(super) endpoint: Endpoint,
    handle: ConnectionHandle,
    peer: SocketAddr,
    key: PacketKey,
    index: ReceiverIndex,
    number: u64,
    bounds: TransportConfig,
    sent_after_close: usize,
}

fn parameters() -> Parameters {
    TransportConfig::default().parameters()
}

fn handled(endpoint: &mut Endpoint) -> Option<ConnectionHandle> {
    let mut handle = None;
    while let Some((of, event)) = endpoint.poll_event() {
        if matches!(event, Event::Accepted { .. } | Event::Connected { .. }) {
            handle = Some(of);
        }
    }
    handle
}

/// Returns a gateway whose device behaves as in the input.
pub(super) fn gateway() -> Victim {
    let now = Timestamp::ZERO;
    let config = GatewayEndpointConfig {
        secret: GATEWAY_KEY,
        epoch: EpochKeys {
            epoch: 1,
            key: [7; 32],
        },
        reset_key: ResetKey::new([8; 32]),
        transport: TransportConfig::gateway(),
        max_sessions: 4,
    };
    let mut endpoint = Endpoint::gateway(config, UNIX, [2; 32]);
    endpoint.set_devices(
        now,
        BTreeMap::from([(AGENT_KEY.public(), DeviceStatus::Admitted)]),
    );
    let token = endpoint.mint_token(now, AGENT_KEY.public());
    let mut init = Vec::new();
    Init::encode_clear(5, token.as_ref(), &mut init);
    let payload = InitPayload {
        wall: UNIX,
        parameters: parameters(),
        stamp: Stamp::from_raw(0),
        frames: &[],
    };
    let mut plain = Vec::new();
    payload.encode(&mut plain);
    let clear = init.clone();
    let started = Initiator::start(
        &AGENT_KEY,
        &GATEWAY_KEY.public(),
        [5; 32].into(),
        &clear,
        &plain,
        &mut init,
    );
    let (mut initiator, _) = started.expect("the payload fits");
    let mac1 = Mac1Key::new(&GATEWAY_KEY.public()).tag(&init);
    init.extend_from_slice(&mac1);
    endpoint.handle_datagram(now, victim_of_gateway(), &mut init);
    let handle = handled(&mut endpoint).expect("the gateway accepts");
    let mut resp = Vec::new();
    endpoint.poll_transmit(now, &mut resp).expect("a RESP");
    let (resp, _) = Resp::parse(&resp).expect("a RESP");
    let (payload, keys) = initiator.finish(resp.noise).expect("it is for us");
    let Ok(RespPayload::Accepted(acceptance)) = RespPayload::decode(&payload) else {
        panic!("the gateway refuses")
    };
    Victim {
        now,
        endpoint,
        handle,
        peer: victim_of_gateway(),
        key: keys.agent_to_gateway,
        index: ReceiverIndex::Gateway(acceptance.gateway_index),
        number: 0,
        bounds: TransportConfig::gateway(),
        sent_after_close: 0,
    }
}

/// Returns an agent whose gateway behaves as in the input.
pub(super) fn agent() -> Victim {
    let now = Timestamp::ZERO;
    let config = AgentEndpointConfig {
        secret: AGENT_KEY,
        transport: TransportConfig::default(),
    };
    let mut endpoint = Endpoint::agent(config, UNIX, [1; 32]);
    let to = ConnectTo {
        gateway: GATEWAY_KEY.public(),
        remote: victim_of_agent().into(),
        token: None,
        profile: None,
        last_stamp: None,
    };
    let handle = endpoint.connect(now, to).expect("the first session");
    endpoint.start(handle);
    let mut init = Vec::new();
    endpoint.poll_transmit(now, &mut init).expect("an INIT");
    let outline = InitOutline::parse(&init).expect("an INIT");
    let opened = Init::parse(outline.covered).expect("an INIT");
    let (clear, noise) = outline
        .covered
        .split_at(outline.covered.len() - opened.noise.len());
    let opening = Responder::read(&GATEWAY_KEY, [6; 32].into(), clear, noise).expect("it is for us");
    let acceptance = Acceptance {
        early: EarlyOutcome::Rejected,
        gateway_index: 9,
        reset_tag: [3; 16],
        token: [4; 32],
        parameters: parameters(),
    };
    let (mut plain, mut noise) = (Vec::new(), Vec::new());
    RespPayload::Accepted(acceptance).encode(&mut plain);
    let keys = opening
        .responder
        .finish(&plain, &mut noise)
        .expect("the payload fits");
    let mut resp = Vec::new();
    Resp {
        agent_index: outline.agent_index,
        noise: &noise,
    }
    .encode(&mut resp);
    endpoint.handle_datagram(now, victim_of_agent(), &mut resp);
    handled(&mut endpoint).expect("the agent is connected");
    Victim {
        now,
        endpoint,
        handle,
        peer: victim_of_agent(),
        key: keys.gateway_to_agent,
        index: ReceiverIndex::Agent(outline.agent_index),
        number: 0,
        bounds: TransportConfig::default(),
        sent_after_close: 0,
    }
}

impl Victim {
    /// Writes data of the endpoint's user.
    pub(super) fn speak(&mut self) {
        let now = self.now;
        let connection = self.endpoint.connection(self.handle).expect("it is open");
        let stream = connection
            .open(Priority::NORMAL, EarlyData::Forbidden)
            .expect("the first stream");
        connection
            .write(now, stream, Bytes::from(vec![b'r'; LARGE]))
            .expect("room");
        connection.finish(stream).expect("an open stream");
    }

    pub(super) fn take(&mut self, choices: u8, frames: &[u8]) {
        self.number += 1 + u64::from(choices & JUMP) * u64::from(choices & JUMP);
        let header = ShortHeader {
            keys: KeySpace::Full,
            phase: KeyPhase::Even,
            activity: if choices & IDLE == 0 {
                Activity::More
            } else {
                Activity::Idle
            },
            index: self.index,
            truncated: u32::try_from(self.number).unwrap_or(0),
        };
        let mut datagram = Vec::new();
        header.encode(&mut datagram);
        let start = datagram.len();
        datagram.extend_from_slice(&Stamp::of(self.now).raw().to_be_bytes()[1..]);
        datagram.extend_from_slice(frames);
        self.key.seal(self.number, &mut datagram, 0, start);
        self.endpoint.handle_datagram(self.now, self.peer, &mut datagram);
        self.settle();
        if choices & WAIT != 0 {
            self.now += STEP;
            self.endpoint.handle_timeout(self.now);
            self.settle();
        }
    }

    /// Reads data for the user and lets the endpoint send.
    pub(super) fn settle(&mut self) {
        let now = self.now;
        while self.endpoint.poll_event().is_some() {}
        if let Some(connection) = self.endpoint.connection(self.handle) {
            while let Some(stream) = connection.accept() {
                while let Ok(ReadOutcome::Data(bytes)) = connection.read(now, stream) {
                    assert!(!bytes.is_empty());
                }
            }
        }
        let open = self.is_open();
        let mut buf = Vec::new();
        for sent in 0.. {
            assert!(sent < BURST, "an endpoint sends endlessly");
            if self.endpoint.poll_transmit(now, &mut buf).is_none() {
                break;
            }
            let is_reset = PacketKind::classify(&buf) == Some(PacketKind::Reset);
            self.sent_after_close += usize::from(!open && !is_reset);
        }
        assert!(
            self.sent_after_close <= CLOSES,
            "a closed session continues to send"
        );
        self.check();
    }

    fn is_open(&self) -> bool {
        let connection = self.endpoint.peek(self.handle);
        connection.is_some_and(|connection| connection.state() != State::Closed)
    }

    fn check(&self) {
        let Some(connection) = self.endpoint.peek(self.handle) else {
            return;
        };
        let stats = connection.stats();
        // Packets beyond twice the buffer are rejected; the window of one stream may be added.
        let most = self.bounds.receive_buffer.bytes() * 2 + self.bounds.stream_window.bytes();
        assert!(
            stats.receive_buffered.bytes() <= most,
            "{}",
            stats.receive_buffered
        );
        assert!(
            stats.send_buffered.bytes() <= LARGE as u64,
            "{}",
            stats.send_buffered
        );
        let (_, gaps) = stats.bookkeeping;
        assert!(gaps <= 16_384, "{gaps} gaps");
    }
}
