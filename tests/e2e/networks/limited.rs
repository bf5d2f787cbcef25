//! A network that limits UDP to a small part of its rate, and not TCP.
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{
    client::{Ending, ask, get},
    origin::Origin,
};
use serde_json::Value;
use tokio::{task::JoinSet, time::timeout};

use super::{
    harness::{HOST, Net, Plug, Programs},
    middlebox::{Obstacle, place},
};
use crate::{
    content::{noise, ok},
    pair::LIMIT as EVENT,
};

const TLS: &str = "[carriers]\ntls = \"10.91.0.1:443\"\n";
/// Bytes of the download. At the rate of [`Obstacle::UdpPoliced`] they take 80 s.
const SIZE: usize = 5_000_000;
/// Bytes of the objects of a page, of which there are as many as connections.
const OBJECT: usize = 150_000;
const OBJECTS: usize = 6;
/// Limit of a run. At the rate of UDP, download and page would take 95 s.
const LIMIT: Duration = Duration::from_secs(60);

fn body(path: &str) -> Vec<u8> {
    if path == "/file" {
        return noise(SIZE, 66);
    }
    let seed = path
        .bytes()
        .fold(7, |sum, byte| sum * 31 % 65_521 + u64::from(byte));
    noise(OBJECT, seed)
}

async fn origin() -> Result<Origin> {
    Origin::start(
        None,
        |_| {},
        |request: Request<Incoming>| async move {
            ok("application/octet-stream", body(request.uri().path()))
        },
    )
    .await
}

/// Loads a part of the origin, each object over a connection of its own; returns the time.
async fn load(net: &Net, proxy: SocketAddr, paths: Vec<String>) -> Result<Duration> {
    let work = net.computer.run(move || async move {
        let began = Instant::now();
        let mut all = JoinSet::new();
        for path in paths {
            let url = format!("http://{HOST}{path}");
            all.spawn(async move { (path, ask(proxy, get(&url, &[])).await) });
        }
        while let Some(joined) = all.join_next().await {
            let (path, response) = joined?;
            let response = response?;
            ensure!(
                (response.status, response.ending) == (200, Ending::Whole),
                "{path}"
            );
            ensure!(response.body == body(&path), "{path} differs");
        }
        Ok(began.elapsed())
    });
    timeout(LIMIT, work).await.context("in time")?
}

fn page(number: usize) -> Vec<String> {
    (0..OBJECTS)
        .map(|object| format!("/page{number}/{object}"))
        .collect()
}

fn carrier(status: &Value) -> &str {
    status["session"]["carrier"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn where_udp_is_limited_the_session_goes_over_to_tls() -> Result<()> {
    let Some(net) = Net::build()? else { return Ok(()) };
    net.plug(Plug { number: 1, mbps: 20 })?;
    place(&net, 1, &[Obstacle::UdpPoliced])?;
    let mut programs = Programs::start_with(&net, origin, TLS).await?;
    programs.status_until(|status| status["state"] == "open").await?;
    let first = load(&net, programs.proxy(), page(1)).await?;
    let file = load(&net, programs.proxy(), vec!["/file".to_owned()]).await?;
    let second = load(&net, programs.proxy(), page(2)).await?;
    println!("first page {first:?}, 5 MB {file:?}, second page {second:?}");
    let status = programs.status_until(|status| carrier(status) == "tls").await?;
    assert_eq!(
        (&status["sessions"], &status["failures"]),
        (&1.into(), &0.into()),
        "{status:#}"
    );
    programs.agent().log().contains("UDP carries less", EVENT).await?;
    programs.end_agent().await?;

    // The network is remembered.
    programs.start_agent(&[]).await?;
    programs
        .status_until(|status| status["state"] == "open" && carrier(status) == "tls")
        .await?;
    programs.end_agent().await?;
    Ok(())
}

/// A trial costs some kilobytes, for which the user would pay.
#[tokio::test(flavor = "multi_thread")]
async fn in_a_metered_network_nothing_is_tried() -> Result<()> {
    let Some(net) = Net::build()? else { return Ok(()) };
    net.plug(Plug { number: 1, mbps: 20 })?;
    place(&net, 1, &[Obstacle::UdpPoliced])?;
    let mut programs = Programs::start_with(&net, origin, TLS).await?;
    programs.end_agent().await?;
    programs.start_agent(&["--link-metered", "yes"]).await?;
    programs.status_until(|status| status["state"] == "open").await?;
    let time = load(&net, programs.proxy(), page(1)).await?;
    println!("page over UDP alone: {time:?}");
    programs.status_until(|status| carrier(status) == "udp").await?;
    let log = programs.agent().log().text();
    assert!(!log.contains("UDP carries less"), "{log}");
    Ok(())
}
