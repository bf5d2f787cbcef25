//! Visits that go direct, so that their times are compared with those through the gateway.
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Result;
use longhaul_tests::{
    client::{RawClient, ask, get},
    origin::Origin,
};
use serde_json::Value;
use tokio::time::{Instant, interval, sleep_until, timeout};

use super::{answer, origin, rules::rules, visitor::Visitor};
use crate::{
    doctor::is_root,
    pair::{LIMIT, Pair, Setup},
};

/// Arguments of an agent over a fast link that may reach origins on this machine directly.
const DIRECT: [&str; 6] = [
    "--fallback-after",
    "120s",
    "--direct-allow",
    "127.0.0.0/8, ::1",
    "--link",
    "lan-fast",
];

/// Name of the origin, by the hosts file of the agent and by the gateway's settings.
const NAME: &str = "site.test";

/// A pair whose gateway finds this origin under [`NAME`].
fn setup(origin: &Origin) -> Setup {
    Setup {
        agent_arguments: DIRECT.map(str::to_owned).to_vec(),
        agent_hosts: "127.0.0.1 site.test\n",
        ..Setup::resolving(&[(NAME, origin.address())])
    }
}

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
    let pair = Pair::start(setup(&origin)).await?;
    let host = format!("{NAME}:{}", origin.address().port());
    Ok((origin, pair, host))
}

/// Opens a tunnel to a host, and loads its page in it.
async fn tunnel(pair: &Pair, host: &str) -> Result<()> {
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
}

/// One tunnel in 50 goes direct.
#[tokio::test(flavor = "multi_thread")]
async fn one_tunnel_in_fifty_goes_direct() -> Result<()> {
    if !is_root("a hosts file for one program")? {
        return Ok(());
    }
    let (_origin, pair, host) = fast_pair().await?;
    // On a busy machine the round trip can change, and with it the class of the link: each has a count of its own.
    for visits in 1..=1000_u64 {
        tunnel(&pair, &host).await?;
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
    if !is_root("a hosts file for one program")? {
        return Ok(());
    }
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
    rules(&pair, &["pause", NAME]).await?;
    assert_eq!(ask(pair.proxy(), get(&url, &[])).await?.status, 200);
    let paused = pair.status().await?;
    assert!(compared(&paused, "pages").is_some(), "{paused}");
    Ok(())
}

/// The pages of one name at two origins: the gateway resolves it to one of them, the agent's direct connections go to
/// the other. Each answers after a time that can be changed, in milliseconds.
struct TwoWays {
    pair: Pair,
    host: String,
    through_gateway: (Origin, Arc<AtomicU64>),
    direct: (Origin, Arc<AtomicU64>),
}

/// Time of the slower origin: long beside what a busy machine needs for a visit.
const SLOW: u64 = 40;

impl TwoWays {
    async fn start() -> Result<Self> {
        let through_gateway = delayed_origin().await?;
        let direct = delayed_origin().await?;
        let pair = Pair::start(setup(&through_gateway.0)).await?;
        let host = format!("{NAME}:{}", direct.0.address().port());
        Ok(Self {
            pair,
            host,
            through_gateway,
            direct,
        })
    }

    fn set_times(&self, through_gateway: u64, direct: u64) {
        self.through_gateway.1.store(through_gateway, Relaxed);
        self.direct.1.store(direct, Relaxed);
    }

    /// Number of requests that came through the gateway, and of those that came directly.
    fn seen(&self) -> (usize, usize) {
        (self.through_gateway.0.seen().len(), self.direct.0.seen().len())
    }

    /// Visits the page until the status says that it is bypassed, or that it is not. Returns the number of visits.
    async fn visit_until(
        &self,
        kind: &str,
        is_bypassed: bool,
        visit: impl AsyncFn() -> Result<()>,
    ) -> Result<usize> {
        for visits in 1..=3000 {
            visit().await?;
            let status = self.pair.status().await?;
            if compared(&status, kind).is_some_and(|compared| compared["is_bypassed"] == is_bypassed) {
                return Ok(visits);
            }
        }
        anyhow::bail!("no verdict: {}", self.pair.status().await?["hold_out"])
    }

    /// Visits the page 48 times: all of them go direct if it is bypassed, else through the gateway, but for one at most.
    async fn expect(&self, is_bypassed: bool, visit: impl AsyncFn() -> Result<()>) -> Result<()> {
        let before = self.seen();
        for _ in 0..48 {
            visit().await?;
        }
        let after = self.seen();
        let (gateway, direct) = (after.0 - before.0, after.1 - before.1);
        let unusual = if is_bypassed { gateway } else { direct };
        assert_eq!(gateway + direct, 48);
        assert!(unusual <= 1, "{gateway} through the gateway, {direct} direct");
        Ok(())
    }

    /// The page is slow through the gateway until it is bypassed, and then fast until it is not.
    async fn is_bypassed_and_returns(&self, kind: &str, visit: impl AsyncFn() -> Result<()>) -> Result<()> {
        self.set_times(SLOW, 0);
        let visits = self.visit_until(kind, true, &visit).await?;
        assert!(visits >= 300, "a verdict after {visits} visits");
        self.expect(true, &visit).await?;
        self.set_times(0, SLOW);
        let visits = self.visit_until(kind, false, &visit).await?;
        assert!(visits >= 200, "a verdict after {visits} visits");
        self.expect(false, &visit).await
    }
}

/// An origin that answers after a time in milliseconds.
async fn delayed_origin() -> Result<(Origin, Arc<AtomicU64>)> {
    let time = Arc::new(AtomicU64::new(0));
    let of_origin = Arc::clone(&time);
    let answer = move |_| {
        let time = Duration::from_millis(of_origin.load(Relaxed));
        async move {
            // The time of this origin is what the agent compares.
            sleep_until(Instant::now() + time).await;
            let fields = [("Content-Type", "text/html"), ("Cache-Control", "no-store")];
            answer(200, &fields, "<title>Page</title>")
        }
    };
    Ok((Origin::start(None, |_| {}, answer).await?, time))
}

/// Tunnels go direct while they are slower through the gateway.
#[tokio::test(flavor = "multi_thread")]
async fn tunnels_go_direct_while_the_gateway_is_slower() -> Result<()> {
    if !is_root("a hosts file for one program")? {
        return Ok(());
    }
    let ways = TwoWays::start().await?;
    let visit = async || tunnel(&ways.pair, &ways.host).await;
    ways.is_bypassed_and_returns("tunnels", visit).await
}

/// What the comparisons say outlives an agent that is killed, and names no host.
#[tokio::test(flavor = "multi_thread")]
async fn a_bypass_outlives_a_killed_agent() -> Result<()> {
    if !is_root("a hosts file for one program")? {
        return Ok(());
    }
    let mut ways = TwoWays::start().await?;
    ways.set_times(SLOW, 0);
    ways.visit_until("tunnels", true, async || tunnel(&ways.pair, &ways.host).await)
        .await?;
    let file = ways.pair.folder().join("agent/hold-out");
    let kept = async {
        let mut looks = interval(Duration::from_millis(50));
        loop {
            looks.tick().await;
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if text.contains(" direct ") {
                return text;
            }
        }
    };
    let text = timeout(LIMIT, kept).await?;
    assert!(!text.contains(NAME), "{text}");
    ways.pair.kill_agent().await?;
    ways.pair.start_agent().await?;
    // The link has no class before its round trip is measured; a new verdict would take 300 visits.
    let visits = ways
        .visit_until("tunnels", true, async || tunnel(&ways.pair, &ways.host).await)
        .await?;
    assert!(visits < 50, "bypassed again after {visits} visits");
    // Until the agent has asked whether the link costs by the byte, visits take the usual way.
    for visits in 1..=100 {
        tunnel(&ways.pair, &ways.host).await?;
        if ways.pair.status().await?["direct_requests"] != 0 {
            break;
        }
        assert!(visits < 100, "no visit went direct after the restart");
    }
    ways.expect(true, async || tunnel(&ways.pair, &ways.host).await)
        .await
}

/// Pages go direct while they are slower through the gateway.
#[tokio::test(flavor = "multi_thread")]
async fn pages_go_direct_while_the_gateway_is_slower() -> Result<()> {
    if !is_root("a hosts file for one program")? {
        return Ok(());
    }
    let ways = TwoWays::start().await?;
    let visitor = Visitor::new(ways.pair.proxy());
    let url = format!("http://{}/", ways.host);
    let visit = async || {
        assert_eq!(visitor.page(&url).await?.text(), "<title>Page</title>");
        Ok(())
    };
    ways.is_bypassed_and_returns("pages", visit).await
}
