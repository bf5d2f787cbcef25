//! HTTP/1.1 over real sockets: requests, framing, and connections that are reused.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use longhaul_origin::{BadUrl, FetchError, OriginClient, OriginConfig};
use longhaul_types::ByteCount;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::mpsc,
    time::advance,
};

use crate::rig::{
    LOCAL, Origin, client_of,
    clock::{freeze, settle},
    get, read_head, text,
};

#[tokio::test]
async fn fetches_and_counts_bytes() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await;
    let client = client_of(origin.address);
    let response = client.fetch(get("http://site.test/page"), LOCAL).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(text(response).await.unwrap(), "hello");
    let stats = client.stats().snapshot();
    assert_eq!(stats.bytes_received, ByteCount::new(43));
    assert_eq!(
        stats.bytes_sent,
        ByteCount::new("GET /page HTTP/1.1\r\nhost: site.test\r\n\r\n".len() as u64)
    );
    assert_eq!(
        (
            stats.connections,
            stats.requests,
            stats.retries,
            stats.dns_lookups
        ),
        (1, 1, 0, 0)
    );
}

#[tokio::test]
async fn host_comes_from_the_url_alone() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let origin = Origin::start(move |_, mut stream| {
        let seen = Arc::clone(&seen);
        async move {
            while let Some(head) = read_head(&mut stream).await {
                seen.lock().push(head);
                stream
                    .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
                    .await
                    .unwrap();
            }
        }
    })
    .await;
    let client = client_of(origin.address);
    let request = Request::get("http://Real.TEST:8080/x?y=1")
        .header("host", "forged.test")
        .header("cookie", "a=b")
        .body(Full::default())
        .unwrap();
    client.fetch(request, LOCAL).await.unwrap();
    assert_eq!(
        *heads.lock(),
        ["GET /x?y=1 HTTP/1.1\r\ncookie: a=b\r\nhost: real.test:8080\r\n\r\n"]
    );
}

#[tokio::test]
async fn connections_are_reused_for_later_requests() {
    let origin = Origin::start(|_, mut stream| async move {
        while read_head(&mut stream).await.is_some() {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                .await
                .unwrap();
        }
    })
    .await;
    let client = client_of(origin.address);
    for _ in 0..5 {
        assert_eq!(
            text(client.fetch(get("http://site.test/"), LOCAL).await.unwrap())
                .await
                .unwrap(),
            "ok"
        );
    }
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn passes_redirects_codings_and_cookies_on_untouched() {
    let origin = Origin::answering(
        "HTTP/1.1 302 Found\r\nLocation: http://other.test/\r\nSet-Cookie: a=b\r\nContent-Encoding: gzip\r\n\
         Content-Length: 7\r\n\r\nnotgzip",
    )
    .await;
    let client = client_of(origin.address);
    let response = client.fetch(get("http://site.test/"), LOCAL).await.unwrap();
    assert_eq!(response.status(), StatusCode::FOUND);
    assert_eq!(response.headers()["set-cookie"], "a=b");
    assert_eq!(text(response).await.unwrap(), "notgzip");
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn streams_chunks_and_trailers() {
    let origin = Origin::answering(
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\
         Trailer: X-Sum\r\n\r\n3\r\nabc\r\n4;ext=1\r\ndefg\r\n0\r\nX-Sum: 7\r\n\r\n",
    )
    .await;
    let response = client_of(origin.address)
        .fetch(get("http://site.test/"), LOCAL)
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let body = response.into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["x-sum"], "7");
    assert_eq!(body.to_bytes(), "abcdefg");
}

#[tokio::test]
async fn head_and_bodiless_statuses_have_no_body() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n").await;
    let request = Request::head("http://site.test/")
        .body(Full::<Bytes>::default())
        .unwrap();
    let response = client_of(origin.address).fetch(request, LOCAL).await.unwrap();
    assert_eq!(response.headers()["content-length"], "500");
    assert_eq!(text(response).await.unwrap(), "");
    let origin = Origin::answering("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n").await;
    let response = client_of(origin.address)
        .fetch(get("http://site.test/"), LOCAL)
        .await
        .unwrap();
    assert_eq!(text(response).await.unwrap(), "");
}

#[tokio::test]
async fn unusable_requests_are_refused_before_any_socket() {
    let client = OriginClient::new(OriginConfig::default()).unwrap();
    for (url, expected) in [
        ("ftp://site.test/", BadUrl::Scheme),
        ("/path", BadUrl::NoHost),
        ("http://user@site.test/", BadUrl::UserInfo),
        ("http://site.test:0/", BadUrl::Port),
        ("http://1.2.3.4.5/", BadUrl::Host),
    ] {
        assert_eq!(
            client.fetch(get(url), LOCAL).await.unwrap_err(),
            FetchError::BadUrl(expected),
            "{url}"
        );
    }
    let tunnel = Request::builder()
        .method(Method::CONNECT)
        .uri("http://site.test/")
        .body(Full::<Bytes>::default())
        .unwrap();
    assert_eq!(
        client.fetch(tunnel, LOCAL).await.unwrap_err(),
        FetchError::BadUrl(BadUrl::Method)
    );
}

/// Starts an origin that answers the head of an upload with `interim`, and then the upload with `answer` and two more
/// bytes. The channel receives the head, and what the origin got of the body.
async fn asking_for(
    interim: &'static str,
    answer: &'static str,
) -> (Origin, mpsc::UnboundedReceiver<String>) {
    let (seen, received) = mpsc::unbounded_channel();
    let origin = Origin::start(move |_, mut stream| {
        let seen = seen.clone();
        async move {
            seen.send(read_head(&mut stream).await.unwrap()).unwrap();
            stream.write_all(interim.as_bytes()).await.unwrap();
            let mut body = Vec::new();
            if answer.starts_with("HTTP/1.1 2") {
                body.resize(4, 0);
                stream.read_exact(&mut body).await.unwrap();
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            settle().await;
            stream.write_all(b"lo").await.unwrap();
            stream.read_to_end(&mut body).await.unwrap();
            seen.send(String::from_utf8(body).unwrap()).unwrap();
        }
    })
    .await;
    (origin, received)
}

#[tokio::test]
async fn an_upload_waits_for_its_turn_only_until_the_origin_asks_for_it() {
    const STORED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel";
    const REFUSED: &str = "HTTP/1.1 417 No\r\nContent-Length: 5\r\n\r\nhel";
    let _clock = freeze();
    for (interim, answer, waits, sent) in [
        ("HTTP/1.1 100 Continue\r\n\r\n", STORED, false, "body"),
        ("HTTP/1.1 103 Early Hints\r\n\r\n", STORED, true, "body"),
        ("", STORED, true, "body"),
        ("", REFUSED, false, ""),
    ] {
        let (origin, mut seen) = asking_for(interim, answer).await;
        let client = client_of(origin.address);
        let fetched = tokio::spawn(async move {
            let request = Request::put("http://site.test/").header("expect", "100-continue");
            let request = request.body(Full::from("body")).unwrap();
            text(client.fetch(request, LOCAL).await.unwrap()).await
        });
        let head = seen.recv().await.unwrap();
        assert!(head.contains("\r\ncontent-length: 4\r\n"), "{head}");
        if waits {
            settle().await;
            assert!(!fetched.is_finished(), "{interim:?}");
            // Timers have milliseconds.
            advance(Duration::from_millis(1001)).await;
        }
        assert_eq!(
            fetched.await.unwrap().as_deref(),
            Ok("hello"),
            "{interim:?} {answer:?}"
        );
        assert_eq!(seen.recv().await.unwrap(), sent);
    }
}
