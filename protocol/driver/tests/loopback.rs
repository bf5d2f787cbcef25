//! Two driver tasks on real sockets over loopback.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
};

use bytes::Bytes;
use longhaul_driver::{
    CloseReason, Datagram, DeviceStatus, DialConfig, EarlyData, End, EpochKeys, FirstStream, Incoming,
    LinkState, ListenConfig, ListenError, Listener, OpenOptions, Priority, RecvStream, Refusal, Session,
    StreamError, TransportConfig, dial, listen,
};

use longhaul_types::{PublicKey, SecretKey, UnixTime};

const EPOCH_KEY: [u8; 32] = [5; 32];

fn gateway_secret() -> SecretKey {
    SecretKey::from_bytes([1; 32])
}

fn device_secret() -> SecretKey {
    SecretKey::from_bytes([2; 32])
}

fn epoch() -> EpochKeys {
    EpochKeys {
        epoch: 1,
        key: EPOCH_KEY,
    }
}

fn listening(listen_at: SocketAddr, devices: &[PublicKey]) -> Result<Listener, ListenError> {
    let devices: BTreeMap<_, _> = devices.iter().map(|key| (*key, DeviceStatus::Admitted)).collect();
    listen(ListenConfig {
        listen: listen_at,
        also: Vec::new(),
        secret: gateway_secret(),
        epoch: epoch(),
        reset_secret: [6; 32],
        transport: TransportConfig::gateway(),
        max_sessions: 16,
        devices,
    })
}

fn here() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn dialling(remote: SocketAddr) -> DialConfig {
    let far = UnixTime::new(std::time::Duration::from_secs(4_000_000_000));
    DialConfig {
        gateway_key: gateway_secret().public(),
        remote,
        secret: device_secret(),
        token: Some(epoch().mint(&device_secret().public(), [1; 4], far)),
        profile: None,
        last_stamp: None,
        transport: TransportConfig::agent(None),
    }
}

fn options(early: EarlyData) -> OpenOptions {
    OpenOptions {
        class: Priority::NORMAL,
        early,
        total: None,
    }
}

async fn all(stream: &mut RecvStream) -> Result<Vec<u8>, StreamError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.read().await? {
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

async fn pair() -> (Session, Session, Listener) {
    let mut listener = listening(here(), &[device_secret().public()]).unwrap();
    let (agent, _) = dial(dialling(listener.local_addr()), Vec::new()).unwrap();
    let Incoming { session, device, .. } = listener.accept().await.unwrap();
    assert_eq!(device, device_secret().public());
    (agent, session, listener)
}

#[tokio::test]
async fn both_tasks_answer_liveness_probes() {
    let (agent, session, listener) = pair().await;
    let admission = listener.admission();
    admission.probe_liveness().await;
    agent.probe_liveness().await;
    session.probe_liveness().await;
    listener.shutdown().await;
    // A task that has ended is no hang.
    admission.probe_liveness().await;
    session.probe_liveness().await;
}

#[tokio::test]
async fn early_streams_arrive_and_are_marked() {
    let mut listener = listening(here(), &[device_secret().public()]).unwrap();
    let bytes = Bytes::from_static(b"request");
    let first = FirstStream {
        options: options(EarlyData::Allowed),
        bytes,
        end: End::Finish,
    };
    let (agent, _streams) = dial(dialling(listener.local_addr()), vec![first]).unwrap();
    let Incoming { session, .. } = listener.accept().await.unwrap();
    let mut stream = session.accept().await.unwrap();
    assert!(stream.was_early());
    assert_eq!(all(&mut stream).await.unwrap(), b"request");
    let mut late = agent
        .open(
            options(EarlyData::Forbidden),
            Bytes::from_static(b"more"),
            End::Open,
        )
        .await
        .unwrap();
    late.finish().await.unwrap();
    let mut stream = session.accept().await.unwrap();
    assert!(!stream.was_early());
    assert_eq!(all(&mut stream).await.unwrap(), b"more");
    assert_eq!(agent.exporter(), session.exporter());
    assert!(agent.exporter().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn megabytes_cross_in_both_directions_at_once() {
    let (agent, gateway, _listener) = pair().await;
    let body: Bytes = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
    let send = async |session: Session| {
        let mut stream = session
            .open(options(EarlyData::Forbidden), Bytes::new(), End::Open)
            .await
            .unwrap();
        for piece in body.chunks(50_000) {
            stream.write(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        stream.finish().await.unwrap();
    };
    let receive = async |session: Session| {
        let mut stream = session.accept().await.unwrap();
        assert!(all(&mut stream).await.unwrap() == body, "the bytes changed");
    };
    tokio::join!(
        send(agent.clone()),
        send(gateway.clone()),
        receive(agent.clone()),
        receive(gateway.clone())
    );
    assert!(gateway.stats().bytes_sent > body.len() as u64);
}

#[tokio::test]
async fn cancel_and_stop_reach_the_other_end() {
    let (agent, gateway, _listener) = pair().await;
    let mut cancelled = agent
        .open(options(EarlyData::Forbidden), Bytes::from_static(b"x"), End::Open)
        .await
        .unwrap();
    let mut at_gateway = gateway.accept().await.unwrap();
    assert_eq!(
        at_gateway.read().await.unwrap().unwrap(),
        Bytes::from_static(b"x")
    );
    cancelled.cancel(7);
    assert_eq!(all(&mut at_gateway).await, Err(StreamError::Cancelled(7)));

    let mut unwanted = agent
        .open(options(EarlyData::Forbidden), Bytes::from_static(b"y"), End::Open)
        .await
        .unwrap();
    let mut at_gateway = gateway.accept().await.unwrap();
    at_gateway.stop(9);
    assert_eq!(unwanted.stopped().await, StreamError::Stopped(9));
}

#[tokio::test]
async fn the_sender_learns_of_delivery() {
    let (agent, gateway, _listener) = pair().await;
    let body = Bytes::from(vec![7; 40_000]);
    let mut stream = agent
        .open(options(EarlyData::Forbidden), body, End::Finish)
        .await
        .unwrap();
    let mut incoming = gateway.accept().await.unwrap();
    assert_eq!(all(&mut incoming).await.unwrap().len(), 40_000);
    stream.delivered().await.unwrap();

    let mut unwanted = agent
        .open(options(EarlyData::Forbidden), Bytes::from_static(b"x"), End::Open)
        .await
        .unwrap();
    gateway.accept().await.unwrap().stop(9);
    assert_eq!(unwanted.delivered().await, Err(StreamError::Stopped(9)));
}

#[tokio::test]
async fn a_slow_reader_slows_the_sender() {
    let (agent, gateway, _listener) = pair().await;
    // The first bytes of a stream announce it.
    let first = Bytes::from_static(b"first");
    let mut stream = agent
        .open(options(EarlyData::Forbidden), first, End::Open)
        .await
        .unwrap();
    let mut reader = gateway.accept().await.unwrap();
    let piece = Bytes::from(vec![3; 16 * 1024]);
    let mut accepted = 0usize;
    let writer = async {
        for _ in 0..2_000 {
            stream.write(piece.clone()).await.unwrap();
            accepted += piece.len();
        }
    };
    // 32 MB do not fit into the windows, so the writer must still be waiting after the timeout.
    let waits = tokio::time::timeout(std::time::Duration::from_secs(2), writer)
        .await
        .is_err();
    assert!(waits, "everything was taken although nobody reads");
    drop(stream);
    let read = all(&mut reader).await;
    assert!(matches!(read, Err(StreamError::Cancelled(_))), "{read:?}");
    assert!(accepted > 0);
}

#[tokio::test]
async fn refusals_contain_their_reason() {
    let listener = listening(here(), &[]).unwrap();
    let (agent, _) = dial(dialling(listener.local_addr()), Vec::new()).unwrap();
    assert_eq!(agent.closed().await, CloseReason::Refused(Refusal::UnknownDevice));
    assert!(matches!(*agent.state().borrow(), LinkState::Closed(_)));

    let taken = listening(listener.local_addr(), &[]).unwrap_err();
    assert!(matches!(taken, ListenError::InUse(_)), "{taken}");
    assert!(taken.to_string().contains("taken by another program"));
}

#[tokio::test]
async fn revoking_a_device_ends_its_session() {
    let (agent, _gateway, listener) = pair().await;
    let revoked = BTreeMap::from([(device_secret().public(), DeviceStatus::Revoked)]);
    listener.admission().set_devices(revoked).await;
    let reason = agent.closed().await;
    assert!(
        matches!(reason, CloseReason::PeerClosed { error: 4, .. }),
        "{reason}"
    );
}

#[tokio::test]
async fn shutdown_closes_sessions_as_going_away() {
    let (agent, _gateway, listener) = pair().await;
    listener.shutdown().await;
    let reason = agent.closed().await;
    assert!(
        matches!(reason, CloseReason::PeerClosed { error: 1, .. }),
        "{reason}"
    );
    let lost = agent
        .open(options(EarlyData::Forbidden), Bytes::new(), End::Finish)
        .await;
    assert!(lost.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_session_has_its_exporter() {
    let listener = listening(here(), &[device_secret().public()]).unwrap();
    for _ in 0..20 {
        let (agent, _) = dial(dialling(listener.local_addr()), Vec::new()).unwrap();
        let mut state = agent.state();
        state.wait_for(|state| *state == LinkState::Open).await.unwrap();
        assert!(agent.exporter().is_some());
    }
}

#[tokio::test]
async fn datagrams_go_both_ways_until_the_session_ends() {
    let (agent, gateway, listener) = pair().await;
    let mut state = agent.state();
    state.wait_for(|state| *state == LinkState::Open).await.unwrap();
    let datagram = |number: u8, len: usize| Datagram {
        flow: 3,
        class: Priority::NORMAL,
        bytes: vec![number; len].into(),
    };
    for number in 0..50 {
        let len = agent.max_datagram().unwrap();
        agent.send_datagram(datagram(number, len));
        assert_eq!(gateway.recv_datagram().await.unwrap(), vec![number; len]);
        let len = gateway.max_datagram().unwrap();
        gateway.send_datagram(datagram(number, len));
        assert_eq!(agent.recv_datagram().await.unwrap(), vec![number; len]);
    }
    listener.shutdown().await;
    assert!(agent.recv_datagram().await.is_err());
    assert!(gateway.recv_datagram().await.is_err());
    agent.send_datagram(datagram(0, 10));
}
