//! Sessions over the carrier `quic`.
use std::{net::SocketAddr, sync::atomic::Ordering::Relaxed, time::Duration};

use longhaul_driver::{CarrierPlan, LinkCarriers, ReturnTimes, Session};
use tokio::{
    net::{TcpListener, UdpSocket},
    time::timeout,
};

use crate::rig::{LIMIT, Rig, UdpRelay, here, quic, tls, transfer};

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

#[tokio::test]
async fn the_connection_survives_another_port_of_the_agent() {
    let mut rig = Rig::start().await;
    let relay = UdpRelay::start(rig.quic).await;
    relay.open.store(true, Relaxed);
    let (agent, gateway) = rig.pair(only(relay.address)).await;
    for _ in 0..3 {
        transfer(&gateway, &agent).await;
        relay.rebinds.store(true, Relaxed);
        transfer(&agent, &gateway).await;
    }
    assert!(!relay.rebinds.load(Relaxed));
    assert_eq!(agent.stats().stalls, 0);
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
    let relay = UdpRelay::start(rig.quic).await;
    relay.open.store(true, Relaxed);
    let udp = UdpRelay::start(rig.listener.local_addr()).await;
    rig.remote = udp.address;
    let carriers = LinkCarriers::new(quic(relay.address)).then(tls(rig.tls));
    let (agent, gateway) = rig.pair(CarrierPlan::UdpAnd(carriers, soon())).await;
    assert_eq!(carrier(&agent), "quic");
    transfer(&gateway, &agent).await;
    relay.open.store(false, Relaxed);
    transfer_until(&agent, &gateway, "tls").await;
    udp.open.store(true, Relaxed);
    transfer_until(&agent, &gateway, "udp").await;
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
