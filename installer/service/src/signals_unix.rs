//! Signals on Unix.
use std::io;

use tokio::signal::unix::{SignalKind, signal};

use crate::Signal;

/// The signals that this process receives.
#[derive(Debug)]
pub struct Signals {
    hang_up: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Starts to receive signals; without this call they end the process. Call it before the program announces
    /// that it is ready, because a reader may send a signal at once.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn install() -> io::Result<Self> {
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next signal. Stop signals precede reloads.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            biased;
            Some(()) = self.terminate.recv() => stop(SignalKind::terminate()),
            Some(()) = self.interrupt.recv() => stop(SignalKind::interrupt()),
            Some(()) = self.hang_up.recv() => Signal::Reload,
            else => std::future::pending().await,
        }
    }
}

/// Shells report 128 and the number of the signal for a process that a signal ended.
fn stop(kind: SignalKind) -> Signal {
    let number = u8::try_from(kind.as_raw_value()).unwrap_or_default();
    Signal::Stop(number.saturating_add(128))
}
