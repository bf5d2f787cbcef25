use longhaul_carriers::any_certificate;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::{
    access::Security,
    tests::{LOCAL, Proxy, connection as accepted},
};

/// A connection that is served, from an address.
async fn served(proxy: &Proxy, address: std::net::IpAddr) -> TcpStream {
    let (stream, client) = accepted().await;
    let security = Security::Plain;
    tokio::spawn(serve(
        Arc::clone(&proxy.shared),
        stream,
        Peer { address, security },
    ));
    client
}

/// What is answered to these bytes, and how the connection ends.
async fn exchange(mut client: TcpStream, bytes: &[u8]) -> (String, bool) {
    // The other end may be gone already.
    let _reset = client.write_all(bytes).await;
    let mut answer = Vec::new();
    let is_clean = client.read_to_end(&mut answer).await.is_ok();
    (String::from_utf8_lossy(&answer).into_owned(), is_clean)
}

fn request(host: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

#[tokio::test]
async fn nobody_is_served_who_connects_to_a_gateway_without_names_or_from_elsewhere() {
    let without = Proxy::new(|flags| flags);
    let straight = served(&without, LOCAL).await;
    assert_eq!(
        exchange(straight, request("site.test").as_bytes()).await,
        (String::new(), false)
    );
    let named = Proxy::with_names("site.test");
    let stranger = served(&named, [192, 0, 2, 1].into()).await;
    assert_eq!(
        exchange(stranger, request("site.test").as_bytes()).await,
        (String::new(), false)
    );
}

#[tokio::test]
async fn the_gateway_fetches_its_boosted_names_and_nothing_else() {
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = origin.local_addr().unwrap().port();
    let answering = tokio::spawn(async move {
        let (mut stream, _) = origin.accept().await.unwrap();
        let mut head = vec![0; 8192];
        let count = stream.read(&mut head).await.unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\nCache-Control: no-store\r\n\r\nthe website")
            .await
            .unwrap();
        String::from_utf8_lossy(&head[..count]).into_owned()
    });
    let proxy = Proxy::with_names("site.test");
    let host = format!("site.test:{port}");
    let (answer, _) = exchange(served(&proxy, LOCAL).await, request(&host).as_bytes()).await;
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("the website"),
        "{answer}"
    );
    let asked = answering.await.unwrap().to_ascii_lowercase();
    assert!(asked.contains(&format!("host: {host}\r\n")), "{asked}");
    let other = request(&format!("other.test:{port}"));
    let (answer, _) = exchange(served(&proxy, LOCAL).await, other.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

#[tokio::test]
async fn tls_to_other_names_than_the_boosted_ones_is_broken_off() {
    let proxy = Proxy::with_names("site.test");
    let client = served(&proxy, LOCAL).await;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(any_certificate().unwrap()));
    let name = "other.test".try_into().unwrap();
    let refused = connector.connect(name, client).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionReset);
    // What is neither HTTP nor TLS has no destination, either.
    let client = served(&proxy, LOCAL).await;
    assert_eq!(
        exchange(client, b"SSH-2.0-OpenSSH_9\r\n").await,
        (String::new(), false)
    );
}

#[test]
fn other_protocols_do_not_wait_for_the_end_of_a_request() {
    for bytes in ["GET / HTTP/1.1\r\n", "G", "M-SEARCH * HTTP/1.1", "\r\nGET /"] {
        assert!(may_be_http(bytes.as_bytes()), "{bytes}");
    }
    for bytes in ["SSH-2.0-OpenSSH_9\r\n", "\0\x01", "{\"a\": 1}", &"A".repeat(40)] {
        assert!(!may_be_http(bytes.as_bytes()), "{bytes}");
    }
}

#[tokio::test]
async fn what_is_not_valid_http_goes_to_its_destination_as_it_is() {
    const BYTES: &[u8] = b"HELO b.test\r\n\r\nwhat follows";
    let host = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let destination = Destination::Elsewhere(host.local_addr().unwrap());
    let proxy = Proxy::new(|flags| {
        flags.with(
            &longhaul_gateway_core::config::settings::GUARD_ALLOW,
            "127.0.0.0/8",
        )
    });
    let (stream, client) = accepted().await;
    let owner = unnamed_connections(LOCAL, &proxy.shared.shares);
    let arriving = Arriving {
        buffer: BytesMut::new(),
        interception: Some(Interception::new(destination, (LOCAL, owner))),
    };
    let peer = Peer {
        address: LOCAL,
        security: Security::Plain,
    };
    tokio::spawn(connection::serve(
        Arc::clone(&proxy.shared),
        (stream, arriving),
        peer,
    ));
    let answering = tokio::spawn(async move {
        let (mut stream, _) = host.accept().await.unwrap();
        let mut bytes = vec![0; BYTES.len()];
        stream.read_exact(&mut bytes).await.unwrap();
        stream.write_all(b"220 a.test").await.unwrap();
        bytes
    });
    let answer = exchange(client, BYTES).await;
    assert_eq!(answer.0, "220 a.test");
    assert_eq!(answering.await.unwrap(), BYTES);
}
