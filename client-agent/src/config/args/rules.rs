//! Arguments of `rules`.
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use longhaul_session::ImageLevel;

use crate::rules::HttpsRule;

/// Commands of the rules for sites. A name is that of a site or of a host, and includes its subdomains; the longest name
/// decides.
#[derive(Clone, Debug, Subcommand)]
pub enum RulesCommand {
    /// List the rules.
    List(RulesListArgs),
    /// Set rules of a site or host; they apply to the next request and stay until they are removed.
    Set(RulesSetArgs),
    /// Remove the rules of a site or host, or all.
    Remove(RulesRemoveArgs),
    /// Pause Longhaul for a site or host, or for everything, for an hour: pages load without its changes, and directly
    /// unless `fallback.after` is `never`.
    Pause(RulesNameArgs),
    /// End the pause of a site or host, or that of everything.
    Resume(RulesNameArgs),
}

/// Arguments of `rules list`.
#[derive(Args, Clone, Debug, Default)]
pub struct RulesListArgs {
    /// Print the rules as one line of JSON.
    #[arg(long)]
    pub json: bool,
    /// The agent's state directory. Variable LONGHAUL_STATE_DIR. [default: ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// Arguments of `rules set`.
#[derive(Args, Clone, Debug)]
#[command(group = clap::ArgGroup::new("rule").required(true).multiple(true).args(["https", "images", "originals"]))]
pub struct RulesSetArgs {
    /// The site or host, such as example.org.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Whether its HTTPS is accelerated, so that the gateway can read it, or passes through a tunnel, unread. `default`:
    /// the settings decide.
    #[arg(long, value_enum)]
    pub https: Option<NewHttpsRule>,
    /// Level of the images of its pages: original, high, medium, low or text. `default`: the level of all sites.
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    pub images: Option<NewLevel>,
    /// Show the original images for ten minutes.
    #[arg(long)]
    pub originals: bool,
    /// The agent's state directory. Variable LONGHAUL_STATE_DIR. [default: ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// An image level; `None`: the level of all sites.
type NewLevel = Option<ImageLevel>;

fn level(text: &str) -> Result<NewLevel, String> {
    if text == "default" {
        return Ok(None);
    }
    let found = ImageLevel::ALL.into_iter().find(|level| level.name() == text);
    found
        .map(Some)
        .ok_or_else(|| "give original, high, medium, low, text or default".to_owned())
}

/// A new rule about HTTPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NewHttpsRule {
    /// The gateway reads and accelerates it.
    Accelerate,
    /// It passes through a tunnel, unread.
    Tunnel,
    /// The settings decide.
    Default,
}

impl NewHttpsRule {
    /// The rule; `None`: the settings decide.
    pub const fn rule(self) -> Option<HttpsRule> {
        match self {
            Self::Accelerate => Some(HttpsRule::Accelerate),
            Self::Tunnel => Some(HttpsRule::Tunnel),
            Self::Default => None,
        }
    }
}

/// Arguments of `rules remove`.
#[derive(Args, Clone, Debug)]
pub struct RulesRemoveArgs {
    /// The site or host.
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    pub name: Option<String>,
    /// Remove all rules and pauses.
    #[arg(long)]
    pub all: bool,
    /// The agent's state directory. Variable LONGHAUL_STATE_DIR. [default: ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// Arguments of `rules pause` and `rules resume`.
#[derive(Args, Clone, Debug, Default)]
pub struct RulesNameArgs {
    /// The site or host. [default: everything]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// The agent's state directory. Variable LONGHAUL_STATE_DIR. [default: ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}
