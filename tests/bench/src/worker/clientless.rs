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
    /// Certificate and key if the proxy is inside TLS.
    pub(super) secure: Option<SecureFiles>,
}

/// Files of a proxy inside TLS.
#[derive(Clone, Debug)]
pub(super) struct SecureFiles {
    /// Certificate chain, PEM.
    pub(super) certificate: PathBuf,
    /// Private key, PEM.
    pub(super) key: PathBuf,
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
    let mut text = format!("[clientless]\nlink = \"{link}\"\nlevel = \"{level}\"\n");
    if let Some(files) = &plan.secure {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        text.push_str(&format!("certificate = \"{certificate}\"\nkey = \"{key}\"\n"));
    }
    std::fs::write(&config, text)?;
    let mut run = clean(&program);
    run.arg("run").arg("--config").arg(&config);
    run.arg("--state-dir").arg(&state);
    run.args(["--listen", GATEWAY, "--allow", ORIGINS]);
    let flag = if plan.secure.is_some() {
        "--clientless-tls"
    } else {
        "--clientless-listen"
    };
    run.arg(flag).arg(address.to_string());
    run.args(["--clientless-allow", BROWSERS]);
    let log = plan.temporary.join("gateway.log");
    let (mut gateway, _) = Service::start_ready("longhaul-gateway", run, log).await?;
    gateway.wait_for_port(address).await?;
    Ok(gateway)
}
