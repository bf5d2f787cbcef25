//! The command line.
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// The Longhaul agent: an HTTP proxy for the browser on this machine that loads pages through a Longhaul gateway.
#[derive(Clone, Debug, Parser)]
#[command(name = "longhaul-agent", version, about, max_term_width = 100)]
pub struct CliArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run the agent until it is interrupted. Prints `ready ADDRESS` on stdout when browsers can connect.
    Run(ConfigFlags),
    /// Check all settings and the invite, and print what is in force. Starts nothing.
    CheckConfig(ConfigFlags),
    /// Show the state of the agent that runs on this machine.
    Status(StatusArgs),
    /// Forget what was loaded from a site or for it, or everything, on this machine and at the gateway.
    Forget(ForgetArgs),
    /// This device's certificate authority, which browsers must trust where HTTPS is accelerated.
    #[command(subcommand)]
    Ca(CaCommand),
}

/// What to do with the authority.
#[derive(Clone, Debug, Subcommand)]
pub enum CaCommand {
    /// Print its certificate (PEM), for trust stores. Makes it if there is none.
    Export(CaArgs),
    /// Print the SHA-256 fingerprint of its certificate, as browsers show it.
    Fingerprint(CaArgs),
    /// Remove its key and certificate from this device. Take the certificate out of the trust stores as well.
    Remove(CaArgs),
}

/// Whose authority.
#[derive(Args, Clone, Debug, Default)]
pub struct CaArgs {
    /// The agent's state directory. Variable LONGHAUL_STATE_DIR. [default: ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// Settings as flags. Each has its variable `LONGHAUL_...` and its key in the file.
#[derive(Args, Clone, Debug, Default)]
pub struct ConfigFlags {
    /// The configuration file (TOML). Variable LONGHAUL_CONFIG.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where browsers connect; port 0 takes a free one. Variable LONGHAUL_LISTEN. [default: 127.0.0.1:3128]
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// Users of this machine who are served besides the one who runs the agent: names or numbers, with commas. Variable
    /// LONGHAUL_LISTEN_USERS. [default: none]
    #[arg(long, value_name = "USERS")]
    pub listen_users: Option<String>,
    /// Ranges of other machines that are served, with commas; needed, with a password, where --listen can be reached from
    /// them. Variable LONGHAUL_LISTEN_ALLOW. [default: none]
    #[arg(long, value_name = "CIDRS")]
    pub listen_allow: Option<String>,
    /// A file with lines of `name:password`, readable by its owner only: browsers need one of them. Variable
    /// LONGHAUL_LISTEN_PASSWORD_FILE. [default: no password]
    #[arg(long, value_name = "FILE")]
    pub listen_password_file: Option<PathBuf>,
    /// Where the status page is served; a loopback address. Variable LONGHAUL_CONTROL. [default: 127.0.0.1:3129]
    #[arg(long, value_name = "ADDR:PORT")]
    pub control: Option<String>,
    /// What the agent keeps between runs. Variable LONGHAUL_STATE_DIR. [default: ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// The line that the gateway's operator gave you. Other users of this machine can see flags: prefer `longhaul
    /// enroll`. Variable LONGHAUL_INVITE. [default: the file `invite` in the state directory]
    #[arg(long, value_name = "LINE")]
    pub invite: Option<String>,
    /// What is known of the link to the gateway, such as gprs-3+1, umts-384, lte. Variable LONGHAUL_LINK.
    /// [default: unknown, measured]
    #[arg(long, value_name = "PROFILE")]
    pub link: Option<String>,
    /// How near to the original pictures are: original, high, medium, low; text: none. Variable LONGHAUL_IMAGE_LEVEL.
    /// [default: medium]
    #[arg(long, value_name = "LEVEL")]
    pub image_level: Option<String>,
    /// Load pages without the gateway after it has been silent for so long (with unit: 10s), or `never`. Variable
    /// LONGHAUL_FALLBACK_AFTER. [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub fallback_after: Option<String>,
    /// Ranges that may be reached without the gateway although they are private or this machine's own, with commas. Variable
    /// LONGHAUL_DIRECT_ALLOW. [default: none]
    #[arg(long, value_name = "CIDRS")]
    pub direct_allow: Option<String>,
    /// How large the cache on this machine may grow (with unit: 256 MiB), or 0 for none. Variable LONGHAUL_CACHE_SIZE.
    /// [default: 256 MiB]
    #[arg(long, value_name = "SIZE")]
    pub cache_size: Option<String>,
    /// Where the cache is. Variable LONGHAUL_CACHE_DIR. [default: `cache` in the state directory]
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// Accelerate HTTPS too, which lets the gateway read it: off, all (but for built-in exclusions), or host names with
    /// commas. Variable LONGHAUL_HTTPS_ACCELERATE. [default: off]
    #[arg(long, value_name = "HOSTS")]
    pub https_accelerate: Option<String>,
    /// Hosts whose HTTPS passes as it is in any case, with commas. Variable LONGHAUL_HTTPS_EXCEPT. [default: none]
    #[arg(long, value_name = "HOSTS")]
    pub https_except: Option<String>,
    /// Have the gateway push nothing: each object is asked for by the browser and then fetched. Variable
    /// LONGHAUL_PUSH_ENABLED=no. [default: pages come in bundles]
    #[arg(long)]
    pub no_push: bool,
}

/// What to forget.
#[derive(Args, Clone, Debug, Default)]
pub struct ForgetArgs {
    /// The site, by a host name of it such as example.org: all of its hosts are forgotten. [default: everything]
    #[arg(value_name = "SITE")]
    pub site: Option<String>,
    /// The agent's control address. [default: the one in the state directory's agent.json]
    #[arg(long, value_name = "ADDR:PORT")]
    pub control: Option<String>,
    /// The agent's state directory. Variable LONGHAUL_STATE_DIR. [default: ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// Which agent to ask.
#[derive(Args, Clone, Debug, Default)]
pub struct StatusArgs {
    /// The agent's control address. [default: the one in the state directory's agent.json]
    #[arg(long, value_name = "ADDR:PORT")]
    pub control: Option<String>,
    /// The agent's state directory. Variable LONGHAUL_STATE_DIR. [default: ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Print the agent's status.json instead of a summary.
    #[arg(long)]
    pub json: bool,
}
