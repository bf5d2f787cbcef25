//! Tests of CONNECT.

use crate::support::{TestAgent, pair};
use longhaul_raw_client::{RawClient, RawResponse};
use tokio::io::AsyncWriteExt;

async fn connect(agent: &TestAgent, target: &str) -> (RawClient, RawResponse) {
    let mut client = agent.connect().await;
    client
        .send(format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n"))
        .await
        .unwrap();
    let head = client.head().await.unwrap();
    (client, head)
}

#[tokio::test]
async fn tunnels_pass_bytes_and_ends_in_both_directions() {
    let (_gateway, agent) = pair().await;
    // The second time the host is known to be reachable, so that the agent responds before the gateway does.
    for _ in 0..2 {
        let (mut client, head) = connect(&agent, "echo.test:443").await;
        assert_eq!(head.status, 200, "{head:?}");
        client.send("hello").await.unwrap();
        assert_eq!(client.read_exact(5).await.unwrap(), b"hello");
        let much = "x".repeat(500_000);
        let (reader, writer) = client.halves();
        let write = async {
            writer.write_all(much.as_bytes()).await.unwrap();
            writer.shutdown().await.unwrap();
        };
        let read = async {
            let mut back = Vec::new();
            tokio::io::AsyncReadExt::read_to_end(reader, &mut back)
                .await
                .unwrap();
            back
        };
        let ((), back) = tokio::join!(write, read);
        assert!(back == much.as_bytes());
    }
    assert_eq!(agent.status().tunnels, 2);
    assert_eq!(agent.status().failures, 0);
}

#[tokio::test]
async fn a_tunnel_passes_bytes_of_a_server_first_protocol() {
    let (_gateway, agent) = pair().await;
    for _ in 0..2 {
        let (mut client, head) = connect(&agent, "speaks-first.test:25").await;
        assert_eq!(head.status, 200, "{head:?}");
        assert_eq!(client.read_exact(11).await.unwrap(), b"220 hello\r\n");
    }
}

#[tokio::test]
async fn a_refused_tunnel_gets_an_explanation() {
    let (_gateway, agent) = pair().await;
    for (target, status) in [("refuse.test:443", 502), ("no-port.test", 400)] {
        let mut client = agent.connect().await;
        client
            .send(format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n"))
            .await
            .unwrap();
        let reply = client.response().await.unwrap();
        assert_eq!(reply.status, status, "{reply:?}");
        assert!(reply.text().contains("Whose fault?"));
    }
    assert_eq!(agent.status().tunnels, 0);
}
