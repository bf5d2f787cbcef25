//! A minimal agent: real sessions, one response at a time.
mod answer;

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::SystemTime};

use parking_lot::Mutex;

use longhaul_codec::{BodyEncoder, Coder};
use longhaul_driver::{
    DialConfig, EarlyData, End, FirstStream, LinkState, OpenOptions, Priority, SendStream, Session,
    TransportConfig, dial,
};
use longhaul_session::{
    Body, BodyCoding, CacheStateId, FailureReason, Fetch, FetchId, FetchKind, HeaderField, HeaderSets, Hello,
    Message, Method, MirrorState, Preferences, VersionRange, encode, encode_header_set,
};
use longhaul_types::{SecretKey, UnixTime};
use longhaul_udp_relay::UdpRelay;

use self::answer::Response;
pub(crate) use self::answer::{Answer, BodyEnd, coding};
use crate::gateway::Gateway;

pub(crate) struct Agent {
    pub(crate) session: Session,
    pub(crate) control: SendStream,
    /// Mirror state from the gateway's `Welcome`.
    pub(crate) mirror: MirrorState,
    next: FetchId,
}

pub(crate) fn hello(cache_state: u64) -> Vec<u8> {
    hello_of(VersionRange::OURS, cache_state)
}

/// A greeting with these session versions.
fn hello_of(versions: VersionRange, cache_state: u64) -> Vec<u8> {
    let mut wire = Vec::new();
    let hello = Hello {
        versions,
        software: "test/1".to_owned(),
        link: None,
        cache_state: CacheStateId::new(cache_state),
        preferences: Preferences::default(),
    };
    encode(&Message::Hello(hello), &mut wire).unwrap();
    wire
}

/// The field that identifies the requester: of a navigation if the URL ends in a slash, else of a same-origin
/// page's request for an object. `None` if `fields` already identify it.
fn who_asks(url: &str, fields: &[(&str, &str)]) -> Option<HeaderField> {
    let says = |name: &str| matches!(name, "referer" | "origin") || name.starts_with("sec-fetch-");
    if fields.iter().any(|(name, _)| says(name)) {
        return None;
    }
    if url.ends_with('/') {
        return Some(("upgrade-insecure-requests".to_owned(), b"1".to_vec()));
    }
    let path = url
        .find("://")
        .and_then(|at| Some(at + 3 + url[at + 3..].find('/')?));
    Some(("referer".to_owned(), url.as_bytes()[..=path?].to_vec()))
}

/// A field of a request that does not identify its requester.
pub(crate) const NOBODY: (&str, &str) = ("sec-fetch-mode", "no-cors");

pub(crate) fn fetch_of(id: FetchId, method: Method, url: &str, fields: &[(&str, &str)]) -> Fetch {
    let fields: Vec<_> = fields
        .iter()
        .map(|(n, v)| ((*n).to_owned(), v.as_bytes().to_vec()))
        .chain(who_asks(url, fields))
        .collect();
    Fetch {
        kind: FetchKind::Page,
        ..Fetch::new(
            id,
            method,
            url.to_owned(),
            encode_header_set(&fields, id, None, &HeaderSets::new()).unwrap(),
        )
    }
}

pub(crate) fn wire(message: Message) -> Vec<u8> {
    let mut wire = Vec::new();
    encode(&message, &mut wire).unwrap();
    wire
}

pub(crate) fn options(early: EarlyData) -> OpenOptions {
    OpenOptions {
        class: Priority::new(1),
        early,
        total: None,
    }
}

/// A token that opens early data.
pub(crate) fn token(gateway: &Gateway, device: &SecretKey) -> [u8; 32] {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let expiry = UnixTime::new(now) + std::time::Duration::from_secs(86_400);
    gateway.keys().epoch.mint(&device.public(), [1, 2, 3, 4], expiry)
}

pub(crate) fn dial_gateway(
    gateway: &Gateway,
    device: &SecretKey,
    token: Option<[u8; 32]>,
    early: Vec<Vec<u8>>,
) -> (Session, Vec<SendStream>) {
    dial_with(gateway, device, token, early, 0)
}

/// Like [`dial_gateway`], with this cache state.
pub(crate) fn dial_with(
    gateway: &Gateway,
    device: &SecretKey,
    token: Option<[u8; 32]>,
    early: Vec<Vec<u8>>,
    cache_state: u64,
) -> (Session, Vec<SendStream>) {
    dial_over(
        gateway,
        device,
        token,
        early,
        hello(cache_state),
        (gateway.address, "lan-fast"),
    )
}

/// Like [`dial_with`], with this greeting and link profile.
fn dial_over(
    gateway: &Gateway,
    device: &SecretKey,
    token: Option<[u8; 32]>,
    early: Vec<Vec<u8>>,
    greeting: Vec<u8>,
    (remote, link): (SocketAddr, &str),
) -> (Session, Vec<SendStream>) {
    let mut first = vec![FirstStream {
        options: options(EarlyData::Allowed),
        bytes: greeting.into(),
        end: End::Open,
    }];
    first.extend(early.into_iter().map(|bytes| FirstStream {
        options: options(EarlyData::Allowed),
        bytes: bytes.into(),
        end: End::Finish,
    }));
    let config = DialConfig {
        gateway_key: gateway.keys().secret.public(),
        remote,
        secret: device.clone(),
        token,
        profile: Some(link.parse().unwrap()),
        last_stamp: None,
        transport: TransportConfig::agent(None),
    };
    dial(config, first).unwrap()
}

impl Agent {
    /// An open session of a new device. The first device of a gateway is `test device`.
    pub(crate) async fn connect(gateway: &Gateway) -> Self {
        let device = gateway.admit(&free_name(gateway));
        Self::connect_as(gateway, &device).await
    }

    /// An open session of a device; retries while the gateway has not yet noticed a new device.
    pub(crate) async fn connect_as(gateway: &Gateway, device: &SecretKey) -> Self {
        Self::connect_with(gateway, device, 0).await
    }

    /// Like `connect_as`, with this cache state.
    pub(crate) async fn connect_with(gateway: &Gateway, device: &SecretKey, cache_state: u64) -> Self {
        Self::connect_over(gateway, device, cache_state, "lan-fast").await
    }

    /// An open session of a new device with this link profile.
    pub(crate) async fn connect_by(gateway: &Gateway, link: &str) -> Self {
        let device = gateway.admit(&free_name(gateway));
        Self::connect_over(gateway, &device, 0, link).await
    }

    /// An open session of a new device that knows only these session versions.
    pub(crate) async fn connect_of(gateway: &Gateway, versions: VersionRange) -> Self {
        let device = gateway.admit(&free_name(gateway));
        let greeting = hello_of(versions, 0);
        Self::open(gateway, &device, &greeting, (gateway.address, "lan-fast"))
            .await
            .0
    }

    /// Like `connect_by`, through a hop.
    pub(crate) async fn connect_through(gateway: &Gateway, hop: &UdpRelay, link: &str) -> Self {
        let device = gateway.admit(&free_name(gateway));
        Self::open(gateway, &device, &hello(0), (hop.address(), link))
            .await
            .0
    }

    /// Like `connect_with`, with this link profile.
    pub(crate) async fn connect_over(
        gateway: &Gateway,
        device: &SecretKey,
        cache_state: u64,
        link: &str,
    ) -> Self {
        Self::open(gateway, device, &hello(cache_state), (gateway.address, link))
            .await
            .0
    }

    /// Like `connect_with`; also returns the gateway's control stream after `Welcome`.
    pub(crate) async fn connect_listening(
        gateway: &Gateway,
        device: &SecretKey,
        cache_state: u64,
    ) -> (Self, Answer) {
        Self::open(
            gateway,
            device,
            &hello(cache_state),
            (gateway.address, "lan-fast"),
        )
        .await
    }

    async fn open(
        gateway: &Gateway,
        device: &SecretKey,
        greeting: &[u8],
        way: (SocketAddr, &str),
    ) -> (Self, Answer) {
        loop {
            let (session, mut streams) = dial_over(gateway, device, None, Vec::new(), greeting.to_vec(), way);
            let mut state = session.state();
            let settled = state
                .wait_for(|state| !matches!(state, LinkState::Connecting))
                .await;
            if matches!(settled.as_deref(), Ok(LinkState::Open)) {
                drop(settled);
                let mut agent = Self {
                    session,
                    control: streams.remove(0),
                    next: FetchId::FIRST,
                    mirror: MirrorState::Unknown,
                };
                let control = agent.answer().await;
                let Message::Welcome(welcome) = &control.message else {
                    panic!("no welcome")
                };
                assert!(welcome.version.is_some());
                agent.mirror = welcome.mirror;
                return (agent, control);
            }
        }
    }

    pub(crate) fn id(&mut self) -> FetchId {
        let next = self.next.next();
        std::mem::replace(&mut self.next, next)
    }

    pub(crate) async fn send(&self, message: Message) {
        let bytes = wire(message).into();
        self.session
            .open(options(EarlyData::Forbidden), bytes, End::Finish)
            .await
            .unwrap();
    }

    /// The next stream of the gateway that is neither a manifest nor a push.
    pub(crate) async fn answer(&self) -> Answer {
        loop {
            let answer = Answer::of(self.session.accept().await.unwrap()).await;
            if !matches!(answer.message, Message::Manifest(_) | Message::Push(_)) {
                return answer;
            }
        }
    }

    /// Sends a message on the control stream.
    pub(crate) async fn say(&mut self, message: Message) {
        self.control.write(wire(message).into()).await.unwrap();
    }

    pub(crate) async fn get(&mut self, url: &str, fields: &[(&str, &str)]) -> Response {
        self.request(Method::Get, url, fields).await
    }

    pub(crate) async fn request(&mut self, method: Method, url: &str, fields: &[(&str, &str)]) -> Response {
        let fetch = fetch_of(self.id(), method, url, fields);
        self.send(Message::Fetch(fetch)).await;
        self.answer().await.response(&self.session).await
    }

    pub(crate) async fn upload(&mut self, method: Method, url: &str, body: &[u8]) -> Response {
        let fetch = Fetch {
            has_body: true,
            ..fetch_of(self.id(), method, url, &[])
        };
        let mut bytes = wire(Message::Fetch(fetch));
        let announced = Body {
            coding: BodyCoding::Zstd,
            length: Some(body.len() as u64),
            offset: 0,
            base: None,
        };
        bytes.extend(wire(Message::Body(announced)));
        let mut stream = self
            .session
            .open(options(EarlyData::Forbidden), bytes.into(), End::Open)
            .await
            .unwrap();
        let mut encoder =
            BodyEncoder::new(window_key(&self.session), Coder::Zstd { level: 3 }, None).unwrap();
        let mut windows = Vec::new();
        encoder.push(body, &mut windows).unwrap();
        encoder.finish(&mut windows).unwrap();
        stream.write(windows.into()).await.unwrap();
        stream.finish().await.unwrap();
        self.answer().await.response(&self.session).await
    }

    /// Sends a fetch and returns the reason of its failure.
    pub(crate) async fn failure(&self, fetch: Fetch) -> FailureReason {
        self.send(Message::Fetch(fetch)).await;
        self.answer().await.failed().reason
    }

    pub(crate) async fn get_failure(&mut self, url: &str) -> FailureReason {
        let fetch = fetch_of(self.id(), Method::Get, url, &[BROWSER]);
        self.failure(fetch).await
    }
}

/// A field of browsers, which take decoded bodies.
pub(crate) const BROWSER: (&str, &str) = ("accept-encoding", "gzip, deflate");

fn free_name(gateway: &Gateway) -> String {
    static NAMES: Mutex<BTreeMap<PathBuf, u32>> = Mutex::new(BTreeMap::new());
    let mut names = NAMES.lock();
    let count = names.entry(gateway.state.file("devices")).or_insert(0);
    *count += 1;
    match count {
        1 => "test device".to_owned(),
        more => format!("test device {more}"),
    }
}

pub(crate) fn window_key(session: &Session) -> [u8; 32] {
    blake3::derive_key("longhaul 1 window", &session.exporter().unwrap())
}

fn notice() -> longhaul_session::Notice {
    longhaul_session::Notice { text: String::new() }
}
