//! Commands that need a running gateway: `drain` and `admin`.
use longhaul_gateway_core::config::Config;

use std::{io::Write, time::Duration};

use super::CommandError;
use crate::operator::{
    client::RunningGateway,
    orders::{AccessRequest, DrainRequest},
};

async fn find(config: &Config) -> Result<RunningGateway, CommandError> {
    let running = RunningGateway::find(&config.state_dir, config.admin_socket.as_deref()).await?;
    running.ok_or(CommandError::NotRunning)
}

/// `drain`: the gateway ends when nothing is in progress.
pub(super) async fn drain(
    config: &Config,
    limit: Duration,
    out: &mut impl Write,
) -> Result<(), CommandError> {
    let order = DrainRequest {
        limit_s: Some(limit.as_secs()),
    };
    let status = find(config).await?.tell(&order).await?;
    let within = status.ends_within_s.unwrap_or(0);
    Ok(writeln!(
        out,
        "the gateway opens no more sessions; it ends when its {} open ones have nothing in progress, or in {within} s",
        status.sessions
    )?)
}

/// `admin`: prints the address or the token of the admin port.
pub(super) async fn admin(config: &Config, token: bool, out: &mut impl Write) -> Result<(), CommandError> {
    let access = find(config).await?.tell(&AccessRequest {}).await?;
    let line = if token { access.token } else { access.url };
    Ok(writeln!(out, "{line}")?)
}
