//! Where redirected connections with TLS go.
use std::{net::SocketAddr, sync::Arc};

use longhaul_carriers::any_certificate;
use rustls::ClientConnection;
use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::{
    client::unnamed_connections,
    tests::{LOCAL, Proxy, connection},
};

/// The first message of a client that wants to reach this host.
fn wire(host: &str) -> Vec<u8> {
    let config = Arc::new(any_certificate().unwrap());
    let mut client = ClientConnection::new(config, host.to_owned().try_into().unwrap()).unwrap();
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

fn hello_of(host: &str) -> ClientHello {
    ClientHello::parse(&wire(host)).unwrap().unwrap()
}

fn intercepted(proxy: &Proxy, destination: Destination) -> Interception {
    Interception::new(
        destination,
        (LOCAL, unnamed_connections(LOCAL, &proxy.shared.shares)),
    )
}

#[tokio::test(start_paused = true)]
async fn the_first_message_may_arrive_in_parts_and_late() {
    let (mut stream, mut client) = connection().await;
    let mut buffer = BytesMut::new();
    let sending = async {
        for part in wire("a.test").chunks(100) {
            tokio::time::advance(Duration::from_secs(5)).await;
            client.write_all(part).await.unwrap();
        }
    };
    let (read, ()) = tokio::join!(hello(&mut stream, &mut buffer), sending);
    assert_eq!(read.unwrap().unwrap().server_name.as_deref(), Some("a.test"));
    assert!(buffer.len() <= wire("a.test").len());
}

#[tokio::test]
async fn what_is_no_first_message_goes_to_the_destination_as_it_is() {
    for (bytes, ends) in [
        (&b"\x16SSH-2.0-OpenSSH_9\r\n"[..], false),
        (&wire("a.test")[..50], true),
    ] {
        let (mut stream, mut client) = connection().await;
        client.write_all(bytes).await.unwrap();
        if ends {
            client.shutdown().await.unwrap();
        }
        let mut buffer = BytesMut::new();
        assert_eq!(hello(&mut stream, &mut buffer).await.unwrap(), None);
        assert_eq!(buffer, bytes);
    }
}

#[tokio::test]
async fn a_connection_goes_to_the_named_host_only_if_that_is_at_its_destination() {
    let proxy = Proxy::new(|flags| flags);
    let hidden = ClientHello {
        has_encrypted: true,
        ..hello_of("a.test")
    };
    let [here, there] = ["127.0.0.1:443", "127.0.0.9:443"].map(|text| text.parse::<SocketAddr>().unwrap());
    for (to, hello, expected) in [
        (here, Some(hello_of("a.test")), "a.test"),
        (there, Some(hello_of("a.test")), "127.0.0.9"),
        (here, Some(hidden), "127.0.0.1"),
        (here, None, "127.0.0.1"),
    ] {
        let mut interception = intercepted(&proxy, Destination::Elsewhere(to));
        let found = host(&proxy.shared, &mut interception, hello.as_ref()).await;
        assert_eq!(found, Some((expected.to_owned(), 443)), "{to} {hello:?}");
    }
}

#[tokio::test]
async fn the_gateway_itself_relays_only_to_its_boosted_names() {
    let proxy = Proxy::with_names("site.test");
    for (hello, expected) in [
        (Some(hello_of("site.test")), Some(("site.test".to_owned(), 443))),
        (Some(hello_of("other.test")), None),
        (Some(ClientHello::default()), None),
        (None, None),
    ] {
        let mut interception = intercepted(&proxy, Destination::Gateway);
        let found = host(&proxy.shared, &mut interception, hello.as_ref()).await;
        assert_eq!(found, expected);
    }
}
