//! Networks that block UDP: the session uses the carriers `tls` and `quic`.
mod interception;
mod proxies;
mod quic;
pub(crate) mod squid;

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, bail, ensure};
use http::Request;
use hyper::body::Incoming;
use longhaul_chromium::{Browser, BrowserOptions};
use longhaul_tests::{
    client::{Ending, RawResponse},
    origin::Origin,
    process::{run, run_with},
    relay::{Direction, Passage},
};
use longhaul_types::BitRate;
use tokio::net::TcpListener;

use crate::{
    content::{noise, ok},
    pair::{LIMIT, Link, Pair, Setup, folder, free_tcp_port},
};

const SIZE: usize = 2_000_000;

async fn origin() -> Result<Origin> {
    Origin::start(
        None,
        |_| {},
        |request: Request<Incoming>| async move {
            match request.uri().path() {
                "/file" => ok("application/octet-stream", noise(SIZE, 30)),
                "/style.css" => ok("text/css", "body { margin: 7px }"),
                _ => ok(
                    "text/html",
                    "<!doctype html><title>Carried</title><link rel=icon href=data:,>\
                     <link rel=stylesheet href=/style.css><p>A page",
                ),
            }
        },
    )
    .await
}

/// A pair over a relay for UDP, with the carrier `tls` beside it; the agent uses `carriers`.
async fn pair(origin: &Origin, carriers: &str, link: Link) -> Result<Pair> {
    pair_with(origin, carriers, link, &[]).await
}

/// [`pair`] with further arguments of the agent.
async fn pair_with(origin: &Origin, carriers: &str, link: Link, more: &[String]) -> Result<Pair> {
    let tls = free_tcp_port().await?;
    let mut setup = Setup::resolving(&[("files.test", origin.address())]).over(link);
    setup
        .gateway_config
        .push_str(&format!("[carriers]\ntls = \"{tls}\"\n"));
    let port = tls.port().to_string();
    let arguments = ["--carrier", carriers, "--carrier-tls-port", &port];
    setup.agent_arguments.extend(arguments.map(str::to_owned));
    setup.agent_arguments.extend_from_slice(more);
    Pair::start(setup).await
}

/// A pair whose session began over UDP. A starved machine may answer over UDP so late that TLS wins the race.
async fn pair_over_udp(origin: &Origin, link: Link) -> Result<Pair> {
    for _ in 0..5 {
        let pair = pair(origin, "auto", link).await?;
        let status = pair.status_until(|status| status["state"] == "open").await?;
        if status["session"]["carrier"] == "udp" {
            return Ok(pair);
        }
    }
    bail!("five sessions began over TLS although UDP passes")
}

fn block_udp(pair: &Pair) {
    for direction in [Direction::Up, Direction::Down] {
        pair.relay().set(direction, Passage::Blocked);
    }
}

fn is_the_file(response: &RawResponse) -> bool {
    response.status == 200 && response.ending == Ending::Whole && response.body == noise(SIZE, 30)
}

async fn load_with_udp_blocked(carriers: &str) -> Result<()> {
    let origin = origin().await?;
    let mut pair = pair(&origin, carriers, Link::Relayed).await?;
    pair.kill_agent().await?;
    block_udp(&pair);
    let passed = pair.relay().passed(Direction::Down);
    pair.start_agent().await?;
    let mut browser = Browser::start(&BrowserOptions::behind(pair.proxy())).await?;
    let margin = browser
        .evaluate(
            "http://files.test/",
            "getComputedStyle(document.body).margin",
            LIMIT,
        )
        .await?;
    assert_eq!(margin.as_str().context("a margin")?, "7px");
    let file = pair.get("http://files.test/file").await?;
    ensure!(is_the_file(&file), "{} {:?}", file.status, file.ending);
    let status = pair.status_until(|status| status["state"] == "open").await?;
    assert_eq!(status["sessions"], 1, "{status:#}");
    assert_eq!(
        pair.relay().passed(Direction::Down),
        passed,
        "nothing came over UDP"
    );
    pair.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_carries_the_session_where_udp_is_blocked() -> Result<()> {
    load_with_udp_blocked("tls").await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_finds_tls_by_itself_where_udp_is_blocked() -> Result<()> {
    load_with_udp_blocked("auto").await
}

/// What `longhaul-agent check-gateway` prints without a running agent, with these variables.
async fn checked(pair: &Pair, variables: &[(&str, &str)]) -> Result<serde_json::Value> {
    let state = folder()?;
    let state = state.path().display().to_string();
    let enrol = ["enroll", pair.second_invite(), "--state-dir", &state];
    let enrolled = run("longhaul", &enrol, LIMIT).await?;
    ensure!(enrolled.code == Some(0), "{}", enrolled.stderr);
    let arguments = ["check-gateway", "--json", "--state-dir", &state];
    let checked = run_with("longhaul-agent", &arguments, variables, LIMIT).await?;
    Ok(serde_json::from_str(&checked.stdout)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_check_of_the_gateway_uses_tls_where_udp_is_blocked() -> Result<()> {
    let origin = origin().await?;
    let pair = pair(&origin, "udp", Link::Relayed).await?;
    let port = pair
        .agent_argument("--carrier-tls-port")
        .context("a port")?
        .to_owned();
    let tls_port = ("LONGHAUL_CARRIER_TLS_PORT", port.as_str());
    let answered = checked(&pair, &[tls_port]).await?;
    assert_eq!(
        (&answered["carrier"], answered["trouble"].is_null()),
        (&"udp".into(), true)
    );
    block_udp(&pair);
    let answered = checked(&pair, &[tls_port]).await?;
    assert_eq!(
        (&answered["carrier"], answered["trouble"].is_null()),
        (&"tls".into(), true)
    );
    let refused = checked(&pair, &[tls_port, ("LONGHAUL_CARRIER", "udp")]).await?;
    assert_eq!(refused["trouble"]["kind"], "silent", "{refused}");
    // The checks have left no session.
    let status = pair.status().await?;
    assert_eq!(status["sessions"], 1, "{status:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_continues_over_tls_when_udp_dies() -> Result<()> {
    let origin = origin().await?;
    let pair = pair_over_udp(&origin, Link::Paced(BitRate::kbps(3000))).await?;
    let die = async {
        let relay = pair.relay();
        relay.has_passed(Direction::Down, SIZE as u64 / 4, LIMIT).await?;
        block_udp(&pair);
        Ok(())
    };
    let (file, ()) = tokio::try_join!(pair.get("http://files.test/file"), die)?;
    ensure!(is_the_file(&file), "{} {:?}", file.status, file.ending);
    ensure!(
        pair.relay().passed(Direction::Down) < SIZE as u64,
        "UDP carried the file"
    );
    let status = pair.status_until(|status| status["state"] == "open").await?;
    assert_eq!(
        (&status["sessions"], &status["repeated"], &status["truncated"]),
        (&1.into(), &0.into(), &0.into()),
        "{status:#}"
    );
    let fetched = origin.seen().iter().filter(|seen| seen.path == "/file").count();
    assert_eq!(fetched, 1, "the file was fetched once");
    Ok(())
}
