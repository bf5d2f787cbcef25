//! All commands agree whether an agent runs: `longhaul status`, `longhaul-agent status`, `longhaul doctor` and
//! `longhaul enroll`.
use super::*;

/// What each command says about the agent of a device.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Runs,
    Silent,
    Absent,
}

impl Device {
    async fn answers(&self) -> Result<[Answer; 2]> {
        let state = self.state().display().to_string();
        let arguments = ["status", "--state-dir", &state];
        let installer = run(LONGHAUL, &arguments, COMMAND_LIMIT).await?;
        let agent = run(AGENT, &arguments, COMMAND_LIMIT).await?;
        println!("{}{}{}", installer.stdout, agent.stdout, agent.stderr);
        let installer = match installer.stdout {
            text if text.contains("does not answer") => Answer::Silent,
            text if text.contains("does not run") => Answer::Absent,
            text => {
                ensure!(text.contains("runs for"), "{text}");
                Answer::Runs
            }
        };
        let agent = match agent.stderr {
            text if text.contains("no agent answers") || text.contains("is starting") => Answer::Silent,
            text if text.contains("no agent runs") => Answer::Absent,
            text => {
                ensure!(agent.code == Some(0), "{text}");
                Answer::Runs
            }
        };
        Ok([installer, agent])
    }
}

#[tokio::test]
async fn all_commands_agree_whether_an_agent_runs() -> Result<()> {
    let folder = folder()?;
    let (_gateway, line) = gateway(folder.path(), "").await?;
    let device = Device::enrolled(&line).await?;
    assert_eq!(device.answers().await?, [Answer::Absent, Answer::Absent]);

    let agent = device.start_agent(&[]).await?;
    assert_eq!(device.answers().await?, [Answer::Runs, Answer::Runs]);

    // It hangs: its ports accept connections, which nobody serves.
    agent.stop(COMMAND_LIMIT).await?;
    assert_eq!(device.answers().await?, [Answer::Silent, Answer::Silent]);
    let report = device.report(&[]).await?;
    let what = report["findings"][0]["what"].as_str().context("text")?;
    assert_eq!(report["findings"][0]["kind"], "agent_not_running", "{report:#}");
    assert!(what.contains(&format!("process {}", agent.pid())), "{what}");
    agent.signal("CONT").await?;
    assert_eq!(device.answers().await?, [Answer::Runs, Answer::Runs]);

    // Its files are still there, and another program listens on its control port.
    let control = device.control()?;
    agent.kill().await?;
    let _other = tokio::net::TcpListener::bind(control).await?;
    assert_eq!(device.answers().await?, [Answer::Absent, Answer::Absent]);
    let state = device.state().display().to_string();
    let enrolled = run(LONGHAUL, &["enroll", &line, "--state-dir", &state], COMMAND_LIMIT).await?;
    assert!(enrolled.stdout.contains("Next: start the agent"), "{enrolled:?}");

    // An agent that has taken the lock and not yet published its addresses.
    std::fs::remove_file(device.state().join("agent.json"))?;
    let lock = std::fs::File::options()
        .write(true)
        .open(device.state().join("lock"))?;
    lock.lock()?;
    assert_eq!(device.answers().await?, [Answer::Silent, Answer::Silent]);
    Ok(())
}
