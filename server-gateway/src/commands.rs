//! The subcommands of the program.
mod access;
mod backup;
mod client;
mod device;
mod invite;
mod run;
mod running;
mod table;

use std::io::{self, Write};

#[cfg(feature = "clientless")]
use longhaul_clientless::{RulesError, redirect_rules};
use longhaul_gateway_core::{
    admission::{clients::ClientsError, devices::DevicesError, state::StateError},
    config::Config,
};
use longhaul_images::picture_workers::{self, WorkerError};
use longhaul_service::Exit;
use longhaul_settings::Report;

use crate::{
    backup::BackupError,
    cli::Command,
    operator::{changes::ChangeError, client::ClientError},
    server::ServerError,
};

pub use run::Sources;

/// Errors of a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The device list cannot be changed.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The list of clients without an agent cannot be read or changed.
    #[error(transparent)]
    Clients(#[from] ClientsError),
    /// The running gateway did not carry out the order.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The device list cannot be read.
    #[error(transparent)]
    Devices(#[from] DevicesError),
    /// A backup cannot be written or read.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// No gateway runs.
    #[error(
        "no gateway runs with this state directory, or it has no admin socket (`admin-socket = \"off\"`); `systemctl status longhaul-gateway`"
    )]
    NotRunning,
    /// The output cannot be made.
    #[error("the output cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The rules of nftables would be of no use.
    #[cfg(feature = "clientless")]
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// Standard output cannot be written.
    #[error("standard output cannot be written: {0}")]
    Output(#[from] io::Error),
    /// The gateway cannot start.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The system refuses a signal handler.
    #[error("signals cannot be handled: {0}")]
    Signals(#[source] io::Error),
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// A picture worker failed.
    #[error(transparent)]
    Worker(#[from] WorkerError),
}

/// Executes a command and writes its output to `out`; logs go elsewhere. `run` reads `sources` again at a
/// reload.
///
/// # Errors
/// See [`CommandError`].
pub async fn execute(
    command: Command,
    config: &Config,
    report: &Report,
    sources: Sources,
    out: &mut impl Write,
) -> Result<Exit, CommandError> {
    match command {
        Command::Run => return Ok(run::run(config, report, sources, out).await?.into()),
        Command::CheckConfig => out.write_all(report.to_toml().as_bytes())?,
        Command::Device { action } => device::execute(action, config, out).await?,
        Command::Client { action } => client::execute(&action, config, out).await?,
        #[cfg(feature = "clientless")]
        Command::Clientless {
            action: crate::cli::ClientlessCommand::Rules { iface, from },
        } => out.write_all(redirect_rules(config, &iface, &from)?.as_bytes())?,
        Command::Drain { limit } => running::drain(config, limit, out).await?,
        Command::Admin { token } => running::admin(config, token, out).await?,
        Command::Backup { file } => backup::write(&file, config, report, out).await?,
        Command::Restore { file } => backup::read(&file, config, out).await?,
        Command::Invite(args) => invite::execute(&args, config, out).await?,
        Command::PictureWorker { memory } => picture_workers::work(memory)?,
    }
    Ok(Exit::Success)
}
