//! A network that wants a login first.
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use anyhow::{Result, ensure};
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{
    client::{Ending, ask, get},
    origin::Origin,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
};

use super::harness::{HOST, Net, Plug, Programs};
use crate::{content::ok, pair::LIMIT};

const GATEWAY_LINES: &str = "[portal]\nlisten = \"10.91.0.1:8081\"\n";
/// Where the gateway answers questions, behind the box of the portal.
const BEHIND: &str = "10.91.0.1:8081";
/// The box's own address.
const BOX: Ipv4Addr = Ipv4Addr::new(10, 91, 1, 1);
const LOGIN: &str = "http://10.91.1.1/login";
const PAGE: &str = "<!doctype html><title>A page</title><p>Text";

async fn origin() -> Result<Origin> {
    Origin::start(
        None,
        |_| {},
        |_: Request<Incoming>| async { ok("text/html", PAGE) },
    )
    .await
}

/// The box: it answers plain HTTP in the place of all hosts until somebody is logged in, and then passes it.
async fn portal(is_open: Arc<AtomicBool>) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 80)).await?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let is_open = is_open.load(SeqCst);
            tokio::spawn(async move { drop(serve(stream, is_open).await) });
        }
    });
    Ok(())
}

async fn serve(mut stream: TcpStream, is_open: bool) -> Result<()> {
    let is_own = stream.local_addr()?.ip() == BOX;
    if is_open && !is_own {
        let mut gateway = TcpStream::connect(BEHIND.parse::<SocketAddr>()?).await?;
        copy_bidirectional(&mut stream, &mut gateway).await?;
        return Ok(());
    }
    let mut request = vec![0; 4096];
    let read = stream.read(&mut request).await?;
    let answer = if is_own && request[..read].starts_with(b"GET /login ") {
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nLog in".to_owned()
    } else {
        format!("HTTP/1.1 302 Found\r\nLocation: {LOGIN}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    };
    stream.write_all(answer.as_bytes()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_opens_after_the_login_and_the_page_loads() -> Result<()> {
    let Some(net) = Net::build()? else { return Ok(()) };
    net.plug(Plug::new(1))?;
    net.block_udp(1, true)?;
    let is_open = Arc::new(AtomicBool::new(false));
    let portal_is_open = Arc::clone(&is_open);
    net.far.run(move || portal(portal_is_open)).await?;
    let programs = Programs::start_with(&net, origin, GATEWAY_LINES).await?;
    let proxy = programs.proxy();
    let status = programs
        .status_until(|status| status["state"] == "portal")
        .await?;
    assert_eq!(
        (&status["trouble"]["kind"], &status["trouble"]["login_page"]),
        (&"captive_portal".into(), &LOGIN.into()),
        "{status:#}"
    );
    programs
        .agent()
        .log()
        .contains("wants a login first", LIMIT)
        .await?;
    let page = net
        .computer
        .run(move || ask(proxy, get(&format!("http://{HOST}/page"), &[])));
    let log_in = async {
        let login = net.computer.run(move || ask(proxy, get(LOGIN, &[]))).await?;
        ensure!(login.text() == "Log in", "{}", login.text());
        net.block_udp(1, false)?;
        is_open.store(true, SeqCst);
        Ok(())
    };
    let (page, ()) = tokio::try_join!(page, log_in)?;
    assert_eq!(
        (page.status, page.ending, page.text().as_str()),
        (200, Ending::Whole, PAGE)
    );
    let status = programs.status_until(|status| status["state"] == "open").await?;
    assert_eq!(
        (
            &status["trouble"],
            &status["sessions"],
            &status["direct_requests"]
        ),
        (&serde_json::Value::Null, &1.into(), &1.into()),
        "{status:#}"
    );
    Ok(())
}
