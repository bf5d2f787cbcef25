//! Transfers that survive a change of the network, of the NAT's port, and a suspension.
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{
    client::{Ending, RawClient, ask, get},
    origin::Origin,
    relay::{Direction, Relay},
};
use longhaul_types::BitRate;
use serde_json::Value;
use tokio::time::{interval, timeout};

use super::harness::{HOST, Net, Plug, Programs};
use crate::{
    content::{noise, ok},
    pair::{LIMIT, Link, Pair, Setup},
};

pub(super) const SIZE: usize = 20_000_000;
pub(super) const PAGE: &str = "<!doctype html><title>A page</title><img src=/picture.png><p>Text";

pub(super) async fn origin() -> Result<Origin> {
    Origin::start(
        None,
        |_| {},
        |request: Request<Incoming>| async move {
            match request.uri().path() {
                "/file" => ok("application/octet-stream", noise(SIZE, 30)),
                _ => ok("text/html", PAGE),
            }
        },
    )
    .await
}

/// Asserts that the transfers went on in the session with which they began.
pub(super) fn assert_one_session(status: &Value) {
    assert_eq!(status["sessions"], 1, "{status:#}");
    assert_eq!(
        (&status["truncated"], &status["repeated"], &status["failures"]),
        (&0.into(), &0.into(), &0.into()),
        "{status:#}"
    );
}

/// Length of the suspension of the agent.
fn suspension() -> Result<Duration> {
    let seconds = match std::env::var("LONGHAUL_SUSPENSION_SECONDS") {
        Ok(seconds) => seconds.parse().context("LONGHAUL_SUSPENSION_SECONDS")?,
        Err(_) => 20,
    };
    Ok(Duration::from_secs(seconds))
}

pub(super) fn fetched_files(origin: &Origin) -> usize {
    let seen = origin.seen();
    seen.iter().filter(|seen| seen.path == "/file").count()
}

/// Downloads the file; after each part of it, calls `between`.
pub(super) async fn download(
    proxy: std::net::SocketAddr,
    parts: usize,
    mut between: impl AsyncFnMut(usize) -> Result<()>,
) -> Result<Vec<u8>> {
    let mut client = RawClient::connect(proxy).await?;
    client.send(get(&format!("http://{HOST}/file"), &[])).await?;
    let head = client.head().await?;
    ensure!(head.status == 200, "{head:?}");
    let mut body = Vec::with_capacity(SIZE);
    for part in 0..parts {
        let end = SIZE * (part + 1) / parts;
        while body.len() < end {
            let bytes = client.read().await?;
            ensure!(!bytes.is_empty(), "{} of {SIZE} bytes", body.len());
            body.extend(bytes);
        }
        if part + 1 < parts {
            between(part).await?;
        }
    }
    Ok(body)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_and_a_page_survive_new_networks() -> Result<()> {
    let Some(net) = Net::build()? else { return Ok(()) };
    net.plug(Plug::new(1))?;
    let programs = Programs::start(&net, origin).await?;
    programs.status_until(|status| status["state"] == "open").await?;
    let (proxy, moving) = (programs.proxy(), Arc::clone(&net));
    let log = programs.agent().log().clone();
    // The computer goes from network 1 to 2 and back while the file is on the way.
    let work = net.computer.run(move || async move {
        let began = Instant::now();
        let body = download(proxy, 4, async |part| {
            match part {
                0 => moving.unplug(1).and_then(|()| moving.plug(Plug::new(2)))?,
                1 => moving.unplug(2).and_then(|()| moving.plug(Plug::new(1)))?,
                _ => return Ok(()),
            }
            // The rest of the file arrives in a moment.
            log.until(|text| changes_in(text) > part).await.map(drop)
        })
        .await?;
        println!(
            "20 MB over two networks in {:.2} s",
            began.elapsed().as_secs_f64()
        );
        let page = ask(proxy, get(&format!("http://{HOST}/page"), &[])).await?;
        anyhow::Ok((body, page))
    });
    let (body, page) = timeout(LIMIT * 4, work).await.context("in time")??;
    assert!(body == noise(SIZE, 30), "{} bytes that differ", body.len());
    assert_eq!((page.status, page.ending), (200, Ending::Whole));
    let status = programs.status_until(|status| status["state"] == "open").await?;
    assert_one_session(&status);
    assert_eq!(fetched_files(&programs.origin), 1);
    Ok(())
}

/// How often the agent's log says that the network has changed.
pub(super) fn changes_in(log: &str) -> usize {
    log.matches("the network has changed").count()
}

/// A network that is gone for some time: the agent finds the next one by the kernel's notification.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_network_is_answered_in_the_next_one() -> Result<()> {
    let Some(net) = Net::build()? else { return Ok(()) };
    net.plug(Plug::new(1))?;
    let programs = Programs::start(&net, origin).await?;
    programs.status_until(|status| status["state"] == "open").await?;
    net.unplug(1)?;
    let (proxy, moving) = (programs.proxy(), Arc::clone(&net));
    let page = net.computer.run(move || async move {
        let request = ask(proxy, get(&format!("http://{HOST}/page"), &[]));
        tokio::pin!(request);
        let early = timeout(Duration::from_millis(300), &mut request).await;
        ensure!(early.is_err(), "an answer without a network: {early:?}");
        moving.plug(Plug::new(2))?;
        let began = Instant::now();
        let page = request.await?;
        println!(
            "answered {} ms after the new network came",
            began.elapsed().as_millis()
        );
        Ok(page)
    });
    let page = timeout(LIMIT, page).await.context("in time")??;
    assert_eq!((page.status, page.text().as_str()), (200, PAGE));
    assert_one_session(&programs.status_until(|status| status["state"] == "open").await?);
    Ok(())
}

/// A NAT whose mapping expires again and again: every 2 s instead of 20 s, so that a download sees it often.
#[tokio::test(flavor = "multi_thread")]
async fn a_download_survives_a_nat_that_rebinds() -> Result<()> {
    let origin = origin().await?;
    let setup = Setup::resolving(&[(HOST, origin.address())]);
    let pair = Pair::start(setup.over(Link::Paced(BitRate::kbps(16_000)))).await?;
    let relay: &Relay = pair.relay();
    let rebinding = async {
        let mut ticks = interval(Duration::from_secs(2));
        ticks.tick().await;
        let mut rebound = 0_u32;
        loop {
            ticks.tick().await;
            relay.rebind();
            rebound += 1;
            println!("rebound {rebound} after {} bytes", relay.passed(Direction::Down));
        }
    };
    let body = tokio::select! {
        body = download(pair.proxy(), 1, async |_| Ok(())) => body?,
        () = rebinding => Vec::new(),
    };
    assert!(body == noise(SIZE, 30), "{} bytes that differ", body.len());
    assert_one_session(&pair.status().await?);
    assert_eq!(fetched_files(&origin), 1);
    Ok(())
}

/// A suspended agent: 20 s, of which the session knows nothing when it goes on. `make suspension-long` suspends it for two
/// minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_download_survives_a_suspension_of_the_agent() -> Result<()> {
    let suspension = suspension()?;
    let origin = origin().await?;
    let setup = Setup::resolving(&[(HOST, origin.address())]);
    let pair = Pair::start(setup.over(Link::Paced(BitRate::kbps(40_000)))).await?;
    let suspending = async {
        pair.relay().has_passed(Direction::Down, 5_000_000, LIMIT).await?;
        pair.agent().signal("STOP").await?;
        let over = timeout(suspension, std::future::pending::<()>()).await;
        ensure!(over.is_err());
        pair.agent().signal("CONT").await
    };
    let body = async { download(pair.proxy(), 1, async |_| Ok(())).await };
    let began = Instant::now();
    let (body, ()) = tokio::try_join!(body, suspending)?;
    println!(
        "20 MB with a suspension of {suspension:?} in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    assert!(body == noise(SIZE, 30), "{} bytes that differ", body.len());
    assert_one_session(&pair.status().await?);
    assert_eq!(fetched_files(&origin), 1);
    Ok(())
}
