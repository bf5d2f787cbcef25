//! Time limits, on virtual time: while nothing happens, the clock goes to the next deadline.
use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use h2::Reason;
use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use longhaul_gateway_core::config::settings;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::{Instant, interval, pause, resume},
};

use super::{
    ELSEWHERE, LOCAL,
    access::with_clients,
    http2::{body, client_with, get, send},
    http2_requests::{RawClient, good, headers},
    secure, start_in, status,
};
use crate::{
    origin::{full, serve, text},
    store::{numbered, reply},
};

/// The default of `clientless.idle-timeout`.
const IDLE: Duration = Duration::from_secs(600);
/// The limits of heads and handshakes.
const BEGINNING: Duration = Duration::from_secs(60);
const END_STREAM: u8 = 1;

/// Time from `start`, before the limit began, until a connection ends; on virtual time from now on.
async fn until_end(start: Instant, connection: &mut (impl AsyncRead + Unpin)) -> Duration {
    pause();
    let mut rest = Vec::new();
    let _reset = connection.read_to_end(&mut rest).await;
    start.elapsed()
}

/// Asserts that a time is at least the limit, and not much longer.
fn assert_limit(time: Duration, limit: Duration) {
    assert!(
        time >= limit && time < limit + Duration::from_secs(30),
        "{time:?}"
    );
}

#[tokio::test]
async fn a_head_that_does_not_end_ends_the_connection() {
    let (_gateway, proxy) = super::start().await;
    let start = Instant::now();
    let mut connection = TcpStream::connect(proxy).await.unwrap();
    connection
        .write_all(b"GET http://a.test/ HTTP/1.1\r\nHost:")
        .await
        .unwrap();
    assert_limit(until_end(start, &mut connection).await, BEGINNING);
}

#[tokio::test]
async fn an_idle_connection_ends() {
    let (_gateway, proxy) = super::start().await;
    let (url, _) = numbered(&[]).await;
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    let start = Instant::now();
    let mut connection = TcpStream::connect(proxy).await.unwrap();
    let request = format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 8];
    connection.read_exact(&mut answer).await.unwrap();
    assert_limit(until_end(start, &mut connection).await, IDLE);
}

#[tokio::test]
async fn a_connection_without_an_admitted_request_ends_early() {
    let (home, _, [_]) = with_clients(["ann"]);
    let (_gateway, proxy) = start_in(home, ELSEWHERE, |_| {}).await;
    let start = Instant::now();
    let mut silent = TcpStream::connect(proxy).await.unwrap();
    assert_limit(until_end(start, &mut silent).await, BEGINNING);
}

#[tokio::test]
async fn a_connection_whose_requests_are_never_admitted_ends_early() {
    let (home, _, [_]) = with_clients(["ann"]);
    let (_gateway, proxy) = start_in(home, LOCAL, |flags| {
        *flags = std::mem::take(flags).with(&settings::CLIENTLESS_PASSWORDS, "required");
    })
    .await;
    for request in [
        "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET /proxy.pac HTTP/1.1\r\nHost: a.test\r\n\r\n",
    ] {
        let start = Instant::now();
        let mut connection = TcpStream::connect(proxy).await.unwrap();
        pause();
        let mut answer = [0; 8192];
        let mut turns = interval(BEGINNING / 4);
        turns.tick().await;
        while connection.write_all(request.as_bytes()).await.is_ok()
            && matches!(connection.read(&mut answer).await, Ok(1..))
            && start.elapsed() < IDLE
        {
            turns.tick().await;
        }
        assert_limit(start.elapsed(), BEGINNING);
        resume();
    }
}

#[tokio::test]
async fn a_redirected_connection_that_sends_nothing_ends_early() {
    let (gateway, _) = start_in(tempfile::tempdir().unwrap(), LOCAL, |flags| {
        *flags = std::mem::take(flags)
            .with(&settings::CLIENTLESS_TRANSPARENT, "127.0.0.1:0")
            .with(&settings::DNS_LISTEN, "127.0.0.1:0")
            .with(&settings::DNS_NAMES, "boosted.test");
    })
    .await;
    let start = Instant::now();
    let mut silent = TcpStream::connect(gateway.transparent[0]).await.unwrap();
    assert_limit(until_end(start, &mut silent).await, BEGINNING);
}

#[tokio::test]
async fn a_connection_with_http2_that_only_sends_pings_ends_early() {
    let secure = secure::start().await;
    let start = Instant::now();
    let mut client = RawClient::new(&secure).await;
    let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    client.0.write_all(&ping).await.unwrap();
    assert_limit(until_end(start, &mut client.0).await, BEGINNING);
}

#[tokio::test]
async fn a_handshake_and_a_preface_that_do_not_come_end_the_connection() {
    let secure = secure::start().await;
    let start = Instant::now();
    let mut silent = TcpStream::connect(secure.address).await.unwrap();
    let mut without_preface = secure.connect(&[b"h2"]).await;
    assert_limit(until_end(start, &mut silent).await, BEGINNING);
    // Both began at the same time.
    let mut rest = Vec::new();
    let _reset = without_preface.read_to_end(&mut rest).await;
}

#[tokio::test]
async fn an_idle_connection_with_http2_ends() {
    let secure = secure::start().await;
    let (url, _) = numbered(&[]).await;
    let host = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let start = Instant::now();
    let mut client = RawClient::new(&secure).await;
    client.fate(&headers(1, &good(&host), END_STREAM), 1).await;
    assert_limit(until_end(start, &mut client.0).await, IDLE);
}

#[tokio::test]
async fn a_body_that_a_client_does_not_accept_is_reset() {
    let secure = secure::start().await;
    let port = serve(|_| async { reply(200, &[("content-type", "image/x")], full(text(1000))) }).await;
    let url = format!("http://a.test:{port}/");
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(0);
    let client = client_with(&secure, builder).await;
    let start = Instant::now();
    let response = send(&client, get(&url)).await.unwrap();
    pause();
    let ended = body(response).await;
    assert_eq!(ended.unwrap_err().reason(), Some(Reason::CANCEL));
    assert_limit(start.elapsed(), IDLE);
}

/// Time between two reads of a body, and time for a body of a few bytes.
const BODY_SILENCE: Duration = Duration::from_secs(120);
const BODY_TIME: Duration = Duration::from_secs(300);

/// An origin that reads a body to its end before it answers; returns its host, and a message for each request.
async fn reading_origin() -> (String, UnboundedReceiver<()>) {
    let (begun, begins) = unbounded_channel();
    let port = serve(move |request: Request<Incoming>| {
        begun.send(()).unwrap();
        async move {
            let _broken_off = request.into_body().collect().await;
            reply(200, &[], full("read"))
        }
    })
    .await;
    (format!("a.test:{port}"), begins)
}

/// Begins an upload on a new connection, once virtual time has begun.
async fn upload(proxy: SocketAddr) -> (Instant, TcpStream) {
    let (host, mut begins) = reading_origin().await;
    let start = Instant::now();
    let mut connection = TcpStream::connect(proxy).await.unwrap();
    let head = format!("POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n\r\n");
    connection.write_all(head.as_bytes()).await.unwrap();
    begins.recv().await.unwrap();
    pause();
    (start, connection)
}

#[tokio::test]
async fn a_body_that_stops_is_answered_with_408() {
    let (_gateway, proxy) = super::start().await;
    let (start, mut connection) = upload(proxy).await;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.unwrap();
    assert_eq!(status(&answer), 408);
    assert_limit(start.elapsed(), BODY_SILENCE);
}

#[tokio::test]
async fn a_body_that_trickles_is_answered_with_408() {
    let (_gateway, proxy) = super::start().await;
    let (start, mut connection) = upload(proxy).await;
    let mut turns = interval(Duration::from_secs(100));
    let mut answer = Vec::new();
    loop {
        tokio::select! {
            read = connection.read_buf(&mut answer) => if read.unwrap() == 0 { break },
            _ = turns.tick() => connection.write_all(b"x").await.unwrap(),
        }
    }
    assert_eq!(status(&answer), 408);
    assert_limit(start.elapsed(), BODY_TIME);
}

#[tokio::test]
async fn a_body_that_stops_with_http2_is_answered_with_408() {
    let secure = secure::start().await;
    let (host, mut begins) = reading_origin().await;
    let client = client_with(&secure, h2::client::Builder::new()).await;
    let start = Instant::now();
    let request = Request::post(format!("http://{host}/")).body(()).unwrap();
    let (response, mut sending) = client.clone().send_request(request, false).unwrap();
    sending.send_data(Bytes::from_static(b"x"), false).unwrap();
    begins.recv().await.unwrap();
    pause();
    assert_eq!(response.await.unwrap().status(), 408);
    assert_limit(start.elapsed(), BODY_SILENCE);
}
