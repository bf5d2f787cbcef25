//! Requests that are sent again, and requests that never are.
use std::time::Duration;

use http::{Method, Request};
use http_body_util::Full;
use longhaul_origin::FetchError;
use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::mpsc,
};

use crate::rig::{LOCAL, Origin, client_of, get, read_head, text};

/// Origin that closes its first connection when the second request arrives; later connections work. The
/// channel receives the methods.
async fn dying_origin() -> (Origin, mpsc::UnboundedReceiver<String>) {
    let (seen, methods) = mpsc::unbounded_channel();
    let origin = Origin::start(move |index, mut stream| {
        let seen = seen.clone();
        async move {
            let mut requests = 0;
            while let Some(head) = read_head(&mut stream).await {
                if head.contains("content-length: 5\r\n") {
                    let mut body = [0; 5];
                    stream.read_exact(&mut body).await.unwrap();
                    assert_eq!(&body, b"state");
                }
                seen.send(head.split(' ').next().unwrap().to_owned()).unwrap();
                requests += 1;
                if index == 0 && requests == 2 {
                    return;
                }
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    .await
                    .unwrap();
            }
        }
    })
    .await;
    (origin, methods)
}

fn drain(methods: &mut mpsc::UnboundedReceiver<String>) -> Vec<String> {
    std::iter::from_fn(|| methods.try_recv().ok()).collect()
}

#[tokio::test]
async fn a_get_survives_a_dead_pooled_connection() {
    let (origin, mut methods) = dying_origin().await;
    let client = client_of(origin.address);
    for _ in 0..2 {
        assert_eq!(
            text(client.fetch(get("http://site.test/"), LOCAL).await.unwrap())
                .await
                .unwrap(),
            "ok"
        );
    }
    assert_eq!(drain(&mut methods), ["GET", "GET", "GET"]);
    assert_eq!((origin.connections(), client.stats().snapshot().retries), (2, 1));
}

#[tokio::test]
async fn a_post_is_never_sent_twice() {
    for body in [Full::from("pay"), Full::default()] {
        let (origin, mut methods) = dying_origin().await;
        let client = client_of(origin.address);
        text(client.fetch(get("http://site.test/"), LOCAL).await.unwrap())
            .await
            .unwrap();
        let request = Request::post("http://site.test/").body(body).unwrap();
        assert_eq!(client.fetch(request, LOCAL).await.unwrap_err(), FetchError::Reset);
        assert_eq!(drain(&mut methods), ["GET", "POST"]);
        assert_eq!((origin.connections(), client.stats().snapshot().retries), (1, 0));
    }
}

#[tokio::test]
async fn idempotent_methods_are_sent_again_with_their_body() {
    for method in [Method::PUT, Method::DELETE] {
        let (origin, mut methods) = dying_origin().await;
        let client = client_of(origin.address);
        text(client.fetch(get("http://site.test/"), LOCAL).await.unwrap())
            .await
            .unwrap();
        let request = Request::builder().method(&method).uri("http://site.test/");
        let request = request.body(Full::from("state")).unwrap();
        assert_eq!(
            text(client.fetch(request, LOCAL).await.unwrap()).await.unwrap(),
            "ok"
        );
        assert_eq!(drain(&mut methods), ["GET", method.as_str(), method.as_str()]);
        assert_eq!(origin.connections(), 2);
    }
}

#[tokio::test]
async fn a_new_connection_that_fails_is_not_retried() {
    let origin = Origin::start(|_, mut stream| async move {
        read_head(&mut stream).await;
    })
    .await;
    let client = client_of(origin.address);
    assert_eq!(
        client.fetch(get("http://site.test/"), LOCAL).await.unwrap_err(),
        FetchError::Reset
    );
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn a_second_lost_connection_is_not_retried() {
    let origin = Origin::start(|index, mut stream| async move {
        read_head(&mut stream).await;
        if index == 0 {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                .await
                .unwrap();
            read_head(&mut stream).await;
        }
    })
    .await;
    let client = client_of(origin.address);
    text(client.fetch(get("http://site.test/"), LOCAL).await.unwrap())
        .await
        .unwrap();
    assert_eq!(
        client.fetch(get("http://site.test/"), LOCAL).await.unwrap_err(),
        FetchError::Reset
    );
    assert_eq!(origin.connections(), 2);
}

#[tokio::test]
async fn a_new_connection_that_is_reset_is_not_retried() {
    let origin = Origin::start(|_, mut stream| async move {
        read_head(&mut stream).await;
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    })
    .await;
    let client = client_of(origin.address);
    assert_eq!(
        client.fetch(get("http://site.test/"), LOCAL).await.unwrap_err(),
        FetchError::Reset
    );
    assert_eq!((origin.connections(), client.stats().snapshot().retries), (1, 0));
}

#[tokio::test]
async fn a_response_that_is_not_understood_is_not_retried() {
    let origin = Origin::start(|_, mut stream| async move {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 1000 X\r\n\r\n",
        ] {
            read_head(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        read_head(&mut stream).await;
    })
    .await;
    let client = client_of(origin.address);
    text(client.fetch(get("http://site.test/"), LOCAL).await.unwrap())
        .await
        .unwrap();
    assert_eq!(
        client.fetch(get("http://site.test/"), LOCAL).await.unwrap_err(),
        FetchError::Protocol
    );
    assert_eq!((origin.connections(), client.stats().snapshot().retries), (1, 0));
}
