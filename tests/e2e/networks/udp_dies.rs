//! A network that begins to lose UDP in one direction or in both in the midst of a download.
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::time::timeout;

use super::{
    harness::{Net, Plug, Programs},
    middlebox::{Obstacle, place},
    moving::{SIZE, assert_one_session, download, origin},
};
use crate::{content::noise, pair::LIMIT};

pub(super) const TLS: &str = "[carriers]\ntls = \"10.91.0.1:443\"\n";
/// Rate of the network: slow enough that the download has not arrived when UDP is lost.
const MBPS: u32 = 20;

pub(super) fn is_over(status: &Value, carrier: &str) -> bool {
    status["state"] == "open" && status["session"]["carrier"] == carrier
}

async fn a_download_goes_on_over_tls(obstacle: Obstacle) -> Result<()> {
    let Some(net) = Net::build()? else { return Ok(()) };
    net.plug(Plug {
        number: 1,
        mbps: MBPS,
    })?;
    let mut programs = Programs::start_with(&net, origin, TLS).await?;
    programs.status_until(|status| is_over(status, "udp")).await?;
    let (proxy, losing) = (programs.proxy(), Arc::clone(&net));
    let work = net.computer.run(move || async move {
        download(proxy, 4, async |part| match part {
            0 => place(&losing, 1, &[obstacle]),
            _ => Ok(()),
        })
        .await
    });
    let body = timeout(LIMIT, work).await.context("in time")??;
    assert!(body == noise(SIZE, 30), "{} bytes that differ", body.len());
    assert_one_session(&programs.status_until(|status| is_over(status, "tls")).await?);
    programs.end_agent().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_goes_on_over_tls_when_udp_dies() -> Result<()> {
    a_download_goes_on_over_tls(Obstacle::UdpDropped).await
}

/// The gateway's packets keep arriving: its reports show that the agent's do not.
#[tokio::test(flavor = "multi_thread")]
async fn a_download_goes_on_over_tls_when_only_the_uplink_dies() -> Result<()> {
    a_download_goes_on_over_tls(Obstacle::UdpUpDropped).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_goes_on_over_tls_when_only_the_downlink_dies() -> Result<()> {
    a_download_goes_on_over_tls(Obstacle::UdpDownDropped).await
}
