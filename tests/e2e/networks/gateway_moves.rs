//! A gateway that gets another address during a session, which its name has from then on.
use anyhow::{Context, Result};
use tokio::time::timeout;

use super::{
    harness::{Net, Plug, Programs, Site},
    middlebox::{Obstacle, place},
    moving::{assert_one_session, origin},
    ports::page,
    udp_dies::is_over,
};
use crate::pair::LIMIT;

/// A gateway whose name has only the first one of its addresses.
const AT_FIRST: Site = Site {
    listen: "10.91.0.1:4433,10.91.0.2:4433",
    address: "gateway.test:4433",
    lines: "[carriers]\ntls = \"0.0.0.0:443\"\n",
    hosts: &["127.0.0.1 localhost", "10.91.0.1 gateway.test"],
};
/// What the agent writes when it has found the new address.
const FOUND: &str = "the gateway's name has other addresses; the session continues there";

async fn a_page_loads_at_the_new_address(carrier: &'static str) -> Result<()> {
    let Some(net) = Net::build()? else { return Ok(()) };
    net.add_gateway_address("10.91.0.2/32")?;
    net.plug(Plug::new(1))?;
    let mut programs = Programs::start_at(&net, origin, AT_FIRST).await?;
    programs.status_until(|status| status["state"] == "open").await?;
    programs.end_agent().await?;
    programs.start_agent(&["--carrier", carrier]).await?;
    programs
        .status_until(move |status| is_over(status, carrier))
        .await?;
    page(&net, &programs).await?;
    place(&net, 1, &[Obstacle::FirstAddressDropped])?;
    // The same file, which is mounted in place of the agent's one.
    std::fs::write(
        programs.folder().join("hosts"),
        "127.0.0.1 localhost\n10.91.0.2 gateway.test\n",
    )?;
    timeout(LIMIT * 4, page(&net, &programs))
        .await
        .context("in time")
        .and_then(|done| done)
        .with_context(|| programs.agent().log().text())?;
    programs.agent().log().until(|text| text.contains(FOUND)).await?;
    let status = programs
        .status_until(move |status| is_over(status, carrier))
        .await?;
    assert_one_session(&status);
    programs.end_agent().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_follows_the_gateways_name_to_another_address() -> Result<()> {
    a_page_loads_at_the_new_address("udp").await
}

/// The TCP connection stays silent. The next one is to the new address.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_over_tls_follows_the_gateways_name_to_another_address() -> Result<()> {
    a_page_loads_at_the_new_address("tls").await
}
