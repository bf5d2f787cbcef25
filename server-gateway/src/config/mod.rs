//! Settings: combines the file, the environment and the command line into the effective [`Config`].
//!
//! [`CliArgs`](crate::cli::CliArgs) and [`ConfigFile`] hold unparsed values, [`Config`] resolved and valid
//! ones. A later source overrides an earlier one, key by key: defaults, then the TOML file, then
//! `LONGHAUL_*`, then flags.
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

/// The effective settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// `listen`: UDP address for agents. Default `[::]:4433`, which serves IPv6 and IPv4. Port 4433 needs no
    /// privilege; port 443 suits networks that pass only traffic that looks like HTTP/3.
    pub listen: SocketAddr,
    /// `state-dir`: directory of keys and devices. Default `/var/lib/longhaul-gateway` for root, else
    /// `$XDG_STATE_HOME/longhaul-gateway` or `~/.local/state/longhaul-gateway`.
    pub state_dir: PathBuf,
    /// `log`: minimum severity of log messages, or a `tracing` filter. Default `info`; URLs, hosts and
    /// addresses appear only at lower severities.
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

/// Resolution and authentication of origins.
#[derive(Clone, Debug)]
pub struct FetchConfig {
    /// `resolve`: names with fixed addresses instead of DNS, such as `{"*.test" = "10.79.0.1"}`. Default:
    /// none. The address guard does not check these addresses.
    pub resolve: ResolveMap,
    /// `extra-ca`: PEM files with certificate authorities that are trusted in addition to the public ones.
    /// Default: none.
    pub extra_ca: Vec<PathBuf>,
    /// `deny-keys`: SHA-256 of the subject public key info of keys that no certificate of an origin's chain
    /// may have. Default: none.
    pub deny_keys: DenyList,
    /// `dns`: name servers as `ADDRESS` or `ADDRESS:PORT`. Default: those of the system.
    pub dns: DnsServers,
    /// `response-timeout`: maximum wait from the end of a request to the head of its response. Default 60 s:
    /// long polls and slow searches are legitimate.
    pub response_timeout: Duration,
    /// `idle-timeout`: maximum silence of an origin within a response body. Default 10 min: event streams are
    /// silent for minutes between their keep-alive lines.
    pub idle_timeout: Duration,
}

/// Addresses to which the gateway may connect.
#[derive(Clone, Debug)]
pub struct GuardConfig {
    /// `allow`: non-public address ranges that fetches and tunnels may reach. Default: none, so that no
    /// device can access the operator's network.
    pub allow: Vec<Cidr>,
}

/// The gateway's cache of responses.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// `size`: maximum bytes on disk; 0 disables the cache. Default 2 GiB: some weeks of pages for a few
    /// dozen people; it fits the disks of the smallest rented machines.
    pub size: ByteCount,
    /// `dir`: directory of the cache, which only one gateway may use. Default: `cache` in the state
    /// directory.
    pub dir: PathBuf,
}

/// Compression towards the hop.
#[derive(Clone, Copy, Debug)]
pub struct CodingConfig {
    /// `effort`: policy for the effort of text and image compression. Default `link`: adapts to each device's
    /// link and to the processor load, for the shortest load time. `fixed` uses Brotli 5 without bases for
    /// text and WebP of quality 75 for images on every link: the lowest and steadiest processor load, and a
    /// reference for comparisons.
    pub effort: Effort,
}

/// The processes that transcode images.
#[derive(Clone, Debug)]
pub struct PicturesConfig {
    /// `memory`: bytes for all images that are transcoded at the same time, counted as the peak memory of
    /// decoding and encoding. Default 256 MiB: one image of 16 megapixels and two small ones, on the smallest
    /// rented machines.
    pub memory: ByteCount,
    /// `max-megapixels`: maximum size of an image that is transcoded; all frames of an animation together may
    /// have one and a half times as many pixels. Default 16: screens have 2 to 8, photographs of phones 12.
    pub max_megapixels: usize,
    /// `workers`: images of one device that are transcoded at the same time. Default: the number of processor
    /// cores. One additional worker is reserved for other devices.
    pub workers: usize,
    /// Program that the workers run; not a setting.
    pub program: Program,
}

/// Tunnels (CONNECT).
#[derive(Clone, Debug)]
pub struct TunnelConfig {
    /// `ports`: ports that tunnels may connect to. Default: all but 25. Browsers use any port (WebSocket,
    /// Git, chat); spam through port 25 would get the gateway's address onto block lists.
    pub ports: PortSet,
    /// `idle-timeout`: maximum silence of a tunnel in both directions. Default 30 min: a shorter time would
    /// break chat and push connections that a slow or suspended hop keeps silent. A tunnel costs about 100
    /// KiB.
    pub idle_timeout: Duration,
}

/// Prometheus metrics.
#[derive(Clone, Debug)]
pub struct MetricsConfig {
    /// `listen`: loopback address that serves `/metrics`. Default: off.
    pub listen: Option<SocketAddr>,
}

/// Limits of work and memory.
#[derive(Clone, Debug)]
pub struct LimitsConfig {
    /// `sessions`: maximum concurrent sessions. Default 1000; an idle one takes less than 100 KiB, a busy one
    /// a few MiB.
    pub sessions: usize,
    /// `streams-per-session`: maximum concurrent fetches and tunnels of one session; further ones wait.
    /// Default 256: Chromium opens at most 225 connections through a proxy. Each takes about 0.5 MiB besides
    /// its body, of which a fetch usually buffers 1 MiB and all fetches together 256 MiB.
    pub streams_per_session: usize,
    /// `streams-per-device`: maximum concurrent fetches and tunnels of all sessions of one device; further
    /// ones wait. Default 512: the old session of a device that reconnects may exist for a while beside the
    /// new one.
    pub streams_per_device: usize,
    /// `queue-timeout`: maximum wait of a request for a slot within its device's limits, at the gateway and
    /// at the origin host; then the request fails with an explanation. Default 60 s: a request that has run
    /// for more than 30 s gives up its slot at the host, so only a device that uses up all its limits waits
    /// until this timeout.
    pub queue_timeout: Duration,
}

/// An effective setting, for `check-config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedSetting {
    /// The key with its section.
    pub key: &'static str,
    /// The value as TOML.
    pub value: String,
    /// Source of the value.
    pub source: Source,
}

/// All errors of the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration is not valid:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

/// One error of the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read or parsed.
    #[error("{path}: {problem}", path = path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Description of the error.
        problem: String,
    },
    /// The file contains an unknown key.
    #[error("{path}: unknown key `{key}`{hint}", path = path.display())]
    UnknownKey {
        /// Path of the file.
        path: PathBuf,
        /// The key with its section.
        key: String,
        /// A suggestion.
        hint: String,
    },
    /// A value is invalid.
    #[error("{source_text}: {key}: {problem}", source_text = from)]
    Value {
        /// The key with its section.
        key: &'static str,
        /// Source of the value.
        from: Source,
        /// Description of the error.
        problem: String,
    },
}
