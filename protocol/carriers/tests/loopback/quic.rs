//! Sessions over the carrier `quic`.
use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use longhaul_carriers::{
    CarrierError, Certificates, KeyPin, PemIdentity, PinPolicy, QuicCarrier, TlsCarrier,
};
use longhaul_driver::{CarrierPlan, LinkCarriers, ReturnTimes, Session};
use longhaul_protocol::wire::is_quic;
use longhaul_udp_relay::{Passage, UdpRelay};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use tokio::{
    net::{TcpListener, UdpSocket},
    task::JoinSet,
    time::timeout,
};

use crate::rig::{GATEWAY, LIMIT, Rig, here, quic, tls, transfer};

fn only(address: SocketAddr) -> CarrierPlan {
    CarrierPlan::Links(LinkCarriers::new(quic(address)), ReturnTimes::default())
}

/// Times at which a test need not wait for the return to datagrams.
fn soon() -> ReturnTimes {
    ReturnTimes {
        first: Duration::from_millis(50),
        longest: Duration::from_millis(400),
        kept: Duration::from_millis(500),
        patience: Duration::from_millis(100),
        ..ReturnTimes::default()
    }
}

/// The carrier of a session: its UDP, a link of datagrams, or an ordered link.
fn carrier(session: &Session) -> &'static str {
    let stats = session.stats();
    match (stats.remote, stats.is_ordered) {
        (Some(_), _) => "udp",
        (None, false) => "quic",
        (None, true) => "tls",
    }
}

/// Transfers bodies until the session uses this carrier at both ends.
async fn transfer_until(agent: &Session, gateway: &Session, name: &str) {
    for _ in 0..1_000 {
        // The agent sends: it notices a silence at once.
        transfer(agent, gateway).await;
        if carrier(agent) == name && carrier(gateway) == name {
            return;
        }
    }
    panic!("{} is used, not {name}: {:?}", carrier(agent), agent.stats());
}

#[tokio::test]
async fn a_session_works_over_quic_alone() {
    let mut rig = Rig::start().await;
    let (agent, gateway) = rig.pair(only(rig.quic)).await;
    transfer(&gateway, &agent).await;
    transfer(&agent, &gateway).await;
    assert_eq!((carrier(&agent), carrier(&gateway)), ("quic", "quic"));
    agent.close(0, "done");
    timeout(LIMIT, gateway.closed()).await.unwrap();
}

async fn far_end(to: SocketAddr) -> UdpSocket {
    let far = UdpSocket::bind(here()).await.unwrap();
    far.connect(to).await.unwrap();
    far
}

/// A UDP relay to the gateway.
struct RebindingRelay {
    address: SocketAddr,
    /// The next datagram of the agent leaves from another port, as behind a NAT that has forgotten it.
    rebinds: Arc<AtomicBool>,
    /// The agent's datagrams.
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
    _tasks: JoinSet<()>,
}

impl RebindingRelay {
    async fn start(to: SocketAddr) -> Self {
        let near = UdpSocket::bind(here()).await.unwrap();
        let mut far = far_end(to).await;
        let address = near.local_addr().unwrap();
        let rebinds = Arc::new(AtomicBool::new(false));
        let is_rebound = Arc::clone(&rebinds);
        let seen = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let sees = Arc::clone(&seen);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let (mut up, mut down) = ([0; 2048], [0; 2048]);
            let mut agent = None;
            loop {
                tokio::select! {
                    Ok((len, from)) = near.recv_from(&mut up) => {
                        agent = Some(from);
                        if is_rebound.swap(false, Relaxed) {
                            far = far_end(to).await;
                        }
                        sees.lock().unwrap().push(up[..len].to_vec());
                        far.send(&up[..len]).await.unwrap();
                    }
                    Ok(len) = far.recv(&mut down) => {
                        if let Some(agent) = agent {
                            near.send_to(&down[..len], agent).await.unwrap();
                        }
                    }
                }
            }
        });
        Self {
            address,
            rebinds,
            seen,
            _tasks: tasks,
        }
    }
}

#[tokio::test]
async fn the_connection_survives_another_port_of_the_agent() {
    let mut rig = Rig::start().await;
    let relay = RebindingRelay::start(rig.quic).await;
    let (agent, gateway) = rig.pair(only(relay.address)).await;
    for _ in 0..3 {
        transfer(&gateway, &agent).await;
        relay.rebinds.store(true, Relaxed);
        transfer(&agent, &gateway).await;
    }
    assert!(!relay.rebinds.load(Relaxed));
    assert_eq!(agent.stats().stalls, 0);
}

/// The packets of a QUIC connection, with the port of the agent changing, and those of a session over UDP: at the port that
/// both share, the first bytes tell them apart.
#[tokio::test]
async fn packets_of_quic_and_of_sessions_are_told_apart() {
    let mut rig = Rig::start().await;
    assert_eq!(rig.quic, rig.listener.local_addr());
    let relay = RebindingRelay::start(rig.quic).await;
    let (agent, gateway) = rig.pair(only(relay.address)).await;
    transfer(&gateway, &agent).await;
    relay.rebinds.store(true, Relaxed);
    transfer(&agent, &gateway).await;
    agent.close(0, "done");
    timeout(LIMIT, gateway.closed()).await.unwrap();
    let packets = std::mem::take(&mut *relay.seen.lock().unwrap());
    assert!(packets.iter().all(|packet| is_quic(packet)));
    let has = |form: u8| packets.iter().any(|packet| packet[0] & 0xc0 == form);
    assert!(has(0xc0) && has(0x40), "long and short headers");

    let udp = RebindingRelay::start(rig.quic).await;
    rig.remote = udp.address;
    let (agent, gateway) = rig.pair(CarrierPlan::Udp).await;
    assert_eq!((carrier(&agent), carrier(&gateway)), ("udp", "udp"));
    transfer(&gateway, &agent).await;
    udp.rebinds.store(true, Relaxed);
    transfer(&agent, &gateway).await;
    let packets = std::mem::take(&mut *udp.seen.lock().unwrap());
    assert!(packets.len() > 100 && packets.iter().all(|packet| !is_quic(packet)));
}

/// Strangers send packets that look like QUIC as fast as they can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_what_looks_like_quic_does_not_stop_sessions() {
    let mut rig = Rig::start().await;
    rig.remote = rig.listener.local_addr();
    let to = rig.quic;
    let mut floods = JoinSet::new();
    floods.spawn(async move {
        let socket = UdpSocket::bind(here()).await.unwrap();
        for number in 0_u64.. {
            let mut packet = [0; 1200];
            packet[..6].copy_from_slice(&[0xc0, 0, 0, 0, 1, 8]);
            packet[6..14].copy_from_slice(&number.to_be_bytes());
            if number % 2 == 0 {
                packet[0] = 0x40;
            }
            let _full = socket.send_to(&packet, to).await;
            tokio::task::yield_now().await;
        }
    });
    let (agent, gateway) = rig.pair(CarrierPlan::Udp).await;
    transfer(&gateway, &agent).await;
    transfer(&agent, &gateway).await;
    assert_eq!(carrier(&agent), "udp");
}

#[tokio::test]
async fn quic_may_have_a_port_of_its_own() {
    let mut rig = Rig::start_apart().await;
    assert_ne!(rig.quic, rig.listener.local_addr());
    let (agent, gateway) = rig.pair(only(rig.quic)).await;
    transfer(&gateway, &agent).await;
    transfer(&agent, &gateway).await;
}

/// The first address refuses or does not answer.
#[tokio::test]
async fn links_are_opened_at_the_address_that_answers() {
    let mut rig = Rig::start().await;
    let delay = Duration::from_millis(250);
    let silent = rig.silent.local_addr().unwrap();
    let over_quic = QuicCarrier::new(silent, "localhost")
        .unwrap()
        .or_at(&[rig.quic], delay);
    let closed = TcpListener::bind(here()).await.unwrap().local_addr().unwrap();
    let over_tls = TlsCarrier::new(closed, "localhost", GATEWAY.public()).unwrap();
    let over_tls = over_tls.or_at(&[closed, rig.tls], delay);
    let (over_quic, over_tls) = (
        LinkCarriers::new(Arc::new(over_quic)),
        LinkCarriers::new(Arc::new(over_tls)),
    );
    for (carriers, name) in [(over_quic, "quic"), (over_tls, "tls")] {
        let (agent, gateway) = rig
            .pair(CarrierPlan::Links(carriers, ReturnTimes::default()))
            .await;
        transfer(&gateway, &agent).await;
        assert_eq!(carrier(&agent), name);
        agent.close(0, "done");
        timeout(LIMIT, gateway.closed()).await.unwrap();
    }
}

#[tokio::test]
async fn the_gateway_learns_the_end_of_a_session() {
    let mut rig = Rig::start().await;
    // Fewer than the gateway's rate limit of INITs with one token.
    for _ in 0..4 {
        let (agent, gateway) = rig.pair(only(rig.quic)).await;
        drop(agent);
        timeout(LIMIT, gateway.closed()).await.unwrap();
    }
}

#[tokio::test]
async fn quic_follows_at_once_where_udp_is_silent_and_tls_is_refused() {
    let mut rig = Rig::start().await;
    let closed = TcpListener::bind(here()).await.unwrap().local_addr().unwrap();
    let carriers = LinkCarriers::new(tls(closed)).then(quic(rig.quic));
    let (agent, gateway) = rig
        .pair(CarrierPlan::UdpThen(carriers, ReturnTimes::default()))
        .await;
    assert_eq!(carrier(&agent), "quic");
    transfer(&gateway, &agent).await;
    let mut datagram = [0; 1500];
    let received = timeout(LIMIT, rig.silent.recv(&mut datagram)).await.unwrap();
    assert!(received.unwrap() > 100, "UDP is tried first");
}

#[tokio::test]
async fn a_session_that_avoids_udp_uses_quic_where_tls_is_refused() {
    let mut rig = Rig::start().await;
    let closed = TcpListener::bind(here()).await.unwrap().local_addr().unwrap();
    let carriers = LinkCarriers::new(tls(closed)).then(quic(rig.quic));
    let times = ReturnTimes {
        avoided: Some(Duration::from_secs(24 * 3600)),
        ..ReturnTimes::default()
    };
    let (agent, gateway) = rig.pair(CarrierPlan::LinksThenUdp(carriers, times)).await;
    transfer(&gateway, &agent).await;
    assert_eq!(carrier(&agent), "quic");
}

#[tokio::test]
async fn a_session_over_tls_goes_on_over_quic_where_udp_stays_silent() {
    let mut rig = Rig::start().await;
    let carriers = LinkCarriers::new(tls(rig.tls)).then(quic(rig.quic));
    let (agent, gateway) = rig.pair(CarrierPlan::UdpThen(carriers, soon())).await;
    assert_eq!(carrier(&agent), "tls");
    transfer_until(&agent, &gateway, "quic").await;
    // The link over TLS ends, and the session has no other one.
    transfer(&gateway, &agent).await;
}

#[tokio::test]
async fn the_next_carrier_takes_over_when_quic_dies_and_udp_when_it_works() {
    let mut rig = Rig::start().await;
    let relay = UdpRelay::start(rig.quic).await.unwrap();
    let udp = UdpRelay::start(rig.listener.local_addr()).await.unwrap();
    udp.set(Passage::Blocked);
    rig.remote = udp.address();
    let carriers = LinkCarriers::new(quic(relay.address())).then(tls(rig.tls));
    let (agent, gateway) = rig.pair(CarrierPlan::UdpAnd(carriers, soon())).await;
    assert_eq!(carrier(&agent), "quic");
    transfer(&gateway, &agent).await;
    relay.set(Passage::Blocked);
    transfer_until(&agent, &gateway, "tls").await;
    udp.set(Passage::Open);
    transfer_until(&agent, &gateway, "udp").await;
}

#[tokio::test]
async fn a_certificate_of_another_key_is_noted_or_refused() {
    let rig = Rig::start().await;
    let other = PemIdentity::self_signed("localhost").unwrap().certificate;
    for (policy, announced, opens, is_intercepted) in [
        (PinPolicy::Note, &rig.certificate, true, false),
        (PinPolicy::Note, &other, true, true),
        (PinPolicy::Require, &rig.certificate, true, false),
        (PinPolicy::Require, &other, false, true),
    ] {
        let certificates = Certificates::new(policy);
        let expected = CertificateDer::from_pem_slice(announced.as_bytes()).unwrap();
        certificates.expect(KeyPin::of(&expected));
        let carrier = QuicCarrier::new(rig.quic, "localhost").unwrap();
        let carrier = carrier.comparing(certificates.clone());
        let opened = timeout(LIMIT, carrier.open(&[1; 600])).await.unwrap();
        let is_refused = matches!(opened, Err(CarrierError::Intercepted));
        assert_eq!(is_refused, !opens, "{policy:?}");
        assert_eq!(certificates.is_intercepted(), is_intercepted, "{policy:?}");
    }
}

#[tokio::test]
async fn garbage_and_strangers_do_not_disturb_the_port() {
    let mut rig = Rig::start().await;
    let socket = UdpSocket::bind(here()).await.unwrap();
    for first in 0..=u8::MAX {
        socket.send_to(&[first; 1200], rig.quic).await.unwrap();
        socket.send_to(&[first], rig.quic).await.unwrap();
    }
    // A stranger that speaks QUIC, but does not know the gateway's key.
    let mut link = quic(rig.quic).open(&[1; 600]).await.unwrap();
    let answer = timeout(LIMIT, link.receive()).await.unwrap();
    assert!(matches!(answer, Ok(None)), "the connection is closed: {answer:?}");
    let (agent, gateway) = rig.pair(only(rig.quic)).await;
    transfer(&gateway, &agent).await;
}

#[tokio::test]
async fn a_port_without_a_gateway_is_no_link() {
    let silent = UdpSocket::bind(here()).await.unwrap();
    let opened = timeout(LIMIT, quic(silent.local_addr().unwrap()).open(&[1; 600]))
        .await
        .unwrap();
    assert!(opened.is_err());
}
