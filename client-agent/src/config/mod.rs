//! Settings: raw from the command line ([`CliArgs`]), the environment and the file ([`ConfigFile`]), resolved and
//! valid in [`Config`]. Defaults < file < environment (`LONGHAUL_*`) < flags.
mod args;
mod file;
mod resolve;

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

use longhaul_types::{Invite, LinkProfile};

pub use args::{CliArgs, Command, ConfigFlags, StatusArgs};
pub use file::{ConfigFile, FallbackSection};
pub use resolve::{ConfigError, Environment, Problem, default_state_dir, load, load_state_dir, resolve};

/// The default of [`Config::listen`]: the port that HTTP proxies (Squid) commonly have, on this machine only.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:3128";
/// The default of [`Config::control`]: the port beside it.
pub const DEFAULT_CONTROL: &str = "127.0.0.1:3129";
/// The default of [`Fallback::After`]: longer than a session takes to start on the slowest profile (three round trips
/// of 860 ms with a lost datagram), shorter than users wait before they give a page up.
pub const DEFAULT_FALLBACK: Duration = Duration::from_secs(10);

/// Valid settings of an agent.
#[derive(Clone, Debug)]
pub struct Config {
    /// `listen`: where browsers connect. Port 0 takes a free one. Default [`DEFAULT_LISTEN`].
    pub listen: SocketAddr,
    /// `control`: where the status page is served; a loopback address, since it shows what the agent does. Default
    /// [`DEFAULT_CONTROL`].
    pub control: SocketAddr,
    /// `state-dir`: what the agent keeps: `invite`, `token`, and while it runs `agent.json`. Default
    /// [`default_state_dir`].
    pub state_dir: PathBuf,
    /// `invite`, or the file of that name in the state directory: the gateway and this device's key. No default.
    pub invite: Invite,
    /// `link`: what is known of the hop beforehand; the transport starts from it and then measures. Default unknown.
    pub link: Option<LinkProfile>,
    /// `fallback.after`: when to go around the gateway. Default [`DEFAULT_FALLBACK`].
    pub fallback: Fallback,
}

/// All settings as they take effect, one a line, without the invite's secrets.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "proxy     {}", self.listen)?;
        writeln!(f, "control   {}", self.control)?;
        writeln!(f, "state     {}", self.state_dir.display())?;
        writeln!(
            f,
            "gateway   {} (key {})",
            self.invite.address(),
            self.invite.gateway()
        )?;
        match self.link {
            None => writeln!(f, "link      unknown, measured")?,
            Some(LinkProfile { down, up, rtt }) => {
                writeln!(
                    f,
                    "link      {down} down, {up} up, round-trip time {} ms",
                    rtt.as_millis()
                )?;
            }
        }
        match self.fallback {
            Fallback::After(time) => write!(f, "direct    after {} s of silence", time.as_secs_f64()),
            Fallback::Never => f.write_str("direct    never"),
        }
    }
}

/// Whether and when requests go directly to the origins because no gateway answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// After the gateway has been silent for so long.
    After(Duration),
    /// Not at all: nothing leaves this machine but to the gateway.
    Never,
}

#[cfg(test)]
mod tests;
