//! How connections and tunnels end.
use futures_util::FutureExt as _;
use tokio::{
    io::duplex,
    net::{TcpListener, TcpStream},
};

use super::{
    super::{
        access::Peer,
        tests::{LOCAL, Proxy, connection},
    },
    *,
};
use crate::stream::PacedStream;

/// Reads to the end; returns the number of bytes, and how the connection ended.
async fn read_to_end(client: &mut TcpStream) -> (usize, Result<(), io::ErrorKind>) {
    let mut bytes = Vec::new();
    let end = client.read_to_end(&mut bytes).await;
    (bytes.len(), end.map(drop).map_err(|error| error.kind()))
}

/// Writes as much as the system takes while the client reads nothing.
fn fill(stream: &mut PacedStream) {
    while let Some(written) = stream.write(&[7; READ]).now_or_never() {
        assert!(written.unwrap() > 0);
    }
}

#[tokio::test]
async fn a_connection_that_is_broken_off_is_not_taken_for_a_complete_one() {
    let (stream, mut client) = connection().await;
    break_off(stream);
    assert_eq!(
        read_to_end(&mut client).await,
        (0, Err(io::ErrorKind::ConnectionReset))
    );
}

#[tokio::test]
async fn the_client_has_what_was_written_before_the_connection_is_broken_off() {
    const LENGTH: usize = 300_000;
    let (mut stream, mut client) = connection().await;
    let ending = tokio::spawn(async move {
        stream.write_all(&[7; LENGTH]).await.unwrap();
        break_off_behind(stream).await;
    });
    let mut bytes = vec![0; LENGTH];
    client.read_exact(&mut bytes).await.unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
    assert_eq!(
        read_to_end(&mut client).await,
        (0, Err(io::ErrorKind::ConnectionReset))
    );
    ending.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_more_is_waited_for_10_seconds() {
    let (mut stream, mut client) = connection().await;
    fill(&mut stream);
    if stream.pending() == 0 {
        return println!("SKIPPED: the system does not tell what a client has acknowledged");
    }
    let link = std::sync::Arc::clone(stream.link());
    let pending = || {
        let told = longhaul_tcp_info::tcp_info(&*link.tcp()).unwrap();
        told.unsent_bytes + told.flight_bytes
    };
    let start = Instant::now();
    let reading = async {
        // The client reads until it has acknowledged something. After that it reads nothing for a long time.
        let _passed = timeout(STUCK * 4 / 5, std::future::pending::<()>()).await;
        let before = pending();
        while pending() == before {
            client.read_exact(&mut [0; 4096]).await.unwrap();
        }
    };
    let ending = timeout(10 * STUCK, break_off_behind(stream));
    let (ended, ()) = tokio::join!(ending, reading);
    ended.unwrap();
    assert!(start.elapsed() >= STUCK * 9 / 5, "{:?}", start.elapsed());
    drop(link);
    let (_, end) = read_to_end(&mut client).await;
    assert_eq!(end, Err(io::ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn a_client_that_is_still_sending_reads_the_last_response() {
    let (mut stream, mut client) = connection().await;
    client.write_all(&[7; 4 * READ]).await.unwrap();
    stream.write_all(b"the last response").await.unwrap();
    let ending = tokio::spawn(close(stream));
    assert_eq!(read_to_end(&mut client).await, (17, Ok(())));
    // Nothing that it sent was left unread, which would have reset the connection.
    assert_eq!(client.take_error().unwrap().map(|error| error.kind()), None);
    drop(client);
    ending.await.unwrap();
}

#[tokio::test]
async fn a_receiver_that_is_gone_ends_one_direction_and_counts_nothing() {
    let (mut from, mut source) = duplex(64);
    source.write_all(b"more").await.unwrap();
    let (mut to, receiver) = duplex(64);
    drop(receiver);
    let (mut counted, activity) = (0, Activity::begin());
    let relayed = relay(
        (Bytes::from_static(b"first"), &mut from),
        &mut to,
        &activity,
        |count| {
            counted += count;
            Ok(())
        },
    );
    relayed.await.unwrap();
    assert_eq!(counted, 0);
    // Not read: the other direction goes on.
    let mut rest = [0; 4];
    from.read_exact(&mut rest).await.unwrap();
    assert_eq!(&rest, b"more");
}

#[tokio::test]
async fn a_direction_ends_with_its_source_and_counts_what_it_carried() {
    let (mut from, mut source) = duplex(64);
    let (mut to, mut receiver) = duplex(64);
    source.write_all(b" and more").await.unwrap();
    drop(source);
    let (mut counted, activity) = (0, Activity::begin());
    let relayed = relay(
        (Bytes::from_static(b"first"), &mut from),
        &mut to,
        &activity,
        |count| {
            counted += count;
            Ok(())
        },
    );
    relayed.await.unwrap();
    let mut text = String::new();
    receiver.read_to_string(&mut text).await.unwrap();
    assert_eq!((text.as_str(), counted), ("first and more", 14));
}

#[tokio::test]
async fn the_tunnel_of_a_client_that_is_removed_ends_abruptly_at_once() {
    let proxy = Proxy::new(|flags| flags);
    let fields = proxy.add_client("ann");
    let state = proxy.connection(LOCAL);
    let looking = tokio::spawn({
        let shared = std::sync::Arc::clone(&proxy.shared);
        async move { shared.access.look(&shared.gateway.quotas).await }
    });
    let peer: Peer = state.peer;
    let mut clients = proxy.shared.access.clients();
    clients.wait_for(|list| !list.is_empty()).await.unwrap();
    let admitted = proxy.shared.access.admit(peer, &fields).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let request = TunnelRequest {
        client: state.client(&admitted, &mut http::HeaderMap::new()),
        admitted,
        host: "host.test".to_owned(),
        port: listener.local_addr().unwrap().port(),
        kind: TunnelKind::Asked,
    };
    let (stream, mut client) = connection().await;
    let tunnel = tokio::spawn(async move { serve(&state, request, stream, Bytes::new()).await });
    // The host sends more than the client has read.
    let (mut host, _) = listener.accept().await.unwrap();
    let mut opened = [0; OPENED.len()];
    client.read_exact(&mut opened).await.unwrap();
    assert_eq!(opened, OPENED);
    let sending = tokio::spawn(async move { while host.write_all(&[7; READ]).await.is_ok() {} });
    client.readable().await.unwrap();
    proxy.remove_client("ann");
    tunnel.await.unwrap();
    let (_, end) = read_to_end(&mut client).await;
    assert_eq!(end, Err(io::ErrorKind::ConnectionReset));
    sending.await.unwrap();
    looking.abort();
}
