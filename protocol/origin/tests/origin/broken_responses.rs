//! Responses that end early, are malformed, or are too large.
use http_body_util::BodyExt as _;
use longhaul_origin::{BodyError, Fault, FetchError};
use tokio::{io::AsyncWriteExt as _, sync::mpsc};

use crate::rig::{LOCAL, Origin, client_of, get, read_head, text};

#[tokio::test]
async fn a_truncated_body_never_ends_cleanly() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhello",
    ] {
        let origin = Origin::answering(answer).await;
        let mut body = client_of(origin.address)
            .fetch(get("http://site.test/"), LOCAL)
            .await
            .unwrap()
            .into_body();
        let mut received = Vec::new();
        let error = loop {
            match body.frame().await.expect("an error comes before the end") {
                Ok(frame) => received.extend(frame.into_data().unwrap()),
                Err(error) => break error,
            }
        };
        assert_eq!(received, b"hello");
        assert_eq!(error, BodyError::Truncated, "{answer}");
        assert_eq!(error.fault(), Fault::Origin);
        assert!(body.frame().await.is_none());
    }
}

#[tokio::test]
async fn malformed_framing_is_distinguished() {
    let origin =
        Origin::answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n").await;
    let response = client_of(origin.address)
        .fetch(get("http://site.test/"), LOCAL)
        .await
        .unwrap();
    assert_eq!(text(response).await, Err(BodyError::Protocol));
    for answer in [
        "SSH-2.0-OpenSSH_9\r\n\r\n",
        "HTTP/1.1 99 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\nhello",
    ] {
        let origin = Origin::answering(answer).await;
        let error = client_of(origin.address)
            .fetch(get("http://site.test:8080/"), LOCAL)
            .await
            .unwrap_err();
        assert_eq!(error, FetchError::Protocol, "{answer}");
    }
}

#[tokio::test]
async fn a_reset_during_the_body_is_reported_as_reset() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (go, mut went) = mpsc::channel::<()>(1);
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
            .await
            .unwrap();
        // A reset discards unread data, so the origin waits until the client has read this part.
        went.recv().await;
        stream.set_zero_linger().unwrap();
    });
    let mut body = client_of(address)
        .fetch(get("http://site.test/"), LOCAL)
        .await
        .unwrap()
        .into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "hello");
    go.send(()).await.unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap_err(), BodyError::Reset);
    task.await.unwrap();
}

#[tokio::test]
async fn too_large_headers_are_refused() {
    let filler = "x".repeat(300 * 1024);
    let many: String = (0..513).map(|index| format!("X-{index}: y\r\n")).collect();
    for header in [format!("X-Filler: {filler}\r\n"), many] {
        let origin = Origin::answering(format!("HTTP/1.1 200 OK\r\n{header}Content-Length: 0\r\n\r\n")).await;
        let error = client_of(origin.address)
            .fetch(get("http://site.test/"), LOCAL)
            .await
            .unwrap_err();
        assert_eq!(error, FetchError::HeaderTooLarge);
    }
    let large = "x".repeat(200 * 1024);
    let origin = Origin::answering(format!(
        "HTTP/1.1 200 OK\r\nX: {large}\r\nContent-Length: 0\r\n\r\n"
    ))
    .await;
    let response = client_of(origin.address)
        .fetch(get("http://site.test/"), LOCAL)
        .await
        .unwrap();
    assert_eq!(response.headers()["x"].len(), large.len());
}
