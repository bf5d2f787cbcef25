//! WebSockets of accelerated hosts.
use std::{net::SocketAddr, sync::Arc};

use anyhow::Result;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{authority::TestAuthority, origin::Origin};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use super::{Accelerated, LOAD};
use crate::content::ok;

/// A server of WebSockets that sends back what it gets; where, and the path of each request.
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
    let said = browser.evaluate("https://safe.test/", talk, LOAD).await?;
    assert_eq!(said, "hello true");
    let status = site.pair.status().await?;
    assert_eq!(
        status["https"]["spared"].as_array().map(Vec::len),
        Some(0),
        "{status}"
    );
    // A host that does not want it says so itself.
    let ours = site.exported().await?;
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
