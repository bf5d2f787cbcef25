//! `run`: serves until a stop signal.
use std::io::Write;

use super::CommandError;
use crate::{config::Config, server::Server};

pub(super) async fn run(config: &Config, out: &mut impl Write) -> Result<(), CommandError> {
    // Before `ready` is printed: its reader may send the signal at once.
    let stop = stop_signal()?;
    let server = Server::bind(config).await?;
    if let Some(address) = server.metrics_addr() {
        tracing::info!(%address, "metrics are served");
    }
    writeln!(out, "ready {}", server.local_addr())?;
    out.flush()?;
    server.run(stop).await;
    Ok(())
}

/// Completes on Ctrl-C or, on Unix, SIGTERM.
#[cfg(unix)]
fn stop_signal() -> Result<impl Future<Output = ()>, CommandError> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn stop_signal() -> Result<impl Future<Output = ()>, CommandError> {
    Ok(async {
        // If the handler cannot be installed, the default action still ends the program.
        let _unhandled = tokio::signal::ctrl_c().await;
    })
}
