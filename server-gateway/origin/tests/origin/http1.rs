//! HTTP/1.1 over real sockets: requests, framing, and connections that are reused.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use longhaul_origin::{BadUrl, FetchError, OriginClient, OriginConfig};
use longhaul_types::ByteCount;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;

use crate::rig::{LOCAL, Origin, client_of, get, read_head, text};

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
