//! Outages of the hop suspend transfers without an error.
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::Request;
use hyper::body::Incoming;
use longhaul_chromium::{Browser, BrowserOptions};
use longhaul_tests::{
    client::{Ending, ask, get},
    origin::Origin,
    relay::{Direction, Passage, Relay},
};
use longhaul_types::BitRate;
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    content::{noise, ok},
    pair::{LIMIT, Link, Pair, Setup},
};

const SIZE: usize = 2_000_000;
/// Bytes of both downloads together after which the outage begins.
const BYTES_BEFORE_OUTAGE: u64 = 1_000_000;
const OUTAGE: Duration = Duration::from_secs(40);
/// Downloads the file in a page and computes a checksum: crypto.subtle requires a secure origin.
const DOWNLOAD: &str = "fetch('/file').then(answer => answer.arrayBuffer()).then(buffer => {
    let sum = 7; const bytes = new Uint8Array(buffer);
    for (const byte of bytes) sum = (Math.imul(sum, 31) + byte) >>> 0;
    return bytes.length + ' ' + sum;
})";

fn sum(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(7_u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(*byte))
    });
    format!("{} {sum}", bytes.len())
}

async fn origin() -> Result<Origin> {
    Origin::start(
        None,
        |_| {},
        |request: Request<Incoming>| async move {
            match request.uri().path() {
                "/file" => ok("application/octet-stream", noise(SIZE, 20)),
                _ => ok(
                    "text/html",
                    "<!doctype html><title>Files</title><link rel=icon href=data:,><p>A file",
                ),
            }
        },
    )
    .await
}

/// Blocks the hop for `OUTAGE` and returns the agent's status in the last seconds of it.
async fn outage(pair: &Pair, relay: &Relay) -> Result<Value> {
    relay
        .has_passed(Direction::Down, BYTES_BEFORE_OUTAGE, LIMIT)
        .await?;
    relay.set(Direction::Down, Passage::Blocked);
    relay.set(Direction::Up, Passage::Blocked);
    let began = Instant::now();
    let stalled = pair.status_until(|status| status["state"] == "stalled").await?;
    println!(
        "the agent noticed the outage after {:.1} s",
        began.elapsed().as_secs_f64()
    );
    ensure!(
        began.elapsed() < OUTAGE,
        "the agent noticed the outage only after {:?}",
        began.elapsed()
    );
    // Only the end of this time ends the wait.
    let ended = timeout(
        OUTAGE.saturating_sub(began.elapsed()),
        std::future::pending::<()>(),
    )
    .await;
    ensure!(ended.is_err());
    let last = pair.status().await?;
    relay.set(Direction::Down, Passage::Open);
    relay.set(Direction::Up, Passage::Open);
    ensure!(
        last["state"] == "stalled",
        "after {OUTAGE:?} the state is {last:#}"
    );
    Ok(stalled)
}

#[tokio::test(flavor = "multi_thread")]
async fn downloads_resume_after_an_outage_of_forty_seconds() -> Result<()> {
    let origin = origin().await?;
    let setup = Setup::resolving(&[("files.test", origin.address())]);
    let pair = Pair::start(setup.over(Link::Paced(BitRate::kbps(3000)))).await?;
    let mut browser = Browser::start(&BrowserOptions::behind(pair.proxy())).await?;
    // Noise is incompressible, so each download transfers its full size over the link.
    let in_browser = browser.evaluate("http://files.test/", DOWNLOAD, 3 * LIMIT);
    let in_browser = async { Ok(in_browser.await?) };
    let raw = ask(pair.proxy(), get("http://files.test/file", &[]));
    let began = Instant::now();
    let (summed, response, stalled) = tokio::try_join!(in_browser, raw, outage(&pair, pair.relay()))?;
    println!(
        "both downloads took {:.1} s including the outage of {OUTAGE:?}",
        began.elapsed().as_secs_f64()
    );
    assert_eq!((response.status, response.ending), (200, Ending::Whole));
    assert!(
        response.body == noise(SIZE, 20),
        "{} bytes that differ from the file",
        response.body.len()
    );
    assert_eq!(summed.as_str().context("a sum")?, sum(&noise(SIZE, 20)));
    assert_eq!(stalled["state"], "stalled");

    let status = pair.status_until(|status| status["state"] == "open").await?;
    println!(
        "state {}, sessions {}, repeated {}",
        status["state"], status["sessions"], status["repeated"]
    );
    assert_eq!(
        status["sessions"], 1,
        "there is still one session after the outage: {status:#}"
    );
    assert_eq!(
        (&status["truncated"], &status["repeated"]),
        (&0.into(), &0.into()),
        "{status:#}"
    );
    let fetched = origin.seen().iter().filter(|seen| seen.path == "/file").count();
    assert_eq!(fetched, 2, "each file was fetched once");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_during_an_outage_is_answered_after_it() -> Result<()> {
    let origin = origin().await?;
    let setup = Setup::resolving(&[("files.test", origin.address())]);
    let pair = Pair::start(setup.over(Link::Relayed)).await?;
    assert_eq!(pair.get("http://files.test/").await?.status, 200);
    let relay = pair.relay();
    relay.set(Direction::Down, Passage::Blocked);
    relay.set(Direction::Up, Passage::Blocked);
    let request = ask(pair.proxy(), get("http://files.test/file", &[]));
    let back = async {
        pair.status_until(|status| status["state"] == "stalled").await?;
        relay.set(Direction::Down, Passage::Open);
        relay.set(Direction::Up, Passage::Open);
        Ok(())
    };
    let began = Instant::now();
    let (response, ()) = tokio::try_join!(request, back)?;
    println!(
        "the response arrived {:.1} s after the request",
        began.elapsed().as_secs_f64()
    );
    assert_eq!((response.status, response.ending), (200, Ending::Whole));
    assert!(response.body == noise(SIZE, 20));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_pair_sends_almost_nothing() -> Result<()> {
    const OBSERVATION: Duration = Duration::from_secs(20);
    let origin = origin().await?;
    let setup = Setup::resolving(&[("files.test", origin.address())]);
    let pair = Pair::start(setup.over(Link::Relayed).counted()).await?;
    assert_eq!(pair.get("http://files.test/file").await?.status, 200);
    let relay = pair.relay();
    // Wait for the last acknowledgements of the download.
    let settled = timeout(Duration::from_secs(1), std::future::pending::<()>()).await;
    ensure!(settled.is_err());
    let before = (relay.passed(Direction::Down), relay.passed(Direction::Up));
    let watched = timeout(OBSERVATION, std::future::pending::<()>()).await;
    ensure!(watched.is_err());
    let down = relay.passed(Direction::Down) - before.0;
    let up = relay.passed(Direction::Up) - before.1;
    println!("idle for {OBSERVATION:?}: {down} bytes down, {up} bytes up");
    assert!(
        down + up < 2000,
        "{down} bytes down, {up} bytes up in {OBSERVATION:?} without requests"
    );
    Ok(())
}
