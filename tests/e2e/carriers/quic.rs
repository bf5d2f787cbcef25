//! Networks that pass only what looks like QUIC: the session uses the carrier `quic`.
use anyhow::{Result, ensure};
use longhaul_tests::{
    origin::Origin,
    relay::{Direction, Passage, Relay},
};

use super::{checked, is_the_file, origin};
use crate::pair::{Link, Pair, Setup, free_udp_port};

/// A pair over two relays, for UDP and for the gateway's QUIC port; TLS is off. The agent uses `carriers`.
async fn pair(origin: &Origin, carriers: &str, passage: Passage) -> Result<(Pair, Relay)> {
    let quic = free_udp_port().await?;
    let relay = Relay::start(quic, None).await?;
    set(&relay, passage);
    let mut setup = Setup::resolving(&[("files.test", origin.address())]).over(Link::Relayed);
    setup
        .gateway_config
        .push_str(&format!("[carriers]\nquic = \"{quic}\"\n"));
    let port = relay.address().port().to_string();
    let arguments = ["--carrier", carriers, "--carrier-quic-port", &port];
    setup.agent_arguments.extend(arguments.map(str::to_owned));
    Ok((Pair::start(setup).await?, relay))
}

fn set(relay: &Relay, passage: Passage) {
    for direction in [Direction::Up, Direction::Down] {
        relay.set(direction, passage);
    }
}

async fn load(pair: &Pair) -> Result<()> {
    let page = pair.get("http://files.test/").await?;
    ensure!(
        page.status == 200 && page.body.ends_with(b"A page"),
        "{}",
        page.status
    );
    let file = pair.get("http://files.test/file").await?;
    ensure!(is_the_file(&file), "{} {:?}", file.status, file.ending);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn quic_carries_the_session_where_only_quic_passes() -> Result<()> {
    let origin = origin().await?;
    let (mut pair, relay) = pair(&origin, "quic", Passage::OnlyQuic).await?;
    load(&pair).await?;
    let status = pair.status().await?;
    assert_eq!(
        (&status["session"]["carrier"], &status["sessions"]),
        (&"quic".into(), &1.into()),
        "{status:#}"
    );
    assert!(relay.passed(Direction::Down) > super::SIZE as u64);
    assert_eq!(pair.relay().passed(Direction::Up), 0, "UDP is not used");
    pair.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_finds_quic_by_itself_and_leaves_it_when_it_dies() -> Result<()> {
    let origin = origin().await?;
    let (mut pair, relay) = pair(&origin, "auto", Passage::OnlyQuic).await?;
    pair.kill_agent().await?;
    set(pair.relay(), Passage::OnlyQuic);
    let port = relay.address().port().to_string();
    // The agent's TLS port is that of nobody here: it is refused.
    let answered = checked(&pair, &[("LONGHAUL_CARRIER_QUIC_PORT", port.as_str())]).await?;
    assert_eq!(
        (&answered["carrier"], answered["trouble"].is_null()),
        (&"quic".into(), true),
        "{answered}"
    );
    pair.start_agent().await?;
    load(&pair).await?;
    let over = |carrier: &'static str| {
        move |status: &serde_json::Value| status["state"] == "open" && status["session"]["carrier"] == carrier
    };
    pair.status_until(over("quic")).await?;
    set(&relay, Passage::Blocked);
    set(pair.relay(), Passage::Open);
    // What is in progress finds out that the link is silent.
    load(&pair).await?;
    let status = pair.status_until(over("udp")).await?;
    assert_eq!(
        (&status["sessions"], &status["truncated"]),
        (&1.into(), &0.into()),
        "{status:#}"
    );
    pair.end().await
}
