//! A connection of TLS that a middlebox forgets in the midst of a download, without telling anybody.
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use longhaul_tests::client::{RawClient, get};
use tokio::time::timeout;

use super::{
    harness::{HOST, Net, Plug, Programs},
    middlebox::{Obstacle, place},
    moving::{SIZE, assert_one_session, origin},
    udp_dies::{TLS, is_over},
};
use crate::{content::noise, pair::LIMIT};

/// Rate of the network.
const MBPS: u32 = 20;
/// A silent link is given up after 8 s. Its successor is to answer before that time, also on a busy machine.
const LONGEST_PAUSE: Duration = Duration::from_secs(6);

/// Downloads the file. Returns it and the longest time without new bytes.
async fn download(proxy: std::net::SocketAddr) -> Result<(Vec<u8>, Duration)> {
    let mut client = RawClient::connect(proxy).await?;
    client.send(get(&format!("http://{HOST}/file"), &[])).await?;
    let head = client.head().await?;
    ensure!(head.status == 200, "{head:?}");
    let mut body = Vec::with_capacity(SIZE);
    let (mut last, mut pause) = (Instant::now(), Duration::ZERO);
    while body.len() < SIZE {
        let bytes = client.read().await?;
        ensure!(!bytes.is_empty(), "{} of {SIZE} bytes", body.len());
        body.extend(bytes);
        pause = pause.max(last.elapsed());
        last = Instant::now();
    }
    Ok((body, pause))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_goes_on_over_another_connection_soon_after_its_own_is_forgotten() -> Result<()> {
    let Some(net) = Net::build()? else { return Ok(()) };
    net.plug(Plug {
        number: 1,
        mbps: MBPS,
    })?;
    place(&net, 1, &[Obstacle::UdpDropped, Obstacle::TcpFlowsEnd])?;
    let mut programs = Programs::start_with(&net, origin, TLS).await?;
    programs.status_until(|status| is_over(status, "tls")).await?;
    let proxy = programs.proxy();
    let work = net.computer.run(move || download(proxy));
    let (body, pause) = timeout(LIMIT * 4, work).await.context("in time")??;
    assert!(body == noise(SIZE, 30), "{} bytes that differ", body.len());
    println!("longest pause {:.2} s", pause.as_secs_f64());
    assert!(pause < LONGEST_PAUSE, "{pause:?}");
    assert_one_session(&programs.status_until(|status| is_over(status, "tls")).await?);
    programs.end_agent().await?;
    Ok(())
}
