//! `longhaul status`: what the agent on this machine says of itself.
use std::{
    io,
    path::Path,
    process::{Command, ExitStatus},
};

use crate::demo::ProgramError;

/// An agent that could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// The agent's program is missing.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// It cannot be run.
    #[error("cannot run longhaul-agent: {0}")]
    Run(#[source] io::Error),
}

/// How the status is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// The agent's `status.json`.
    Json,
}

/// Runs `longhaul-agent status`, which prints to this program's output.
///
/// # Errors
/// The program is missing or cannot be run.
pub fn show(state_dir: Option<&Path>, format: Format) -> Result<ExitStatus, StatusError> {
    let mut command = Command::new(crate::demo::find_agent()?);
    command.arg("status");
    if let Some(directory) = state_dir {
        command.arg("--state-dir").arg(directory);
    }
    if format == Format::Json {
        command.arg("--json");
    }
    command.status().map_err(StatusError::Run)
}
