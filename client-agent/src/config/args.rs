//! The command line.
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// The Longhaul agent: an HTTP proxy for the browser on this machine that loads pages through a Longhaul
/// gateway.
#[derive(Clone, Debug, Parser)]
#[command(name = "longhaul-agent", version, about, max_term_width = 100)]
pub struct CliArgs {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run the agent until it is interrupted. Prints `ready ADDRESS` on stdout when browsers can connect.
    Run(ConfigFlags),
    /// Check all settings and the invite, and print the effective settings. Starts nothing.
    CheckConfig(ConfigFlags),
    /// Show the state of the agent that runs on this machine.
    Status(StatusArgs),
    /// Delete what was loaded from a site or for it, or everything, on this machine and at the gateway.
    Forget(ForgetArgs),
    /// Manage this device's certificate authority, which browsers must trust where HTTPS is accelerated.
    #[command(subcommand)]
    Ca(CaCommand),
}

/// Commands of the certificate authority.
#[derive(Clone, Debug, Subcommand)]
pub enum CaCommand {
    /// Print its certificate (PEM), for trust stores. Creates the authority if there is none.
    Export(CaArgs),
    /// Print the SHA-256 fingerprint of its certificate, as browsers show it.
    Fingerprint(CaArgs),
    /// Remove its key and certificate from this device. Remove the certificate from the trust stores as well.
    Remove(CaArgs),
}

/// Arguments of the commands of the certificate authority.
#[derive(Args, Clone, Debug, Default)]
pub struct CaArgs {
    /// The agent's state directory. Variable LONGHAUL_STATE_DIR. [default: ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// Settings as flags. Each flag has a variable `LONGHAUL_...` and a key in the configuration file.
#[derive(Args, Clone, Debug, Default)]
pub struct ConfigFlags {
    /// The configuration file (TOML). Variable LONGHAUL_CONFIG.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address of the proxy, for browsers; port 0 selects a free port. Variable LONGHAUL_LISTEN. [default:
    /// 127.0.0.1:3128]
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// Users of this machine who are served in addition to the one who runs the agent: names or numbers,
    /// separated by commas. Variable LONGHAUL_LISTEN_USERS. [default: none]
    #[arg(long, value_name = "USERS")]
    pub listen_users: Option<String>,
    /// Address ranges of other machines that are served, separated by commas; required, with a password, if
    /// other machines can reach the address of --listen. Variable LONGHAUL_LISTEN_ALLOW. [default: none]
    #[arg(long, value_name = "CIDRS")]
    pub listen_allow: Option<String>,
    /// A file with lines of `name:password`, readable by its owner only: browsers need one of the passwords.
    /// Variable LONGHAUL_LISTEN_PASSWORD_FILE. [default: no password]
    #[arg(long, value_name = "FILE")]
    pub listen_password_file: Option<PathBuf>,
    /// Address of the status page; a loopback address. Variable LONGHAUL_CONTROL. [default: 127.0.0.1:3129]
    #[arg(long, value_name = "ADDR:PORT")]
    pub control: Option<String>,
    /// Directory of the data that the agent keeps between runs. Variable LONGHAUL_STATE_DIR. [default:
    /// ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// The invite line from the gateway's operator. Other users of this machine can see flags: prefer
    /// `longhaul enroll`. Variable LONGHAUL_INVITE. [default: the file `invite` in the state directory]
    #[arg(long, value_name = "LINE")]
    pub invite: Option<String>,
    /// Profile of the link to the gateway, such as gprs-3+1, umts-384, lte. Variable LONGHAUL_LINK. [default:
    /// unknown, measured]
    #[arg(long, value_name = "PROFILE")]
    pub link: Option<String>,
    /// Fidelity of images: original, high, medium, low; text: no images. Variable LONGHAUL_IMAGE_LEVEL.
    /// [default: medium]
    #[arg(long, value_name = "LEVEL")]
    pub image_level: Option<String>,
    /// Load pages without the gateway after it has been silent for this time (with unit: 10s), or `never`.
    /// Variable LONGHAUL_FALLBACK_AFTER. [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub fallback_after: Option<String>,
    /// Address ranges that may be reached without the gateway although they are private or this machine's
    /// own, separated by commas. Variable LONGHAUL_DIRECT_ALLOW. [default: none]
    #[arg(long, value_name = "CIDRS")]
    pub direct_allow: Option<String>,
    /// Maximum size of the cache on this machine (with unit: 256 MiB), or 0 for no cache. Variable
    /// LONGHAUL_CACHE_SIZE. [default: 256 MiB]
    #[arg(long, value_name = "SIZE")]
    pub cache_size: Option<String>,
    /// Directory of the cache. Variable LONGHAUL_CACHE_DIR. [default: `cache` in the state directory]
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// Accelerate HTTPS too, which lets the gateway read it: off, all (except built-in exclusions), or host
    /// names separated by commas. Variable LONGHAUL_HTTPS_ACCELERATE. [default: off]
    #[arg(long, value_name = "HOSTS")]
    pub https_accelerate: Option<String>,
    /// Hosts whose HTTPS is never accelerated, separated by commas. Variable LONGHAUL_HTTPS_EXCEPT. [default:
    /// none]
    #[arg(long, value_name = "HOSTS")]
    pub https_except: Option<String>,
    /// Allow requests with cookies in early data, which saves a round trip but is not forward secret: yes or
    /// no. Variable LONGHAUL_SESSION_EARLY_CREDENTIALS. [default: yes]
    #[arg(long, value_name = "YES|NO")]
    pub session_early_credentials: Option<String>,
    /// Disable pushes of the gateway: each object is fetched when the browser requests it. Variable
    /// LONGHAUL_PUSH_ENABLED=no. [default: pages come in bundles]
    #[arg(long)]
    pub no_push: bool,
}

/// Arguments of `forget`.
#[derive(Args, Clone, Debug, Default)]
pub struct ForgetArgs {
    /// The site, by one of its host names such as example.org: the data of all its hosts is deleted.
    /// [default: everything]
    #[arg(value_name = "SITE")]
    pub site: Option<String>,
    /// The agent's control address. [default: the one in the state directory's agent.json]
    #[arg(long, value_name = "ADDR:PORT")]
    pub control: Option<String>,
    /// The agent's state directory. Variable LONGHAUL_STATE_DIR. [default: ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// Arguments of `status`.
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
