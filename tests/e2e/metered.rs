//! The setting `link.metered`.
use std::{os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::Result;
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{origin::Origin, process::Running, relay::Direction};

use crate::{
    content::ok,
    pair::{LIMIT, Link, Pair, Setup, agent_arguments, folder},
};

/// Bytes of a train, of which some may be lost on a busy machine.
const MOST_OF_A_TRAIN: u64 = 30_000;

async fn pair(origin: &Origin, metered: &str) -> Result<Pair> {
    let mut setup = Setup::resolving(&[("site.test", origin.address())]).over(Link::Relayed);
    let more = ["--link-metered", metered, "--link-remember", "no"];
    setup.agent_arguments.extend(more.map(str::to_owned));
    Pair::start(setup).await
}

/// Puts a program `nmcli` into a folder that gives this answer: a NetworkManager cannot run in a test.
pub(crate) fn nmcli(folder: &Path, answer: &str) -> Result<()> {
    let program = folder.join("nmcli");
    std::fs::write(&program, format!("#!/bin/sh\necho 'GENERAL.METERED:{answer}'\n"))?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_metered_link_is_measured_without_a_train() -> Result<()> {
    let answer = |_: Request<Incoming>| async { ok("text/plain", "a small page") };
    let origin = Origin::start(None, |_| {}, answer).await?;
    let measured = pair(&origin, "no").await?;
    measured
        .relay()
        .has_passed(Direction::Down, MOST_OF_A_TRAIN, LIMIT)
        .await?;

    let metered = pair(&origin, "yes").await?;
    metered.status_until(|status| status["state"] == "open").await?;
    // A train would come before what is asked for after the session is open.
    for _ in 0..3 {
        assert_eq!(metered.get("http://site.test/").await?.status, 200);
    }
    let passed = metered.relay().passed(Direction::Down);
    assert!(passed < MOST_OF_A_TRAIN / 2, "{passed} bytes");

    let asked = folder()?;
    nmcli(asked.path(), "yes (guessed)")?;
    let more = ["--link-metered", "auto", "--log", "longhaul_agent=debug"].map(str::to_owned);
    let arguments = agent_arguments(asked.path(), metered.second_invite(), &more);
    let variables = [("PATH", asked.path().as_os_str())];
    let agent = Running::start_with("longhaul-agent", &arguments, &variables).await?;
    agent.log().contains("is_metered=Some(true)", LIMIT).await?;
    agent.end("INT", LIMIT).await?;
    Ok(())
}
