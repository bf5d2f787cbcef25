//! A gateway with all carriers on real sockets over loopback, and agents.
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use longhaul_carriers::{PemIdentity, QuicCarrier, QuicListener, QuicServer, TlsCarrier, TlsListener};
use longhaul_driver::{
    Alternatives, CarrierPlan, DeviceStatus, DialConfig, EarlyData, End, EpochKeys, Incoming, LinkState,
    ListenConfig, Listener, OpenOptions, Priority, RecvStream, Session, TransportConfig, dial_over,
    listen_sharing,
};
use longhaul_types::{SecretKey, UnixTime};
use tokio::{net::UdpSocket, task::JoinSet, time::timeout};

/// Sufficient for a busy machine; a failure only takes longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
pub(crate) const GATEWAY: SecretKey = SecretKey::from_bytes([1; 32]);
const DEVICE: SecretKey = SecretKey::from_bytes([2; 32]);

pub(crate) fn here() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn epoch() -> EpochKeys {
    EpochKeys {
        epoch: 1,
        key: [5; 32],
    }
}

/// The carrier `tls` to the gateway of a rig at this address.
pub(crate) fn tls(address: SocketAddr) -> Arc<TlsCarrier> {
    Arc::new(TlsCarrier::new(address, "localhost", GATEWAY.public()).unwrap())
}

/// The carrier `quic`.
pub(crate) fn quic(address: SocketAddr) -> Arc<QuicCarrier> {
    Arc::new(QuicCarrier::new(address, "localhost").unwrap())
}

/// A gateway with its carriers, an address where UDP is silent, and the tasks that end with it.
pub(crate) struct Rig {
    pub(crate) listener: Listener,
    pub(crate) tls: SocketAddr,
    pub(crate) quic: SocketAddr,
    pub(crate) certificate: String,
    pub(crate) silent: UdpSocket,
    /// Address to which agents send over UDP.
    pub(crate) remote: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Rig {
    /// A gateway whose sessions and QUIC share a UDP port.
    pub(crate) async fn start() -> Self {
        Self::start_with(true).await
    }

    /// A gateway on which QUIC has a port of its own.
    pub(crate) async fn start_apart() -> Self {
        Self::start_with(false).await
    }

    async fn start_with(is_shared: bool) -> Self {
        let config = ListenConfig {
            listen: here(),
            also: Vec::new(),
            secret: GATEWAY,
            epoch: epoch(),
            reset_secret: [6; 32],
            transport: TransportConfig::gateway(),
            max_sessions: 16,
            devices: BTreeMap::from([(DEVICE.public(), DeviceStatus::Admitted)]),
        };
        let (listener, share) = listen_sharing(config, 0).unwrap();
        let made = PemIdentity::self_signed("localhost").unwrap();
        let tls = TlsListener::bind(here(), made.parse().unwrap(), GATEWAY.public())
            .await
            .unwrap();
        let quic = if is_shared {
            let server = QuicServer::new(made.parse().unwrap(), GATEWAY.public()).unwrap();
            server.share(share).unwrap()
        } else {
            QuicListener::bind(here(), made.parse().unwrap(), GATEWAY.public()).unwrap()
        };
        let addresses = (tls.local_addr(), quic.local_addr());
        let mut tasks = JoinSet::new();
        tasks.spawn(tls.run(listener.links()));
        tasks.spawn(quic.run(listener.links()));
        let silent = UdpSocket::bind(here()).await.unwrap();
        Self {
            listener,
            tls: addresses.0,
            quic: addresses.1,
            certificate: made.certificate,
            remote: silent.local_addr().unwrap(),
            silent,
            _tasks: tasks,
        }
    }

    pub(crate) fn dial(&self, plan: CarrierPlan) -> Session {
        let far = UnixTime::new(Duration::from_secs(4_000_000_000));
        let config = DialConfig {
            gateway_key: GATEWAY.public(),
            remote: self.remote,
            secret: DEVICE,
            token: Some(epoch().mint(&DEVICE.public(), [1; 4], far)),
            profile: None,
            last_stamp: None,
            transport: TransportConfig::agent(None),
        };
        let (session, _) = dial_over(config, &Alternatives::default(), Vec::new(), plan).unwrap();
        session
    }

    pub(crate) async fn pair(&mut self, plan: CarrierPlan) -> (Session, Session) {
        let agent = self.dial(plan);
        let accepted = timeout(LIMIT, self.listener.accept()).await.unwrap();
        let Incoming { session, .. } = accepted.unwrap();
        let mut state = agent.state();
        let open = state.wait_for(|state| *state == LinkState::Open);
        timeout(LIMIT, open).await.unwrap().unwrap();
        (agent, session)
    }
}

pub(crate) fn body() -> Vec<u8> {
    (0..500_000_u32).flat_map(u32::to_le_bytes).collect()
}

pub(crate) async fn all(stream: &mut RecvStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.read().await.unwrap() {
        bytes.extend_from_slice(&chunk);
    }
    bytes
}

pub(crate) async fn send(from: &Session) {
    let options = OpenOptions {
        class: Priority::NORMAL,
        early: EarlyData::Forbidden,
        total: None,
    };
    let mut stream = from.open(options, body().into(), End::Finish).await.unwrap();
    // The stream is cancelled if it is dropped before its end.
    stream.delivered().await.unwrap();
}

/// Transfers a body from one session to the other.
pub(crate) async fn transfer(from: &Session, to: &Session) {
    let receive = async {
        let mut stream = to.accept().await.unwrap();
        assert!(all(&mut stream).await == body(), "the bytes changed");
    };
    let both = async { tokio::join!(send(from), receive) };
    timeout(LIMIT, both).await.unwrap();
}

/// Transfers bodies until the session uses UDP, or no longer uses it; the gateway follows the agent.
pub(crate) async fn transfer_until(agent: &Session, gateway: &Session, uses_udp: bool) {
    for _ in 0..1_000 {
        // The agent sends: it notices a silence at once.
        transfer(agent, gateway).await;
        if [agent, gateway].map(|end| end.stats().remote.is_some()) == [uses_udp; 2] {
            return;
        }
    }
    panic!("the path stays: {:?}", agent.stats());
}
