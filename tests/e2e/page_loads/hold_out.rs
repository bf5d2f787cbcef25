//! Visits that go direct, so that their times are compared with those through the gateway.
use anyhow::Result;
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

/// One tunnel in 50 goes direct.
#[tokio::test(flavor = "multi_thread")]
async fn one_tunnel_in_fifty_goes_direct() -> Result<()> {
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
    // On a busy machine the round trip changes, and with it the class of the link: each has a count of its own.
    for visits in 1..=1000_u64 {
        visit().await?;
        let direct = pair.status().await?["direct_requests"].as_u64().unwrap_or(0);
        assert!(direct * 50 <= visits, "{direct} of {visits}");
        if direct > 0 {
            return Ok(());
        }
    }
    anyhow::bail!("no tunnel of 1000 was held out")
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
    let mut held_out = 0;
    for visits in 1..=1000_u64 {
        assert_eq!(visitor.page(&url).await?.text(), "<title>Page</title>");
        held_out = pair.status().await?["direct_requests"].as_u64().unwrap_or(0);
        assert!(held_out * 50 <= visits + 1, "{held_out} of {visits}");
        if held_out > 0 {
            break;
        }
    }
    assert!(held_out > 0, "no page of 1000 was held out");
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
    assert!(compared(&paused, "pages").is_some(), "{paused}");
    Ok(())
}
