//! Kept HTTP/1.1 connections that the origin may be about to close.
use std::time::Duration;

use http::{Method, Request};
use http_body_util::Full;
use longhaul_origin::{ConnectionUse, OriginClient};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::{advance, pause, resume},
};

use crate::rig::{LOCAL, Origin, client_of, get, read_head, text};

/// Origin that answers each request with these fields and without a body.
async fn keeping(fields: &'static str) -> Origin {
    Origin::start(move |_, mut stream| async move {
        while let Some(head) = read_head(&mut stream).await {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
            stream.read_exact(&mut body).await.unwrap();
            let answer = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await
}

async fn send(client: &OriginClient, method: Method, body: &'static [u8]) {
    let request = Request::builder().method(method).uri("http://site.test/");
    let response = client
        .fetch(request.body(Full::from(body)).unwrap(), LOCAL)
        .await
        .unwrap();
    text(response).await.unwrap();
}

/// Moves the clock, which otherwise runs by itself.
async fn pass(time: Duration) {
    pause();
    advance(time).await;
    resume();
}

#[tokio::test]
async fn a_request_that_may_not_be_repeated_takes_no_connection_that_was_idle() {
    static LARGE: [u8; 300 * 1024] = [0; 300 * 1024];
    for (method, body, is_kept) in [
        (Method::GET, &b""[..], true),
        (Method::PUT, b"state", true),
        (Method::DELETE, b"", true),
        (Method::POST, b"pay", false),
        (Method::POST, b"", false),
        (Method::PATCH, b"pay", false),
        (Method::PUT, &LARGE[..], false),
    ] {
        let origin = keeping("").await;
        let client = client_of(origin.address);
        send(&client, Method::GET, b"").await;
        pass(Duration::from_millis(500)).await;
        send(&client, method.clone(), body).await;
        assert_eq!(origin.connections(), 1, "a moment ago: {method}");
        // A connection that carried a body from another site's document serves no other request.
        let origin = keeping("").await;
        let client = client_of(origin.address);
        send(&client, Method::GET, b"").await;
        pass(Duration::from_millis(1500)).await;
        send(&client, method.clone(), body).await;
        assert_eq!(
            origin.connections(),
            if is_kept { 1 } else { 2 },
            "{method} {}",
            body.len()
        );
    }
}

#[tokio::test]
async fn a_login_that_is_bound_to_its_connection_keeps_it() {
    let origin = keeping("Keep-Alive: timeout=5\r\n").await;
    let client = client_of(origin.address).isolated();
    send(&client, Method::POST, b"negotiate").await;
    pass(Duration::from_millis(4500)).await;
    send(&client, Method::POST, b"authenticate").await;
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn the_origins_time_for_idle_connections_is_honoured() {
    for (fields, idle, is_kept) in [
        ("Keep-Alive: timeout=5\r\n", 3900, true),
        ("Keep-Alive: timeout=5\r\n", 4100, false),
        ("keep-alive: max=100, timeout=5\r\n", 4100, false),
        ("Keep-Alive: timeout=1\r\n", 0, false),
        ("Keep-Alive: timeout=300\r\n", 50_000, true),
        ("Keep-Alive: timeout=300\r\n", 61_000, false),
        ("", 50_000, true),
    ] {
        let origin = keeping(fields).await;
        let client = client_of(origin.address);
        send(&client, Method::GET, b"").await;
        pass(Duration::from_millis(idle)).await;
        send(&client, Method::GET, b"").await;
        assert_eq!(
            origin.connections(),
            if is_kept { 1 } else { 2 },
            "{fields} {idle}"
        );
    }
}

#[tokio::test]
async fn a_response_says_whether_its_connection_had_carried_another_one() {
    let origin = keeping("").await;
    let client = client_of(origin.address);
    for (demanded, expected, connections) in [
        (ConnectionUse::Any, ConnectionUse::First, 1),
        (ConnectionUse::Any, ConnectionUse::Any, 1),
        (ConnectionUse::First, ConnectionUse::First, 2),
        (ConnectionUse::First, ConnectionUse::First, 3),
        (ConnectionUse::Any, ConnectionUse::Any, 3),
    ] {
        let mut request = get("http://site.test/");
        request.extensions_mut().insert(demanded);
        let response = client.fetch(request, LOCAL).await.unwrap();
        assert_eq!(response.extensions().get(), Some(&expected));
        text(response).await.unwrap();
        assert_eq!(origin.connections(), connections);
    }
}
