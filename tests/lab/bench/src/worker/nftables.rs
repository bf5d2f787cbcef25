//! Rules of nftables in the namespace of the calling thread.
use std::{
    io::{self, Write as _},
    process::{Command, Stdio},
};

/// Errors of applying rules.
#[derive(Debug, thiserror::Error)]
pub(super) enum NftablesError {
    /// The program is missing or did not read the rules.
    #[error("cannot run nft: {0}; install nftables")]
    Start(#[from] io::Error),
    /// The kernel or the program rejects them.
    #[error("nft rejects the rules: {0}")]
    Rejected(String),
}

/// Applies a text of rules as a whole. The namespace has them until it ends.
///
/// # Errors
/// The program is missing, or the rules are rejected.
pub(super) fn apply(rules: &str) -> Result<(), NftablesError> {
    let mut nft = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = nft.stdin.take() {
        input.write_all(rules.as_bytes())?;
    }
    let output = nft.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(NftablesError::Rejected(message))
}
