//! `longhaul status`: the state of the agent on this machine, as the agent reports it.
use std::{
    io,
    path::Path,
    process::{Command, ExitStatus},
};

use longhaul_demo::ProgramError;

/// Errors of requesting the agent's state.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// The agent's program is missing.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The agent's program cannot be run.
    #[error("cannot run longhaul-agent: {0}")]
    Run(#[source] io::Error),
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text for people.
    Text,
    /// The agent's `status.json`.
    Json,
}

/// Runs `longhaul-agent status`, which prints to this program's output.
///
/// # Errors
/// The program is missing or cannot be run.
pub fn show(state_dir: Option<&Path>, format: Format) -> Result<ExitStatus, StatusError> {
    let mut command = Command::new(longhaul_demo::find_agent()?);
    command.arg("status");
    if let Some(directory) = state_dir {
        command.arg("--state-dir").arg(directory);
    }
    if format == Format::Json {
        command.arg("--json");
    }
    command.status().map_err(StatusError::Run)
}
