//! `run`: serves until a stop signal.
use std::io::Write;

use longhaul_gateway_core::config::{self, Config, Gateway, SettingArgs};
use parking_lot::Mutex;

use longhaul_service::{Ended, Logs, Reloaded, Reloads, Service, ServiceManager, Signals, serve};
use longhaul_settings::{Configured as _, Environment, Report};
use longhaul_types::error_text;
use tokio::{sync::oneshot, task::JoinHandle};

use super::CommandError;
use crate::server::{Server, ServerControl};

/// The running gateway.
struct Running {
    server: ServerControl,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
    sources: Sources,
    reloads: Mutex<Reloads>,
}

/// What a reload reads again, and the log that it changes.
pub struct Sources {
    /// Flags of the command line.
    pub flags: SettingArgs,
    /// Variables of the process.
    pub environment: Environment,
    /// The log.
    pub logs: Logs,
}

/// Runs the gateway until a stop signal.
pub(super) async fn run(
    config: &Config,
    report: &Report,
    sources: Sources,
    out: &mut impl Write,
) -> Result<Ended, CommandError> {
    // Before `ready` is printed: its reader may send the signal at once.
    let signals = Signals::install().map_err(CommandError::Signals)?;
    let manager = ServiceManager::of_process();
    let server = Server::bind(config).await?;
    if !config.without.is_empty() {
        tracing::warn!(without = %config.without, "techniques are switched off for measurements");
    }
    if let Some(address) = server.metrics_addr() {
        tracing::info!(%address, "metrics are served");
    }
    if let Some(address) = server.admin_addr() {
        tracing::info!(%address, "the admin port is open; `longhaul-gateway admin --token` prints its token");
    }
    if let Some(address) = server.quic_addr() {
        tracing::info!(%address, "agents may also connect by QUIC");
    }
    if let Some(address) = server.tls_addr() {
        tracing::info!(%address, "agents may also connect by TLS");
    }
    for address in server.local_addrs().iter().skip(1) {
        tracing::info!(%address, "agents may also connect by UDP here");
    }
    let (address, control) = (server.local_addr(), server.control());
    let (stop, stopped) = oneshot::channel();
    let ended = tokio::spawn(server.run(async {
        let _dropped = stopped.await;
    }));
    writeln!(out, "ready {address}")?;
    out.flush()?;
    let running = Running {
        server: control,
        stop,
        ended,
        sources,
        reloads: Mutex::new(Reloads::new(Gateway::PROGRAM, report.clone())),
    };
    Ok(serve(
        running,
        signals,
        &manager,
        format!("serving agents on UDP {address}"),
    )
    .await)
}

impl Service for Running {
    async fn reload(&self) -> Reloaded {
        let (flags, environment) = (self.sources.flags.clone(), self.sources.environment.clone());
        // File operations block.
        let read = tokio::task::spawn_blocking(move || config::load(&flags, &environment)).await;
        let (config, report) = match read {
            Ok(Ok(read)) => read,
            Ok(Err(mistakes)) => return Reloads::refused(&mistakes),
            Err(error) => return Reloads::failed(&error.to_string()),
        };
        if let Err(error) = self.server.reload(&config).await {
            return Reloads::failed(&error_text(&error));
        }
        self.sources.logs.set_filter(&config.log);
        let mut reloads = self.reloads.lock();
        reloads.applied(report, &[])
    }

    async fn answer(&self) {
        self.server.answered().await;
    }

    async fn failed(&self) {
        self.server.ended().await;
    }

    async fn finished(&self) {
        self.server.drained().await;
    }

    async fn stop(self) {
        let _ended = self.stop.send(());
        // The task ends with an error only if it panicked, which the runtime has reported.
        let _ended = self.ended.await;
    }
}
