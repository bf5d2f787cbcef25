//! Visits that go direct, so that their times are compared with those through the gateway.
use anyhow::{Context as _, Result};
use longhaul_tests::client::{ask, get};
use serde_json::Value;

use super::{answer, origin, rules::rules, visitor::Visitor};
use crate::pair::{Pair, Setup};

/// What the status says about a kind of visit.
fn compared<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = status["hold_out"].as_array()?;
    all.iter().find(|compared| compared["kind"] == kind)
}

/// One visit in 50 goes direct, once the agent knows that the link is fast and costs nothing; not with cookies, and not
/// while the site is paused, which goes direct anyway.
#[tokio::test(flavor = "multi_thread")]
async fn one_visit_in_fifty_goes_direct_on_a_fast_link() -> Result<()> {
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
    let url = format!("http://localhost:{}/", origin.address().port());
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
    let host = format!("localhost:{}", origin.address().port());
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
