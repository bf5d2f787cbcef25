//! A connection of a carrier that a middlebox forgets in the midst of a download, without telling anybody.
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use longhaul_tests::client::{RawClient, get};
use tokio::time::timeout;

use super::{
    harness::{HOST, Net, Plug, Programs},
    middlebox::{Obstacle, PROXY_PORT, place},
    moving::{SIZE, assert_one_session, origin},
    udp_dies::{TLS, is_over},
};
use crate::{
    carriers::squid::{Login, Squid},
    content::noise,
    pair::LIMIT,
};

/// A gateway with both carriers.
const TLS_AND_QUIC: &str = "[carriers]\ntls = \"10.91.0.1:443\"\nquic = \"10.91.0.1:443\"\n";

/// Rate of the network.
const MBPS: u32 = 20;
/// A silent link of TLS is given up after 8 s, one of QUIC after 3 s. The successor is to answer before 6 s, also on a busy
/// machine.
const LONGEST_PAUSE: Duration = Duration::from_secs(6);

/// Downloads the file. Returns it and the longest time without new bytes.
async fn download(proxy: SocketAddr) -> Result<(Vec<u8>, Duration)> {
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

/// A network with the rate of these tests.
fn net() -> Result<Option<Arc<Net>>> {
    let net = Net::build()?;
    if let Some(net) = &net {
        net.plug(Plug {
            number: 1,
            mbps: MBPS,
        })?;
    }
    Ok(net)
}

/// Downloads the file over a session whose link falls silent meanwhile. The session goes on, and ends over `tls`.
async fn goes_on_over_tls(net: &Net, programs: &mut Programs) -> Result<()> {
    let proxy = programs.proxy();
    let work = net.computer.run(move || download(proxy));
    let (body, pause) = timeout(LIMIT * 4, work).await.context("in time")??;
    assert!(body == noise(SIZE, 30), "{} bytes that differ", body.len());
    println!("longest pause {:.2} s", pause.as_secs_f64());
    assert!(pause < LONGEST_PAUSE, "{pause:?}");
    assert_one_session(&programs.status_until(|status| is_over(status, "tls")).await?);
    programs.end_agent().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_goes_on_over_another_connection_soon_after_its_own_is_forgotten() -> Result<()> {
    let Some(net) = net()? else { return Ok(()) };
    place(&net, 1, &[Obstacle::UdpDropped, Obstacle::TcpFlowsEnd])?;
    let mut programs = Programs::start_with(&net, origin, TLS).await?;
    programs.status_until(|status| is_over(status, "tls")).await?;
    goes_on_over_tls(&net, &mut programs).await
}

/// The flow of QUIC ends after 5 MB. The agent has found QUIC because TLS did not pass; now it does.
#[tokio::test(flavor = "multi_thread")]
async fn a_download_over_quic_goes_on_over_tls_soon_after_its_flow_is_forgotten() -> Result<()> {
    let Some(net) = net()? else { return Ok(()) };
    place(&net, 1, &[Obstacle::OnlyQuic, Obstacle::TcpDropped])?;
    let mut programs = Programs::start_with(&net, origin, TLS_AND_QUIC).await?;
    programs.status_until(|status| is_over(status, "quic")).await?;
    place(&net, 1, &[Obstacle::OnlyQuic, Obstacle::UdpFlowsEnd])?;
    goes_on_over_tls(&net, &mut programs).await
}

/// The network lets nothing out but what its proxy passes, and forgets the connection to the proxy. The successor is another
/// tunnel.
#[tokio::test(flavor = "multi_thread")]
async fn a_download_goes_on_through_another_tunnel_of_the_proxy() -> Result<()> {
    let Some(net) = net()? else { return Ok(()) };
    place(&net, 1, &[Obstacle::FirstAddressDropped, Obstacle::TcpFlowsEnd])?;
    let mut programs = Programs::start_with(&net, origin, TLS).await?;
    programs.end_agent().await?;
    let address = SocketAddr::from(([10, 91, 1, 1], PROXY_PORT));
    let squid = net
        .far
        .run(move || Squid::start_at(address, Login::None, &[], ""))
        .await?;
    programs.start_agent(&["--carrier-proxy", &squid.url()]).await?;
    programs.status_until(|status| is_over(status, "tls")).await?;
    goes_on_over_tls(&net, &mut programs).await?;
    // The tunnels end with their connections.
    squid.has_served_times(2, "CONNECT 10.91.0.1:443 200").await
}
