//! The subcommands of the program.
mod device;
mod invite;
mod run;

use std::io::{self, Write};

use longhaul_settings::Report;

use crate::{
    admission::{devices::DevicesError, state::StateError},
    cli::Command,
    config::Config,
    images::picture_workers::{self, WorkerError},
    server::ServerError,
};

/// Errors of a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The address of the invite is invalid.
    #[error("--address: {0}")]
    Address(String),
    /// The device list cannot be read or changed.
    #[error(transparent)]
    Devices(#[from] DevicesError),
    /// Standard output cannot be written.
    #[error("standard output cannot be written: {0}")]
    Output(#[from] io::Error),
    /// The gateway cannot start.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// A picture worker failed.
    #[error(transparent)]
    Worker(#[from] WorkerError),
}

/// Executes a command and writes its output to `out`; logs go elsewhere.
///
/// # Errors
/// See [`CommandError`].
pub async fn execute(
    command: Command,
    config: &Config,
    report: &Report,
    out: &mut impl Write,
) -> Result<(), CommandError> {
    match command {
        Command::Run => run::run(config, out).await,
        Command::CheckConfig => Ok(out.write_all(report.to_toml().as_bytes())?),
        Command::Device { action } => device::execute(action, config, out),
        Command::Invite { name, address } => invite::execute(&name, &address, config, out),
        Command::PictureWorker { memory } => Ok(picture_workers::work(memory)?),
    }
}
