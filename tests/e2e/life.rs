//! The life of an agent on a machine: one for each state directory, one session for each device, new enrolments
//! without a restart.
mod enrolment;
mod one_agent;
mod one_key;
mod setup;

use std::{ffi::OsString, path::Path};

use anyhow::Result;
use longhaul_tests::process::Running;

/// Arguments of an agent whose files are in the state directory `state`, the invite included.
fn arguments(state: &Path) -> Vec<OsString> {
    let ports = ["run", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"];
    let mut arguments: Vec<OsString> = ports.map(OsString::from).to_vec();
    arguments.extend(["--fallback-after", "never", "--state-dir"].map(OsString::from));
    arguments.push(state.into());
    arguments
}

/// Starts an agent with the invite that its state directory has.
async fn start(state: &Path) -> Result<Running> {
    Running::start("longhaul-agent", &arguments(state)).await
}

/// Writes an invite as `longhaul enroll` does.
fn write_invite(state: &Path, line: &str) -> Result<()> {
    std::fs::create_dir_all(state)?;
    Ok(std::fs::write(state.join("invite"), format!("{line}\n"))?)
}
