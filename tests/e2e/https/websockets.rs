//! WebSockets over https.
use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, Result};
use futures_util::{SinkExt as _, StreamExt as _, TryStreamExt as _};
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{authority::TestAuthority, origin::Origin};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::{client_async, tungstenite::Message};

use super::{
    Accelerated, LOAD_LIMIT,
    outage::{FAST, HOSTS, outage, pair_with_relay},
};
use crate::{content::ok, pair::LIMIT};

/// A WebSocket server that echoes all messages; returns its address and the path of each request.
async fn echo(tls: Arc<ServerConfig>) -> Result<(SocketAddr, JoinSet<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut sockets = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let tls = TlsAcceptor::from(Arc::clone(&tls));
            sockets.spawn(async move {
                let Ok(stream) = tls.accept(stream).await else {
                    return;
                };
                let Ok(socket) = tokio_tungstenite::accept_async(stream).await else {
                    return;
                };
                let (to, from) = socket.split();
                let messages =
                    from.try_filter(|message| std::future::ready(message.is_text() || message.is_binary()));
                drop(messages.forward(to).await);
            });
        }
    });
    Ok((address, tasks))
}

#[tokio::test(flavor = "multi_thread")]
async fn websockets_of_accelerated_hosts_work() -> Result<()> {
    let authority = TestAuthority::new()?;
    let (sockets, _serving) = echo(authority.server(&["chat.test"])?).await?;
    let tls = authority.server(&["safe.test"])?;
    let origin = Origin::start(
        Some(tls),
        |_| {},
        |_: Request<Incoming>| async { ok("text/html", "<!doctype html><link rel=icon href=data:,>") },
    )
    .await?;
    let names = [("safe.test", origin.address()), ("chat.test", sockets)];
    let site = Accelerated::start(&names, &authority, "safe.test,chat.test").await?;
    let mut browser = site.browser(&[]).await?;
    let talk = "new Promise((done, fail) => { const socket = new WebSocket('wss://chat.test/talk?a=b');
        const text = 'x'.repeat(200000); socket.onopen = () => { socket.send('hello'); socket.send(text) };
        let got = []; socket.onerror = () => fail('no socket');
        socket.onmessage = message => { got.push(message.data); if (got.length == 2) done(got[0] + ' ' + (got[1] === text)) } })";
    let result = browser.evaluate("https://safe.test/", talk, LOAD_LIMIT).await?;
    assert_eq!(result, "hello true");
    let status = site.pair.status().await?;
    assert_eq!(
        status["https"]["bypassed"].as_array().map(Vec::len),
        Some(0),
        "{status}"
    );
    // The origin itself refuses an upgrade.
    let ours = site.exported_authority().await?;
    let mut plain = site.connect("safe.test", &ours, &[b"http/1.1"]).await?;
    plain
        .write_all(
            b"GET /cookie HTTP/1.1\r\nHost: safe.test\r\nCookie: a=2\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        )
        .await?;
    let mut answer = vec![0; 12];
    plain.read_exact(&mut answer).await?;
    assert_eq!(answer, b"HTTP/1.1 200");
    Ok(())
}

/// Numbered messages before, during and after an outage: each is echoed once, in order.
#[tokio::test(flavor = "multi_thread")]
async fn websocket_messages_survive_an_outage() -> Result<()> {
    const MESSAGES_PER_PHASE: usize = 40;
    let authority = TestAuthority::new()?;
    let (sockets, _serving) = echo(authority.server(&HOSTS)?).await?;
    let site = pair_with_relay(&authority, sockets).await?;
    let ours = site.exported_authority().await?;
    let mut talks = Vec::new();
    for host in HOSTS {
        let trusted = if host == FAST { &ours } else { authority.pem() };
        let stream = site.connect(host, trusted, &[b"http/1.1"]).await?;
        let (talk, _response) = client_async(format!("wss://{host}/talk"), stream).await?;
        talks.push((host, talk.split()));
    }
    // Lengths that vary around the size of a packet.
    let message = |number: usize| format!("{number}:{}", "x".repeat(number * 97 % 3000));
    for part in 0..3 {
        let numbers = part * MESSAGES_PER_PHASE..(part + 1) * MESSAGES_PER_PHASE;
        let during_outage = async {
            for number in numbers.clone() {
                for (_, (to, _)) in &mut talks {
                    to.send(Message::text(message(number))).await?;
                }
            }
            Ok(())
        };
        if part == 1 {
            outage(&site, during_outage).await?;
        } else {
            during_outage.await?;
        }
        for number in numbers {
            for (host, (_, from)) in &mut talks {
                let came = timeout(LIMIT, from.next()).await;
                let came = came.with_context(|| format!("{host}: no message {number}"))?;
                let came = came.context("the stream ended")??.into_text()?;
                assert_eq!(came.as_str(), message(number), "{host}");
            }
        }
    }
    for (host, (mut to, mut from)) in talks {
        to.send(Message::Close(None)).await?;
        let last = timeout(LIMIT, from.next())
            .await
            .context("the connection does not end")?;
        // A Close frame of the server, or the end of the connection.
        let is_message = matches!(last, Some(Ok(Message::Text(_) | Message::Binary(_))));
        assert!(!is_message, "{host}: {last:?}");
    }
    Ok(())
}
