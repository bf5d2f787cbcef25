//! Connections of browsers and origins: reuse, order, tunnels, endless streams.
use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_tests::{
    client::{Ending, RawClient, ask, get},
    origin::{AnswerBody, Origin},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, mpsc},
    task::JoinSet,
    time::timeout,
};

use crate::{
    content::{noise, ok, pieces, prose},
    pair::{LIMIT, Pair, Setup},
};

fn site(address: SocketAddr) -> Setup {
    Setup::resolving(&[("site.test", address)])
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() -> Result<()> {
    let hurry = Arc::new(Notify::new());
    let slow = Arc::clone(&hurry);
    let origin = Origin::start(
        None,
        |_| {},
        move |request: Request<Incoming>| {
            let slow = Arc::clone(&slow);
            async move {
                let path = request.uri().path().to_owned();
                if path == "/0" {
                    slow.notified().await;
                }
                ok("text/plain", format!("{path} {}", "z".repeat(20_000)))
            }
        },
    )
    .await?;
    let pair = Pair::start(site(origin.address())).await?;
    let mut client = RawClient::connect(pair.proxy()).await?;
    let all: String = (0..20)
        .map(|number| get(&format!("http://site.test/{number}"), &[]))
        .collect();
    client.send(all).await?;
    hurry.notify_one();
    for number in 0..20 {
        let response = client.response().await?;
        assert!(
            response.text().starts_with(&format!("/{number} z")),
            "{number}: {:.30}",
            response.text()
        );
        assert_eq!(response.body.len(), format!("/{number} ").len() + 20_000);
    }
    // The connection remains usable, and the agent honours `Connection: close`.
    client
        .send(get("http://site.test/last", &[("Connection", "close")]))
        .await?;
    assert!(client.response().await?.text().starts_with("/last"));
    assert!(client.read().await?.is_empty(), "the agent closes the connection");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_simultaneous_requests_are_answered() -> Result<()> {
    let origin = Origin::start(
        None,
        |_| {},
        |request: Request<Incoming>| async move {
            let number: u64 = request.uri().path()[1..].parse().expect("a number");
            ok("text/plain", prose(30_000, number))
        },
    )
    .await?;
    let pair = Pair::start(site(origin.address())).await?;
    let mut requests = JoinSet::new();
    for number in 0..100 {
        let proxy = pair.proxy();
        requests.spawn(async move {
            let response = ask(proxy, get(&format!("http://site.test/{number}"), &[])).await?;
            ensure!(
                response.ending == Ending::Whole && response.status == 200,
                "{number}: {}",
                response.status
            );
            ensure!(
                response.body == prose(30_000, number),
                "{number}: the body differs"
            );
            Ok(())
        });
    }
    while let Some(result) = requests.join_next().await {
        result??;
    }
    assert_eq!(origin.seen().len(), 100);
    Ok(())
}

type BodySender = mpsc::Sender<Result<Bytes, std::io::Error>>;

/// Waits for the next request and returns the sender of its response body.
async fn next(streams: &mut mpsc::Receiver<BodySender>) -> Result<BodySender> {
    timeout(LIMIT, streams.recv())
        .await
        .context("no request reached the origin")?
        .context("the origin ended")
}

/// An origin whose response bodies are the pieces that the test sends. The test's sender closes when the
/// connection of the gateway closes.
async fn streaming_origin() -> Result<(Origin, mpsc::Receiver<BodySender>)> {
    let (started, streams) = mpsc::channel(8);
    let origin = Origin::start(
        None,
        |_| {},
        move |_| {
            let started = started.clone();
            async move {
                let (sender, body) = pieces();
                let _unwanted = started.send(sender).await;
                let response: Response<AnswerBody> = Response::builder()
                    .header("content-type", "text/event-stream")
                    .body(body)
                    .expect("a valid response");
                response
            }
        },
    )
    .await?;
    Ok((origin, streams))
}

#[tokio::test]
async fn events_of_a_stream_arrive_without_delay() -> Result<()> {
    let (origin, mut streams) = streaming_origin().await?;
    let pair = Pair::start(site(origin.address())).await?;
    let mut client = RawClient::connect(pair.proxy()).await?;
    client
        .send(get("http://site.test/events", &[("Accept", "text/event-stream")]))
        .await?;
    let events = next(&mut streams).await?;
    let mut seen = Vec::new();
    for number in 0..5 {
        let event = format!("data: event number {number}\n\n");
        events.send(Ok(Bytes::from(event.clone()))).await?;
        // Each event must arrive before the next one is sent.
        while !String::from_utf8_lossy(&seen).contains(&event) {
            let read = client.read().await?;
            ensure!(
                !read.is_empty(),
                "the stream ended: {}",
                String::from_utf8_lossy(&seen)
            );
            seen.extend(read);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_cancelled_download_is_cancelled_at_the_origin() -> Result<()> {
    let (origin, mut streams) = streaming_origin().await?;
    let pair = Pair::start(site(origin.address())).await?;
    let mut client = RawClient::connect(pair.proxy()).await?;
    client.send(get("http://site.test/endless", &[])).await?;
    let endless = next(&mut streams).await?;
    let block = Bytes::from(noise(100_000, 1));
    endless.send(Ok(block.clone())).await?;
    client.head().await?;
    drop(client);
    let stopped = timeout(LIMIT, async {
        while endless.send(Ok(block.clone())).await.is_ok() {}
    })
    .await;
    stopped.context("the origin did not notice that the download was cancelled")?;
    Ok(())
}

#[tokio::test]
async fn a_paused_reader_stops_the_origin_by_flow_control() -> Result<()> {
    let (origin, mut streams) = streaming_origin().await?;
    let pair = Pair::start(site(origin.address())).await?;
    let mut client = RawClient::connect(pair.proxy()).await?;
    client.send(get("http://site.test/large", &[])).await?;
    let large = next(&mut streams).await?;
    let block = Bytes::from(noise(1_000_000, 2));
    // 200 MB that the reader does not take must not be buffered in the programs: flow control must stop the
    // origin.
    let mut taken = 0;
    while taken < 200
        && timeout(Duration::from_secs(2), large.send(Ok(block.clone())))
            .await
            .is_ok()
    {
        taken += 1;
    }
    println!("the origin had sent {taken} MB when flow control stopped it");
    assert!(taken < 100, "{taken} MB were buffered");
    client.head().await?;
    assert!(!client.read().await?.is_empty());
    Ok(())
}

async fn tunnel(pair: &Pair, target: &str) -> Result<RawClient> {
    let mut client = RawClient::connect(pair.proxy()).await?;
    client
        .send(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"))
        .await?;
    Ok(client)
}

#[tokio::test(flavor = "multi_thread")]
async fn tunnels_relay_bytes_in_both_directions() -> Result<()> {
    let echo = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = echo.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = echo.accept().await {
            tokio::spawn(async move {
                // The server sends first, as mail and SSH servers do, and sends the last bytes after the
                // client's end of stream.
                stream.write_all(b"220 ready\r\n").await?;
                let (mut reader, mut writer) = stream.split();
                tokio::io::copy(&mut reader, &mut writer).await?;
                stream.write_all(b"bye").await
            });
        }
    });
    let pair = Pair::start(Setup::resolving(&[("echo.test:7007", address)])).await?;
    let mut client = tunnel(&pair, "echo.test:7007").await?;
    let opened = client.head().await?;
    assert_eq!(opened.status, 200);
    assert_eq!(
        (opened.field("transfer-encoding"), opened.field("content-length")),
        (None, None),
        "{opened:?}"
    );
    assert_eq!(client.read_exact(11).await?, b"220 ready\r\n");
    for size in [1, 1000, 2_000_000] {
        let data = noise(size, 3);
        client.send(&data).await?;
        assert!(
            client.read_exact(size).await? == data,
            "{size} bytes were changed on the way"
        );
    }
    client.send(b"last").await?;
    client.finish().await?;
    assert_eq!(client.read_exact(7).await?, b"lastbye");
    assert!(
        client.read().await?.is_empty(),
        "the tunnel ends when the host closes its connection"
    );
    Ok(())
}

#[tokio::test]
async fn tunnels_to_unreachable_hosts_are_refused_with_an_explanation() -> Result<()> {
    let free: TcpListener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let closed = free.local_addr()?;
    drop(free);
    let pair = Pair::start(Setup::resolving(&[("closed.test", closed)])).await?;
    for (target, status, words) in [
        ("closed.test:443", 502, "refuse"),
        ("closed.test:25", 403, "not allowed"),
        ("1.2.3.4:25", 403, "not allowed"),
        ("closed.test:0", 400, "address"),
        ("closed.test", 400, "address"),
    ] {
        let mut client = tunnel(&pair, target).await?;
        let response = client.response().await?;
        println!("CONNECT {target}: {}", response.status);
        assert_eq!(response.status, status, "{target}: {}", response.text());
        assert!(response.text().contains(words), "{target}: {}", response.text());
    }
    Ok(())
}

#[tokio::test]
async fn websockets_go_through_the_tunnel() -> Result<()> {
    let server = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = server.local_addr()?;
    tokio::spawn(async move {
        let (mut stream, _) = server.accept().await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_buf(&mut head).await?;
        }
        stream
            .write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            )
            .await?;
        let mut frame = [0; 4];
        stream.read_exact(&mut frame).await?;
        stream.write_all(&frame).await
    });
    let pair = Pair::start(Setup::resolving(&[("chat.test", address)])).await?;
    let mut client = tunnel(&pair, "chat.test:80").await?;
    assert_eq!(client.head().await?.status, 200);
    client
        .send("GET /chat HTTP/1.1\r\nHost: chat.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        .await?;
    let switched = client.head().await?;
    assert_eq!(
        (switched.status, switched.field("upgrade")),
        (101, Some("websocket"))
    );
    client.send([0x81, 0x02, b'h', b'i']).await?;
    assert_eq!(client.read_exact(4).await?, [0x81, 0x02, b'h', b'i']);
    Ok(())
}

/// Fails if the gateway leaks the host's connection after the client has closed its own.
#[tokio::test]
async fn a_tunnel_ends_when_its_client_closes() -> Result<()> {
    let server = TcpListener::bind(("127.0.0.1", 0)).await?;
    let pair = Pair::start(Setup::resolving(&[("host.test", server.local_addr()?)])).await?;
    let mut client = tunnel(&pair, "host.test:443").await?;
    let accepted: (TcpStream, SocketAddr) = timeout(LIMIT, server.accept()).await??;
    let (mut stream, _) = accepted;
    assert_eq!(client.head().await?.status, 200);
    drop(client);
    let mut rest = Vec::new();
    let ended = timeout(LIMIT, stream.read_to_end(&mut rest)).await;
    ended.context("the host's connection remains open")?.ok();
    assert!(rest.is_empty());
    Ok(())
}
