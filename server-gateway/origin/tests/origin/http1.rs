//! HTTP/1.1 over real sockets: framing, failures, repetition, limits, timeouts.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;

use crate::rig::{LOCAL, Origin, client_of, config_of, get, read_head, text};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use longhaul_origin::{
    BadUrl, BodyError, Fault, FetchError, Limit, Limits, OriginClient, OriginConfig, Timeouts,
};
use longhaul_types::ByteCount;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpSocket,
    sync::{Semaphore, mpsc},
};

const SHORT: Duration = Duration::from_millis(200);

fn impatient(address: std::net::SocketAddr, timeouts: Timeouts) -> OriginClient {
    OriginClient::new(OriginConfig {
        timeouts,
        ..config_of(address)
    })
    .unwrap()
}

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
        "HTTP/1.1 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    ] {
        let origin = Origin::answering(answer).await;
        let error = client_of(origin.address)
            .fetch(get("http://site.test/"), LOCAL)
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
    let many: String = (0..129).map(|index| format!("X-{index}: y\r\n")).collect();
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

#[tokio::test]
async fn a_closed_port_refuses() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = client_of(address)
        .fetch(get("http://site.test/"), LOCAL)
        .await
        .unwrap_err();
    assert_eq!(error, FetchError::Refused);
    assert_eq!(error.fault(), Fault::Origin);
}

#[tokio::test]
async fn a_black_hole_times_out() {
    // A listening socket with a full queue drops further SYNs.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let _filler = std::net::TcpStream::connect(address).unwrap();
    let client = impatient(
        address,
        Timeouts {
            connect: SHORT,
            ..Timeouts::default()
        },
    );
    let error = client.fetch(get("http://site.test/"), LOCAL).await.unwrap_err();
    assert_eq!(error, FetchError::ConnectTimeout);
    assert_eq!(
        client.connect_tcp("site.test", 443, LOCAL).await.unwrap_err(),
        FetchError::ConnectTimeout
    );
}

#[tokio::test]
async fn a_silent_origin_times_out() {
    let origin = Origin::start(|_, mut stream| async move {
        read_head(&mut stream).await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    })
    .await;
    let client = impatient(
        origin.address,
        Timeouts {
            response_head: SHORT,
            ..Timeouts::default()
        },
    );
    let error = client.fetch(get("http://site.test/"), LOCAL).await.unwrap_err();
    assert_eq!(error, FetchError::ResponseTimeout);
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn an_origin_that_stops_midway_times_out() {
    let origin = Origin::start(|_, mut stream| async move {
        read_head(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
            .await
            .unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let client = impatient(
        origin.address,
        Timeouts {
            body_idle: SHORT,
            ..Timeouts::default()
        },
    );
    let response = client.fetch(get("http://site.test/"), LOCAL).await.unwrap();
    assert_eq!(text(response).await, Err(BodyError::Timeout));
}

#[tokio::test]
async fn a_slow_upload_is_not_the_origins_fault() {
    let origin = Origin::start(|_, mut stream| async move {
        read_head(&mut stream).await;
        let mut body = Vec::new();
        while !body.ends_with(b"0\r\n\r\n") {
            let mut buffer = [0; 64];
            let length = stream.read(&mut buffer).await.unwrap();
            body.extend(&buffer[..length]);
        }
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.write_all(&body).await.unwrap();
    })
    .await;
    let client = impatient(
        origin.address,
        Timeouts {
            response_head: SHORT / 4,
            ..Timeouts::default()
        },
    );
    let (sender, receiver) = mpsc::channel(1);
    let request = Request::post("http://site.test/")
        .body(ChannelBody(receiver))
        .unwrap();
    let fetch = tokio::spawn(async move { client.fetch(request, LOCAL).await });
    sender.send(Ok(Bytes::from_static(b"one"))).await.unwrap();
    // Several response timeouts pass while the source has no data.
    tokio::time::timeout(SHORT, std::future::pending::<()>())
        .await
        .unwrap_err();
    sender.send(Ok(Bytes::from_static(b"two"))).await.unwrap();
    drop(sender);
    let response = fetch.await.unwrap().unwrap();
    assert_eq!(text(response).await.unwrap(), "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
}

#[tokio::test]
async fn a_broken_upload_is_the_requests_fault() {
    let origin = Origin::start(|_, mut stream| async move {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let (sender, receiver) = mpsc::channel(2);
    sender.send(Ok(Bytes::from("x"))).await.unwrap();
    sender
        .send(Err(std::io::Error::other("the browser went away")))
        .await
        .unwrap();
    let request = Request::post("http://site.test/")
        .body(ChannelBody(receiver))
        .unwrap();
    let error = client_of(origin.address).fetch(request, LOCAL).await.unwrap_err();
    assert_eq!(error, FetchError::Upload);
    assert_eq!(error.fault(), Fault::Request);
}

/// Origin that closes its first connection when the second request arrives; later connections work. The
/// channel receives the methods.
async fn dying_origin() -> (Origin, mpsc::UnboundedReceiver<String>) {
    let (seen, methods) = mpsc::unbounded_channel();
    let origin = Origin::start(move |index, mut stream| {
        let seen = seen.clone();
        async move {
            let mut requests = 0;
            while let Some(head) = read_head(&mut stream).await {
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
    let (origin, mut methods) = dying_origin().await;
    let client = client_of(origin.address);
    text(client.fetch(get("http://site.test/"), LOCAL).await.unwrap())
        .await
        .unwrap();
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
    // A request with an idempotent method whose body is consumed cannot be repeated either.
    let request = Request::put("http://site.test/")
        .body(Full::from("state"))
        .unwrap();
    assert_eq!(client.fetch(request, LOCAL).await.unwrap_err(), FetchError::Reset);
    assert_eq!(drain(&mut methods), ["GET", "PUT"]);
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
async fn requests_to_one_host_are_bounded() {
    const LIMIT: usize = 3;
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let release = Arc::new(Semaphore::new(0));
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let (now, peak, permits) = (Arc::clone(&running), Arc::clone(&most), Arc::clone(&release));
    let origin = Origin::start(move |_, mut stream| {
        let (now, peak, permits, arrived) = (
            Arc::clone(&now),
            Arc::clone(&peak),
            Arc::clone(&permits),
            arrived.clone(),
        );
        async move {
            while read_head(&mut stream).await.is_some() {
                peak.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                arrived.send(()).unwrap();
                permits.acquire().await.unwrap().forget();
                now.fetch_sub(1, SeqCst);
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    .await
                    .unwrap();
            }
        }
    })
    .await;
    let limits = Limits {
        connections_per_host: LIMIT,
        reserved_per_host: LIMIT,
        waiting_per_host: 9,
        ..Limits::default()
    };
    let client = OriginClient::new(OriginConfig {
        limits,
        ..config_of(origin.address)
    })
    .unwrap();
    let fetches: Vec<_> = (0..12)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                text(client.fetch(get("http://site.test/"), LOCAL).await?)
                    .await
                    .map_err(|_| FetchError::Reset)
            })
        })
        .collect();
    for _ in 0..LIMIT {
        arrivals.recv().await.unwrap();
    }
    assert_eq!(
        client.fetch(get("http://site.test/"), LOCAL).await.unwrap_err(),
        FetchError::Overloaded(Limit::Host)
    );
    for _ in LIMIT..12 {
        release.add_permits(1);
        arrivals.recv().await.unwrap();
    }
    release.add_permits(LIMIT);
    for fetch in fetches {
        assert_eq!(fetch.await.unwrap().unwrap(), "ok");
    }
    assert_eq!(most.load(SeqCst), LIMIT);
}

#[tokio::test]
async fn a_dropped_body_releases_its_slot() {
    let origin = Origin::start(|_, mut stream| async move {
        read_head(&mut stream).await;
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
            .await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let limits = Limits {
        connections_per_host: 1,
        connections: 1,
        ..Limits::default()
    };
    let client = OriginClient::new(OriginConfig {
        limits,
        ..config_of(origin.address)
    })
    .unwrap();
    for _ in 0..3 {
        drop(client.fetch(get("http://site.test/"), LOCAL).await.unwrap());
    }
    assert_eq!(origin.connections(), 3);
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

/// Body whose frames come from a channel.
struct ChannelBody(mpsc::Receiver<Result<Bytes, std::io::Error>>);

impl Body for ChannelBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.0
            .poll_recv(cx)
            .map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
