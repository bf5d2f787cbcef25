//! Direct fetches of the agent to local addresses.
use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use anyhow::Result;
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{
    client::{RawResponse, ask, get, request},
    origin::Origin,
    process::Running,
};

use crate::{
    content::ok,
    pair::{control, folder, free_udp_port, invite, start_agent},
};

/// An agent whose gateway does not answer, with further settings.
async fn agent_without_gateway(folder: &Path, more: &[&str]) -> Result<Running> {
    let line = invite(folder, "alone", &free_udp_port().await?.to_string()).await?;
    let mut arguments = vec!["--fallback-after".to_owned(), "1s".to_owned()];
    arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
    start_agent(folder, &line, &arguments).await
}

/// A field of browsers, and so of pages: programs reach local addresses.
const BROWSER: (&str, &str) = ("User-Agent", "Mozilla/5.0");

/// Sends a request and a CONNECT request of a browser for the same target.
async fn request_and_connect(proxy: SocketAddr, target: &str) -> Result<[RawResponse; 2]> {
    let connect = request("CONNECT", target, &[BROWSER]);
    Ok([
        ask(proxy, get(&format!("http://{target}/"), &[BROWSER])).await?,
        ask(proxy, connect).await?,
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn direct_fallback_reaches_neither_local_addresses_nor_the_agent() -> Result<()> {
    let admitted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&admitted);
    let origin = Origin::start(
        None,
        move |_| {
            count.fetch_add(1, Relaxed);
        },
        |_: Request<Incoming>| async { ok("text/plain", "hello") },
    )
    .await?;
    let port = origin.address().port();
    let closed = folder()?;
    let agent = agent_without_gateway(closed.path(), &[]).await?;
    let control_at = control(closed.path())?;
    for host in [
        "127.0.0.1",
        "localhost",
        "any.localhost",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "0.0.0.0",
        "127.0.0.2",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "169.254.169.254",
        "169.254.1.1",
        "[fe80::1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::1]",
    ] {
        for port in [port, control_at.port()] {
            for answer in request_and_connect(agent.address(), &format!("{host}:{port}")).await? {
                assert!(
                    matches!(answer.status, 400 | 403),
                    "{host}:{port}: {} {}",
                    answer.status,
                    answer.text()
                );
                if answer.status == 403 {
                    assert!(
                        answer.text().contains("direct.allow"),
                        "{host}: {}",
                        answer.text()
                    );
                }
            }
        }
    }
    assert_eq!(
        admitted.load(Relaxed),
        0,
        "the agent connected to a refused target"
    );

    // Addresses that the settings allow are reached, except for the agent's own ports.
    let open = folder()?;
    let agent = agent_without_gateway(open.path(), &["--direct-allow", "127.0.0.0/8, ::1"]).await?;
    let answer = ask(
        agent.address(),
        get(&format!("http://127.0.0.1:{port}/"), &[BROWSER]),
    )
    .await?;
    assert_eq!(answer.text(), "hello");
    let control_at = control(open.path())?;
    for host in ["127.0.0.1", "localhost", "127.0.0.2", "[::ffff:127.0.0.1]"] {
        for answer in request_and_connect(agent.address(), &format!("{host}:{}", control_at.port())).await? {
            assert_eq!(answer.status, 403, "{host}: {}", answer.text());
        }
        let own = request(
            "CONNECT",
            &format!("{host}:{}", agent.address().port()),
            &[BROWSER],
        );
        assert_eq!(ask(agent.address(), own).await?.status, 403, "{host}");
    }
    Ok(())
}
