//! The gateway as the HTTP proxy of a browser without an agent.
use std::{net::SocketAddr, path::PathBuf};

use super::{
    pair::{GATEWAY, ORIGINS, PairError, clean, private_folder},
    programs,
    service::Service,
};
use crate::cli::ImageLevel;

/// Network of the browser.
const BROWSERS: &str = "10.78.0.0/24";

/// Configuration of the gateway.
#[derive(Clone, Debug)]
pub(super) struct ClientlessPlan {
    /// Folder of the programs.
    pub(super) bin_dir: PathBuf,
    /// Folder for state and logs.
    pub(super) temporary: PathBuf,
    /// The link profile that an operator would configure for these clients.
    pub(super) link: Option<String>,
    /// Image quality.
    pub(super) image_level: ImageLevel,
}

/// Starts the gateway with its proxy on `address`. Call it on the thread of the gateway's namespace.
///
/// # Errors
/// The program is missing or does not start.
pub(super) async fn start(address: SocketAddr, plan: &ClientlessPlan) -> Result<Service, PairError> {
    let program = programs::ours(&plan.bin_dir, "longhaul-gateway")?;
    let state = private_folder(&plan.temporary, "gateway")?;
    let config = plan.temporary.join("gateway.toml");
    let link = plan.link.as_deref().unwrap_or("unknown");
    let level = plan.image_level.name();
    std::fs::write(
        &config,
        format!("[clientless]\nlink = \"{link}\"\nlevel = \"{level}\"\n"),
    )?;
    let mut run = clean(&program);
    run.arg("run").arg("--config").arg(&config);
    run.arg("--state-dir").arg(&state);
    run.args(["--listen", GATEWAY, "--allow", ORIGINS]);
    run.arg("--clientless-listen").arg(address.to_string());
    run.args(["--clientless-allow", BROWSERS]);
    let log = plan.temporary.join("gateway.log");
    let (mut gateway, _) = Service::start_ready("longhaul-gateway", run, log).await?;
    gateway.wait_for_port(address).await?;
    Ok(gateway)
}
