//! A new enrolment beside a running agent.
use std::{path::Path, sync::Arc};

use anyhow::{Context as _, Result};
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{
    client::{ask, get},
    origin::Origin,
    process::{Finished, run_with},
};
use serde_json::Value;
use tokio::{sync::watch, time::timeout};

use super::{start, write_invite};
use crate::{
    content::ok,
    pair::{
        COMMAND_LIMIT, LIMIT, Pair, Setup, control, folder, free_udp_port, invite, start_gateway, status,
        status_until,
    },
};

/// Runs `longhaul enroll` with a home of its own.
async fn enroll(home: &Path, arguments: &[&str], config: &str) -> Result<Finished> {
    let home = home.display().to_string();
    let variables = [
        ("HOME", &*home),
        ("XDG_CONFIG_HOME", ""),
        ("XDG_STATE_HOME", ""),
        ("LONGHAUL_CONFIG", config),
    ];
    let arguments: Vec<&str> = ["enroll"].iter().chain(arguments).copied().collect();
    run_with("longhaul", &arguments, &variables, COMMAND_LIMIT).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_enrolment_moves_a_running_agent_to_another_gateway() -> Result<()> {
    // The origin does not answer the first request.
    let (requests, mut arrived) = watch::channel(0);
    let requests = Arc::new(requests);
    let origin = Origin::start(
        None,
        |_| {},
        move |_: Request<Incoming>| {
            let requests = Arc::clone(&requests);
            async move {
                requests.send_modify(|count| *count += 1);
                if *requests.borrow() == 1 {
                    std::future::pending::<()>().await;
                }
                ok("text/plain", "the answer".to_owned())
            }
        },
    )
    .await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    // The agent's state directory is that of its configuration file.
    let home = folder()?;
    let state = home.path().join("elsewhere");
    write_invite(&state, pair.second_invite())?;
    let config = home.path().join("agent.toml");
    std::fs::write(&config, format!("state-dir = '{}'\n", state.display()))?;
    let config = config.display().to_string();
    let agent = start(&state).await?;
    let about: Value = serde_json::from_str(&std::fs::read_to_string(state.join("agent.json"))?)?;
    let port = about["control"].as_str().context("control")?.parse()?;
    let is_open = |status: &Value| status["state"] == "open";
    let before = status_until(port, is_open).await?;

    // Another gateway.
    let other = folder()?;
    std::fs::write(
        other.path().join("gateway.toml"),
        format!("[fetch.resolve]\n\"site.test\" = \"{}\"\n", origin.address()),
    )?;
    let address = free_udp_port().await?.to_string();
    let line = invite(other.path(), "mover", &address).await?;
    let _gateway = start_gateway(other.path(), &address).await?;

    // The error names options that exist.
    let refused = enroll(home.path(), &[&line], &config).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains("`longhaul enroll --replace LINE`"),
        "{refused:?}"
    );
    assert_eq!(status(port).await?["gateway_key"], before["gateway_key"]);

    let waiting = tokio::spawn(ask(agent.address(), get("http://site.test/", &[])));
    timeout(LIMIT, arrived.wait_for(|count| *count == 1)).await??;
    let moved = enroll(home.path(), &["--replace", &line], &config).await?;
    assert_eq!(moved.code, Some(0), "{moved:?}");
    assert!(
        moved.stdout.contains(&format!("Process {}", agent.pid())),
        "{moved:?}"
    );
    assert!(
        moved.stdout.contains("its session with the gateway is open"),
        "{moved:?}"
    );
    assert!(
        !home.path().join(".local").exists(),
        "nothing is in the default directory"
    );
    let after = status(port).await?;
    assert_ne!(after["gateway_key"], before["gateway_key"]);
    assert!(is_open(&after), "{after}");

    // The request in flight is safe, so it is repeated through the other gateway.
    let answer = timeout(LIMIT, waiting).await???;
    assert_eq!((answer.status, answer.text().as_str()), (200, "the answer"));
    let again = enroll(home.path(), &[&line], &config).await?;
    assert!(again.stdout.contains("uses this enrolment already"), "{again:?}");
    // The moved agent uses the new invite after a restart, too.
    assert!(agent.end("TERM", LIMIT).await?.success());
    let agent = start(&state).await?;
    let about: Value = serde_json::from_str(&std::fs::read_to_string(state.join("agent.json"))?)?;
    let port = about["control"].as_str().context("control")?.parse()?;
    let restarted = status_until(port, is_open).await?;
    assert_eq!(restarted["gateway_key"], after["gateway_key"]);
    drop(agent);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_an_invite_in_its_settings_says_that_it_does_not_move() -> Result<()> {
    let pair = Pair::start(Setup::resolving(&[])).await?;
    let state = pair.folder().join("agent").display().to_string();
    let line = pair.second_invite();
    let refused = enroll(pair.folder(), &[line, "--state-dir", &state], "/dev/null").await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("the invite is stored"), "{refused:?}");
    assert!(refused.stderr.contains("`invite`"), "{refused:?}");
    assert_eq!(
        status(control(pair.folder())?).await?["sessions"]
            .as_u64()
            .map(|n| n <= 1),
        Some(true)
    );
    Ok(())
}
