//! Requests that must not be repeated, and requests that may travel in early data.
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use anyhow::{Context, Result};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use longhaul_tests::{
    client::{RawClient, ask, get, request},
    origin::{Origin, Seen},
    relay::{Direction, Passage},
};
use tokio::{sync::watch, time::timeout};

use super::site;
use crate::{
    content::ok,
    pair::{LIMIT, Link, Pair, control, status_until},
};

/// An origin that counts requests and does not answer while `deaf` is set.
#[derive(Clone)]
struct UnresponsiveOrigin {
    deaf: Arc<AtomicBool>,
    got: watch::Sender<usize>,
}

impl UnresponsiveOrigin {
    fn new() -> Self {
        Self {
            deaf: Arc::new(AtomicBool::new(true)),
            got: watch::Sender::new(0),
        }
    }

    async fn origin(&self) -> Result<Origin> {
        let state = self.clone();
        Origin::start(
            None,
            |_| {},
            move |request: Request<Incoming>| {
                let state = state.clone();
                async move {
                    let _whole = request.into_body().collect().await;
                    state.got.send_modify(|got| *got += 1);
                    if state.deaf.load(SeqCst) {
                        std::future::pending::<()>().await;
                    }
                    ok("text/plain", "done")
                }
            },
        )
        .await
    }

    async fn wait_for_requests(&self, requests: usize) -> Result<()> {
        let mut got = self.got.subscribe();
        timeout(LIMIT, got.wait_for(|got| *got >= requests))
            .await
            .context("no request reached the origin")??;
        Ok(())
    }
}

fn count(origin: &Origin, method: &str) -> usize {
    origin.seen().iter().filter(|seen| seen.method == method).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_lost_response_a_get_is_repeated_and_a_post_is_not() -> Result<()> {
    let state = UnresponsiveOrigin::new();
    let origin = state.origin().await?;
    let mut pair = Pair::start(site(origin.address())).await?;
    let mut poster = RawClient::connect(pair.proxy()).await?;
    poster
        .send(request("POST", "http://site.test/order", &[("Content-Length", "5")]) + "1 egg")
        .await?;
    let mut getter = RawClient::connect(pair.proxy()).await?;
    getter.send(get("http://site.test/page", &[])).await?;
    state.wait_for_requests(2).await?;

    pair.kill_gateway().await?;
    state.deaf.store(false, SeqCst);
    pair.start_gateway().await?;

    let got = getter.response().await?;
    assert_eq!((got.status, got.text().as_str()), (200, "done"), "{got:?}");
    let lost = poster.response().await?;
    println!("the lost POST:\n{}", lost.text());
    assert_eq!(lost.status, 502, "{lost:?}");
    assert!(
        lost.text().contains("may or may not have received it"),
        "{}",
        lost.text()
    );
    assert!(lost.text().contains("Check whether"), "{}", lost.text());

    // Both programs run again; a stored POST would have been repeated by now.
    assert_eq!(pair.get("http://site.test/after").await?.status, 200);
    assert_eq!(count(&origin, "POST"), 1, "the POST reached the origin once");
    assert_eq!(count(&origin, "GET"), 3, "the GET was repeated");
    let posted = ask(
        pair.proxy(),
        request("POST", "http://site.test/order", &[("Content-Length", "0")]),
    )
    .await?;
    assert_eq!(posted.status, 200, "a new POST succeeds");
    assert_eq!(count(&origin, "POST"), 2);
    Ok(())
}

fn early(seen: &Seen) -> bool {
    seen.headers.get("early-data").is_some_and(|value| value == "1")
}

#[tokio::test(flavor = "multi_thread")]
async fn only_safe_requests_travel_in_early_data() -> Result<()> {
    let got = watch::Sender::new(0);
    let counter = got.clone();
    let origin = Origin::start(
        None,
        |_| {},
        move |request: Request<Incoming>| {
            let counter = counter.clone();
            async move {
                let is_early = request.headers().contains_key("early-data");
                let mut response = ok("text/plain", "done");
                if request.uri().path() == "/unwilling" && is_early {
                    *response.status_mut() = StatusCode::TOO_EARLY;
                }
                counter.send_modify(|got| *got += 1);
                response
            }
        },
    )
    .await?;
    let pair = Pair::start(site(origin.address()).over(Link::Relayed)).await?;
    let relay = pair.relay();
    // The agent has connected before and starts again while the gateway's datagrams are blocked, so all its
    // requests at the origin arrived in early data. (A token of an invite can be older than the gateway's
    // start and is then not valid for early data.)
    let agent = pair.second_agent("early").await?;
    status_until(control(&pair.folder().join("early"))?, |status| {
        status["state"] == "open"
    })
    .await?;
    agent.end("TERM", LIMIT).await?;
    relay.set(Direction::Down, Passage::Blocked);
    let agent = pair.second_agent("early").await?;
    let mut clients = Vec::new();
    for (method, path, field) in [
        ("POST", "/post", ("Content-Length", "0")),
        ("DELETE", "/delete", ("X-Any", "1")),
        ("GET", "/secret", ("Authorization", "Basic dTpw")),
        ("GET", "/unwilling", ("X-Any", "1")),
        ("GET", "/page", ("X-Any", "1")),
    ] {
        let mut client = RawClient::connect(agent.address()).await?;
        client
            .send(request(method, &format!("http://site.test{path}"), &[field]))
            .await?;
        clients.push((path, client));
    }
    let mut arrived = got.subscribe();
    timeout(LIMIT, arrived.wait_for(|got| *got >= 2))
        .await
        .context("no early request reached the origin")??;
    let mut first: Vec<_> = origin
        .seen()
        .into_iter()
        .map(|seen| (seen.path.clone(), early(&seen)))
        .collect();
    first.sort();
    assert_eq!(
        first,
        [("/page".to_owned(), true), ("/unwilling".to_owned(), true)]
    );

    relay.set(Direction::Down, Passage::Open);
    for (path, mut client) in clients {
        let response = client.response().await?;
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, "done"),
            "{path}: {response:?}"
        );
    }
    let seen = origin.seen();
    for path in ["/post", "/delete", "/secret"] {
        let of_path: Vec<bool> = seen.iter().filter(|seen| seen.path == path).map(early).collect();
        assert_eq!(of_path, [false], "{path}");
    }
    let unwilling: Vec<bool> = seen
        .iter()
        .filter(|seen| seen.path == "/unwilling")
        .map(early)
        .collect();
    assert_eq!(
        unwilling,
        [true, false],
        "the gateway repeats a refused request without early data"
    );
    let page: Vec<bool> = seen
        .iter()
        .filter(|seen| seen.path == "/page")
        .map(early)
        .collect();
    assert_eq!(page, [true], "once");
    Ok(())
}
