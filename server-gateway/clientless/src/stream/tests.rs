//! The pace of connections, and their ends.
use std::time::Duration;

use futures_util::FutureExt as _;
use longhaul_carriers::any_certificate;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::Instant,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client};

use super::{
    super::{
        pace::Paces,
        tests::{LOCAL, connection},
    },
    *,
};

/// A connection of a slow link, which carries a packet in 0.3 s and makes up for 0.2 s.
async fn paced(paces: &Paces) -> (PacedStream, TcpStream) {
    let (mut stream, client) = connection().await;
    let pace = paces.of(LOCAL, stream.link(), Some("gprs-3+1".parse().unwrap()));
    assert!(pace.is_some());
    stream.set_pace(pace);
    (stream, client)
}

/// Writes as much as the system takes while the client reads nothing.
fn fill(stream: &mut (impl AsyncWrite + Unpin)) {
    while let Some(written) = stream.write(&[7; 16 * 1024]).now_or_never() {
        assert!(written.unwrap() > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn small_writes_take_only_the_time_of_their_bytes() {
    let (mut stream, mut client) = paced(&Paces::default()).await;
    let start = Instant::now();
    for _ in 0..100 {
        stream.write_all(&[7; 100]).await.unwrap();
    }
    // 4,800 bytes a second, of which headers take 3 %.
    let elapsed = start.elapsed();
    let expected = Duration::from_millis(1800)..Duration::from_millis(2300);
    assert!(expected.contains(&elapsed), "{elapsed:?}");
    client.read_exact(&mut [0; 10_000]).await.unwrap();
    // Without a pace, everything is written at once.
    stream.set_pace(None);
    let start = Instant::now();
    stream.write_all(&[7; 10_000]).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn what_a_connection_does_not_write_is_left_to_the_others() {
    let paces = Paces::default();
    let start = Instant::now();
    let mut connections = Vec::new();
    for _ in 0..10 {
        let (mut stream, client) = paced(&paces).await;
        stream.write_all(&[7; 100]).await.unwrap();
        connections.push((stream, client));
    }
    // Ten packets would take three seconds.
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_gives_its_turn_back() {
    let paces = Paces::default();
    let start = Instant::now();
    let mut clients = Vec::new();
    for _ in 0..10 {
        let (mut stream, client) = connection().await;
        fill(&mut stream);
        let pace = paces.of(LOCAL, stream.link(), Some("gprs-3+1".parse().unwrap()));
        stream.set_pace(pace);
        // It may write now, and the client takes nothing.
        let until_turn = std::future::poll_fn(|cx| stream.poll_permitted(cx).map(drop));
        until_turn.await;
        assert!(stream.write(&[7; 1000]).now_or_never().is_none());
        clients.push(client);
    }
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

/// A connection with TLS, and its client.
async fn secured() -> (SecuredStream, client::TlsStream<TcpStream>) {
    let made = rcgen::generate_simple_self_signed(vec!["gw.test".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let (stream, client) = connection().await;
    let accept = TlsAcceptor::from(Arc::new(config));
    let connect = TlsConnector::from(Arc::new(any_certificate().unwrap()));
    let name = "gw.test".try_into().unwrap();
    let (accepted, connected) = tokio::join!(accept.accept(stream), connect.connect(name, client));
    (Box::new(accepted.unwrap()), connected.unwrap())
}

#[tokio::test]
async fn a_connection_is_broken_off_with_and_without_tls() {
    let (stream, mut client) = connection().await;
    ClientStream::break_off(&stream);
    drop(stream);
    let read = client.read(&mut [0; 8]).await;
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    let (stream, mut client) = secured().await;
    ClientStream::break_off(&stream);
    drop(stream);
    let read = client.read(&mut [0; 8]).await;
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn what_the_client_has_not_read_is_pending_with_and_without_tls() {
    let (mut stream, _client) = connection().await;
    let (mut secured, _other) = secured().await;
    if longhaul_tcp_info::tcp_info(&*stream.tcp()).is_err() {
        return println!("SKIPPED: the system does not tell what a client has acknowledged");
    }
    fill(&mut stream);
    fill(&mut secured);
    for pending in [ClientStream::pending(&stream), ClientStream::pending(&secured)] {
        assert!(pending > 1000, "{pending}");
    }
}

#[tokio::test]
async fn what_a_connection_writes_has_the_urgency_of_its_link() {
    let (stream, _client) = connection().await;
    assert!(Arc::ptr_eq(
        &ClientStream::urgency(&stream),
        &stream.link().urgency
    ));
    let (secured, _client) = secured().await;
    let link = Arc::clone(secured.get_ref().0.link());
    assert!(Arc::ptr_eq(&ClientStream::urgency(&secured), &link.urgency));
}
