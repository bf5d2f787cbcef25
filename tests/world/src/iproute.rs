//! Addresses, routes and rules, set by iproute2.
use std::{
    io::{self, Write as _},
    process::{Command, Stdio},
};

/// What went wrong with `ip`.
#[derive(Debug, thiserror::Error)]
pub enum IpError {
    /// It is not there.
    #[error("cannot run `ip`: {0}; install the package iproute2")]
    Start(io::Error),
    /// It did not take the commands.
    #[error("`ip` refused a command: {message}")]
    Refused {
        /// What it printed.
        message: String,
    },
}

/// Runs a batch of `ip` commands, one a line without the word `ip`, in the namespace of the calling thread.
pub(crate) fn batch(commands: &str) -> Result<(), IpError> {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(IpError::Start)?;
    // A batch is far below the size of a pipe, so writing it all before reading anything cannot block.
    let written = child
        .stdin
        .take()
        .map(|mut stdin| stdin.write_all(commands.as_bytes()));
    let output = child.wait_with_output().map_err(IpError::Start)?;
    if output.status.success() && matches!(written, Some(Ok(()))) {
        return Ok(());
    }
    Err(IpError::Refused {
        message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}
