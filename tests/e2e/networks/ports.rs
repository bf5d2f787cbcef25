//! Gateways with several UDP ports and addresses, in networks that block some of them.
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use longhaul_tests::client::{Ending, ask, get};
use serde_json::Value;
use tokio::time::timeout;

use super::{
    harness::{HOST, Net, Plug, Programs, Site},
    middlebox::{Obstacle, place},
    moving::{PAGE, SIZE, assert_one_session, download, origin},
};
use crate::{content::noise, pair::LIMIT};

const TWO_PORTS: Site = Site {
    listen: "10.91.0.1:4433,10.91.0.1:443",
    address: "10.91.0.1:4433",
    lines: "",
    hosts: &[],
};

fn is_over_udp(status: &Value) -> bool {
    status["state"] == "open" && status["session"]["carrier"] == "udp"
}

pub(super) async fn page(net: &Net, programs: &Programs) -> Result<()> {
    let proxy = programs.proxy();
    let page = net
        .computer
        .run(move || async move { ask(proxy, get(&format!("http://{HOST}/page"), &[])).await })
        .await?;
    ensure!(
        (page.status, page.ending) == (200, Ending::Whole) && page.text() == PAGE,
        "{page:?}"
    );
    Ok(())
}

/// Waits until the agent has stored what the gateway announced of its ports.
async fn until_announced(programs: &Programs, ports: &str) -> Result<()> {
    let file = programs.folder().join("agent/gateway-announced");
    let ports = ports.to_owned();
    let is_stored = move |_: &Value| std::fs::read_to_string(&file).is_ok_and(|text| text.contains(&ports));
    programs.status_until(is_stored).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_passes_udp_only_to_port_443_is_remembered() -> Result<()> {
    let Some(net) = Net::build()? else { return Ok(()) };
    net.plug(Plug::new(1))?;
    let mut programs = Programs::start_at(&net, origin, TWO_PORTS).await?;
    programs.status_until(is_over_udp).await?;
    until_announced(&programs, "4433,443").await?;
    programs.end_agent().await?;
    let file = programs.folder().join("agent/networks");
    let port = || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("port "));
        line.map(str::to_owned)
    };
    assert_eq!(port().as_deref(), Some("4433"));
    place(&net, 1, &[Obstacle::UdpOnlyTo443])?;
    for _ in 0..2 {
        programs.start_agent(&[]).await?;
        programs.status_until(is_over_udp).await?;
        page(&net, &programs).await?;
        programs.end_agent().await?;
        assert_eq!(port().as_deref(), Some("443"));
    }
    Ok(())
}

/// The network begins to block a port in the midst of a download, in a session that may use nothing but UDP.
#[tokio::test(flavor = "multi_thread")]
async fn a_download_goes_on_over_another_port_when_its_own_is_blocked() -> Result<()> {
    let Some(net) = Net::build()? else { return Ok(()) };
    net.plug(Plug::new(1))?;
    let mut programs = Programs::start_at(&net, origin, TWO_PORTS).await?;
    programs.status_until(is_over_udp).await?;
    until_announced(&programs, "4433,443").await?;
    programs.end_agent().await?;
    programs.start_agent(&["--carrier", "udp"]).await?;
    programs.status_until(is_over_udp).await?;
    let (proxy, blocking) = (programs.proxy(), Arc::clone(&net));
    let work = net.computer.run(move || async move {
        download(proxy, 4, async |part| match part {
            0 => place(&blocking, 1, &[Obstacle::UdpOnlyTo443]),
            _ => Ok(()),
        })
        .await
    });
    let body = timeout(LIMIT, work).await.context("in time")??;
    assert!(body == noise(SIZE, 30), "{} bytes that differ", body.len());
    assert_one_session(&programs.status_until(is_over_udp).await?);
    Ok(())
}

/// The kernel would answer from the router's address, which is the one of the route to the computer.
#[tokio::test(flavor = "multi_thread")]
async fn a_wildcard_listener_answers_from_the_address_that_was_addressed() -> Result<()> {
    for listen in ["0.0.0.0:4433", "[::]:4433"] {
        let Some(net) = Net::build()? else { return Ok(()) };
        net.add_gateway_address("10.91.0.2/32")?;
        net.plug(Plug::new(1))?;
        let site = Site {
            listen,
            address: "10.91.0.2:4433",
            ..Site::default()
        };
        let programs = Programs::start_at(&net, origin, site).await?;
        programs.status_until(is_over_udp).await?;
        page(&net, &programs).await?;
    }
    Ok(())
}

/// The gateway's name has two addresses of its host, one port each. The network swallows what is sent to the first one,
/// at first in the midst of a download.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_over_the_other_address_of_the_gateways_host() -> Result<()> {
    let Some(net) = Net::build()? else { return Ok(()) };
    net.add_gateway_address("10.91.0.2/32")?;
    net.plug(Plug::new(1))?;
    let site = Site {
        listen: "10.91.0.1:4433,10.91.0.2:4433",
        address: "gateway.test:4433",
        hosts: &[
            "127.0.0.1 localhost",
            "10.91.0.1 gateway.test",
            "10.91.0.2 gateway.test",
        ],
        ..Site::default()
    };
    let mut programs = Programs::start_at(&net, origin, site).await?;
    programs.status_until(is_over_udp).await?;
    let (proxy, swallowing) = (programs.proxy(), Arc::clone(&net));
    let work = net.computer.run(move || async move {
        download(proxy, 4, async |part| match part {
            0 => place(&swallowing, 1, &[Obstacle::FirstAddressDropped]),
            _ => Ok(()),
        })
        .await
    });
    let body = timeout(LIMIT, work).await.context("in time")??;
    assert!(body == noise(SIZE, 30), "{} bytes that differ", body.len());
    assert_one_session(&programs.status_until(is_over_udp).await?);
    programs.end_agent().await?;
    programs.start_agent(&[]).await?;
    programs.status_until(is_over_udp).await?;
    page(&net, &programs).await
}
