//! The signals that end a program: SIGINT, SIGTERM, SIGHUP.
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receiver of the signals.
pub(crate) struct EndSignals([Signal; 3]);

impl EndSignals {
    /// Installs the handlers: from now on, the signals do not have their default action.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    /// Waits for one of the signals.
    pub(crate) async fn received(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
