//! Requests that are read ahead.
use std::{sync::Arc, time::Duration};

use http::{Method, Request};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::{Notify, Semaphore, watch},
    time::timeout,
};

use super::{exchange, get, start};
use crate::{
    origin::{full, serve},
    store::reply,
};

/// Limit of a wait for an event; the machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);

fn pipelined(port: u16, count: usize) -> String {
    let request = |number: usize| {
        let end = if number + 1 == count {
            "Connection: close\r\n"
        } else {
            ""
        };
        format!("GET http://a.test:{port}/{number} HTTP/1.1\r\nHost: a.test:{port}\r\n{end}\r\n")
    };
    (0..count).map(request).collect()
}

#[tokio::test]
async fn requests_are_fetched_together_and_answered_in_order() {
    let (_gateway, proxy) = start().await;
    // The first response waits until the last request has arrived.
    let last = Arc::new(Semaphore::new(0));
    let port = serve(move |request: Request<Incoming>| {
        let last = Arc::clone(&last);
        async move {
            let path = request.uri().path().to_owned();
            match path.as_str() {
                "/0" => drop(last.acquire().await.unwrap()),
                "/11" => last.add_permits(1),
                _ => {}
            }
            reply(200, &[], full(format!("[{path}]")))
        }
    })
    .await;
    let all = timeout(LIMIT, exchange(proxy, pipelined(port, 12).as_bytes()))
        .await
        .unwrap();
    let text = String::from_utf8(all).unwrap();
    let mut at = 0;
    for number in 0..12 {
        let found = text[at..].find(&format!("[/{number}]"));
        at += found.unwrap_or_else(|| panic!("response {number} in order:\n{text}"));
    }
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 12);
}

#[tokio::test]
async fn at_most_32_requests_are_in_progress() {
    let (_gateway, proxy) = start().await;
    let (seen, mut count) = watch::channel(0);
    let release = Arc::new(Notify::new());
    let released = Arc::clone(&release);
    let port = serve(move |request: Request<Incoming>| {
        seen.send_modify(|count| *count += 1);
        let released = Arc::clone(&released);
        async move {
            if request.uri().path() == "/0" {
                released.notified().await;
            }
            reply(200, &[], full("x"))
        }
    })
    .await;
    let whole = tokio::spawn(async move { exchange(proxy, pipelined(port, 80).as_bytes()).await });
    timeout(LIMIT, count.wait_for(|count| *count >= 32))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(*count.borrow(), 32);
    release.notify_one();
    let all = timeout(LIMIT, whole).await.unwrap().unwrap();
    assert_eq!(
        String::from_utf8(all).unwrap().matches("HTTP/1.1 200 OK").count(),
        80
    );
    assert_eq!(*count.borrow(), 80);
}

#[tokio::test]
async fn nothing_is_read_past_a_request_that_is_not_idempotent() {
    let (_gateway, proxy) = start().await;
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&log);
    let port = serve(move |request: Request<Incoming>| {
        let note = format!("{} {}", request.method(), request.uri().path());
        noted.lock().push(note.clone());
        let noted = Arc::clone(&noted);
        async move {
            let is_post = request.method() == Method::POST;
            let body = request.into_body().collect().await.unwrap().to_bytes();
            if is_post {
                assert_eq!(body, "body");
                // Requests that were sent too early would arrive now.
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
            }
            noted.lock().push(format!("{note} answered"));
            reply(200, &[], full("x"))
        }
    })
    .await;
    let host = format!("Host: a.test:{port}\r\n");
    let url = format!("http://a.test:{port}");
    let request = format!(
        "GET {url}/1 HTTP/1.1\r\n{host}\r\n\
         POST {url}/2 HTTP/1.1\r\n{host}Content-Length: 4\r\n\r\nbody\
         GET {url}/3 HTTP/1.1\r\n{host}Connection: close\r\n\r\n"
    );
    let all = timeout(LIMIT, exchange(proxy, request.as_bytes())).await.unwrap();
    assert_eq!(
        String::from_utf8(all).unwrap().matches("HTTP/1.1 200 OK").count(),
        3
    );
    let expected = [
        "GET /1",
        "GET /1 answered",
        "POST /2",
        "POST /2 answered",
        "GET /3",
        "GET /3 answered",
    ];
    assert_eq!(*log.lock(), expected);
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_everything() {
    let (_gateway, proxy) = start().await;
    let port = serve(|_| async { reply(200, &[], full(vec![b'x'; 3_000_000])) }).await;
    let mut connection = TcpStream::connect(proxy).await.unwrap();
    let request = get(&format!("http://a.test:{port}/"), "");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let count = timeout(LIMIT, connection.read(&mut piece))
            .await
            .unwrap()
            .unwrap();
        if count == 0 {
            break;
        }
        all.extend_from_slice(&piece[..count]);
        tokio::task::yield_now().await;
    }
    assert!(all.ends_with(&vec![b'x'; 3_000_000]));
}
