//! Resolution of the layers to the effective settings.
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use longhaul_codec::Effort;
use longhaul_origin::{Cidr, DenyList, DnsServers, KeyHash, ResolveMap};
use longhaul_types::{ByteCount, ParseUnitError};

use super::{
    CacheConfig, CodingConfig, Config, ConfigErrors, ConfigFile, FetchConfig, GuardConfig, LimitsConfig,
    MetricsConfig, PicturesConfig, PortSet, Raw, ResolvedSetting, TunnelConfig, keys,
    layers::{Layers, list, quoted, text, texts},
};
use crate::{cli::SettingArgs, picture_workers::Program};

/// The variables of the environment.
pub type Environment = BTreeMap<String, String>;

/// Resolves the settings and the source of each.
///
/// # Errors
/// Returns all errors of all layers.
pub fn resolve(
    args: &SettingArgs,
    environment: &Environment,
) -> Result<(Config, Vec<ResolvedSetting>), ConfigErrors> {
    let mut errors = Vec::new();
    let path = args
        .config
        .clone()
        .or_else(|| environment.get("LONGHAUL_CONFIG").map(PathBuf::from));
    let file = path.and_then(|path| match ConfigFile::read(&path) {
        Ok(file) => Some((path, file)),
        Err(found) => {
            errors.extend(found);
            None
        }
    });
    let mut layers = Layers {
        file,
        environment,
        flags: args.values(),
        settings: Vec::new(),
        errors,
    };
    let state_dir = layers.take(
        &keys::STATE_DIR,
        || default_state_dir(environment),
        |raw| text(raw).map(PathBuf::from),
        |value| quoted(&value.display().to_string()),
    );
    let config = Config {
        listen: layers.take(&keys::LISTEN, default_listen, listen, |value| {
            quoted(&value.to_string())
        }),
        log: layers.take(
            &keys::LOG,
            || "info".to_owned(),
            |raw| {
                let filter = text(raw)?;
                let parsed = filter.parse::<tracing_subscriber::EnvFilter>();
                parsed
                    .map(|_| filter.to_owned())
                    .map_err(|error| format!("`{filter}`: {error}"))
            },
            |value| quoted(value),
        ),
        fetch: fetch(&mut layers),
        guard: GuardConfig {
            allow: allow(&mut layers),
        },
        cache: cache(&mut layers, &state_dir),
        coding: coding(&mut layers),
        pictures: pictures(&mut layers),
        tunnel: tunnel(&mut layers),
        metrics: MetricsConfig {
            listen: layers.take(
                &keys::METRICS_LISTEN,
                || None,
                metrics_listen,
                |value| quoted(&value.map_or_else(|| "off".to_owned(), |address| address.to_string())),
            ),
        },
        limits: LimitsConfig {
            sessions: layers.count(&keys::LIMITS_SESSIONS, 1000, 1_000_000),
            streams_per_session: layers.count(&keys::LIMITS_STREAMS_PER_SESSION, 256, 4096),
            streams_per_device: layers.count(&keys::LIMITS_STREAMS_PER_DEVICE, 512, 65_536),
            queue_timeout: layers.duration(
                &keys::LIMITS_QUEUE_TIMEOUT,
                Duration::from_secs(60),
                Duration::from_secs(1)..=Duration::from_secs(3600),
            ),
        },
        state_dir,
    };
    if layers.errors.is_empty() {
        Ok((config, layers.settings))
    } else {
        Err(ConfigErrors(layers.errors))
    }
}

fn fetch(layers: &mut Layers<'_>) -> FetchConfig {
    let mut shown = BTreeMap::new();
    let resolve = layers.take(
        &keys::FETCH_RESOLVE,
        ResolveMap::default,
        |raw| {
            shown = resolve_entries(raw)?;
            ResolveMap::parse(&shown).map_err(|error| error.to_string())
        },
        |_| String::new(),
    );
    if let Some(setting) = layers.settings.last_mut() {
        let entries: Vec<_> = shown
            .iter()
            .map(|(name, address)| format!("{} = {}", quoted(name), quoted(address)))
            .collect();
        setting.value = if entries.is_empty() {
            "{}".to_owned()
        } else {
            format!("{{ {} }}", entries.join(", "))
        };
    }
    FetchConfig {
        resolve,
        extra_ca: layers.take(
            &keys::FETCH_EXTRA_CA,
            Vec::new,
            |raw| texts(raw).map(|paths| paths.into_iter().map(PathBuf::from).collect()),
            |paths: &Vec<PathBuf>| list(paths.iter().map(|path| path.display())),
        ),
        deny_keys: layers.take(
            &keys::FETCH_DENY_KEYS,
            DenyList::default,
            |raw| {
                let hashes = texts(raw)?.into_iter().map(|text| text.parse::<KeyHash>());
                hashes
                    .collect::<Result<_, _>>()
                    .map_err(|error| error.to_string())
            },
            |deny| list(deny.iter()),
        ),
        dns: layers.take(
            &keys::FETCH_DNS,
            DnsServers::default,
            |raw| {
                let servers = texts(raw)?;
                let servers = if servers == ["system"] {
                    Vec::new()
                } else {
                    servers
                };
                DnsServers::parse(servers).map_err(|error| error.to_string())
            },
            |servers| match servers {
                DnsServers::System => list(["system"]),
                DnsServers::Explicit(servers) => list(servers),
            },
        ),
        response_timeout: layers.duration(
            &keys::FETCH_RESPONSE_TIMEOUT,
            Duration::from_secs(60),
            Duration::from_secs(1)..=Duration::from_secs(3600),
        ),
        idle_timeout: layers.duration(
            &keys::FETCH_IDLE_TIMEOUT,
            Duration::from_secs(600),
            Duration::from_secs(1)..=Duration::from_secs(24 * 3600),
        ),
    }
}

fn cache(layers: &mut Layers<'_>, state_dir: &Path) -> CacheConfig {
    CacheConfig {
        size: layers.take(
            &keys::CACHE_SIZE,
            || DEFAULT_CACHE,
            cache_size,
            |size| quoted(&whole_size(*size)),
        ),
        dir: layers.take(
            &keys::CACHE_DIR,
            || state_dir.join("cache"),
            |raw| text(raw).map(PathBuf::from),
            |value| quoted(&value.display().to_string()),
        ),
    }
}

/// Formats a size so that parsing returns the same size.
fn whole_size(size: ByteCount) -> String {
    let mebibyte = ByteCount::mib(1).bytes();
    match size.bytes() {
        0 => "0".to_owned(),
        bytes if bytes % mebibyte == 0 => format!("{} MiB", bytes / mebibyte),
        bytes => format!("{bytes} B"),
    }
}

fn cache_size(raw: &Raw) -> Result<ByteCount, String> {
    if *raw == Raw::Integer(0) {
        return Ok(ByteCount::ZERO);
    }
    let Raw::Text(text) = raw else {
        return Err("a size is a text with its unit, such as \"2 GiB\", or 0 for no cache".to_owned());
    };
    if text.trim() == "0" {
        return Ok(ByteCount::ZERO);
    }
    let size: ByteCount = text
        .trim()
        .parse()
        .map_err(|error: ParseUnitError| error.to_string())?;
    if size == ByteCount::ZERO || (MIN_CACHE..=MAX_CACHE).contains(&size) {
        Ok(size)
    } else {
        Err(format!(
            "`{text}` is not between {MIN_CACHE} and {MAX_CACHE}; write 0 for no cache"
        ))
    }
}

const DEFAULT_CACHE: ByteCount = ByteCount::mib(2 * 1024);
/// A smaller cache could not hold the objects of one page, because a body may take an eighth.
const MIN_CACHE: ByteCount = ByteCount::mib(16);
/// A larger file takes too long to check or to set aside.
const MAX_CACHE: ByteCount = ByteCount::mib(1024 * 1024);

fn coding(layers: &mut Layers<'_>) -> CodingConfig {
    CodingConfig {
        effort: layers.take(
            &keys::CODING_EFFORT,
            Effort::default,
            |raw| match text(raw)? {
                "link" => Ok(Effort::Link),
                "fixed" => Ok(Effort::Fixed),
                other => Err(format!("`{other}` is neither link nor fixed")),
            },
            |effort| {
                quoted(match effort {
                    Effort::Link => "link",
                    Effort::Fixed => "fixed",
                })
            },
        ),
    }
}

/// An image of 12 megapixels takes a third of this.
const DEFAULT_PICTURES: ByteCount = ByteCount::mib(256);
/// Less memory hardly fits a screen-sized image; more exceeds any machine.
const PICTURES: std::ops::RangeInclusive<ByteCount> = ByteCount::mib(32)..=ByteCount::mib(64 * 1024);

fn pictures(layers: &mut Layers<'_>) -> PicturesConfig {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    PicturesConfig {
        memory: layers.take(
            &keys::PICTURES_MEMORY,
            || DEFAULT_PICTURES,
            |raw| {
                let size: ByteCount = text(raw)?
                    .parse()
                    .map_err(|error: ParseUnitError| error.to_string())?;
                let (least, most) = (PICTURES.start(), PICTURES.end());
                PICTURES
                    .contains(&size)
                    .then_some(size)
                    .ok_or_else(|| format!("`{size}` is not between {least} and {most}"))
            },
            |size| quoted(&whole_size(*size)),
        ),
        max_megapixels: layers.count(&keys::PICTURES_MAX_MEGAPIXELS, 16, 1000),
        workers: layers.count(&keys::PICTURES_WORKERS, cores, 1024),
        program: Program::Running,
    }
}

fn tunnel(layers: &mut Layers<'_>) -> TunnelConfig {
    TunnelConfig {
        ports: layers.take(
            &keys::TUNNEL_PORTS,
            PortSet::all_but_smtp,
            |raw| PortSet::parse(texts(raw)?).map_err(|error| error.to_string()),
            |ports| list(ports.texts()),
        ),
        idle_timeout: layers.duration(
            &keys::TUNNEL_IDLE_TIMEOUT,
            Duration::from_secs(30 * 60),
            Duration::from_secs(10)..=Duration::from_secs(7 * 24 * 3600),
        ),
    }
}

fn allow(layers: &mut Layers<'_>) -> Vec<Cidr> {
    layers.take(
        &keys::GUARD_ALLOW,
        Vec::new,
        |raw| {
            let ranges = texts(raw)?
                .into_iter()
                .map(|text| text.parse::<Cidr>().map_err(|error| error.to_string()));
            ranges.collect()
        },
        |ranges: &Vec<Cidr>| list(ranges),
    )
}

/// Parses a table (file) or `NAME=ADDR` strings (other layers).
fn resolve_entries(raw: &Raw) -> Result<BTreeMap<String, String>, String> {
    if let Raw::Table(table) = raw {
        let entry = |(name, value): (&String, &Raw)| match value {
            Raw::Text(address) => Ok((name.clone(), address.clone())),
            Raw::Integer(_) | Raw::List(_) | Raw::Table(_) | Raw::Other(_) => {
                Err(format!("`{name}`: the address must be a text"))
            }
        };
        return table.iter().map(entry).collect();
    }
    let entry = |text: String| match text.split_once('=') {
        Some((name, address)) => Ok((name.trim().to_owned(), address.trim().to_owned())),
        None => Err(format!("`{text}` is not NAME=ADDR")),
    };
    texts(raw)?.into_iter().map(entry).collect()
}

fn default_listen() -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 4433)
}

fn listen(raw: &Raw) -> Result<SocketAddr, String> {
    let text = text(raw)?;
    text.parse().map_err(|_| {
        format!("`{text}` is not ADDR:PORT; write 0.0.0.0:4433 for all IPv4 addresses, [::]:4433 for all addresses")
    })
}

fn metrics_listen(raw: &Raw) -> Result<Option<SocketAddr>, String> {
    let text = text(raw)?;
    if text == "off" {
        return Ok(None);
    }
    let address: SocketAddr = text
        .parse()
        .map_err(|_| format!("`{text}` is neither ADDR:PORT nor \"off\""))?;
    if address.ip().is_loopback() {
        Ok(Some(address))
    } else {
        Err(format!(
            "`{text}` is not a loopback address; metrics have no access control, so use 127.0.0.1 or [::1]"
        ))
    }
}

fn default_state_dir(environment: &Environment) -> PathBuf {
    let set = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    if let Some(state) = set("XDG_STATE_HOME") {
        return PathBuf::from(state).join("longhaul-gateway");
    }
    match set("HOME") {
        Some(home) if home != "/root" && home != "/" => {
            PathBuf::from(home).join(".local/state/longhaul-gateway")
        }
        Some(_) | None => PathBuf::from("/var/lib/longhaul-gateway"),
    }
}
