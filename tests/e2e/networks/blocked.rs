//! A network that blocks UDP, and that is remembered for it.
use std::time::{Duration, Instant};

use anyhow::Result;
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::origin::Origin;

use super::harness::{Net, Plug, Programs};
use crate::{content::ok, pair::LIMIT};

const TLS: &str = "[carriers]\ntls = \"10.91.0.1:443\"\n";
const QUIC: &str = "[carriers]\nquic = \"10.91.0.1:443\"\n";
const AT_ONCE: &str = "TLS starts together with UDP";

async fn origin() -> Result<Origin> {
    Origin::start(
        None,
        |_| {},
        |_: Request<Incoming>| async { ok("text/html", "<p>Text") },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_blocks_udp_is_remembered_until_udp_works() -> Result<()> {
    let Some(net) = Net::build()? else { return Ok(()) };
    net.plug(Plug::new(1))?;
    net.block_udp(1, true)?;
    let over = |carrier: &'static str| {
        move |status: &serde_json::Value| status["state"] == "open" && status["session"]["carrier"] == carrier
    };
    let mut began = Instant::now();
    let mut programs = Programs::start_with(&net, origin, TLS).await?;
    let file = programs.folder().join("agent/networks");
    let failures = || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("udp "));
        line.map_or(0, |line| line.split(' ').count())
    };
    for number in [1, 2] {
        programs.status_until(over("tls")).await?;
        println!(
            "session {number}: open {} ms after the start",
            began.elapsed().as_millis()
        );
        assert!(
            !programs.agent().log().text().contains(AT_ONCE),
            "session {number}"
        );
        programs.end_agent().await?;
        assert_eq!(failures(), number);
        began = Instant::now();
        programs.start_agent(&[]).await?;
    }
    programs.status_until(over("tls")).await?;
    println!(
        "session 3: open {} ms after the start",
        began.elapsed().as_millis()
    );
    // Not the INIT's repetition opens it, which comes after half a minute.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    programs.agent().log().contains(AT_ONCE, LIMIT).await?;
    programs.end_agent().await?;

    net.block_udp(1, false)?;
    programs.start_agent(&[]).await?;
    programs.agent().log().contains(AT_ONCE, LIMIT).await?;
    programs.status_until(over("udp")).await?;
    programs.end_agent().await?;
    assert_eq!(failures(), 0);
    Ok(())
}

/// UDP passes only to port 443, where the gateway has QUIC; it has no TLS.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_in_which_only_quic_works_is_remembered() -> Result<()> {
    let Some(net) = Net::build()? else { return Ok(()) };
    net.plug(Plug::new(1))?;
    net.block_udp_to(1, 4433)?;
    let over_quic =
        |status: &serde_json::Value| status["state"] == "open" && status["session"]["carrier"] == "quic";
    let mut programs = Programs::start_with(&net, origin, QUIC).await?;
    for _ in 0..2 {
        programs.status_until(over_quic).await?;
        programs.end_agent().await?;
        programs.start_agent(&[]).await?;
    }
    programs.status_until(over_quic).await?;
    let log = programs.agent().log();
    log.contains("QUIC starts together with UDP", LIMIT).await?;
    Ok(())
}
