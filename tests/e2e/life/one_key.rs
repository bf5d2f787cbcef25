//! Two agents with the key of one device.
use anyhow::Result;
use serde_json::Value;

use super::{start, write_invite};
use crate::pair::{Pair, Setup, invite, status, status_until};

fn reason(status: &Value) -> &str {
    status["reason"].as_str().unwrap_or_default()
}

fn is_open(status: &Value) -> bool {
    status["state"] == "open"
}

#[tokio::test(flavor = "multi_thread")]
async fn two_agents_with_one_key_are_told_and_do_not_fight() -> Result<()> {
    let pair = Pair::start(Setup::resolving(&[])).await?;
    pair.status_until(is_open).await?;
    // The invite of the second device is used twice: on two machines, say.
    let folders = ["one", "other"].map(|name| pair.folder().join(name));
    let mut agents = Vec::new();
    for folder in &folders {
        write_invite(&folder.join("agent"), pair.second_invite())?;
        agents.push(start(&folder.join("agent")).await?);
        status_until(crate::pair::control(folder)?, is_open).await?;
    }
    let controls = [
        crate::pair::control(&folders[0])?,
        crate::pair::control(&folders[1])?,
    ];
    let told = status_until(controls[0], |status| {
        reason(status).contains("another agent uses")
    })
    .await?;
    assert_eq!(told["state"], "down", "{told}");
    assert!(reason(&told).contains("longhaul enroll"), "{told}");
    agents[0]
        .log()
        .contains("another agent uses this device's key", crate::pair::LIMIT)
        .await?;
    let winner = status_until(controls[1], |status| status["notice"].is_string()).await?;
    assert!(
        winner["notice"]
            .as_str()
            .is_some_and(|notice| notice.contains("another agent")),
        "{winner}"
    );
    let log = pair.gateway().log();
    log.contains("two agents use the key of this device", crate::pair::LIMIT)
        .await?;

    // Without requests, the agent that lost the session leaves it to the other one.
    let before = [status(controls[0]).await?, status(controls[1]).await?];
    assert_eq!([&before[0]["sessions"], &before[1]["sessions"]], [1, 1]);
    // An invite of its own solves the problem, without a restart.
    let address = pair.gateway().address().to_string();
    let own = invite(pair.folder(), "third", &address).await?;
    write_invite(&folders[0].join("agent"), &own)?;
    let state = folders[0].join("agent").display().to_string();
    let moved = longhaul_tests::process::run(
        "longhaul-agent",
        &["use-invite", "--state-dir", &state],
        crate::pair::COMMAND_LIMIT,
    )
    .await?;
    assert!(
        moved.code == Some(0) && moved.stdout.contains("is open"),
        "{moved:?}"
    );
    assert!(is_open(&status(controls[0]).await?) && is_open(&status(controls[1]).await?));
    // The first device was never affected.
    assert_eq!(pair.status().await?["sessions"], 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_agent_gets_no_notice() -> Result<()> {
    let mut pair = Pair::start(Setup::resolving(&[])).await?;
    pair.status_until(is_open).await?;
    pair.kill_agent().await?;
    pair.start_agent().await?;
    // The gateway sends a notice with its first message, which names its software.
    let status = pair
        .status_until(|status| status["gateway_software"].is_string())
        .await?;
    assert!(status["notice"].is_null(), "{status}");
    assert!(!pair.gateway().log().text().contains("two agents use the key"));
    Ok(())
}
