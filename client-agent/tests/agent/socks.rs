//! Tests of SOCKS 5.
use std::net::{Ipv4Addr, SocketAddr};

use longhaul_agent::{
    listener::{Access, Passwords},
    socks::VERSION,
};
use longhaul_raw_client::RawClient;
use tokio::{io::AsyncWriteExt as _, net::UdpSocket};

use crate::support::{TestAgent, pair};

/// A greeting that offers no authentication, and one that offers a password, too.
const NOTHING: [u8; 3] = [VERSION, 1, 0];
const ANY: [u8; 4] = [VERSION, 2, 0, 2];
const SUCCEEDED: u8 = 0;
const NOT_AUTHENTICATED: u8 = 0xff;

fn request(command: u8, host: &str, port: u16) -> Vec<u8> {
    let length = u8::try_from(host.len()).unwrap();
    let head = [VERSION, command, 0, 3, length];
    [&head[..], host.as_bytes(), &port.to_be_bytes()].concat()
}

/// Returns the connection and the code of the reply.
async fn connect(agent: &TestAgent, request: &[u8]) -> (RawClient, u8) {
    let mut client = agent.connect().await;
    client.send(NOTHING).await.unwrap();
    assert_eq!(client.read_exact(2).await.unwrap(), [VERSION, 0]);
    client.send(request).await.unwrap();
    let reply = client.read_exact(10).await.unwrap();
    assert_eq!((reply[0], &reply[2..]), (VERSION, &[0, 1, 0, 0, 0, 0, 0, 0][..]));
    (client, reply[1])
}

#[tokio::test]
async fn a_tunnel_passes_bytes_and_ends_in_both_directions() {
    let (_gateway, agent) = pair().await;
    // The second time the host is known to be reachable, so that the agent replies before the gateway does.
    for _ in 0..2 {
        let (mut client, code) = connect(&agent, &request(1, "echo.test", 22)).await;
        assert_eq!(code, SUCCEEDED);
        client.send("hello").await.unwrap();
        assert_eq!(client.read_exact(5).await.unwrap(), b"hello");
        let (reader, writer) = client.halves();
        writer.shutdown().await.unwrap();
        let mut rest = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(reader, &mut rest)
            .await
            .unwrap();
        assert_eq!(rest, b"");
    }
    assert_eq!(agent.status().tunnels, 2);
    assert_eq!(agent.status().failures, 0);
}

#[tokio::test]
async fn a_client_may_send_everything_at_once() {
    let (_gateway, agent) = pair().await;
    for _ in 0..2 {
        let mut client = agent.connect().await;
        let all = [&NOTHING[..], &request(1, "echo.test", 22), b"SSH-2.0-x\r\n"].concat();
        client.send(all).await.unwrap();
        assert_eq!(client.read_exact(2).await.unwrap(), [VERSION, 0]);
        assert_eq!(client.read_exact(10).await.unwrap()[1], SUCCEEDED);
        assert_eq!(client.read_exact(11).await.unwrap(), b"SSH-2.0-x\r\n");
    }
}

#[tokio::test]
async fn a_client_may_send_single_bytes() {
    let (_gateway, agent) = pair().await;
    let mut client = agent.connect().await;
    for byte in NOTHING {
        client.send([byte]).await.unwrap();
    }
    assert_eq!(client.read_exact(2).await.unwrap(), [VERSION, 0]);
    for byte in request(1, "speaks-first.test", 25) {
        client.send([byte]).await.unwrap();
    }
    assert_eq!(client.read_exact(10).await.unwrap()[1], SUCCEEDED);
    assert_eq!(client.read_exact(11).await.unwrap(), b"220 hello\r\n");
}

#[tokio::test]
async fn what_cannot_be_opened_gets_the_reason() {
    let (_gateway, agent) = pair().await;
    let unknown_kind = [VERSION, 1, 0, 9, 1, 2, 3];
    let cases: [(&[u8], u8); 6] = [
        (&request(1, "refuse.test", 22), 5),
        (&request(1, "not a host", 22), 4),
        (&request(1, "echo.test", 0), 4),
        (&request(2, "echo.test", 22), 7),
        (&request(9, "echo.test", 22), 7),
        (&unknown_kind, 8),
    ];
    for (request, expected) in cases {
        let (mut client, code) = connect(&agent, request).await;
        assert_eq!(code, expected, "{request:?}");
        assert!(client.is_closed().await.unwrap());
    }
    assert_eq!((agent.status().tunnels, agent.status().failures), (0, 6));
}

#[tokio::test]
async fn other_protocols_of_proxies_get_no_tunnel() {
    let (_gateway, agent) = pair().await;
    // SOCKS 4 is answered like any other request that is not HTTP.
    let mut client = agent.connect().await;
    client.send([4, 1, 0, 22, 192, 0, 2, 1, 0]).await.unwrap();
    assert_eq!(client.response().await.unwrap().status, 400);
    let mut client = agent.connect().await;
    client.send([VERSION, 1, 0, 4]).await.unwrap();
    assert_eq!(client.read_exact(2).await.unwrap(), [VERSION, 0]);
    assert!(client.is_closed().await.unwrap());
    assert_eq!(agent.get("http://site.test/page").await.status, 200);
    assert_eq!(agent.status().tunnels, 0);
}

#[tokio::test]
async fn a_password_is_required_where_the_settings_require_it() {
    let (gateway, agent) = pair().await;
    agent.reload(&gateway.address(), |config| {
        config.access = Access::new([], [], Passwords::parse("me:a long password\n").unwrap());
    });
    let authenticate = async |greeting: &[u8], pair: &[u8]| {
        let mut client = agent.connect().await;
        client.send(greeting).await.unwrap();
        let method = client.read_exact(2).await.unwrap()[1];
        if method == NOT_AUTHENTICATED {
            assert!(client.is_closed().await.unwrap());
            return None;
        }
        assert_eq!(method, 2);
        client.send(pair).await.unwrap();
        let answer = client.read_exact(2).await.unwrap();
        assert_eq!(answer[0], 1);
        Some((client, answer[1]))
    };
    let right = b"\x01\x02me\x0fa long password";
    assert!(authenticate(&NOTHING, right).await.is_none());
    let (mut client, code) = authenticate(&ANY, b"\x01\x02me\x0fb long password")
        .await
        .unwrap();
    assert_ne!(code, 0);
    assert!(client.is_closed().await.unwrap());
    let (mut client, code) = authenticate(&ANY, right).await.unwrap();
    assert_eq!(code, 0);
    client.send(request(1, "echo.test", 22)).await.unwrap();
    assert_eq!(client.read_exact(10).await.unwrap()[1], SUCCEEDED);
    client.send("x").await.unwrap();
    assert_eq!(client.read_exact(1).await.unwrap(), b"x");
}

/// Asks for an association; returns the client's connection and the port for its datagrams.
async fn associate(agent: &TestAgent, port: u16) -> (RawClient, SocketAddr) {
    let mut client = agent.connect().await;
    client.send(NOTHING).await.unwrap();
    assert_eq!(client.read_exact(2).await.unwrap(), [VERSION, 0]);
    let announced = [&[VERSION, 3, 0, 1, 0, 0, 0, 0][..], &port.to_be_bytes()].concat();
    client.send(announced).await.unwrap();
    let reply = client.read_exact(10).await.unwrap();
    assert_eq!(&reply[..8], [VERSION, SUCCEEDED, 0, 1, 127, 0, 0, 1]);
    let port = u16::from_be_bytes([reply[8], reply[9]]);
    (client, (Ipv4Addr::LOCALHOST, port).into())
}

async fn udp() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap()
}

async fn received(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 2000];
    let (length, _) = socket.recv_from(&mut buffer).await.unwrap();
    buffer.truncate(length);
    buffer
}

fn named(fragment: u8, payload: &[u8]) -> Vec<u8> {
    [&[0, 0, fragment, 3, 8][..], b"dns.test\x00\x35", payload].concat()
}

fn answered(host: &str, payload: &str) -> Vec<u8> {
    let text = format!("{host} {payload}");
    [&[0, 0, 0, 1, 192, 0, 2, 9, 0, 53][..], text.as_bytes()].concat()
}

#[tokio::test]
async fn datagrams_pass_in_both_directions_and_fragments_do_not() {
    let (_gateway, agent) = pair().await;
    let (_client, relay) = associate(&agent, 0).await;
    let socket = udp().await;
    socket.send_to(&named(0, b"a question"), relay).await.unwrap();
    assert_eq!(
        received(&socket).await,
        answered("Name(\"dns.test\")", "a question")
    );
    for dropped in [
        named(1, b"a part"),
        named(0x82, b"a last part"),
        b"\0\0".to_vec(),
        Vec::new(),
    ] {
        socket.send_to(&dropped, relay).await.unwrap();
    }
    let address = b"\0\0\0\x01\xc0\x00\x02\x01\x00\x35to an address";
    socket.send_to(address, relay).await.unwrap();
    assert_eq!(
        received(&socket).await,
        answered("Address(192.0.2.1)", "to an address")
    );
    assert_eq!((agent.status().tunnels, agent.status().failures), (1, 0));
}

#[tokio::test]
async fn only_the_clients_own_port_is_served() {
    let (_gateway, agent) = pair().await;
    let (socket, other) = (udp().await, udp().await);
    let (_client, relay) = associate(&agent, socket.local_addr().unwrap().port()).await;
    other.send_to(&named(0, b"of another port"), relay).await.unwrap();
    socket.send_to(&named(0, b"mine"), relay).await.unwrap();
    assert_eq!(received(&socket).await, answered("Name(\"dns.test\")", "mine"));
    other.send_to(&named(0, b"of another port"), relay).await.unwrap();
    socket.send_to(&named(0, b"mine again"), relay).await.unwrap();
    assert_eq!(
        received(&socket).await,
        answered("Name(\"dns.test\")", "mine again")
    );
    let error = other.try_recv_from(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn an_association_ends_with_its_connection() {
    let (_gateway, agent) = pair().await;
    let (client, relay) = associate(&agent, 0).await;
    assert!(UdpSocket::bind(relay).await.is_err(), "in use");
    drop(client);
    while UdpSocket::bind(relay).await.is_err() {
        tokio::task::yield_now().await;
    }
}
