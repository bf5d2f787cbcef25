//! Settings: from the file, the environment and the command line to the one [`Config`] that is in force.
//!
//! Three types stand for three stages: [`CliArgs`](crate::cli::CliArgs) and [`ConfigFile`] are what was written,
//! [`Config`] is resolved and valid. A later layer replaces an earlier one, key by key:
//! defaults, then the TOML file, then `LONGHAUL_*`, then flags.
mod file;
pub(crate) mod keys;
mod layers;
mod ports;
mod resolve;
#[cfg(test)]
mod tests;

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

use longhaul_codec::Effort;
use longhaul_origin::{Cidr, DenyList, DnsServers, ResolveMap};
use longhaul_types::ByteCount;

use crate::picture_workers::Program;

pub use self::{
    file::{ConfigFile, Raw},
    keys::Keys,
    layers::Source,
    ports::{ParsePortsError, PortSet},
    resolve::{Environment, resolve},
};

/// The settings in force.
#[derive(Clone, Debug)]
pub struct Config {
    /// `listen`: UDP address that agents connect to. Default `[::]:4433`, which takes IPv6 and IPv4. 4433 needs no
    /// privilege; 443 looks like HTTP/3 to networks that treat only that well.
    pub listen: SocketAddr,
    /// `state-dir`: directory of keys and devices. Default `/var/lib/longhaul-gateway` for root, else
    /// `$XDG_STATE_HOME/longhaul-gateway` or `~/.local/state/longhaul-gateway`.
    pub state_dir: PathBuf,
    /// `log`: least severe messages to log, or a `tracing` filter. Default `info`; up to there no log names a URL, a
    /// host or an address.
    pub log: String,
    /// `[fetch]`.
    pub fetch: FetchConfig,
    /// `[guard]`.
    pub guard: GuardConfig,
    /// `[cache]`.
    pub cache: CacheConfig,
    /// `[coding]`.
    pub coding: CodingConfig,
    /// `[pictures]`.
    pub pictures: PicturesConfig,
    /// `[tunnel]`.
    pub tunnel: TunnelConfig,
    /// `[metrics]`.
    pub metrics: MetricsConfig,
    /// `[limits]`.
    pub limits: LimitsConfig,
}

/// How origins are found and trusted.
#[derive(Clone, Debug)]
pub struct FetchConfig {
    /// `resolve`: names that are not looked up but fetched from a given address, as `{"*.test" = "10.79.0.1"}`.
    /// Default: none. The address guard does not apply to what is written here.
    pub resolve: ResolveMap,
    /// `extra-ca`: PEM files with authorities that are trusted besides the public ones. Default: none.
    pub extra_ca: Vec<PathBuf>,
    /// `deny-keys`: keys that no certificate of an origin's chain may have, by the SHA-256 of their subject public key info.
    /// Default: none.
    pub deny_keys: DenyList,
    /// `dns`: name servers as `ADDRESS` or `ADDRESS:PORT`. Default: those of the system.
    pub dns: DnsServers,
    /// `response-timeout`: longest wait from the end of a request to the head of its response. Default 60 s: long
    /// polls and slow searches are legitimate.
    pub response_timeout: Duration,
    /// `idle-timeout`: longest silence of an origin in the midst of a response. Default 10 min: event streams are
    /// silent for minutes between their keep-alive lines.
    pub idle_timeout: Duration,
}

/// What may be connected to.
#[derive(Clone, Debug)]
pub struct GuardConfig {
    /// `allow`: address ranges that fetches and tunnels may reach although they are not public. Default: none, so that
    /// no device can look into the operator's network.
    pub allow: Vec<Cidr>,
}

/// The gateway's cache of what it fetched.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// `size`: most bytes on disk, 0 for no cache. Default 2 GiB: some weeks of what a few dozen people read, on the
    /// disks that the smallest rented machines have.
    pub size: ByteCount,
    /// `dir`: directory of the cache, for this gateway alone. Default: `cache` in the state directory.
    pub dir: PathBuf,
}

/// How what crosses the hop is made smaller.
#[derive(Clone, Copy, Debug)]
pub struct CodingConfig {
    /// `effort`: what decides how hard texts and pictures are coded. Default `link`: each device's link and the
    /// processor's load, so that pages are across soonest. `fixed` is Brotli 5 without bases for texts and WebP of
    /// quality 75 for pictures, on every link: least and steadiest work for the processor, and what to compare with.
    pub effort: Effort,
}

/// The processes that make pictures smaller.
#[derive(Clone, Debug)]
pub struct PicturesConfig {
    /// `memory`: bytes that all pictures in work may take together, by what decoding and coding them takes at its peak.
    /// Default 256 MiB: one picture of 16 megapixels and two small ones, on the smallest rented machines.
    pub memory: ByteCount,
    /// `max-megapixels`: most pixels of a picture, or of all frames of an animation but half as many more, that is made
    /// smaller. Default 16: screens have 2 to 8, present telephones' pictures 12.
    pub max_megapixels: usize,
    /// `workers`: pictures in work for one device at a time. Default: as many as there are processor cores. One worker more
    /// is for other devices.
    pub workers: usize,
    /// What workers run; no setting.
    pub program: Program,
}

/// Tunnels (CONNECT).
#[derive(Clone, Debug)]
pub struct TunnelConfig {
    /// `ports`: where tunnels may go. Default every port but 25: browsers use any port (WebSocket, Git, chat), while
    /// mail to strangers from port 25 gets the gateway's address onto block lists.
    pub ports: PortSet,
    /// `idle-timeout`: how long a tunnel may be silent in both directions. Default 30 min: below it, chat and push
    /// connections that a slow or suspended hop keeps silent would break. A tunnel costs about 100 KiB.
    pub idle_timeout: Duration,
}

/// Prometheus metrics.
#[derive(Clone, Debug)]
pub struct MetricsConfig {
    /// `listen`: loopback address that serves `/metrics`. Default: off.
    pub listen: Option<SocketAddr>,
}

/// Bounds of work and memory.
#[derive(Clone, Debug)]
pub struct LimitsConfig {
    /// `sessions`: sessions at a time. Default 1000; an idle one takes below 100 KiB, a busy one a few MiB.
    pub sessions: usize,
    /// `streams-per-session`: fetches and tunnels of one session at a time; further ones wait. Default 256: Chromium
    /// opens at most 225 connections through a proxy. Each takes about 0.5 MiB
    /// besides its body, of which a fetch keeps 1 MiB as a rule and all together keep 256 MiB.
    pub streams_per_session: usize,
    /// `streams-per-device`: the same for all sessions of one device; further ones wait. Default 512: the old
    /// session of a device that comes back may linger beside its new one.
    pub streams_per_device: usize,
    /// `queue-timeout`: longest wait of a request for a place within its device's limits, here and at its host; then it
    /// fails, and says so. Default 60 s: what is under way for longer than 30 s gives its place at the host up, so only a
    /// device that has used up all its limits waits for so long.
    pub queue_timeout: Duration,
}

/// A setting as it takes effect, for `check-config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedSetting {
    /// The key, with its section.
    pub key: &'static str,
    /// The value in TOML.
    pub value: String,
    /// Where it came from.
    pub source: Source,
}

/// Everything that is wrong with the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration is not valid:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

/// One thing that is wrong with the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {problem}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The file names a key that does not exist.
    #[error("{path}: unknown key `{key}`{hint}", path = path.display())]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The key with its section.
        key: String,
        /// What may have been meant.
        hint: String,
    },
    /// A value cannot be used.
    #[error("{source_text}: {key}: {problem}", source_text = from)]
    Value {
        /// The key with its section.
        key: &'static str,
        /// Where the value came from.
        from: Source,
        /// What is wrong.
        problem: String,
    },
}
