//! The command line.
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use longhaul_settings::Flags;

mod rules;

use super::settings::Agent;

pub use rules::{NewHttpsRule, RulesCommand, RulesListArgs, RulesNameArgs, RulesRemoveArgs, RulesSetArgs};

/// The Longhaul agent: an HTTP proxy for the browser on this machine that loads pages through a Longhaul
/// gateway.
#[derive(Clone, Debug, Parser)]
#[command(name = "longhaul-agent", version, about, max_term_width = 100)]
pub struct CliArgs {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

impl CliArgs {
    /// Parses the arguments of this process; prints help, version or a mistake, and ends the process, where those
    /// ask for it. `commit` is `LONGHAUL_COMMIT` of the build, which only programs read: a library that reads it
    /// is compiled again for each commit.
    pub fn of_process(commit: Option<&str>) -> Self {
        let version = longhaul_types::version_text(env!("CARGO_PKG_VERSION"), commit);
        let matches = Self::command().version(version).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run the agent until it is interrupted. Prints `ready ADDRESS` on stdout when browsers can connect.
    Run(ConfigFlags),
    /// Show a page that takes the invite if this device has none, and run the agent as soon as it has one.
    Setup(ConfigFlags),
    /// Check all settings and the invite, and print the effective settings. Starts nothing.
    CheckConfig(ConfigFlags),
    /// Show the state of the agent that runs on this machine.
    Status(StatusArgs),
    /// Ask the gateway for a session without opening it, to find out whether it answers. Ends no session of an
    /// agent, here or elsewhere.
    CheckGateway(CheckGatewayArgs),
    /// Delete what was loaded from a site or for it, or everything, on this machine and at the gateway. Rules for sites
    /// stay: see `rules remove`.
    Forget(ForgetArgs),
    /// Manage this device's certificate authority, which browsers must trust where HTTPS is accelerated.
    #[command(subcommand)]
    Ca(CaCommand),
    /// Show and forget the hosts that are not accelerated at present although the settings select them.
    #[command(subcommand)]
    Https(HttpsCommand),
    /// Show and change your rules for sites: whether their HTTPS is accelerated, the level of their images, and pauses.
    #[command(subcommand)]
    Rules(RulesCommand),
    /// Let the running agent use the invite of its state directory now. `longhaul enroll` does this itself.
    UseInvite(UseInviteArgs),
}

/// Commands of the bypassed hosts (docs/https.md section 3).
#[derive(Clone, Debug, Subcommand)]
pub enum HttpsCommand {
    /// List the bypassed hosts, each with the reason and the end.
    List(CaArgs),
    /// Forget bypassed hosts: their next connections are accelerated again.
    Forget(HttpsForgetArgs),
}

/// Arguments of `https forget`.
#[derive(Args, Clone, Debug, Default)]
pub struct HttpsForgetArgs {
    /// The host; its subdomains are forgotten, too. Without it, all hosts are forgotten.
    #[arg(value_name = "HOST")]
    pub host: Option<String>,
    /// The agent's state directory. Variable LONGHAUL_STATE_DIR. [default: ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// Arguments of `use-invite`.
#[derive(Args, Clone, Debug, Default)]
pub struct UseInviteArgs {
    /// The agent's state directory. Variable LONGHAUL_STATE_DIR. [default: ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// Commands of the certificate authority.
#[derive(Clone, Debug, Subcommand)]
pub enum CaCommand {
    /// Print its certificate (PEM), for trust stores: that of the running agent, else that of the state
    /// directory. Creates the authority if there is none, and says so on stderr.
    Export(CaArgs),
    /// Print the SHA-256 fingerprint of its certificate, as browsers show it.
    Fingerprint(CaArgs),
    /// Remove its key and certificate from this device. A running agent stops using it at once. Remove the
    /// certificate from the trust stores as well.
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
pub type ConfigFlags = Flags<Agent>;

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

/// Arguments of `check-gateway`.
#[derive(Args, Clone, Debug, Default)]
pub struct CheckGatewayArgs {
    /// The agent's state directory. Variable LONGHAUL_STATE_DIR. [default: ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Print one line of JSON: `{"trouble": null}`, or the trouble as status.json has it.
    #[arg(long)]
    pub json: bool,
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
