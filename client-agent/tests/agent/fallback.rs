//! Tests of the direct fallback.
use std::time::Duration;

use crate::support::{TestAgent, TestGateway, origin::origin};
use longhaul_agent::{config::Fallback, gateway::GatewayState};
use tokio::net::{TcpListener, UdpSocket};

const SOON: Fallback = Fallback::After(Duration::from_millis(200));

/// Binds a socket that receives and never answers, like a gateway that is down or behind a firewall.
async fn silence() -> (UdpSocket, String) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

#[tokio::test]
async fn requests_and_tunnels_go_direct_if_the_gateway_is_silent() {
    let (_silent, gateway) = silence().await;
    let origin = origin().await;
    let agent = TestAgent::start(&gateway, SOON).await;
    let reply = agent.get(&format!("http://{origin}/page?x=1")).await;
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (200, "GET /page?x=1 HTTP/1.1")
    );
    let mut client = agent.connect().await;
    client
        .send(format!(
            "POST http://{origin}/form HTTP/1.1\r\nhost: a\r\naccept-language: en\r\ncontent-length: 3\r\n\r\nabc"
        ))
        .await
        .unwrap();
    assert_eq!(client.response().await.unwrap().text(), "POST /form HTTP/1.1");
    let mut client = agent.connect().await;
    client
        .send(format!(
            "CONNECT {origin} HTTP/1.1\r\nhost: a\r\naccept-language: en\r\n\r\nGET /in-tunnel HTTP/1.1\r\n\r\n"
        ))
        .await
        .unwrap();
    assert_eq!(client.head().await.unwrap().status, 200);
    assert_eq!(client.response().await.unwrap().text(), "GET /in-tunnel HTTP/1.1");
    let status = agent.status();
    assert_eq!((status.direct_requests, status.failures), (3, 0));
    assert!(status.direct_in_use);
}

#[tokio::test]
async fn origin_failures_are_distinguished_from_gateway_failures() {
    let (_silent, gateway) = silence().await;
    let closed = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let agent = TestAgent::start(&gateway, SOON).await;
    let reply = agent.get(&format!("http://{closed}/")).await;
    assert_eq!(reply.status, 502);
    assert!(
        reply.text().contains("The website refuses connections"),
        "{}",
        reply.text()
    );
}

#[tokio::test]
async fn the_gateway_is_used_again_when_it_answers() {
    let gateway = TestGateway::start();
    let agent = TestAgent::start(&gateway.address(), SOON).await;
    agent.reach(GatewayState::Open).await;
    assert_eq!(agent.get("http://site.test/page").await.text(), "this is page");
    assert_eq!(agent.status().direct_requests, 0);
    assert!(!agent.status().direct_in_use);
}
