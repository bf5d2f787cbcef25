//! Settings: combines the file, the environment and the command line into the effective [`Config`].
//!
//! [`settings`] describes each setting: names, form, default, meaning, and reason for the default. [`Config`]
//! holds the resolved and valid values. `longhaul_settings` combines the layers.
mod admin;
pub mod clientless;
mod clientless_tls;
mod clientless_transparent;
mod dns;
mod listen;
mod parse;
mod ports;
mod quota;
mod resolve;
pub mod settings;
mod shared_ports;
#[cfg(test)]
mod tests;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use longhaul_codec::EffortPolicy;
use longhaul_images::picture_workers::Program;
use longhaul_origin::{Cidr, DenyList, DnsServers, ResolveMap};
use longhaul_service::{LogFilter, LogFormat};
use longhaul_types::{ByteCount, Techniques};

use crate::quota_limits::QuotaDefaults;

pub use self::{
    clientless::{ClientlessConfig, Passwords},
    dns::{DnsConfig, HostNames},
    listen::ListenAddresses,
    ports::{ParsePortsError, PortSet},
    resolve::{load, resolve},
    settings::Gateway,
    shared_ports::OverlappingPorts,
};
pub use longhaul_settings::Environment;

/// Flags that override the environment (`LONGHAUL_*`) and the configuration file.
pub type SettingArgs = longhaul_settings::Flags<Gateway>;

/// The effective settings. [`settings`] has their bounds, defaults and reasons.
#[derive(Clone, Debug)]
pub struct Config {
    /// `listen`: UDP addresses for agents.
    pub listen: ListenAddresses,
    /// `state-dir`: directory of keys and devices.
    pub state_dir: PathBuf,
    /// `admin-socket`: path of the socket for the operator's commands; `None` if there is none.
    pub admin_socket: Option<PathBuf>,
    /// `public-address`: `HOST:PORT` for invites.
    pub public_address: Option<String>,
    /// `log`: filter of log messages.
    pub log: LogFilter,
    /// `log-format`: format of log messages.
    pub log_format: LogFormat,
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
    /// `[admin]`.
    pub admin: AdminConfig,
    /// `[carriers]`.
    pub carriers: CarriersConfig,
    /// `[portal]`.
    pub portal: PortalConfig,
    /// `[clientless]`.
    pub clientless: ClientlessConfig,
    /// `[dns]`.
    pub dns: DnsConfig,
    /// `[away]`.
    pub away: AwayConfig,
    /// `[limits]`.
    pub limits: LimitsConfig,
    /// `[quota]`: quota of devices without one of their own.
    pub quota: QuotaDefaults,
    /// Techniques that are switched off for measurements; a hidden setting.
    pub without: Techniques,
}

/// `[fetch]`: resolution and authentication of origins.
#[derive(Clone, Debug)]
pub struct FetchConfig {
    /// `resolve`: names with fixed addresses instead of DNS. The address guard does not check these addresses.
    pub resolve: ResolveMap,
    /// `extra-ca`: PEM files with certificate authorities that are trusted in addition to the public ones.
    pub extra_ca: Vec<PathBuf>,
    /// `deny-keys`: SHA-256 of the subject public key info of keys that no certificate of an origin's chain
    /// may have.
    pub deny_keys: DenyList,
    /// `dns`: name servers.
    pub dns: DnsServers,
    /// `response-timeout`: maximum wait from the end of a request to the head of its response.
    pub response_timeout: Duration,
    /// `idle-timeout`: maximum silence of an origin within a response body.
    pub idle_timeout: Duration,
}

/// `[guard]`: addresses to which the gateway may connect.
#[derive(Clone, Debug)]
pub struct GuardConfig {
    /// `allow`: non-public address ranges that fetches and tunnels may reach.
    pub allow: Vec<Cidr>,
}

/// `[cache]`: the gateway's cache of responses.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// `size`: maximum bytes on disk; 0 disables the cache.
    pub size: ByteCount,
    /// `dir`: directory of the cache, which only one gateway may use.
    pub dir: PathBuf,
}

/// `[coding]`: compression towards the hop.
#[derive(Clone, Copy, Debug)]
pub struct CodingConfig {
    /// `effort`: policy for the effort of text and image compression.
    pub effort: EffortPolicy,
}

/// `[pictures]`: the processes that transcode images.
#[derive(Clone, Debug)]
pub struct PicturesConfig {
    /// `memory`: bytes for all images that are transcoded at the same time, counted as the peak memory of
    /// decoding and encoding.
    pub memory: ByteCount,
    /// `max-megapixels`: maximum size of an image that is transcoded; all frames of an animation together may
    /// have one and a half times as many pixels.
    pub max_megapixels: usize,
    /// `workers`: images of one device that are transcoded at the same time. One additional worker is
    /// reserved for other devices.
    pub workers: usize,
    /// Program that the workers run; not a setting.
    pub program: Program,
}

/// `[tunnel]`: tunnels (CONNECT, SOCKS) and UDP associations (SOCKS).
#[derive(Clone, Debug)]
pub struct TunnelConfig {
    /// `ports`: ports that tunnels may connect to.
    pub ports: PortSet,
    /// `idle-timeout`: maximum silence of a tunnel in both directions.
    pub idle_timeout: Duration,
    /// `udp-ports`: ports that datagrams may be sent to.
    pub udp_ports: PortSet,
    /// `udp-idle-timeout`: time after which a host is forgotten to which no datagram was sent.
    pub udp_idle_timeout: Duration,
}

/// `[metrics]`: Prometheus metrics.
#[derive(Clone, Debug)]
pub struct MetricsConfig {
    /// `listen`: loopback address that serves `/metrics`.
    pub listen: Option<SocketAddr>,
}

/// `[admin]`: the admin port.
#[derive(Clone, Copy, Debug)]
pub struct AdminConfig {
    /// `listen`: loopback address of the admin port; `None` if it is off.
    pub listen: Option<SocketAddr>,
}

/// `[carriers]`: carriers beside UDP.
#[derive(Clone, Debug)]
pub struct CarriersConfig {
    /// `tls`: TCP address of the carrier; `None` if it is off.
    pub tls: Option<SocketAddr>,
    /// `quic`: UDP address of the carrier; `None` if it is off.
    pub quic: Option<SocketAddr>,
    /// `cert`: certificate chain; `None` for the one in the state directory.
    pub cert: Option<PathBuf>,
    /// `key`: its private key; `None` for the one in the state directory.
    pub key: Option<PathBuf>,
}

/// `[portal]`: proof for agents that no captive portal is in the way.
#[derive(Clone, Copy, Debug)]
pub struct PortalConfig {
    /// `listen`: TCP address of the proof; `None` if it is off.
    pub listen: Option<SocketAddr>,
}

/// `[away]`: what is kept for devices whose hop is away.
#[derive(Clone, Copy, Debug)]
pub struct AwayConfig {
    /// `keep`: time for which a silent session with something in progress is kept.
    pub keep: Duration,
    /// `device-size`: maximum bytes on disk that wait for one device.
    pub device_size: ByteCount,
    /// `total-size`: maximum bytes on disk that wait for all devices together.
    pub total_size: ByteCount,
}

/// `[limits]`: limits of work and memory.
#[derive(Clone, Debug)]
pub struct LimitsConfig {
    /// `sessions`: maximum concurrent sessions.
    pub sessions: usize,
    /// `streams-per-session`: maximum concurrent fetches and tunnels of one session; further ones wait.
    pub streams_per_session: usize,
    /// `streams-per-device`: maximum concurrent fetches and tunnels of all sessions of one device; further
    /// ones wait.
    pub streams_per_device: usize,
    /// `associations-per-device`: maximum concurrent UDP associations of one device.
    pub associations_per_device: usize,
    /// `queue-timeout`: maximum wait of a request for a slot within its device's limits, at the gateway and
    /// at the origin host.
    pub queue_timeout: Duration,
}
