//! A computer that goes from a network of IPv4 to one of IPv6 and back, in the midst of a download.
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::time::timeout;

use super::{
    harness::{Net, Plug, Programs, Site},
    moving::{SIZE, assert_one_session, changes_in, download, fetched_files, origin},
};
use crate::{content::noise, pair::LIMIT};

/// A gateway with an address of each family.
const BOTH_FAMILIES: Site = Site {
    listen: "[::]:4433",
    address: "gateway.test:4433",
    lines: "[carriers]\ntls = \"[::]:443\"\n",
    hosts: &[
        "127.0.0.1 localhost",
        "10.91.0.1 gateway.test",
        "fd91::1 gateway.test",
    ],
};

/// Downloads the file in a network of IPv4, then in one of IPv6, then in the first one again.
async fn download_in_both(carrier: &'static str) -> Result<()> {
    let Some(net) = Net::build()? else { return Ok(()) };
    if let Err(error) = net.add_gateway_address("fd91::1/128 nodad") {
        println!("SKIPPED: this machine has no IPv6: {error:#}");
        return Ok(());
    }
    let open = move |status: &Value| status["state"] == "open" && status["session"]["carrier"] == carrier;
    net.plug(Plug::new(1))?;
    let mut programs = Programs::start_at(&net, origin, BOTH_FAMILIES).await?;
    programs.status_until(|status| status["state"] == "open").await?;
    programs.end_agent().await?;
    programs.start_agent(&["--carrier", carrier]).await?;
    programs.status_until(open).await?;
    let (proxy, moving) = (programs.proxy(), Arc::clone(&net));
    let log = programs.agent().log().clone();
    let work = net.computer.run(move || async move {
        // The rest of the file arrives in a moment. If the agent looked after both changes only, it would find the network
        // that it knows.
        download(proxy, 3, async |part| {
            if part == 0 {
                moving.unplug(1).and_then(|()| moving.plug_v6(2))?;
            } else {
                moving.unplug(2).and_then(|()| moving.plug(Plug::new(1)))?;
            }
            log.until(|text| changes_in(text) > part).await.map(drop)
        })
        .await
    });
    let outcome = timeout(LIMIT * 4, work)
        .await
        .context("in time")
        .and_then(|done| done);
    let log = programs.agent().log().text();
    let body = outcome.with_context(|| log.clone())?;
    assert!(body == noise(SIZE, 30), "{} bytes that differ", body.len());
    assert_one_session(&programs.status_until(open).await?);
    assert_eq!(fetched_files(&programs.origin), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_goes_on_in_a_network_of_the_other_family() -> Result<()> {
    download_in_both("udp").await
}

/// The TLS connection ends with its network; the next one is to the gateway's other address.
#[tokio::test(flavor = "multi_thread")]
async fn a_download_over_tls_goes_on_in_a_network_of_the_other_family() -> Result<()> {
    download_in_both("tls").await
}
