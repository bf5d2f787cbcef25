//! `longhaul status` and `longhaul doctor` beside real programs: each cause is provoked, and a healthy pair has
//! no finding.
mod hop;
mod machine;
mod peers;
mod readers;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{
    client::{ask, get},
    origin::Origin,
    process::{Finished, Running, run},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::{
    content::ok,
    pair::{COMMAND_LIMIT, folder, invite, start_gateway, status_until},
};

const LONGHAUL: &str = "longhaul";
const AGENT: &str = "longhaul-agent";
/// A whole check of the gateway over UDP (6 s) and the look for a login page (3 s), where TLS and QUIC are refused at once.
const DOCTOR_LIMIT: Duration = Duration::from_secs(12);

/// A device with a home of its own.
#[derive(Debug)]
struct Device {
    home: TempDir,
}

impl Device {
    fn new() -> Result<Self> {
        let device = Self { home: folder()? };
        // The default ports may be in use on the tester's machine.
        device.configure("127.0.0.1:0")?;
        Ok(device)
    }

    async fn enrolled(line: &str) -> Result<Self> {
        let device = Self::new()?;
        let state = device.state().display().to_string();
        let enrolled = run(LONGHAUL, &["enroll", line, "--state-dir", &state], COMMAND_LIMIT).await?;
        ensure!(enrolled.code == Some(0), "{enrolled:?}");
        Ok(device)
    }

    fn home(&self) -> &Path {
        self.home.path()
    }

    fn state(&self) -> PathBuf {
        self.home().join(".local/state/longhaul-agent")
    }

    /// Sets the agent's proxy port.
    fn configure(&self, listen: &str) -> Result<()> {
        let folder = self.home().join(".config/longhaul");
        std::fs::create_dir_all(&folder)?;
        let text = format!("control = \"127.0.0.1:0\"\n\n[listen]\naddress = \"{listen}\"\n");
        Ok(std::fs::write(folder.join("agent.toml"), text)?)
    }

    /// Arguments of the agent's `run`.
    fn agent_arguments(&self, more: &[&str]) -> Vec<String> {
        let state = self.state().display().to_string();
        let fixed = ["run", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"];
        let place = ["--state-dir", &state];
        let all = fixed.iter().chain(&place).chain(more);
        all.map(|argument| (*argument).to_owned()).collect()
    }

    async fn start_agent(&self, more: &[&str]) -> Result<Running> {
        Running::start(AGENT, &self.agent_arguments(more)).await
    }

    /// Address of the running agent's control port.
    fn control(&self) -> Result<SocketAddr> {
        let about: Value = serde_json::from_str(&std::fs::read_to_string(self.state().join("agent.json"))?)?;
        Ok(about["control"].as_str().context("control address")?.parse()?)
    }

    /// Waits until the running agent's status has a trouble of this kind.
    async fn trouble(&self, kind: &str) -> Result<Value> {
        status_until(self.control()?, |status| status["trouble"]["kind"] == kind).await
    }

    /// Runs `longhaul doctor` and returns the kinds of its findings.
    async fn doctor(&self, more: &[&str]) -> Result<Vec<String>> {
        let report = self.report(more).await?;
        let findings = report["findings"].as_array().context("findings")?;
        let kinds = findings.iter().filter_map(|finding| finding["kind"].as_str());
        Ok(kinds.map(str::to_owned).collect())
    }

    /// Runs `longhaul doctor --json`, and checks what holds for every report.
    async fn report(&self, more: &[&str]) -> Result<Value> {
        let home = self.home().display().to_string();
        let arguments = [&["doctor", "--json", "--home", &home], more].concat();
        let finished = run(LONGHAUL, &arguments, COMMAND_LIMIT).await?;
        report_of(&finished)
    }

    /// Runs `longhaul status --json`.
    async fn status(&self) -> Result<(Option<i32>, Value)> {
        let state = self.state().display().to_string();
        let arguments = ["status", "--json", "--state-dir", &state];
        let finished = run(LONGHAUL, &arguments, COMMAND_LIMIT).await?;
        Ok((finished.code, serde_json::from_str(&finished.stdout)?))
    }
}

fn report_of(finished: &Finished) -> Result<Value> {
    println!("{}{}", finished.stdout, finished.stderr);
    let report: Value = serde_json::from_str(&finished.stdout)?;
    let findings = report["findings"].as_array().context("findings")?;
    let code = i32::from(!findings.is_empty());
    ensure!(finished.code == Some(code), "{finished:?}");
    ensure!(report["healthy"] == findings.is_empty(), "{report:#}");
    for finding in findings {
        let has_command = finding["mend"].as_str().is_some_and(|mend| !mend.is_empty());
        ensure!(has_command, "no command in {finding:#}");
    }
    Ok(report)
}

/// A gateway, and the line of an invite for its first device.
async fn gateway(folder: &Path, config: &str) -> Result<(Running, String)> {
    std::fs::write(folder.join("gateway.toml"), config)?;
    let gateway = start_gateway(folder, "127.0.0.1:0").await?;
    let line = invite(folder, "laptop", &gateway.address().to_string()).await?;
    Ok((gateway, line))
}

/// True if the test runs as root; otherwise it is skipped, and says so.
pub(crate) fn is_root(needs: &str) -> Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let is_root = std::fs::metadata("/proc/self")?.uid() == 0;
    if !is_root {
        println!("SKIPPED: {needs} needs root");
    }
    Ok(is_root)
}

/// Runs a shell command that has to succeed.
async fn shell(command: &str) -> Result<String> {
    let output = Command::new("sh").args(["-c", command]).output().await?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{command}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}

#[tokio::test]
async fn a_healthy_pair_has_no_finding() -> Result<()> {
    let origin = Origin::start(
        None,
        |_| {},
        |_: Request<Incoming>| async { ok("text/plain", "hello") },
    )
    .await?;
    let folder = folder()?;
    let resolve = format!("[fetch.resolve]\n\"site.test\" = \"{}\"\n", origin.address());
    let (_gateway, line) = gateway(folder.path(), &resolve).await?;
    let device = Device::enrolled(&line).await?;
    let agent = device.start_agent(&[]).await?;
    assert_eq!(device.doctor(&[]).await?, ["no_browser"]);
    let (_, status) = device.status().await?;
    assert_eq!(status["browsers_connected"], false, "{status:#}");

    let page = ask(agent.address(), get("http://site.test/", &[])).await?;
    assert_eq!(page.text(), "hello");
    assert_eq!(device.doctor(&[]).await?, Vec::<String>::new());
    let (code, status) = device.status().await?;
    assert_eq!(code, Some(0), "{status:#}");
    assert_eq!(status["trouble"], Value::Null, "{status:#}");
    assert_eq!(status["agent"]["pid"], agent.pid(), "{status:#}");
    for key in ["working", "enrolled", "browsers_connected"] {
        assert_eq!(status[key], true, "{key}: {status:#}");
    }
    assert!(status["session"]["rtt_ms"].is_number(), "{status:#}");

    // The gateway answers, but no agent runs.
    agent.end("TERM", COMMAND_LIMIT).await?;
    let report = device.report(&[]).await?;
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(1), "{report:#}");
    assert_eq!(report["findings"][0]["kind"], "agent_not_running");
    let (code, status) = device.status().await?;
    assert_eq!(
        (code, &status["agent"]["running"]),
        (Some(1), &Value::from(false))
    );
    Ok(())
}

#[tokio::test]
async fn a_device_without_an_invite_is_not_enrolled() -> Result<()> {
    let device = Device::new()?;
    let report = device.report(&[]).await?;
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(1), "{report:#}");
    assert_eq!(report["findings"][0]["kind"], "not_enrolled");
    assert_eq!(report["findings"][0]["mend"], "longhaul up LINE");
    Ok(())
}
