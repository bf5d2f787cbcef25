//! Visits that go direct, so that their times are compared with those through the gateway.
use anyhow::{Context as _, Result};
use longhaul_tests::{
    client::{RawClient, ask, get},
    origin::Origin,
};
use serde_json::Value;

use super::{answer, origin, rules::rules, visitor::Visitor};
use crate::pair::{Pair, Setup};

/// What the status says about a kind of visit.
fn compared<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = status["hold_out"].as_array()?;
    all.iter().find(|compared| compared["kind"] == kind)
}

/// An origin on this machine, and a pair over a fast link whose agent may reach it directly.
async fn fast_pair() -> Result<(Origin, Pair, String)> {
    let origin = origin(|_| {
        let fields = [("Content-Type", "text/html"), ("Cache-Control", "no-store")];
        answer(200, &fields, "<title>Page</title>")
    })
    .await?;
    let mut setup = Setup::resolving(&[("localhost", origin.address())]);
    let direct = [
        "--fallback-after",
        "120s",
        "--direct-allow",
        "127.0.0.0/8, ::1",
        "--link",
        "lan-fast",
    ];
    setup.agent_arguments = direct.map(str::to_owned).to_vec();
    let pair = Pair::start(setup).await?;
    let host = format!("localhost:{}", origin.address().port());
    Ok((origin, pair, host))
}

/// One tunnel in 50 goes direct, and its time is compared with those of the others.
#[tokio::test(flavor = "multi_thread")]
async fn one_tunnel_in_fifty_is_compared() -> Result<()> {
    let (_origin, pair, host) = fast_pair().await?;
    let visit = async || -> Result<()> {
        let mut tunnel = RawClient::connect(pair.proxy()).await?;
        tunnel
            .send(format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
            .await?;
        assert_eq!(tunnel.head().await?.status, 200);
        tunnel
            .send(format!(
                "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
            ))
            .await?;
        assert_eq!(tunnel.response().await?.text(), "<title>Page</title>");
        Ok(())
    };
    for _ in 0..60 {
        visit().await?;
    }
    let status = pair
        .status_until(|status| compared(status, "tunnels").is_some_and(|tunnels| tunnels["comparisons"] == 1))
        .await?;
    let tunnels = compared(&status, "tunnels").context("tunnels are compared")?;
    assert_eq!(
        (&tunnels["held_out"], &tunnels["visits"]),
        (&1.into(), &60.into())
    );
    assert!(tunnels["median"].as_f64() > Some(0.0), "{tunnels}");
    assert_eq!(status["direct_requests"], 1);
    Ok(())
}

/// One visit in 50 goes direct, once the agent knows that the link is fast and costs nothing; not with cookies, and not
/// while the site is paused, which goes direct anyway.
#[tokio::test(flavor = "multi_thread")]
async fn one_page_in_fifty_goes_direct_on_a_fast_link() -> Result<()> {
    let (_origin, pair, host) = fast_pair().await?;
    let url = format!("http://{host}/");
    let visitor = Visitor::new(pair.proxy());
    // The first visit makes the agent ask whether the link costs by the byte.
    visitor.page(&url).await?;
    for _ in 0..120 {
        assert_eq!(visitor.page(&url).await?.text(), "<title>Page</title>");
    }
    let status = pair.status().await?;
    let pages = compared(&status, "pages").context("pages are compared")?;
    let held_out = pages["held_out"].as_u64().context("a count")?;
    assert!((1..=2).contains(&held_out), "{status}");
    assert_eq!(status["direct_requests"].as_u64(), Some(held_out));
    // Requests with cookies never go direct.
    let with_cookie = Visitor::new(pair.proxy()).with_cookie(&host, "user", "1");
    for _ in 0..120 {
        with_cookie.page(&url).await?;
    }
    let after = pair.status().await?;
    assert_eq!(after["direct_requests"].as_u64(), Some(held_out), "{after}");
    rules(&pair, &["pause", "localhost"]).await?;
    assert_eq!(ask(pair.proxy(), get(&url, &[])).await?.status, 200);
    let paused = pair.status().await?;
    let pages = compared(&paused, "pages").context("pages are compared")?;
    assert_eq!(pages["held_out"].as_u64(), Some(held_out));
    Ok(())
}
