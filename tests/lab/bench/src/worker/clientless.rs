//! The gateway for a browser without an agent: as its HTTP proxy, as its router, or as its name server.
use std::{net::SocketAddr, path::PathBuf};

use super::{
    nftables,
    pair::{GATEWAY, ORIGINS, PairError, clean, private_folder},
    programs,
    service::Service,
};
use crate::cli::ImageLevel;

/// Port for redirected connections.
const REDIRECTED: u16 = 3130;
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
    /// How the browser's connections arrive.
    pub(super) arrival: Arrival,
}

/// How the connections of a browser without an agent arrive at the gateway.
#[derive(Clone, Debug)]
pub(super) enum Arrival {
    /// The gateway is the browser's proxy.
    Proxy,
    /// The gateway is the browser's proxy inside TLS.
    SecureProxy(SecureFiles),
    /// Rules of nftables redirect them.
    Redirected,
    /// The gateway is the browser's name server, and leads these hosts to itself.
    Names(Vec<String>),
}

/// Files of a proxy inside TLS.
#[derive(Clone, Debug)]
pub(super) struct SecureFiles {
    /// Certificate chain, PEM.
    pub(super) certificate: PathBuf,
    /// Private key, PEM.
    pub(super) key: PathBuf,
}

/// Starts the gateway, whose proxy listens on `address` if it has one. Call it on the thread of the gateway's namespace.
///
/// # Errors
/// The program is missing or does not start, or the rules of nftables are not accepted.
pub(super) async fn start(address: SocketAddr, plan: &ClientlessPlan) -> Result<Service, PairError> {
    let program = programs::ours(&plan.bin_dir, "longhaul-gateway")?;
    let state = private_folder(&plan.temporary, "gateway")?;
    let config = plan.temporary.join("gateway.toml");
    let at = SocketAddr::new(address.ip(), plan.arrival.port(address));
    std::fs::write(&config, configuration(at, plan))?;
    if let Some(rules) = plan.arrival.rules() {
        nftables::apply(&rules)?;
    }
    let mut run = clean(&program);
    run.arg("run").arg("--config").arg(&config);
    run.arg("--state-dir").arg(&state);
    run.args(["--listen", GATEWAY, "--allow", ORIGINS]);
    run.args(["--clientless-allow", BROWSERS]);
    let log = plan.temporary.join("gateway.log");
    let (mut gateway, _) = Service::start_ready("longhaul-gateway", run, log).await?;
    gateway.wait_for_port(at).await?;
    Ok(gateway)
}

impl Arrival {
    /// The port for the browser's connections.
    fn port(&self, proxy: SocketAddr) -> u16 {
        match self {
            Self::Proxy | Self::SecureProxy(_) => proxy.port(),
            Self::Redirected => REDIRECTED,
            Self::Names(_) => 80,
        }
    }

    /// Rules of nftables that bring the browser's traffic to the gateway. Those that the gateway prints leave private
    /// addresses alone, which the hosts of pages have here.
    fn rules(&self) -> Option<String> {
        let redirected = match self {
            Self::Proxy | Self::SecureProxy(_) => return None,
            Self::Redirected => format!("tcp dport {{ 80, 443 }} redirect to :{REDIRECTED}"),
            // In place of DHCP, which would tell the browser the gateway's address.
            Self::Names(_) => "udp dport 53 redirect to :53".to_owned(),
        };
        Some(format!(
            "table ip longhaul_bench {{\n\
             chain incoming {{\n\
             type nat hook prerouting priority dstnat; policy accept;\n\
             ip saddr {BROWSERS} {redirected}\n\
             }}\n}}\n"
        ))
    }
}

fn configuration(at: SocketAddr, plan: &ClientlessPlan) -> String {
    let link = plan.link.as_deref().unwrap_or("unknown");
    let level = plan.image_level.name();
    let mut text = format!("[clientless]\nlink = \"{link}\"\nlevel = \"{level}\"\n");
    match &plan.arrival {
        Arrival::Proxy => text.push_str(&format!("listen = \"{at}\"\n")),
        Arrival::SecureProxy(files) => {
            let (certificate, key) = (files.certificate.display(), files.key.display());
            text.push_str(&format!(
                "tls = \"{at}\"\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n"
            ));
        }
        Arrival::Redirected => text.push_str(&format!("transparent = [\"{at}\"]\n")),
        Arrival::Names(hosts) => {
            let ip = at.ip();
            text.push_str(&format!("transparent = [\"{ip}:80\", \"{ip}:443\"]\n"));
            let names = hosts.iter().map(|host| format!("\"{host}\""));
            let names = names.collect::<Vec<_>>().join(", ");
            text.push_str(&format!("[dns]\nlisten = \"{ip}:53\"\nnames = [{names}]\n"));
        }
    }
    text
}
