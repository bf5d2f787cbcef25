//! Configuration of addresses, routes and rules by iproute2.
use std::{
    io::{self, Write as _},
    process::{Command, Stdio},
};

/// Errors of `ip`.
#[derive(Debug, thiserror::Error)]
pub enum IpError {
    /// The program cannot be started.
    #[error("cannot run `ip`: {0}; install the package iproute2")]
    Start(io::Error),
    /// The program rejected the commands.
    #[error("`ip` refused a command: {message}")]
    Refused {
        /// Its error output.
        message: String,
    },
}

/// Runs a batch of `ip` commands, one per line without the word `ip`, in the namespace of the calling thread.
pub(crate) fn batch(commands: &str) -> Result<(), IpError> {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(IpError::Start)?;
    // A batch is much smaller than the buffer of a pipe, so writing all of it before reading cannot block.
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
