//! Descriptions of the gateway's settings.
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use longhaul_codec::EffortPolicy;
use longhaul_origin::{Cidr, DenyList, DnsServers, ResolveMap};
use longhaul_settings::{
    Configured, EmptyVariables, FlagScope, Form, Program, Setting, WITHOUT, list, quoted,
};
use longhaul_types::ByteCount;

pub use super::admin::ADMIN_LISTEN;
pub use super::clientless::{
    CLIENTLESS_ALLOW, CLIENTLESS_DAY_SIZE, CLIENTLESS_IDLE_TIMEOUT, CLIENTLESS_LEVEL, CLIENTLESS_LINK,
    CLIENTLESS_LISTEN, CLIENTLESS_PASSWORDS, CLIENTLESS_PORTS,
};
pub use super::clientless_tls::{CLIENTLESS_CERTIFICATE, CLIENTLESS_KEY, CLIENTLESS_TLS};
pub use super::clientless_transparent::CLIENTLESS_TRANSPARENT;
pub use super::dns::{DNS_ADDRESSES, DNS_LISTEN, DNS_NAMES};
pub use super::quota::{QUOTA_MONTH, QUOTA_RATE};
use super::{ListenAddresses, PortSet, parse};
pub use longhaul_service::settings::{LOG, LOG_FORMAT};

/// Stands for the gateway's settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gateway;

impl Configured for Gateway {
    const PROGRAM: &'static Program = &Program {
        name: "longhaul-gateway",
        settings: &[
            &LISTEN,
            &STATE_DIR,
            &ADMIN_SOCKET,
            &PUBLIC_ADDRESS,
            &LOG,
            &LOG_FORMAT,
            &FETCH_RESOLVE,
            &FETCH_EXTRA_CA,
            &FETCH_DENY_KEYS,
            &FETCH_DNS,
            &FETCH_RESPONSE_TIMEOUT,
            &FETCH_IDLE_TIMEOUT,
            &GUARD_ALLOW,
            &CACHE_SIZE,
            &CACHE_DIR,
            &CODING_EFFORT,
            &PICTURES_MEMORY,
            &PICTURES_MAX_MEGAPIXELS,
            &PICTURES_WORKERS,
            &TUNNEL_PORTS,
            &TUNNEL_IDLE_TIMEOUT,
            &TUNNEL_UDP_PORTS,
            &TUNNEL_UDP_IDLE_TIMEOUT,
            &METRICS_LISTEN,
            &ADMIN_LISTEN,
            &CARRIERS_TLS,
            &CARRIERS_QUIC,
            &CARRIERS_CERT,
            &CARRIERS_KEY,
            &PORTAL_LISTEN,
            &CLIENTLESS_LISTEN,
            &CLIENTLESS_TLS,
            &CLIENTLESS_CERTIFICATE,
            &CLIENTLESS_KEY,
            &CLIENTLESS_TRANSPARENT,
            &CLIENTLESS_ALLOW,
            &CLIENTLESS_PASSWORDS,
            &CLIENTLESS_PORTS,
            &CLIENTLESS_LEVEL,
            &CLIENTLESS_LINK,
            &CLIENTLESS_DAY_SIZE,
            &CLIENTLESS_IDLE_TIMEOUT,
            &DNS_LISTEN,
            &DNS_NAMES,
            &DNS_ADDRESSES,
            &AWAY_KEEP,
            &AWAY_DEVICE_SIZE,
            &AWAY_TOTAL_SIZE,
            &LIMITS_SESSIONS,
            &LIMITS_STREAMS_PER_SESSION,
            &LIMITS_STREAMS_PER_DEVICE,
            &LIMITS_ASSOCIATIONS_PER_DEVICE,
            &LIMITS_QUEUE_TIMEOUT,
            &QUOTA_RATE,
            &QUOTA_MONTH,
        ],
        hidden_settings: &[&WITHOUT],
        system_file: "/etc/longhaul/gateway.toml",
        user_file: None,
        empty_variables: EmptyVariables::AreValues,
        other_variables: &[],
        flag_scope: FlagScope::AllCommands,
    };
}

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// `listen`
pub const LISTEN: Setting<ListenAddresses> = Setting::new(
    "listen",
    Form::Text(
        "an address and port: `[::]:4433` for all addresses, `0.0.0.0:4433` for all IPv4 addresses; or up to eight of \
         them, separated by commas or as a list, such as `[\"[::]:4433\", \"[::]:443\"]`",
    ),
    |_| SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 4433).into(),
    parse::listen,
    |addresses| Some(addresses.to_toml()),
)
.flag("--listen", "ADDR:PORT")
.meaning("UDP addresses for agents")
.reason(
    "Port 4433 needs no privilege. Port 443 suits networks that block other ports: agents learn all ports of the \
     gateway in a session, and try the next one where one is silent",
);

/// `state-dir`
pub const STATE_DIR: Setting<PathBuf> = Setting::path("state-dir", "a directory", parse::default_state_dir)
    .flag("--state-dir", "DIR")
    .default_text("`/var/lib/longhaul-gateway` for root, else `~/.local/state/longhaul-gateway`")
    .meaning("directory of keys and devices")
    .reason("Created at the first start, accessible to its owner only. `XDG_STATE_HOME` is respected");

/// `admin-socket`
pub const ADMIN_SOCKET: Setting<Option<PathBuf>> = Setting::new(
    "admin-socket",
    Form::Text("a path of at most about 100 characters, or `off`"),
    |environment| Some(parse::default_admin_socket(environment, PathBuf::new())),
    parse::admin_socket,
    |path| {
        Some(quoted(
            &path.as_ref().map_or_else(|| "off".to_owned(), |path| path.display().to_string()),
        ))
    },
)
.flag("--admin-socket", "PATH")
.default_text("`admin.sock` in the directory of the variable `RUNTIME_DIRECTORY`, which systemd sets, else in the state directory")
.meaning("socket by which `invite` and `device` change the devices of a running gateway")
.reason(
    "Only root and the user who runs the gateway may use it. A gateway writes the path into \
         `gateway.lock` in its state directory, where the commands find it. With `off` the \
         commands change the file, which the gateway reads within a second, and `device list` \
         shows no sessions",
);

/// `public-address`
pub const PUBLIC_ADDRESS: Setting<Option<String>> = Setting::new(
    "public-address",
    Form::Text("HOST:PORT, such as `gw.example.org:4433`, or `none`"),
    |_| None,
    parse::public_address,
    |address| Some(quoted(address.as_deref().unwrap_or("none"))),
)
.flag("--public-address", "HOST:PORT")
.reloadable()
.meaning("address by which agents reach this gateway, for invites")
.reason(
    "A gateway cannot know it: names, port forwarding and address translation are outside of \
         its machine. Without it `invite` needs `--address`",
);

/// A table of names, and its text.
#[derive(Clone, Debug, Default)]
pub struct ResolveTable {
    /// The names.
    pub map: ResolveMap,
    /// The names and addresses as they are written.
    pub entries: BTreeMap<String, String>,
}

/// `fetch.resolve`
pub const FETCH_RESOLVE: Setting<ResolveTable> = Setting::new(
    "fetch.resolve",
    Form::Text("NAME=ADDR; in the file a table, such as `{ \"*.test\" = \"10.79.0.1\" }`"),
    |_| ResolveTable::default(),
    parse::resolve_table,
    |table| Some(parse::show_table(&table.entries)),
)
.repeated_flag("--resolve", "NAME=ADDR")
.reloadable()
.meaning("names that are resolved from this table instead of DNS")
.reason(
    "A host, `*.suffix` or `*`, optionally with `:PORT`, maps to an address, optionally with \
         another port. The most specific entry applies. The address guard does not check \
         addresses in this table, because the operator has chosen them",
);

/// `fetch.extra-ca`
pub const FETCH_EXTRA_CA: Setting<Vec<PathBuf>> = Setting::new(
    "fetch.extra-ca",
    Form::Text("files (PEM)"),
    |_| Vec::new(),
    |value, _| Ok(value.texts()?.into_iter().map(PathBuf::from).collect()),
    |paths| Some(list(paths.iter().map(|path| path.display()))),
)
.repeated_flag("--extra-ca", "FILE")
.reloadable()
.meaning("certificate authorities that are trusted in addition to the public ones");

/// `fetch.deny-keys`
pub const FETCH_DENY_KEYS: Setting<DenyList> = Setting::new(
    "fetch.deny-keys",
    Form::Text("SHA-256 of the subject public key info, in hexadecimal or base64"),
    |_| DenyList::default(),
    parse::deny_keys,
    |keys| Some(list(keys.iter())),
)
.repeated_flag("--deny-key", "HASH")
.reloadable()
.meaning("public keys that no certificate of an origin's chain may have")
.reason(
    "The chain reaches from the origin's own certificate to the authority's. Use it for \
         authorities that you do not trust and for keys that are known to be stolen. Browsers \
         have similar lists and get them with their updates",
);

/// `fetch.dns`
pub const FETCH_DNS: Setting<DnsServers> = Setting::new(
    "fetch.dns",
    Form::Text("`system`, or addresses, separated by commas or as a list"),
    |_| DnsServers::default(),
    parse::dns,
    |servers| {
        Some(match servers {
            // No text of the setting means the library, which only agents use.
            DnsServers::System | DnsServers::Library => list(["system"]),
            DnsServers::Explicit(servers) => list(servers),
        })
    },
)
.flag("--dns", "SERVERS")
.reloadable()
.meaning("name servers");

/// `fetch.response-timeout`
pub const FETCH_RESPONSE_TIMEOUT: Setting<Duration> =
    Setting::duration("fetch.response-timeout", SECOND, HOUR, |_| {
        Duration::from_secs(300)
    })
    .reloadable()
    .meaning("longest wait from the end of a request to the head of an origin's response")
    .reason("Browsers wait for 300 s, too. Long polls, slow searches and exports are legitimate");

/// `fetch.idle-timeout`
pub const FETCH_IDLE_TIMEOUT: Setting<Duration> =
    Setting::duration("fetch.idle-timeout", SECOND, DAY, |_| HOUR)
        .reloadable()
        .meaning("longest time without data within a response body")
        .reason(
            "Browsers wait for ever: event streams and exports may be silent for long. An origin that is gone is noticed \
             earlier, by TCP",
        );

/// `guard.allow`
pub const GUARD_ALLOW: Setting<Vec<Cidr>> = Setting::new(
    "guard.allow",
    Form::Text("address ranges, such as `10.0.0.0/8`"),
    |_| Vec::new(),
    parse::ranges,
    |ranges| Some(list(ranges)),
)
.repeated_flag("--allow", "CIDR")
.reloadable()
.meaning(
    "address ranges that fetches and tunnels may connect to although the ranges are not \
         public",
)
.reason(
    "All other private, loopback, link-local, metadata and shared (CGNAT) addresses and the \
         gateway's own addresses are rejected, in every notation and also if DNS returns them, so \
         that no device can reach the operator's network",
);

/// A smaller cache could not hold the objects of one page, because a body may take an eighth. A larger file
/// takes too long to check or to set aside.
const CACHE: Form = Form::Size {
    least: ByteCount::mib(16),
    most: Some(ByteCount::mib(1024 * 1024)),
    zero: Some("no cache"),
};

/// `cache.size`
pub const CACHE_SIZE: Setting<ByteCount> = Setting::size("cache.size", CACHE, |_| ByteCount::mib(2048))
    .flag("--cache-size", "SIZE")
    .meaning("maximum size of the cache file")
    .reason(
        "The default holds some weeks of pages for a few dozen people and fits the smallest \
         rented machines. SQLite's write-ahead log needs up to about 16 MiB more. One body may \
         take an eighth of the cache",
    );

/// `cache.dir`
pub const CACHE_DIR: Setting<PathBuf> = Setting::path("cache.dir", "a directory", |_| PathBuf::from("cache"))
    .flag("--cache-dir", "DIR")
    .default_text("`cache` in the state directory")
    .meaning("directory of the cache")
    .reason(
        "Only one gateway may use it. The cache contains the responses that devices fetched, \
         including private ones, each in the partition of its device: keep it as private as the \
         keys. If the directory is not writable, the gateway keeps the cache in memory and logs a \
         warning",
    );

/// `coding.effort`
pub const CODING_EFFORT: Setting<EffortPolicy> = Setting::new(
    "coding.effort",
    Form::OneOf(&["link", "fixed"]),
    |_| EffortPolicy::ByLink,
    |value, form| Ok([EffortPolicy::ByLink, EffortPolicy::Fixed][form.word(value)?]),
    |effort| match effort {
        EffortPolicy::ByLink => Some(quoted("link")),
        EffortPolicy::Fixed => Some(quoted("fixed")),
        // The setting has no such word: `without` switches compression off.
        EffortPolicy::Off => None,
    },
)
.flag("--coding-effort", "WHAT")
.reloadable()
.meaning("effort for the compression of text and images")
.reason(
    "`link` adapts the effort to each device's link and to the processor load, for the \
         shortest load time. `fixed` uses Brotli 5 without delta bases for text and WebP of \
         quality 75 for images on every link: the lowest and steadiest processor load, and a \
         reference for comparisons",
);

/// Less memory hardly fits a screen-sized image; more exceeds any machine.
const PICTURES: Form = Form::Size {
    least: ByteCount::mib(32),
    most: Some(ByteCount::mib(64 * 1024)),
    zero: None,
};

/// `pictures.memory`
pub const PICTURES_MEMORY: Setting<ByteCount> =
    Setting::size("pictures.memory", PICTURES, |_| ByteCount::mib(256))
        .meaning("memory for all images that are converted at the same time")
        .reason(
            "Counted as the peak memory of decoding and encoding. Large images may use three quarters \
         of it, so that small images never wait for large ones. Worker processes convert the \
         images, each with its own memory limit; an image that does not fit is sent as its origin \
         sent it. Each worker process takes up to 12 MiB more. One image of 16 megapixels and \
         some small ones fit into 256 MiB, which the smallest rented machines have",
        );

/// `pictures.max-megapixels`
pub const PICTURES_MAX_MEGAPIXELS: Setting<usize> = Setting::count("pictures.max-megapixels", 1000, |_| 16)
    .meaning("maximum number of megapixels of an image that is converted")
    .reason(
        "All frames of an animation together may have one and a half times as many. Screens have \
         2 to 8 megapixels, phone photos mostly 12; a file of 166 kB may claim any number",
    );

/// `pictures.workers`
pub const PICTURES_WORKERS: Setting<usize> = Setting::count("pictures.workers", 1024, |_| {
    std::thread::available_parallelism().map_or(1, usize::from)
})
.default_text("number of processor cores")
.meaning("images of one device that are converted at the same time")
.reason(
    "Each has its own process; one more process is reserved for other devices. More processes \
         would only share the same cores",
);

/// `tunnel.ports`
pub const TUNNEL_PORTS: Setting<PortSet> = Setting::new(
    "tunnel.ports",
    Form::Text("ports and ranges, such as `80,443,1024-65535`"),
    |_| PortSet::all_but_smtp(),
    parse::ports,
    |ports| Some(list(ports.texts())),
)
.flag("--tunnel-ports", "PORTS")
.reloadable()
.meaning("ports that CONNECT may reach")
.reason(
    "Browsers use any port (WebSocket, Git, chat). With port 25 the gateway could be abused \
         to send mail, which would get its address onto block lists",
);

/// `tunnel.idle-timeout`
pub const TUNNEL_IDLE_TIMEOUT: Setting<Duration> =
    Setting::duration("tunnel.idle-timeout", Duration::from_secs(10), WEEK, |_| {
        Duration::from_secs(30 * 60)
    })
    .reloadable()
    .meaning("a tunnel ends after this time without a byte in either direction")
    .reason(
        "It is longer than the outages and sleeps that a tunnel should survive: a shorter time \
         would break chat and push connections. A tunnel costs about 100 KiB",
    );

/// `tunnel.udp-ports`
pub const TUNNEL_UDP_PORTS: Setting<PortSet> = Setting::new(
    "tunnel.udp-ports",
    Form::Text("ports and ranges, such as `53,443,1024-65535`; an empty list for none"),
    |_| PortSet::datagrams(),
    parse::ports,
    |ports| Some(list(ports.texts())),
)
.flag("--tunnel-udp-ports", "PORTS")
.reloadable()
.meaning("ports to which UDP datagrams of SOCKS clients are sent")
.reason(
    "DNS (53, over QUIC 853), NTP (123), HTTP/3 (443), and calls, games and VPNs, which use ports from 1024 on. The \
         other ports belong to protocols of local networks (NetBIOS, SNMP, portmap) that answer a small datagram with many large ones, \
         for which the gateway's address would be blocked",
);

/// `tunnel.udp-idle-timeout`
pub const TUNNEL_UDP_IDLE_TIMEOUT: Setting<Duration> = Setting::duration(
    "tunnel.udp-idle-timeout",
    Duration::from_secs(10),
    HOUR,
    |_| Duration::from_secs(120),
)
.reloadable()
.meaning("the gateway forgets a host, and closes the UDP port of an association, after this time without a datagram to it")
.reason(
    "NATs keep a mapping for two minutes at least (RFC 4787 section 4.3), and programs rely on that. The next datagram \
         opens a port again",
);

/// The text of a setting that is an address or `off`.
#[expect(
    clippy::ref_option,
    reason = "the function of a setting gets a reference to its value"
)]
pub(super) fn address_or_off(address: &Option<SocketAddr>) -> Option<String> {
    let text = address.map_or_else(|| "off".to_owned(), |address| address.to_string());
    Some(quoted(&text))
}

/// `metrics.listen`
pub const METRICS_LISTEN: Setting<Option<SocketAddr>> = Setting::new(
    "metrics.listen",
    Form::Text("a loopback address and port, such as `127.0.0.1:9433`, or `off`"),
    |_| None,
    parse::metrics_listen,
    address_or_off,
)
.flag("--metrics", "ADDR:PORT")
.meaning("address of a page with Prometheus metrics")
.reason("Metrics have no access control");

/// `carriers.tls`
pub const CARRIERS_TLS: Setting<Option<SocketAddr>> = Setting::new(
    "carriers.tls",
    Form::Text("`off`, `on` for `[::]:443`, or an address and port, such as `0.0.0.0:443`"),
    |_| None,
    parse::carrier_address,
    address_or_off,
)
.flag("--carrier-tls", "ADDR:PORT")
.meaning("TCP address on which agents reach this gateway from networks that block UDP")
.reason(
    "Off, because another server may use port 443. Agents expect port 443 of the gateway's \
         address (`carrier.tls-port`). The carrier is a WebSocket over TLS 1.3; every other request \
         gets the status 404. The port may be that of `clientless.tls`: both settings then name the same address, \
         or all addresses",
);

/// `carriers.quic`
pub const CARRIERS_QUIC: Setting<Option<SocketAddr>> = Setting::new(
    "carriers.quic",
    Form::Text("`off`, `on` for `[::]:443`, or an address and port, such as `0.0.0.0:443`"),
    |_| None,
    parse::carrier_address,
    address_or_off,
)
.flag("--carrier-quic", "ADDR:PORT")
.meaning("UDP address on which agents reach this gateway by QUIC, from networks that pass no other UDP")
.reason(
    "Off, because another server may use the port. It may be one of `listen`: both settings then name the same \
         address, or all addresses. Agents expect port 443 of the gateway's address (`carrier.quic-port`). Certificate \
         and key are those of `carriers.tls`",
);

/// `carriers.cert`
pub const CARRIERS_CERT: Setting<Option<PathBuf>> = Setting::new(
    "carriers.cert",
    Form::Text("a file (PEM)"),
    |_| None,
    |value, form| form.path(value).map(Some),
    |path| Some(quoted(&path.as_ref()?.display().to_string())),
)
.default_text("`carrier.pem` in the state directory, made at the first start")
.meaning("certificate chain of `carriers.tls` and `carriers.quic`")
.reason(
    "Agents accept each certificate, because the session inside authenticates the gateway. A \
         certificate of a public authority makes the gateway look like any other server. On the port of \
         `clientless.tls` the certificate is `clientless.certificate`, also for `carriers.quic`; leave this setting out",
);

/// `carriers.key`
pub const CARRIERS_KEY: Setting<Option<PathBuf>> = Setting::new(
    "carriers.key",
    Form::Text("a file (PEM)"),
    |_| None,
    |value, form| form.path(value).map(Some),
    |path| Some(quoted(&path.as_ref()?.display().to_string())),
)
.default_text("`carrier.key` in the state directory, made at the first start")
.meaning("private key of `carriers.cert`");

/// `portal.listen`
pub const PORTAL_LISTEN: Setting<Option<SocketAddr>> = Setting::new(
    "portal.listen",
    Form::Text("`off`, `on` for `[::]:80`, or an address and port, such as `0.0.0.0:80`"),
    |_| None,
    parse::portal_address,
    address_or_off,
)
.flag("--portal-listen", "ADDR:PORT")
.meaning("TCP address on which agents find out, by plain HTTP, whether a login page (captive portal) is in the way")
.reason(
    "Off, because another server may use port 80. Agents expect port 80 of the gateway's address (`portal.port`). Without \
         it an agent asks a public host instead (`portal.check` of the agent). Every other request gets the status 404",
);

/// `away.keep`
pub const AWAY_KEEP: Setting<Duration> =
    Setting::duration("away.keep", Duration::from_secs(30 * 60), DAY, |_| 3 * HOUR)
        .meaning("how long a session whose device is silent is kept while something is in progress in it")
        .reason(
            "What was asked for before an outage arrives after it, and no origin is asked twice. The default \
         is longer than flights and train rides without a network usually are. A session in which nothing is in \
         progress ends after 30 minutes; the agent then opens another one in a round trip. A session that \
         waits takes up to 8 MiB of memory, and a place of `limits.sessions`",
        );

/// Forms of the sizes of `away`.
const WAITING: Form = Form::Size {
    least: ByteCount::mib(1),
    most: Some(ByteCount::mib(1024 * 1024)),
    zero: Some("nothing on disk"),
};

/// `away.device-size`
pub const AWAY_DEVICE_SIZE: Setting<ByteCount> =
    Setting::size("away.device-size", WAITING, |_| ByteCount::mib(256))
        .meaning("maximum bytes on disk that wait for one device whose hop is away")
        .reason(
            "The gateway goes on fetching the downloads in progress into files without a name in `cache.dir`, \
         which end with the download, with the session and with the gateway. Beyond this size the origin waits, \
         as it does while the hop works; many origins end a download that stands still for a minute. The \
         default holds most of what a person downloads at a time",
        );

/// `away.total-size`
pub const AWAY_TOTAL_SIZE: Setting<ByteCount> =
    Setting::size("away.total-size", WAITING, |_| ByteCount::mib(1024))
        .meaning("maximum bytes on disk that wait for all devices together")
        .reason("The default leaves most of the disk of the smallest rented machines free");

/// `limits.sessions`
pub const LIMITS_SESSIONS: Setting<usize> = Setting::count("limits.sessions", 1_000_000, |_| 1000)
    .reloadable()
    .meaning("concurrent sessions")
    .reason("An idle session takes less than 100 KiB, a busy one a few MiB");

/// `limits.streams-per-session`
pub const LIMITS_STREAMS_PER_SESSION: Setting<usize> =
    Setting::count("limits.streams-per-session", 4096, |_| 256)
        .reloadable()
        .meaning("fetches and tunnels that a session may have open")
        .reason(
            "Further ones wait. Chromium opens up to 225 connections through a proxy. Each takes \
         about 0.5 MiB besides its body, of which a fetch usually buffers 1 MiB and all fetches \
         together 256 MiB",
        );

/// `limits.streams-per-device`
pub const LIMITS_STREAMS_PER_DEVICE: Setting<usize> =
    Setting::count("limits.streams-per-device", 65_536, |_| 512)
        .reloadable()
        .meaning("fetches and tunnels of all sessions of one device together")
        .reason(
            "Further ones wait. The old session of a device that reconnects may exist for a while \
         beside its successor",
        );

/// `limits.associations-per-device`
pub const LIMITS_ASSOCIATIONS_PER_DEVICE: Setting<usize> =
    Setting::count("limits.associations-per-device", 4096, |_| 64)
        .reloadable()
        .meaning("UDP associations of SOCKS clients of one device")
        .reason(
            "Further ones are refused. A program has one for each of its sockets. Each takes one or two UDP ports of the gateway, \
         a stream, and up to 256 remembered hosts",
        );

/// `limits.queue-timeout`
pub const LIMITS_QUEUE_TIMEOUT: Setting<Duration> =
    Setting::duration("limits.queue-timeout", SECOND, HOUR, |_| Duration::from_secs(60))
        .reloadable()
        .meaning("longest time that a request waits for a free slot within the limits of its device")
        .reason(
            "The slots are those of the gateway and of the origin host (32 concurrent HTTP/1.1 \
         requests per host, 6 of them guaranteed to each device). After this time the request \
         fails with an explanation. A request that has run for more than 30 s gives up its slot \
         at the host, so only a device that uses up all its limits waits that long",
        );
