//! What came before the end of a connection arrives, however the connection ends.
use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use longhaul_tests::{
    client::{Ending, RawClient, ask, get, request},
    raw_origin::RawOrigin,
};
use longhaul_types::BitRate;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::timeout,
};

use crate::{
    content::prose,
    pair::{LIMIT, Link, Pair, Setup},
};

/// Bytes that wait for the hop for seconds.
const MANY: usize = 80_000;
const SLOW: Link = Link::Paced(BitRate::kbps(400));

/// How a host ends a connection after its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostEnd {
    /// Both directions, with nothing unread.
    Close,
    /// With unread bytes, so that its system sends RST.
    Reset,
    /// Its own direction; it reads on.
    Half,
}

/// A host that sends many bytes to each connection, and then ends it; returns its address, and what it read of each
/// connection until its end.
async fn host(end: HostEnd) -> Result<(SocketAddr, mpsc::UnboundedReceiver<Vec<u8>>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (told, reads) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let told = told.clone();
            tokio::spawn(async move {
                let read = talk(stream, end).await.unwrap_or_default();
                let _gone = told.send(read);
            });
        }
    });
    Ok((address, reads))
}

async fn talk(mut stream: TcpStream, end: HostEnd) -> Result<Vec<u8>> {
    let mut hello = [0; 5];
    stream.read_exact(&mut hello).await?;
    let mut read = hello.to_vec();
    if end == HostEnd::Reset {
        // Something that it never reads.
        while stream.peek(&mut [0]).await? == 0 {}
    }
    stream.write_all(&prose(MANY, 7)).await?;
    if end == HostEnd::Half {
        stream.shutdown().await?;
        // Until the end, or a reset.
        let _end = stream.read_to_end(&mut read).await;
    }
    Ok(read)
}

/// Opens a tunnel, by CONNECT or by SOCKS.
async fn tunnel(pair: &Pair, by_socks: bool) -> Result<RawClient> {
    let mut client = RawClient::connect(pair.proxy()).await?;
    if by_socks {
        client.send([5, 1, 0]).await?;
        ensure!(client.read_exact(2).await? == [5, 0]);
        client.send(b"\x05\x01\x00\x03\x0ahost.tests\x01\xbb").await?;
        ensure!(client.read_exact(10).await?[1] == 0);
    } else {
        client.send(request("CONNECT", "host.tests:443", &[])).await?;
        ensure!(client.head().await?.status == 200);
    }
    Ok(client)
}

async fn slow_pair(address: SocketAddr) -> Result<Pair> {
    Pair::start(Setup::resolving(&[("host.tests:443", address), ("host.tests", address)]).over(SLOW)).await
}

/// Reads to the end, which may be a reset.
async fn rest(client: &mut RawClient) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let read = timeout(LIMIT, client.read()).await.context("no end comes")?;
        match read {
            Ok(bytes) if bytes.is_empty() => return Ok(all),
            Ok(bytes) => all.extend(bytes),
            Err(_) => return Ok(all),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_bytes_of_a_host_arrive_before_its_end() -> Result<()> {
    for end in [HostEnd::Close, HostEnd::Reset, HostEnd::Half] {
        let (address, mut reads) = host(end).await?;
        let pair = slow_pair(address).await?;
        // The second tunnel of each kind begins before the gateway has answered.
        for (number, by_socks) in [false, true, false, true].into_iter().enumerate() {
            let mut client = tunnel(&pair, by_socks).await?;
            client.send("hello and more").await?;
            let came = rest(&mut client).await?;
            assert!(came == prose(MANY, 7), "{end:?} {number}: {} bytes", came.len());
            if end == HostEnd::Half {
                client.send(prose(MANY, 9)).await?;
                client.finish().await?;
            }
            drop(client);
            let read = timeout(LIMIT, reads.recv()).await?.context("the host has read")?;
            if end == HostEnd::Half {
                assert!(read[14..] == prose(MANY, 9), "{} bytes went up", read.len());
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn all_bytes_of_a_client_arrive_before_its_end() -> Result<()> {
    let (address, mut reads) = host(HostEnd::Half).await?;
    let pair = slow_pair(address).await?;
    for is_reset in [false, true, false, true] {
        let mut client = tunnel(&pair, false).await?;
        client.send("hello").await?;
        client.send(prose(MANY, 3)).await?;
        // It goes away although the host still sends: what it has not read makes its system send RST.
        if is_reset {
            client.read().await?;
        }
        drop(client);
        let read = timeout(LIMIT, reads.recv()).await?.context("the host has read")?;
        assert!(
            read[5..] == prose(MANY, 3),
            "{} bytes of a client that left ({is_reset})",
            read.len()
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_beginning_of_a_body_that_breaks_off_arrives() -> Result<()> {
    const PART: usize = 60_000;
    let origin = RawOrigin::start(|path| {
        let head = match path {
            "/length" => format!("Content-Length: {}\r\n\r\n", 2 * PART),
            _ => format!("Transfer-Encoding: chunked\r\n\r\n{PART:x}\r\n"),
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{head}");
        [head.into_bytes(), prose(PART, 1)].concat()
    })
    .await?;
    for link in [Link::Direct, SLOW] {
        let names = [("host.tests", origin.address())];
        let pair = Pair::start(Setup::resolving(&names).over(link)).await?;
        for path in ["/length", "/chunks"] {
            let url = format!("http://host.tests{path}");
            let response = ask(pair.proxy(), get(&url, &[])).await?;
            assert_eq!(
                (response.status, response.ending),
                (200, Ending::Truncated),
                "{path}"
            );
            assert!(
                response.body == prose(PART, 1),
                "{path}: {} bytes",
                response.body.len()
            );
        }
    }
    // Without a gateway.
    let setup = Setup {
        agent_arguments: vec![
            "--direct-allow".to_owned(),
            "127.0.0.0/8".to_owned(),
            "--fallback-after".to_owned(),
            "100ms".to_owned(),
        ],
        ..Setup::default()
    };
    let mut pair = Pair::start(setup).await?;
    pair.kill_gateway().await?;
    for path in ["/length", "/chunks"] {
        let url = format!("http://{}{path}", origin.address());
        let response = ask(pair.proxy(), get(&url, &[])).await?;
        assert_eq!(
            (response.status, response.ending),
            (200, Ending::Truncated),
            "{path}"
        );
        assert!(
            response.body == prose(PART, 1),
            "{path}: {} bytes",
            response.body.len()
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_closed_tunnel_lasts_as_long_as_bytes_come() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let asked = Arc::new(tokio::sync::Notify::new());
    let is_asked = Arc::clone(&asked);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let mut question = Vec::new();
        stream.read_to_end(&mut question).await?;
        is_asked.notify_one();
        stream.write_all(&prose(MANY, 5)).await?;
        anyhow::Ok(())
    });
    let pair = slow_pair(address).await?;
    let mut client = tunnel(&pair, true).await?;
    client.send("question").await?;
    client.finish().await?;
    timeout(Duration::from_secs(30), asked.notified()).await?;
    assert!(rest(&mut client).await? == prose(MANY, 5));
    Ok(())
}
