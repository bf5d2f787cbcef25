//! Sessions over the carrier `tls`; UDP is silent.
use std::{net::SocketAddr, sync::Arc, time::Duration};

use longhaul_carriers::{CarrierError, Certificates, KeyPin, PemIdentity, PinPolicy, TlsCarrier};
use longhaul_driver::{CarrierPlan, LinkCarriers, ReturnTimes};
use longhaul_udp_relay::{Passage, UdpRelay};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

use crate::rig::{GATEWAY, LIMIT, Rig, all, body, here, send, tls, transfer, transfer_until};

fn only(address: SocketAddr) -> CarrierPlan {
    CarrierPlan::Links(LinkCarriers::new(tls(address)), ReturnTimes::default())
}

fn also(address: SocketAddr) -> CarrierPlan {
    CarrierPlan::UdpThen(LinkCarriers::new(tls(address)), ReturnTimes::default())
}

fn rather(address: SocketAddr) -> CarrierPlan {
    let times = ReturnTimes {
        avoided: Some(Duration::from_secs(24 * 3600)),
        ..ReturnTimes::default()
    };
    CarrierPlan::LinksThenUdp(LinkCarriers::new(tls(address)), times)
}

#[tokio::test]
async fn a_session_works_over_tls_alone() {
    let mut rig = Rig::start().await;
    let (agent, gateway) = rig.pair(only(rig.tls)).await;
    transfer(&gateway, &agent).await;
    transfer(&agent, &gateway).await;
    let stats = gateway.stats();
    assert_eq!(
        (stats.packets_lost, stats.retransmitted_bytes),
        (0, 0),
        "{stats:?}"
    );
    agent.close(0, "done");
    timeout(LIMIT, gateway.closed()).await.unwrap();
}

#[tokio::test]
async fn tls_starts_where_udp_is_silent() {
    let mut rig = Rig::start().await;
    let (agent, gateway) = rig.pair(also(rig.tls)).await;
    transfer(&gateway, &agent).await;
    let mut datagram = [0; 1500];
    let received = timeout(LIMIT, rig.silent.recv(&mut datagram)).await.unwrap();
    assert!(received.unwrap() > 100, "UDP is tried first");
}

#[tokio::test]
async fn a_session_that_avoids_udp_uses_it_only_without_tls() {
    let mut rig = Rig::start().await;
    rig.remote = rig.listener.local_addr();
    let (agent, gateway) = rig.pair(rather(rig.tls)).await;
    transfer(&gateway, &agent).await;
    assert_eq!((agent.stats().remote, agent.worse_returns()), (None, 0));
    agent.close(0, "done");
    timeout(LIMIT, gateway.closed()).await.unwrap();

    let closed = TcpListener::bind(here()).await.unwrap();
    let nobody = closed.local_addr().unwrap();
    drop(closed);
    let (agent, gateway) = rig.pair(rather(nobody)).await;
    transfer(&gateway, &agent).await;
    assert_eq!(agent.stats().remote, Some(rig.remote));
}

fn soon(address: SocketAddr) -> CarrierPlan {
    let times = ReturnTimes {
        first: Duration::from_millis(50),
        longest: Duration::from_millis(400),
        kept: Duration::from_secs(5),
        patience: Duration::from_millis(100),
        ..ReturnTimes::default()
    };
    CarrierPlan::UdpThen(LinkCarriers::new(tls(address)), times)
}

#[tokio::test]
async fn the_session_returns_to_udp_and_leaves_it_again() {
    let mut rig = Rig::start().await;
    let relay = UdpRelay::start(rig.listener.local_addr()).await.unwrap();
    relay.set(Passage::Blocked);
    rig.remote = relay.address();
    let (agent, gateway) = rig.pair(soon(rig.tls)).await;
    for _ in 0..2 {
        transfer(&gateway, &agent).await;
        assert_eq!(agent.stats().remote, None, "UDP is blocked");
        relay.set(Passage::Open);
        transfer_until(&agent, &gateway, true).await;
        // The gateway follows with the first packet on the new path, which the agent may send only now.
        transfer(&agent, &gateway).await;
        assert!(gateway.stats().remote.is_some());
        relay.set(Passage::Blocked);
        transfer_until(&agent, &gateway, false).await;
    }
}

/// A TCP relay whose connections a test can cut.
struct TcpRelay {
    address: SocketAddr,
    cut: watch::Sender<()>,
    _tasks: JoinSet<()>,
}

impl TcpRelay {
    async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind(here()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, watching) = watch::channel(());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let mut watching = watching.clone();
                watching.mark_unchanged();
                connections.spawn(async move {
                    let mut far = TcpStream::connect(to).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = watching.changed() => {}
                    }
                });
            }
        });
        Self {
            address,
            cut,
            _tasks: tasks,
        }
    }
}

#[tokio::test]
async fn a_cut_connection_is_replaced_and_the_session_continues() {
    for plan in [only, also] {
        let mut rig = Rig::start().await;
        let relay = TcpRelay::start(rig.tls).await;
        let (agent, gateway) = rig.pair(plan(relay.address)).await;
        let receive = async {
            let mut stream = agent.accept().await.unwrap();
            let first = stream.read().await.unwrap().unwrap();
            relay.cut.send(()).unwrap();
            let mut bytes = first.to_vec();
            bytes.extend_from_slice(&all(&mut stream).await);
            assert!(bytes == body(), "the bytes changed");
        };
        let both = async { tokio::join!(send(&gateway), receive) };
        timeout(LIMIT, both).await.unwrap();
        transfer(&agent, &gateway).await;
    }
}

#[tokio::test]
async fn the_session_is_gone_at_the_gateway_when_the_agent_closes_it() {
    let mut rig = Rig::start().await;
    // Fewer than the gateway's rate limit of INITs with one token.
    for _ in 0..4 {
        let (agent, gateway) = rig.pair(only(rig.tls)).await;
        drop(agent);
        timeout(LIMIT, gateway.closed()).await.unwrap();
    }
}

/// A relay that ends TLS by a certificate of its own and opens it anew.
async fn interceptor(to: SocketAddr, certificate: &str) -> (SocketAddr, JoinSet<()>) {
    let made = PemIdentity::self_signed("localhost").unwrap();
    let chain = vec![CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(made.key.as_bytes()).unwrap();
    let own = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(own));
    let certificate = certificate.to_owned();
    let listener = TcpListener::bind(here()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (near, _) = listener.accept().await.unwrap();
            let (acceptor, certificate) = (acceptor.clone(), certificate.clone());
            connections.spawn(async move {
                // An agent that refuses the certificate ends the connection.
                let Ok(mut near) = acceptor.accept(near).await else {
                    return;
                };
                let mut far = connect(to, &certificate).await;
                let _ended = copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (address, tasks)
}

#[tokio::test]
async fn an_interception_is_noted_or_refused() {
    let mut rig = Rig::start().await;
    let (relay, _relaying) = interceptor(rig.tls, &rig.certificate).await;
    let (agent, gateway) = rig.pair(only(relay)).await;
    transfer(&gateway, &agent).await;
    for (policy, address, opens, is_intercepted) in [
        (PinPolicy::Note, rig.tls, true, false),
        (PinPolicy::Note, relay, true, true),
        (PinPolicy::Require, rig.tls, true, false),
        (PinPolicy::Require, relay, false, true),
    ] {
        let certificates = Certificates::new(policy);
        let expected = CertificateDer::from_pem_slice(rig.certificate.as_bytes()).unwrap();
        certificates.expect(KeyPin::of(&expected));
        let carrier = TlsCarrier::new(address, "localhost", GATEWAY.public())
            .unwrap()
            .comparing(certificates.clone());
        let opened = timeout(LIMIT, carrier.open(&[])).await.unwrap();
        assert_eq!(
            certificates.is_intercepted(),
            is_intercepted,
            "{policy:?} {address}"
        );
        // The gateway knows no such packet: an open link is one that answered the upgrade.
        let is_refused = matches!(opened, Err(CarrierError::Intercepted));
        assert_eq!(is_refused, !opens, "{policy:?} {address}");
    }
}

/// Sends `request` in TLS, as a browser that trusts the certificate, and returns the answer.
async fn ask(address: SocketAddr, certificate: &str, request: &[u8]) -> String {
    let mut tls = connect(address, certificate).await;
    tls.write_all(request).await.unwrap();
    let mut answer = String::new();
    tls.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Opens TLS to a server with this certificate.
async fn connect(address: SocketAddr, certificate: &str) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(address).await.unwrap();
    let name = "localhost".try_into().unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, tcp)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_prober_sees_an_ordinary_404() {
    let mut rig = Rig::start().await;
    for request in [
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /0123456789abcdef0123456789abcdef HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
         Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        "\x16\x03\x01 no HTTP\r\n\r\n",
    ] {
        let answer = timeout(LIMIT, ask(rig.tls, &rig.certificate, request.as_bytes()))
            .await
            .unwrap();
        assert!(answer.starts_with("HTTP/1.1 404 Not Found\r\n"), "{answer}");
        assert!(!answer.to_lowercase().contains("longhaul"), "{answer}");
    }
    // The port still works.
    let (agent, gateway) = rig.pair(only(rig.tls)).await;
    transfer(&gateway, &agent).await;
}
