//! Commands of the system that changes are made with.
use std::{
    io,
    process::{Command, Stdio},
};

use crate::{error::ChangeError, step::CommandLine};

/// Result of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandResult {
    /// True if the exit status is 0.
    pub is_success: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs commands; tests replace it.
pub trait CommandRunner {
    /// Runs a command to its end, without input.
    ///
    /// # Errors
    /// The program does not exist or cannot be run.
    fn run(&self, command: &CommandLine) -> io::Result<CommandResult>;
}

/// Runs commands on this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemCommands;

impl CommandRunner for SystemCommands {
    fn run(&self, command: &CommandLine) -> io::Result<CommandResult> {
        let output = Command::new(&command.program)
            .args(&command.arguments)
            .stdin(Stdio::null())
            .output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(CommandResult {
            is_success: output.status.success(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        })
    }
}

/// Runs a command that has to succeed, and returns its output.
pub(crate) fn run(runner: &dyn CommandRunner, command: &CommandLine) -> Result<String, ChangeError> {
    let result = runner.run(command).map_err(|source| not_run(command, &source))?;
    if result.is_success {
        return Ok(result.stdout);
    }
    let reason = [result.stderr, result.stdout]
        .iter()
        .find_map(|text| {
            text.lines()
                .map(str::trim)
                .find(|line| !line.is_empty())
                .map(str::to_owned)
        })
        .unwrap_or_else(|| "it gave no reason".to_owned());
    Err(ChangeError::Command {
        command: command.clone(),
        reason,
    })
}

/// Runs a command and returns true if it succeeds.
pub(crate) fn succeeds(runner: &dyn CommandRunner, command: &CommandLine) -> Result<bool, ChangeError> {
    match runner.run(command) {
        Ok(result) => Ok(result.is_success),
        Err(source) => Err(not_run(command, &source)),
    }
}

fn not_run(command: &CommandLine, source: &io::Error) -> ChangeError {
    if source.kind() == io::ErrorKind::NotFound {
        return ChangeError::NotInstalled {
            program: command.program.clone(),
            package: match command.program.as_str() {
                "certutil" => Some("libnss3-tools"),
                "gsettings" => Some("libglib2.0-bin"),
                "update-ca-certificates" => Some("ca-certificates"),
                _ => None,
            },
        };
    }
    ChangeError::Command {
        command: command.clone(),
        reason: source.to_string(),
    }
}
