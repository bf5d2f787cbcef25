//! `backup` and `restore`.
use std::{io::Write, path::Path};

use longhaul_gateway_core::{admission::state::StateDir, config::Config};
use longhaul_settings::Report;

use super::CommandError;
use crate::{
    backup,
    operator::{client::RunningGateway, orders::KeepRequest},
};

/// `backup`: a running gateway first writes its newest counts.
pub(super) async fn write(
    file: &Path,
    config: &Config,
    report: &Report,
    out: &mut impl Write,
) -> Result<(), CommandError> {
    let running = RunningGateway::find(&config.state_dir, config.admin_socket.as_deref()).await?;
    if let Some(running) = running {
        running.tell(&KeepRequest {}).await?;
    }
    let state = StateDir::open(&config.state_dir)?;
    let files = backup::write(&state, &report.to_toml(), file)?;
    Ok(writeln!(
        out,
        "{files} files of {} are in {}; it contains secret keys",
        state.path().display(),
        file.display()
    )?)
}

/// `restore`.
pub(super) async fn read(file: &Path, config: &Config, out: &mut impl Write) -> Result<(), CommandError> {
    let state = StateDir::open(&config.state_dir)?;
    let files = backup::read(&state, file).await?;
    Ok(writeln!(
        out,
        "{files} files are in {}; the configuration of the backup is {}: compare it with the one of this machine",
        state.path().display(),
        state.file(backup::CONFIGURATION).display()
    )?)
}
