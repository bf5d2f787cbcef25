//! Links that are remembered with their networks.
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{
    client::{Ending, ask, get},
    origin::Origin,
    process::run,
};
use tokio::time::timeout;

use super::harness::{HOST, Net, Plug, Programs};
use crate::{
    content::{noise, ok},
    pair::{COMMAND_LIMIT, LIMIT},
};

const SIZE: usize = 4_000_000;
/// A rate at which the file fills the link for some seconds.
const MBPS: u32 = 12;

async fn origin() -> Result<Origin> {
    Origin::start(
        None,
        |_| {},
        |_: Request<Incoming>| async move { ok("application/octet-stream", noise(SIZE, 31)) },
    )
    .await
}

async fn download(net: &Arc<Net>, programs: &Programs) -> Result<()> {
    let proxy = programs.proxy();
    let request = get(&format!("http://{HOST}/file"), &[("cache-control", "no-store")]);
    let response = net.computer.run(move || ask(proxy, request));
    let response = timeout(LIMIT, response).await.context("in time")??;
    ensure!(
        (response.status, response.ending) == (200, Ending::Whole),
        "{}",
        response.status
    );
    ensure!(response.body == noise(SIZE, 31), "the bytes differ");
    Ok(())
}

/// The rate of the first session in the file of the networks, bit/s.
fn recorded_rate(text: &str) -> Result<u64> {
    let session = text.lines().find_map(|line| line.strip_prefix("session "));
    let rate = session.and_then(|session| session.split(' ').next());
    Ok(rate.with_context(|| format!("a session in {text}"))?.parse()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_link_of_a_network_is_remembered_there_and_nowhere_else() -> Result<()> {
    let Some(net) = Net::build()? else { return Ok(()) };
    let home = Plug {
        number: 1,
        mbps: MBPS,
    };
    net.plug(home)?;
    let mut programs = Programs::start(&net, origin).await?;
    let status = programs.status_until(|status| status["state"] == "open").await?;
    assert_eq!(status["link"], "measured", "{status:#}");
    download(&net, &programs).await?;
    programs.end_agent().await?;

    let file = programs.folder().join("agent/networks");
    let text = std::fs::read_to_string(&file)?;
    println!("{text}");
    let rate = recorded_rate(&text)?;
    assert!(
        (6_000_000..=13_000_000).contains(&rate),
        "{rate} bit/s of {MBPS} Mbit/s"
    );
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines.len(),
        4,
        "one network with its port and one session: {text}"
    );
    assert!(
        !text.contains("0200000000"),
        "the router's hardware address in {text}"
    );
    // The hexadecimal digits of the network's keyed hash may contain the name of the interface by chance.
    let is_hash = |word: &&str| word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (hashes, readable): (Vec<&str>, Vec<&str>) = text.split_whitespace().partition(is_hash);
    assert_eq!(hashes.len(), 1, "{text}");
    for secret in ["02:00:00", "10.91", "c1"] {
        assert!(
            !readable.iter().any(|word| word.contains(secret)),
            "{secret} in {text}"
        );
    }

    programs.start_agent(&[]).await?;
    let status = programs.status_until(|status| status["state"] == "open").await?;
    assert_eq!(status["link"], "remembered", "{status:#}");
    download(&net, &programs).await?;

    // Another network is another link, and its record another one.
    net.unplug(1)?;
    net.plug(Plug {
        number: 2,
        mbps: MBPS,
    })?;
    programs
        .status_until(|status| status["link"] == "measured")
        .await?;
    download(&net, &programs).await?;
    // The first network again, in the same session.
    net.unplug(2)?;
    net.plug(home)?;
    let status = programs
        .status_until(|status| status["link"] == "remembered")
        .await?;
    assert_eq!(status["sessions"], 1, "{status:#}");
    programs.end_agent().await?;
    let text = std::fs::read_to_string(&file)?;
    assert_eq!(text.matches("network ").count(), 2, "{text}");

    // What the user told comes first.
    programs.start_agent(&["--link", "lte"]).await?;
    programs.status_until(|status| status["link"] == "told").await?;
    programs.end_agent().await?;
    programs.start_agent(&["--link-remember", "no"]).await?;
    let status = programs.status_until(|status| status["state"] == "open").await?;
    assert_eq!(status["link"], "measured", "{status:#}");
    programs.end_agent().await?;
    assert_eq!(std::fs::read_to_string(&file)?.matches("network ").count(), 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn forgetting_everything_forgets_the_networks() -> Result<()> {
    let Some(net) = Net::build()? else { return Ok(()) };
    net.plug(Plug {
        number: 1,
        mbps: MBPS,
    })?;
    let mut programs = Programs::start(&net, origin).await?;
    download(&net, &programs).await?;
    programs.end_agent().await?;
    programs.start_agent(&[]).await?;
    programs
        .status_until(|status| status["link"] == "remembered")
        .await?;
    let state = programs.folder().join("agent");
    let arguments = [
        "forget".to_owned(),
        "--state-dir".to_owned(),
        state.display().to_string(),
    ];
    let done = net
        .computer
        .run(move || async move { run("longhaul-agent", &arguments, COMMAND_LIMIT).await })
        .await?;
    ensure!(done.code == Some(0), "{}", done.stderr);
    assert!(!state.join("networks").exists());
    assert!(!state.join("network-secret").exists());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_reported_and_replaced() -> Result<()> {
    let Some(net) = Net::build()? else { return Ok(()) };
    net.plug(Plug {
        number: 1,
        mbps: MBPS,
    })?;
    let mut programs = Programs::start(&net, origin).await?;
    programs.end_agent().await?;
    let file = programs.folder().join("agent/networks");
    std::fs::write(&file, b"longhaul networks 1\nnetwork nonsense\n")?;
    programs.start_agent(&[]).await?;
    programs
        .status_until(|status| status["link"] == "measured")
        .await?;
    let log = programs.agent().log().text();
    assert!(log.contains("the file `networks` is damaged: line 2"), "{log}");
    download(&net, &programs).await?;
    programs.end_agent().await?;
    assert!(recorded_rate(&std::fs::read_to_string(&file)?)? > 0);
    Ok(())
}
