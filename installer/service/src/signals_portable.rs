//! Signals on systems other than Unix: Ctrl-C.
use std::io;

use crate::Signal;

/// Exit status of a program that Ctrl-C ended at once, as on Unix.
const INTERRUPTED: u8 = 130;

/// The signals that this process receives.
#[derive(Debug)]
pub struct Signals;

impl Signals {
    /// Starts to receive signals; without this call they end the process.
    ///
    /// # Errors
    /// The system does not support them.
    pub const fn install() -> io::Result<Self> {
        Ok(Self)
    }

    /// The next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Signal::Stop(INTERRUPTED),
            // If the handler cannot be installed, the default action still ends the program.
            Err(_) => std::future::pending().await,
        }
    }
}
