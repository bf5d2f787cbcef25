//! Tests of SOCKS 5.
use longhaul_agent::{
    listener::{Access, Passwords},
    socks::VERSION,
};
use longhaul_raw_client::RawClient;
use tokio::io::AsyncWriteExt as _;

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
        (&request(3, "echo.test", 22), 7),
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
