//! Settings. [`settings`] describes each of them: names, form, meaning, and the reasons for the defaults below.
//! [`Config`] holds the resolved and valid values. `longhaul_settings` combines the layers.
mod access;
mod args;
mod parse;
mod proxy;
mod resolve;
pub mod settings;

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    path::PathBuf,
    time::Duration,
};

use longhaul_origin::Cidr;
use longhaul_service::{LogFilter, LogFormat};
use longhaul_session::ImageLevel;
use longhaul_types::{ByteCount, Invite, LinkProfile, Techniques};

use crate::{
    gateway::{CarrierSettings, PortalCheck, PortalSettings},
    holdout::HoldOutSetting,
    https::HttpsSettings,
    listener::Access,
    networks::Metered,
};

pub use access::PasswordFile;
pub use args::{
    CaArgs, CaCommand, CheckGatewayArgs, CliArgs, Command, ConfigFlags, ForgetArgs, HttpsCommand,
    HttpsForgetArgs, NewHttpsRule, RulesCommand, RulesListArgs, RulesNameArgs, RulesRemoveArgs, RulesSetArgs,
    StatusArgs, UseInviteArgs,
};
pub use longhaul_settings::Environment;
pub use proxy::{CredentialsFile, ProxySetting};
pub use resolve::{default_state_dir, load, load_carrier, load_control, load_state_dir, resolve};
pub use settings::Agent;

/// Default of [`Config::listen`].
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3128));
/// Default of [`Config::control`].
pub const DEFAULT_CONTROL: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3129));
/// Default of [`Fallback::After`]. The start of a session on the slowest profile takes three round trips of
/// 860 ms with a lost datagram.
pub const DEFAULT_FALLBACK: Duration = Duration::from_secs(10);

/// Default of [`Config::images`].
pub const DEFAULT_IMAGE_LEVEL: ImageLevel = ImageLevel::Medium;
/// Default of [`CacheSettings::size`].
pub const DEFAULT_CACHE_SIZE: ByteCount = ByteCount::mib(256);
/// The smallest useful cache: one page's objects.
pub const MIN_CACHE_SIZE: ByteCount = ByteCount::mib(1);
/// Default of [`PushSettings::patience`].
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(5);
/// Default of [`PushSettings::head_after`]: programs wait for a head for 30 s and longer. Before that, a request whose
/// announced response fails is repeated without a trace.
pub const DEFAULT_HEAD_AFTER: Duration = Duration::from_secs(20);
/// Default of [`PushSettings::linger`]: longer than a script waits before it loads an object that was pushed
/// for it, short enough that pushed bodies do not stay in memory.
pub const DEFAULT_LINGER: Duration = Duration::from_secs(10);
/// Default of [`PushSettings::reordering`]: entries are sent before the bytes that refer to them, so only
/// reordering of packets matters.
pub const DEFAULT_REORDERING: Duration = Duration::from_millis(20);

/// Default of [`PushSettings::leaving`]: browsers cancel a page's requests within milliseconds of the next
/// page's head.
pub const DEFAULT_LEAVING: Duration = Duration::from_secs(1);

/// Default of [`AwaySettings::page_after`]: most outages are shorter, and people begin to doubt after this time.
pub const DEFAULT_PAGE_AFTER: Duration = Duration::from_secs(10);
/// Default of [`AwaySettings::queue_time`]: a working day on the road.
pub const DEFAULT_QUEUE_TIME: Duration = Duration::from_secs(12 * 3600);

/// Validated settings of an agent.
#[derive(Clone, Debug)]
pub struct Config {
    /// `log`: filter of log messages. Default `info`.
    pub log: LogFilter,
    /// `log-format`: format of log messages. Default [`LogFormat::Auto`].
    pub log_format: LogFormat,
    /// `listen`: address of the proxy. Port 0 selects a free port. Default [`DEFAULT_LISTEN`].
    pub listen: SocketAddr,
    /// `[listen]`: who is served. Default: the user who runs the agent, on this machine.
    pub access: Access,
    /// `direct.allow`: addresses that direct fetches may reach in addition to the public Internet and to
    /// private addresses that the browser itself names. Default: none.
    pub direct_allow: Vec<Cidr>,
    /// `control`: address of the dashboard; a loopback address, because the page shows the agent's
    /// activity. Default [`DEFAULT_CONTROL`].
    pub control: SocketAddr,
    /// `state-dir`: directory of `invite`, `token` and, while the agent runs, `agent.json`. Default
    /// [`default_state_dir`].
    pub state_dir: PathBuf,
    /// `invite`, or the file of this name in the state directory: the gateway and this device's key. No
    /// default.
    pub invite: Invite,
    /// `link`: profile of the hop; the transport starts from it and then measures. Default unknown.
    pub link: Option<LinkProfile>,
    /// `link.remember`: true if the links of networks are remembered. Default yes.
    pub remember_links: bool,
    /// `link.metered`: whether the link is measured by as few bytes as possible. Default no.
    pub metered: Metered,
    /// `[carrier]`: protocols that carry the session.
    pub carrier: CarrierSettings,
    /// `[portal]`: the look for login pages of networks.
    pub portal: PortalSettings,
    /// `image-level`: fidelity of the images that a page displays. Default [`DEFAULT_IMAGE_LEVEL`].
    pub images: ImageLevel,
    /// `fallback.after`: time before the direct fallback. Default [`DEFAULT_FALLBACK`].
    pub fallback: Fallback,
    /// `[away]`: pages that wait for the hop.
    pub away: AwaySettings,
    /// `journal.keep`: true if the journal is in a file, too. Default no.
    pub keep_journal: bool,
    /// `hold-out`: whether visits go direct to compare their times. Default yes.
    pub hold_out: HoldOutSetting,
    /// `[cache]`: the agent's cache.
    pub cache: CacheSettings,
    /// `[push]`: page bundles.
    pub push: PushSettings,
    /// `[https]`: hosts whose HTTPS is accelerated, which lets the gateway read it.
    pub https: HttpsSettings,
    /// `session.early-credentials`: permission for requests with cookies in early data. Default
    /// [`EarlyCredentials::Allowed`].
    pub early_credentials: EarlyCredentials,
    /// Techniques that are switched off for measurements; a hidden setting.
    pub without: Techniques,
}

/// Settings of pages that wait while the hop is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwaySettings {
    /// `away.page-after`: silence of the gateway after which a navigation is answered with a page that says so;
    /// `None`: never. Default [`DEFAULT_PAGE_AFTER`].
    pub page_after: Option<Duration>,
    /// `away.queue`: true if a page whose tab is closed is loaded nevertheless. Default no.
    pub queue: bool,
    /// `away.queue-time`: time for which such a page waits. Default [`DEFAULT_QUEUE_TIME`].
    pub queue_time: Duration,
}

impl Default for AwaySettings {
    fn default() -> Self {
        Self {
            page_after: Some(DEFAULT_PAGE_AFTER),
            queue: false,
            queue_time: DEFAULT_QUEUE_TIME,
        }
    }
}

/// Permission for requests with cookies in the session's early data (docs/protocol/transport.md section 3.3):
/// it saves a round trip, but an attacker who recorded the early data and later steals the gateway's static
/// key can read them. Requests with `Authorization` are never sent in early data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlyCredentials {
    /// Requests with cookies may be sent in early data.
    #[default]
    Allowed,
    /// Requests with cookies wait until the handshake is complete.
    Withheld,
}

/// Settings of the agent's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    /// `cache.size`: maximum size of the file; 0 disables the cache. Default [`DEFAULT_CACHE_SIZE`].
    pub size: ByteCount,
    /// `cache.dir`: directory of the file. Default `cache` in the state directory.
    pub dir: PathBuf,
}

/// Settings of page bundles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushSettings {
    /// `push.enabled`: true if the gateway fetches and pushes the objects of pages. Default yes.
    pub enabled: bool,
    /// `push.patience`: maximum wait for an announced object while no data of its page arrives, or eight
    /// round-trip times if that is longer. Default [`DEFAULT_PATIENCE`].
    pub patience: Duration,
    /// Time after which the browser gets the head of an announced response whose body has not begun to arrive. Default
    /// [`DEFAULT_HEAD_AFTER`]; tests set another value.
    pub head_after: Duration,
    /// Time for which pushed bodies stay in memory after their page is complete. Default [`DEFAULT_LINGER`];
    /// tests set another value.
    pub linger: Duration,
    /// Maximum delay, in addition to half a round-trip time, of an object's entry after the bytes that made
    /// the browser request the object. Default [`DEFAULT_REORDERING`]; tests set another value.
    pub reordering: Duration,
    /// Time after the head of a document that a page navigated to; if the page is idle during this time, it
    /// counts as left. Default [`DEFAULT_LEAVING`]; tests set another value.
    pub leaving: Duration,
}

impl Default for PushSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            patience: DEFAULT_PATIENCE,
            head_after: DEFAULT_HEAD_AFTER,
            linger: DEFAULT_LINGER,
            reordering: DEFAULT_REORDERING,
            leaving: DEFAULT_LEAVING,
        }
    }
}

/// Writes the effective settings, one per line, without the invite's secrets.
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
        writeln!(f, "log       {}, {}", self.log, self.log_format.name())?;
        writeln!(
            f,
            "gateway   {} (key {})",
            self.invite.address(),
            self.invite.gateway()
        )?;
        match self.link {
            None if self.remember_links => writeln!(f, "link      remembered for each network, or measured")?,
            None => writeln!(f, "link      unknown, measured")?,
            Some(LinkProfile { down, up, rtt }) => {
                writeln!(
                    f,
                    "link      {down} down, {up} up, round-trip time {} ms",
                    rtt.as_millis()
                )?;
            }
        }
        match self.metered {
            Metered::No => {}
            Metered::Yes => writeln!(f, "          metered: measured by one packet")?,
            Metered::Auto => writeln!(f, "          metered as NetworkManager says")?,
        }
        let carriers = self.carrier.carriers;
        write!(f, "carrier   {}", carriers.names())?;
        if carriers.tls {
            write!(f, ", TLS on TCP port {}", self.carrier.tls_port)?;
        }
        if carriers.quic {
            write!(f, ", QUIC on UDP port {}", self.carrier.quic_port)?;
        }
        writeln!(f)?;
        if let Some(proxy) = &self.carrier.proxy {
            let login = if proxy.url().credentials().is_some() {
                ", with a password"
            } else {
                ""
            };
            writeln!(
                f,
                "          TLS and direct requests through the HTTP proxy {}{login}",
                proxy.url()
            )?;
        }
        match &self.portal.check {
            PortalCheck::Public => {}
            PortalCheck::Off => writeln!(f, "portals   only the gateway is asked")?,
            PortalCheck::Url(url) => writeln!(f, "portals   looked for at {url}")?,
        }
        if self.early_credentials == EarlyCredentials::Withheld {
            writeln!(f, "session   requests with cookies wait for the handshake")?;
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

/// Settings of the direct fallback, used when no gateway answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// After the gateway has been silent for this time.
    After(Duration),
    /// Never: traffic goes only to the gateway.
    Never,
}

#[cfg(test)]
mod tests;
