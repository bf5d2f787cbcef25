//! Requests, bodies and tunnels.
use std::io::Read as _;

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use longhaul_gateway_core::config::settings;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};

use super::{exchange, exchange_text, get, parts, start, start_with, status, unchunked};
use crate::{
    origin::{full, serve, serve_raw, serve_tcp, text},
    store::{Log, numbered, reply},
};

#[tokio::test]
async fn a_client_gets_pages_and_the_cache_answers_again() {
    let (_gateway, proxy) = start().await;
    let (url, log) = numbered(&[
        ("cache-control", "public, max-age=600"),
        ("content-type", "text/html"),
    ])
    .await;
    let secret = "Proxy-Connection: keep-alive\r\nX-Longhaul-Level: low\r\nConnection: X-Hop\r\nX-Hop: 1\r\n";
    for _ in 0..2 {
        let answer = exchange(proxy, get(&url, secret).as_bytes()).await;
        assert_eq!(status(&answer), 200);
        let (head, body) = parts(&answer);
        assert_eq!(body, b"answer 1");
        assert!(head.contains("via: 1.1 longhaul\r\n"), "{head}");
        assert!(head.contains("connection: close\r\n"), "{head}");
    }
    assert_eq!(log.count(), 1);
    let seen = log.last();
    for name in [
        "proxy-connection",
        "x-longhaul-level",
        "x-hop",
        "proxy-authorization",
        "x-forwarded-for",
    ] {
        assert!(!seen.contains_key(name), "{name}");
    }
    assert_eq!(seen["via"], "1.1 longhaul");
}

#[tokio::test]
async fn characters_that_no_url_contains_reach_the_origin_encoded() {
    let (_gateway, proxy) = start().await;
    let port = serve(|request: Request<Incoming>| {
        let target = request.uri().to_string();
        async move { reply(200, &[], full(target)) }
    })
    .await;
    for (target, expected) in [
        ("a b/<c>`?d  e=\"f\"`", "a%20b/%3Cc%3E%60?d%20%20e=%22f%22`"),
        ("caf\u{e9} HTTP", "caf%C3%A9%20HTTP"),
        ("{\"a\"}|^", "{\"a\"}|^"),
    ] {
        let answer = exchange_text(proxy, &get(&format!("http://a.test:{port}/{target}"), "")).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.ends_with(&format!("/{expected}")), "{answer}");
    }
}

#[tokio::test]
async fn a_connection_of_hyper_carries_many_requests_with_bodies() {
    let (_gateway, proxy) = start().await;
    let log = Log::default();
    let counted = log.clone();
    let port = serve(move |request: Request<Incoming>| {
        let _number = counted.add(request.headers());
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            reply(200, &[("content-type", "application/octet-stream")], full(body))
        }
    })
    .await;
    let connection = TcpStream::connect(proxy).await.unwrap();
    let (mut client, task) = http1::handshake(TokioIo::new(connection)).await.unwrap();
    tokio::spawn(task);
    for length in [0, 1, 70_000, 3_000_000] {
        let sent = text(length);
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://a.test:{port}/"))
            .header(header::HOST, format!("a.test:{port}"))
            .body(Full::new(Bytes::from(sent.clone())))
            .unwrap();
        client.ready().await.unwrap();
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(body == sent, "{length}");
        assert_eq!(log.last()["content-length"], length.to_string());
    }
    assert_eq!(log.count(), 4);
}

#[tokio::test]
async fn chunked_bodies_and_expectations_reach_the_origin() {
    let (_gateway, proxy) = start().await;
    let port = serve(|request: Request<Incoming>| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        reply(200, &[], full(body))
    })
    .await;
    let mut connection = TcpStream::connect(proxy).await.unwrap();
    let head = format!(
        "PUT http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut expected = [0; 25];
    connection.read_exact(&mut expected).await.unwrap();
    assert_eq!(&expected, b"HTTP/1.1 100 Continue\r\n\r\n");
    connection
        .write_all(b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.unwrap();
    assert_eq!(parts(&answer).1, b"hello!");
}

#[tokio::test]
async fn text_is_compressed_as_the_client_accepts() {
    let (_gateway, proxy) = start().await;
    let page = text(200_000);
    let served = page.clone();
    let port = serve(move |_| {
        let served = served.clone();
        async move {
            reply(
                200,
                &[("content-type", "text/html"), ("etag", "\"1\"")],
                full(served),
            )
        }
    })
    .await;
    let url = format!("http://a.test:{port}/");
    for accepts in [
        "gzip, deflate",
        "gzip, deflate, br, zstd",
        "gzip;q=0.1, deflate",
        "identity",
    ] {
        let answer = exchange(
            proxy,
            get(&url, &format!("Accept-Encoding: {accepts}\r\n")).as_bytes(),
        )
        .await;
        let (head, body) = parts(&answer);
        if accepts == "identity" || accepts.contains("q=") {
            // A program gets what the origin has answered to it.
            assert!(
                !head.contains("content-encoding") && !head.contains("vary"),
                "{head}"
            );
            assert!(head.contains("etag: \"1\"\r\n"), "{head}");
            let plain = if head.contains("chunked") {
                unchunked(body)
            } else {
                body.to_vec()
            };
            assert!(plain == page);
            continue;
        }
        assert!(head.contains("vary: accept-encoding\r\n"), "{head}");
        assert!(head.contains("etag: w/\"1\"\r\n"), "{head}");
        let coded = unchunked(body);
        assert!(coded.len() < page.len() / 3, "{accepts}: {}", coded.len());
        let mut decoded = Vec::new();
        if accepts.contains("br") {
            assert!(head.contains("content-encoding: br\r\n"), "{head}");
        } else {
            assert!(head.contains("content-encoding: gzip\r\n"), "{head}");
            GzDecoder::new(&coded[..]).read_to_end(&mut decoded).unwrap();
            assert!(decoded == page);
        }
    }
}

#[tokio::test]
async fn a_truncated_body_is_no_complete_body() {
    let (_gateway, proxy) = start().await;
    let port =
        serve_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: text/html\r\n\r\nshort".to_vec())
            .await;
    let url = format!("http://a.test:{port}/");
    for fields in ["", "Accept-Encoding: gzip, deflate\r\n"] {
        let answer = exchange(proxy, get(&url, fields).as_bytes()).await;
        if answer.is_empty() {
            // The connection was reset before its bytes were read.
            continue;
        }
        let (head, body) = parts(&answer);
        let is_complete = if head.contains("chunked") {
            body.ends_with(b"0\r\n\r\n")
        } else {
            body.len() >= 100
        };
        assert!(!is_complete, "{head}");
    }
}

#[tokio::test]
async fn failures_have_a_status_and_say_whose_fault_it_is() {
    let (_gateway, proxy) = start().await;
    let (url, log) = numbered(&[]).await;
    let port = url.rsplit(':').next().unwrap().trim_end_matches('/').to_owned();
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    for (target, expected, words) in [
        (format!("http://127.0.0.1:{port}/"), 403, "operator forbids"),
        ("http://a.test:25/".to_owned(), 403, "operator forbids"),
        ("http://a.test:1/".to_owned(), 403, "operator forbids"),
        (format!("http://a.test:{closed}/"), 502, "website or its network"),
    ] {
        let answer = exchange_text(proxy, &get(&target, "")).await;
        assert_eq!(status(answer.as_bytes()), expected, "{target}: {answer}");
        assert!(answer.contains(words), "{target}: {answer}");
    }
    let looped = exchange_text(proxy, &get(&url, "Via: 1.1 longhaul\r\n")).await;
    assert_eq!(status(looped.as_bytes()), 403);
    assert_eq!(log.count(), 0);
}

#[tokio::test]
async fn tunnels_pass_bytes_both_ways_to_the_ports_of_the_web() {
    let port = serve_tcp(|mut connection: TcpStream| async move {
        let mut all = Vec::new();
        connection.read_to_end(&mut all).await.unwrap();
        all.reverse();
        connection.write_all(&all).await.unwrap();
    })
    .await;
    let (gateway, proxy) = start_with(|flags| {
        let ports = format!("443,{port}");
        *flags = std::mem::take(flags).with(&settings::CLIENTLESS_PORTS, &ports);
    })
    .await;
    let mut connection = TcpStream::connect(proxy).await.unwrap();
    let head = format!("CONNECT echo.test:{port} HTTP/1.1\r\nHost: echo.test:{port}\r\n\r\nfirst, ");
    connection.write_all(head.as_bytes()).await.unwrap();
    let long = vec![b'x'; 500_000];
    connection.write_all(&long).await.unwrap();
    connection.shutdown().await.unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.unwrap();
    let (head, body) = parts(&answer);
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    let mut expected = [b"first, ".as_slice(), &long].concat();
    expected.reverse();
    assert!(body == expected);
    // Ports that are not listed, addresses that are not public, and the gateway's own ports.
    let own = gateway.metrics.port();
    for target in [
        "mail.test:25".to_owned(),
        format!("echo.test:{own}"),
        format!("127.0.0.1:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("2130706433:{port}"),
        format!("0x7f.1:{port}"),
        format!("localhost:{port}"),
        "10.0.0.1:443".to_owned(),
    ] {
        let answer = exchange_text(
            proxy,
            &format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"),
        )
        .await;
        assert_eq!(status(answer.as_bytes()), 403, "{target}: {answer}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_tunnel() {
    let (ended_in, mut ended) = mpsc::channel(1);
    let port = serve_tcp(move |mut connection: TcpStream| {
        let ended = ended_in.clone();
        async move {
            let _reset_or_end = connection.read(&mut [0; 16]).await;
            ended.send(()).await.unwrap();
        }
    })
    .await;
    let (_gateway, proxy) = start_with(|flags| {
        *flags = std::mem::take(flags).with(&settings::CLIENTLESS_PORTS, &port.to_string());
    })
    .await;
    let mut connection = TcpStream::connect(proxy).await.unwrap();
    let head = format!("CONNECT quiet.test:{port} HTTP/1.1\r\nHost: quiet.test\r\n\r\n");
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut opened = [0; 39];
    connection.read_exact(&mut opened).await.unwrap();
    connection.set_zero_linger().unwrap();
    drop(connection);
    ended.recv().await.unwrap();
}

#[tokio::test]
async fn the_proxy_has_a_configuration_script() {
    let (_gateway, proxy) = start().await;
    let request =
        |path: &str, host: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let answer = exchange_text(proxy, &request("/proxy.pac", "gw.example.org:3128")).await;
    assert_eq!(status(answer.as_bytes()), 200);
    assert!(answer.contains("application/x-ns-proxy-autoconfig"));
    assert!(answer.contains("PROXY gw.example.org:3128; DIRECT"));
    for (path, host) in [
        ("/", "gw.example.org"),
        ("/proxy.pac", "\"; alert(1); \""),
        ("*", "gw.example.org"),
    ] {
        let answer = exchange_text(proxy, &request(path, host)).await;
        assert_eq!(status(answer.as_bytes()), 404, "{path} {host}");
    }
}
