//! The signal that ends a program on every system: Ctrl-C.
use std::io;

/// Receiver of the signal.
pub(crate) struct EndSignals;

impl EndSignals {
    /// The handler is installed by the first call of [`Self::received`].
    ///
    /// # Errors
    /// None on these systems.
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits for the signal.
    pub(crate) async fn received(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a handler, the signal has its default action.
            std::future::pending::<()>().await;
        }
    }
}
