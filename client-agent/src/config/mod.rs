//! Settings: raw from the command line ([`CliArgs`]), the environment and the file ([`ConfigFile`]), resolved and
//! valid in [`Config`]. Defaults < file < environment (`LONGHAUL_*`) < flags.
mod access;
mod args;
mod file;
mod resolve;

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

use longhaul_origin::Cidr;
use longhaul_protocol::session::ImageLevel;
use longhaul_types::{ByteCount, Invite, LinkProfile};

use crate::{https::HttpsSettings, listener::Access};

pub use args::{CaArgs, CaCommand, CliArgs, Command, ConfigFlags, ForgetArgs, StatusArgs};
pub use file::{
    CacheSection, ConfigFile, DirectSection, FallbackSection, HttpsSection, ListenSection, PushSection,
};
pub use resolve::{ConfigError, Environment, Problem, default_state_dir, load, load_state_dir, resolve};

/// The default of [`Config::listen`]: the port that HTTP proxies (Squid) commonly have, on this machine only.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:3128";
/// The default of [`Config::control`]: the port beside it.
pub const DEFAULT_CONTROL: &str = "127.0.0.1:3129";
/// The default of [`Fallback::After`]: longer than a session takes to start on the slowest profile (three round trips
/// of 860 ms with a lost datagram), shorter than users wait before they give a page up.
pub const DEFAULT_FALLBACK: Duration = Duration::from_secs(10);

/// The default of [`Config::images`]: differences are slight, and pictures are most of what most pages take.
pub const DEFAULT_IMAGE_LEVEL: ImageLevel = ImageLevel::Medium;
/// The default of [`CacheSettings::size`]: the pages of some weeks of a reader, and less than browsers take for theirs.
pub const DEFAULT_CACHE_SIZE: ByteCount = ByteCount::mib(256);
/// The smallest cache that is of use: one page's objects.
pub const MIN_CACHE_SIZE: ByteCount = ByteCount::mib(1);
/// The default of [`PushSettings::patience`]: five seconds without a byte of a page, over an open session, are more than
/// any retransmission takes.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(5);
/// The default of [`PushSettings::linger`]: longer than a script waits before it loads what was pushed for it, short
/// enough that pushed bodies do not stay in memory.
pub const DEFAULT_LINGER: Duration = Duration::from_secs(10);
/// The default of [`PushSettings::reordering`]: entries are sent before the bytes that refer to them, so only packets that
/// overtake each other matter.
pub const DEFAULT_REORDERING: Duration = Duration::from_millis(20);

/// The default of [`PushSettings::leaving`]: browsers drop a page's requests within milliseconds of the next one's head.
pub const DEFAULT_LEAVING: Duration = Duration::from_secs(1);

/// Valid settings of an agent.
#[derive(Clone, Debug)]
pub struct Config {
    /// `listen`: where browsers connect. Port 0 takes a free one. Default [`DEFAULT_LISTEN`].
    pub listen: SocketAddr,
    /// `[listen]`: who is served. Default: the user that the agent runs as, on this machine.
    pub access: Access,
    /// `direct.allow`: what the way around the gateway may reach besides the public Internet and what the browser names by a
    /// private address. Default: nothing.
    pub direct_allow: Vec<Cidr>,
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
    /// `image-level`: how near to the original pictures are that a page displays. Default [`DEFAULT_IMAGE_LEVEL`].
    pub images: ImageLevel,
    /// `fallback.after`: when to go around the gateway. Default [`DEFAULT_FALLBACK`].
    pub fallback: Fallback,
    /// `[cache]`: what the agent keeps of pages.
    pub cache: CacheSettings,
    /// `[push]`: whether pages come in bundles.
    pub push: PushSettings,
    /// `[https]`: what HTTPS is accelerated, which lets the gateway read it.
    pub https: HttpsSettings,
}

/// What the agent keeps of pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    /// `cache.size`: how large the file may grow; 0 for no cache. Default [`DEFAULT_CACHE_SIZE`].
    pub size: ByteCount,
    /// `cache.dir`: where the file is. Default `cache` in the state directory.
    pub dir: PathBuf,
}

/// Whether and how pages come in bundles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushSettings {
    /// `push.enabled`: whether the gateway fetches and pushes what a page needs. Default yes.
    pub enabled: bool,
    /// `push.patience`: how long a promised object is waited for while nothing of its page comes, or eight round trips if
    /// that is longer. Default [`DEFAULT_PATIENCE`].
    pub patience: Duration,
    /// How long pushed bodies stay in memory once their page is complete. Default [`DEFAULT_LINGER`]; tests set another.
    pub linger: Duration,
    /// By how much the entry of an object may come later than the bytes that made the browser ask for it, besides half a
    /// round trip. Default [`DEFAULT_REORDERING`]; tests set another.
    pub reordering: Duration,
    /// How long after the head of a document that a page led to the page must be idle to count as left. Default
    /// [`DEFAULT_LEAVING`]; tests set another.
    pub leaving: Duration,
}

impl Default for PushSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            patience: DEFAULT_PATIENCE,
            linger: DEFAULT_LINGER,
            reordering: DEFAULT_REORDERING,
            leaving: DEFAULT_LEAVING,
        }
    }
}

/// All settings as they take effect, one a line, without the invite's secrets.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "proxy     {}", self.listen)?;
        let users: Vec<String> = self.access.users().map(|user| user.to_string()).collect();
        write!(f, "serves    user {}", users.join(", "))?;
        if !self.access.ranges().is_empty() {
            write!(f, " and {}", list(self.access.ranges()))?;
        }
        if self.access.has_passwords() {
            f.write_str(", with a password")?;
        }
        writeln!(f)?;
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
        writeln!(f, "pictures  {}", self.images.name())?;
        writeln!(f, "https     {}", self.https)?;
        match self.fallback {
            Fallback::After(time) => writeln!(f, "direct    after {} s of silence", time.as_secs_f64())?,
            Fallback::Never => writeln!(f, "direct    never")?,
        }
        if !self.direct_allow.is_empty() {
            writeln!(f, "          also to {}", list(&self.direct_allow))?;
        }
        if self.cache.size.bytes() == 0 {
            writeln!(f, "cache     off")?;
        } else {
            writeln!(f, "cache     {} in {}", self.cache.size, self.cache.dir.display())?;
        }
        if self.push.enabled {
            write!(f, "push      on, patience {} s", self.push.patience.as_secs_f64())
        } else {
            f.write_str("push      off")
        }
    }
}

fn list(ranges: &[Cidr]) -> String {
    let texts: Vec<String> = ranges.iter().map(Cidr::to_string).collect();
    texts.join(", ")
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
