//! Resolution of the layers to the effective settings.
use longhaul_images::picture_workers::Program;
use longhaul_settings::{DefaultFiles, Environment, Flags, Layers, Mistakes, Report, WITHOUT};

use super::{
    AdminConfig, AwayConfig, CacheConfig, CarriersConfig, ClientlessConfig, CodingConfig, Config, DnsConfig,
    FetchConfig, Gateway, GuardConfig, LimitsConfig, MetricsConfig, PicturesConfig, PortalConfig,
    TunnelConfig, parse, settings,
};
use crate::quota_limits::QuotaDefaults;

/// Resolves the settings from the default files or the named file, the environment and the flags.
///
/// # Errors
/// Returns all mistakes of all layers.
pub fn load(args: &Flags<Gateway>, environment: &Environment) -> Result<(Config, Report), Mistakes> {
    resolve_layers(Layers::read(args, environment, DefaultFiles::Read))
}

/// Resolves the settings without default files: no file of the machine affects the result.
///
/// # Errors
/// Returns all mistakes of all layers.
pub fn resolve(args: &Flags<Gateway>, environment: &Environment) -> Result<(Config, Report), Mistakes> {
    resolve_layers(Layers::read(args, environment, DefaultFiles::Ignored))
}

/// Resolves each setting, in the order of `check-config`.
fn resolve_layers(mut layers: Layers<'_>) -> Result<(Config, Report), Mistakes> {
    let listen = layers.get(&settings::LISTEN);
    let state_dir = layers.get(&settings::STATE_DIR);
    let environment = layers.environment();
    let admin_socket = layers.get_or(&settings::ADMIN_SOCKET, || {
        Some(parse::default_admin_socket(environment, state_dir.clone()))
    });
    let config = Config {
        listen,
        admin_socket,
        public_address: layers.get(&settings::PUBLIC_ADDRESS),
        log: layers.get(&settings::LOG),
        log_format: layers.get(&settings::LOG_FORMAT),
        fetch: FetchConfig {
            resolve: layers.get(&settings::FETCH_RESOLVE).map,
            extra_ca: layers.get(&settings::FETCH_EXTRA_CA),
            deny_keys: layers.get(&settings::FETCH_DENY_KEYS),
            dns: layers.get(&settings::FETCH_DNS),
            response_timeout: layers.get(&settings::FETCH_RESPONSE_TIMEOUT),
            idle_timeout: layers.get(&settings::FETCH_IDLE_TIMEOUT),
        },
        guard: GuardConfig {
            allow: layers.get(&settings::GUARD_ALLOW),
        },
        cache: CacheConfig {
            size: layers.get(&settings::CACHE_SIZE),
            dir: layers.get_or(&settings::CACHE_DIR, || state_dir.join("cache")),
        },
        coding: CodingConfig {
            effort: layers.get(&settings::CODING_EFFORT),
        },
        pictures: PicturesConfig {
            memory: layers.get(&settings::PICTURES_MEMORY),
            max_megapixels: layers.get(&settings::PICTURES_MAX_MEGAPIXELS),
            workers: layers.get(&settings::PICTURES_WORKERS),
            program: Program::Running,
        },
        tunnel: TunnelConfig {
            ports: layers.get(&settings::TUNNEL_PORTS),
            idle_timeout: layers.get(&settings::TUNNEL_IDLE_TIMEOUT),
            udp_ports: layers.get(&settings::TUNNEL_UDP_PORTS),
            udp_idle_timeout: layers.get(&settings::TUNNEL_UDP_IDLE_TIMEOUT),
        },
        metrics: MetricsConfig {
            listen: layers.get(&settings::METRICS_LISTEN),
        },
        admin: AdminConfig {
            listen: layers.get(&settings::ADMIN_LISTEN),
        },
        carriers: CarriersConfig {
            tls: layers.get(&settings::CARRIERS_TLS),
            quic: layers.get(&settings::CARRIERS_QUIC),
            cert: layers.get(&settings::CARRIERS_CERT),
            key: layers.get(&settings::CARRIERS_KEY),
        },
        portal: PortalConfig {
            listen: layers.get(&settings::PORTAL_LISTEN),
        },
        clientless: ClientlessConfig {
            listen: layers.get(&settings::CLIENTLESS_LISTEN),
            tls: layers.get(&settings::CLIENTLESS_TLS),
            certificate: layers.get(&settings::CLIENTLESS_CERTIFICATE),
            key: layers.get(&settings::CLIENTLESS_KEY),
            transparent: layers.get(&settings::CLIENTLESS_TRANSPARENT),
            allow: layers.get(&settings::CLIENTLESS_ALLOW),
            passwords: layers.get(&settings::CLIENTLESS_PASSWORDS),
            ports: layers.get(&settings::CLIENTLESS_PORTS),
            level: layers.get(&settings::CLIENTLESS_LEVEL),
            link: layers.get(&settings::CLIENTLESS_LINK),
            day_size: layers.get(&settings::CLIENTLESS_DAY_SIZE),
            idle_timeout: layers.get(&settings::CLIENTLESS_IDLE_TIMEOUT),
        },
        dns: DnsConfig {
            listen: layers.get(&settings::DNS_LISTEN),
            names: layers.get(&settings::DNS_NAMES),
            addresses: layers.get(&settings::DNS_ADDRESSES),
        },
        away: AwayConfig {
            keep: layers.get(&settings::AWAY_KEEP),
            device_size: layers.get(&settings::AWAY_DEVICE_SIZE),
            total_size: layers.get(&settings::AWAY_TOTAL_SIZE),
        },
        limits: LimitsConfig {
            sessions: layers.get(&settings::LIMITS_SESSIONS),
            streams_per_session: layers.get(&settings::LIMITS_STREAMS_PER_SESSION),
            streams_per_device: layers.get(&settings::LIMITS_STREAMS_PER_DEVICE),
            associations_per_device: layers.get(&settings::LIMITS_ASSOCIATIONS_PER_DEVICE),
            queue_timeout: layers.get(&settings::LIMITS_QUEUE_TIMEOUT),
        },
        quota: QuotaDefaults {
            rate: layers.get(&settings::QUOTA_RATE),
            month: layers.get(&settings::QUOTA_MONTH),
        },
        without: layers.get_hidden(&WITHOUT),
        state_dir,
    };
    layers.finish().map(|report| (config, report))
}
