//! Clients that ask for too much, that read nothing, or that may not use the proxy.
use std::time::Duration;

use http::{Method, Request};
use longhaul_gateway_core::config::settings;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{
    ELSEWHERE,
    access::{credentials, with_clients},
    http2::{body, client, get, send},
    http2_requests::{RawClient, frame, good, headers},
    secure::{start, start_in},
    status,
};
use crate::{
    origin::{full, serve, serve_tcp, text},
    store::{numbered, reply},
};

const LIMIT: Duration = Duration::from_secs(60);
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;

#[tokio::test]
async fn a_client_that_resets_its_streams_again_and_again_is_cut() {
    let secure = start().await;
    let port = serve_tcp(|connection| async move {
        std::future::pending::<()>().await;
        drop(connection);
    })
    .await;
    let host = format!("a.test:{port}");
    let RawClient(stream) = RawClient::new(&secure).await;
    let (mut read, mut write) = tokio::io::split(stream);
    let writing = tokio::spawn(async move {
        for number in 0..50_000_u32 {
            let id = 2 * number + 1;
            let opened = headers(id, &good(&host), END_STREAM);
            let cancelled = frame(RST_STREAM, 0, id, &8_u32.to_be_bytes());
            if write.write_all(&[opened, cancelled].concat()).await.is_err() {
                return id;
            }
        }
        panic!("the proxy accepted all of them");
    });
    let mut all = Vec::new();
    let _reset = timeout(LIMIT, read.read_to_end(&mut all)).await.unwrap();
    drop(read);
    assert!(timeout(LIMIT, writing).await.unwrap().unwrap() < 50_000);
    // Others are served.
    let (url, _) = numbered(&[]).await;
    let response = send(&client(&secure).await, get(&url)).await.unwrap();
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn a_client_that_reads_nothing_holds_up_nobody_else() {
    let secure = start().await;
    let port = serve(|_| async { reply(200, &[("content-type", "image/x")], full(text(1_000_000))) }).await;
    let host = format!("a.test:{port}");
    let RawClient(mut silent) = RawClient::new(&secure).await;
    // Windows that permit everything; then 100 bodies of 1 MB that are never read.
    let most = 0x7fff_ffff_u32.to_be_bytes();
    let settings = frame(SETTINGS, 0, 0, &[&[0, 4], &most[..]].concat());
    let update = frame(WINDOW_UPDATE, 0, 0, &(0x7fff_ffff_u32 - 65_535).to_be_bytes());
    let mut asked = [settings, update].concat();
    for number in 0..100 {
        asked.extend(headers(2 * number + 1, &good(&host), END_STREAM));
    }
    silent.write_all(&asked).await.unwrap();
    let other = client(&secure).await;
    for _ in 0..20 {
        let response = send(&other, get(&format!("http://{host}/"))).await.unwrap();
        assert!(body(response).await.unwrap() == text(1_000_000));
    }
    drop(silent);
}

#[tokio::test]
async fn a_scanner_gets_nothing_relayed_inside_tls() {
    let (touched, mut touches) = tokio::sync::mpsc::unbounded_channel();
    let port = serve_tcp(move |_| {
        let touched = touched.clone();
        async move { touched.send(()).unwrap() }
    })
    .await;
    let (home, _, _) = with_clients(["ann"]);
    let secure = start_in(home, ELSEWHERE, |flags| {
        *flags = std::mem::take(flags).with(&settings::CLIENTLESS_PORTS, &port.to_string());
    })
    .await;
    let client = client(&secure).await;
    let mut statuses = Vec::new();
    let hosts = [
        format!("a.test:{port}"),
        format!("127.0.0.1:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("2130706433:{port}"),
        secure.address.to_string(),
    ];
    for host in &hosts {
        for method in [
            "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "X",
        ] {
            for scheme in ["http", "https"] {
                for fields in [
                    &[][..],
                    &[("x-forwarded-for", "192.0.2.1"), ("forwarded", "for=192.0.2.1")],
                    &[("client-ip", "192.0.2.1"), ("via", "1.1 proxy")],
                    &[("authorization", "Basic YW5uOmE=")],
                ] {
                    let mut request = Request::builder()
                        .method(method)
                        .uri(format!("{scheme}://{host}/"));
                    for (name, value) in fields {
                        request = request.header(*name, *value);
                    }
                    statuses.push(
                        send(&client, request.body(()).unwrap())
                            .await
                            .unwrap()
                            .status()
                            .as_u16(),
                    );
                }
            }
        }
        let tunnel = Request::builder()
            .method(Method::CONNECT)
            .uri(host)
            .body(())
            .unwrap();
        statuses.push(send(&client, tunnel).await.unwrap().status().as_u16());
    }
    assert!(statuses.len() > 300);
    assert!(
        statuses.iter().all(|status| [404, 407].contains(status)),
        "{statuses:?}"
    );
    for line in [
        format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n"),
        format!("CONNECT a.test:{port} HTTP/1.1\r\nHost: a.test:{port}\r\n"),
        format!("GET http://a.test:{port}/ HTTP/1.0\r\n"),
        format!("GET / HTTP/1.1\r\nHost: a.test:{port}\r\n"),
    ] {
        let answer = secure.exchange(&format!("{line}Connection: close\r\n\r\n")).await;
        assert!(
            [404, 407].contains(&status(answer.as_bytes())),
            "{line}: {answer}"
        );
    }
    let wrong = credentials("ann", "x");
    let line =
        format!("CONNECT a.test:{port} HTTP/1.1\r\nHost: a.test:{port}\r\nConnection: close\r\n{wrong}\r\n");
    assert_eq!(status(secure.exchange(&line).await.as_bytes()), 407);
    assert!(touches.try_recv().is_err(), "a request was relayed");
}

#[tokio::test]
async fn a_password_serves_one_request_and_not_the_connection() {
    let (home, _, [password]) = with_clients(["ann"]);
    let secure = start_in(home, ELSEWHERE, |_| {}).await;
    let (url, log) = numbered(&[("cache-control", "private, max-age=600")]).await;
    let client = client(&secure).await;
    let known = credentials("ann", &password);
    let known = known.lines().next().unwrap().split_once(": ").unwrap().1;
    let with = || {
        Request::get(&url)
            .header("proxy-authorization", known)
            .body(())
            .unwrap()
    };
    assert_eq!(send(&client, with()).await.unwrap().status(), 200);
    let refused = send(&client, get(&url)).await.unwrap();
    assert_eq!(refused.status(), 407);
    assert!(refused.headers().contains_key("proxy-authenticate"));
    assert_eq!(log.count(), 1);
    assert!(!log.last().contains_key("proxy-authorization"));
}
