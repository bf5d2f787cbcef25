//! Two agents with one state directory.
use anyhow::Result;
use longhaul_tests::process::{Finished, run};

use super::{arguments, start, write_invite};
use crate::pair::{COMMAND_LIMIT, LIMIT, folder, free_udp_port, invite};

#[tokio::test(flavor = "multi_thread")]
async fn a_second_agent_of_a_state_directory_names_the_first_and_ends() -> Result<()> {
    let folder = folder()?;
    let state = folder.path().join("agent");
    let line = invite(folder.path(), "test", &free_udp_port().await?.to_string()).await?;
    write_invite(&state, &line)?;
    let status = async || -> Result<Finished> {
        let state = state.display().to_string();
        run(
            "longhaul-agent",
            &["status", "--state-dir", &state],
            COMMAND_LIMIT,
        )
        .await
    };
    let before = status().await?;
    assert!(before.stderr.contains("no agent runs"), "{before:?}");

    let first = start(&state).await?;
    let published = std::fs::read_to_string(state.join("agent.json"))?;
    let second = run("longhaul-agent", &arguments(&state), COMMAND_LIMIT).await?;
    assert!(second.code.is_some_and(|code| code != 0), "{second:?}");
    for words in [
        format!("(process {}, proxy {}", first.pid(), first.address()),
        format!("`kill {}`", first.pid()),
        "--state-dir".to_owned(),
    ] {
        assert!(second.stderr.contains(&words), "{words}: {}", second.stderr);
    }
    assert_eq!(std::fs::read_to_string(state.join("agent.json"))?, published);
    let running = status().await?;
    assert!(
        running.stdout.contains(&first.address().to_string()),
        "{running:?}"
    );

    // The log reveals neither the token nor the address of the dashboard.
    let token = std::fs::read_to_string(state.join("control-token"))?;
    let log = first.log().contains("longhaul-agent status", LIMIT).await?;
    assert!(!log.contains(token.trim()) && !log.contains("http://"), "{log}");
    assert!(
        running.stdout.contains(token.trim()),
        "`status` prints the address with the token"
    );

    // A crash leaves files, but no lock.
    let pid = first.pid();
    first.kill().await?;
    assert!(state.join("agent.json").exists());
    let crashed = status().await?;
    assert!(
        crashed.code != Some(0) && crashed.stderr.contains(&format!("process {pid}")),
        "{crashed:?}"
    );
    let third = start(&state).await?;
    assert!(third.end("TERM", LIMIT).await?.success());
    assert!(!state.join("agent.json").exists() && !state.join("control-token").exists());
    Ok(())
}
