//! Descriptions of the agent's settings.
use std::{net::SocketAddr, path::PathBuf, time::Duration};

use longhaul_origin::Cidr;
use longhaul_session::ImageLevel;
use longhaul_settings::{
    Configured, EmptyVariables, FlagScope, Form, Program, Setting, list, quoted, units::show_duration,
};
use longhaul_types::{ByteCount, Invite, LinkProfile};

pub use longhaul_service::settings::{LOG, LOG_FORMAT};

use super::{
    DEFAULT_CACHE_SIZE, DEFAULT_CONTROL, DEFAULT_FALLBACK, DEFAULT_IMAGE_LEVEL, DEFAULT_LISTEN,
    DEFAULT_PAGE_AFTER, DEFAULT_PATIENCE, DEFAULT_QUEUE_TIME, Fallback, MIN_CACHE_SIZE,
    access::{self, PasswordFile},
    default_state_dir, parse,
    proxy::{self, CredentialsFile, ProxySetting},
};
use crate::{
    gateway::{Carriers, PinPolicy, PortalCheck, PortalSettings},
    https::Accelerate,
    listener::UserId,
    networks::Metered,
};

/// Stands for the agent's settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agent;

impl Configured for Agent {
    const PROGRAM: &'static Program = &Program {
        name: "longhaul-agent",
        settings: &[
            &LOG,
            &LOG_FORMAT,
            &LISTEN,
            &LISTEN_USERS,
            &LISTEN_ALLOW,
            &LISTEN_PASSWORD_FILE,
            &CONTROL,
            &STATE_DIR,
            &INVITE,
            &LINK,
            &LINK_REMEMBER,
            &LINK_METERED,
            &CARRIER,
            &CARRIER_TLS_PORT,
            &CARRIER_QUIC_PORT,
            &CARRIER_PROXY,
            &CARRIER_PROXY_PASSWORD_FILE,
            &CARRIER_PIN,
            &PORTAL_PORT,
            &PORTAL_CHECK,
            &IMAGE_LEVEL,
            &FALLBACK_AFTER,
            &DIRECT_ALLOW,
            &AWAY_PAGE_AFTER,
            &AWAY_QUEUE,
            &AWAY_QUEUE_TIME,
            &CACHE_SIZE,
            &CACHE_DIR,
            &HTTPS_ACCELERATE,
            &HTTPS_EXCEPT,
            &PUSH_ENABLED,
            &PUSH_PATIENCE,
            &SESSION_EARLY_CREDENTIALS,
        ],
        system_file: "/etc/longhaul/agent.toml",
        user_file: Some("longhaul/agent.toml"),
        empty_variables: EmptyVariables::AreUnset,
        other_variables: &[],
        flag_scope: FlagScope::OneCommand,
    };
}

pub(super) const RANGES: Form =
    Form::Text("address ranges, such as `192.168.1.0/24`, separated by commas or as a list");
const HOSTS: &str = "host names such as `example.org`, separated by commas or as a list";

/// `listen`
pub const LISTEN: Setting<SocketAddr> = Setting::new(
    "listen",
    Form::Text("an address and port, such as `127.0.0.1:3128` or `[::1]:3128`"),
    |_| DEFAULT_LISTEN,
    parse::address,
    |address| Some(quoted(&address.to_string())),
)
.or_key("listen.address")
.flag("--listen", "ADDR:PORT")
.meaning("proxy address for browsers; port 0 selects a free port")
.reason(
    "The default is the common port of HTTP proxies, on this machine only. An address that \
         other machines can reach requires `listen.allow` and `listen.password-file`; without \
         them the agent does not start, because it would be an open relay",
);

/// `listen.users`
pub const LISTEN_USERS: Setting<Vec<UserId>> = Setting::new(
    "listen.users",
    Form::Text("names or numbers, separated by commas or as a list"),
    |_| Vec::new(),
    access::users,
    |users| Some(list(users)),
)
.flag("--listen-users", "USERS")
.reloadable()
.meaning("users of this machine whom the agent serves in addition to the user who runs it")
.reason(
    "Other users get an error page: what the agent loads and stores belongs to its user. An \
         agent that runs as root serves root, so list the people here",
);

/// `listen.allow`
pub const LISTEN_ALLOW: Setting<Vec<Cidr>> = Setting::new(
    "listen.allow",
    RANGES,
    |_| Vec::new(),
    parse::ranges,
    |ranges| Some(list(ranges)),
)
.flag("--listen-allow", "CIDRS")
.reloadable()
.meaning("address ranges of other machines that the agent serves")
.reason("Every client in these ranges needs a password");

/// `listen.password-file`
pub const LISTEN_PASSWORD_FILE: Setting<Option<PasswordFile>> = Setting::new(
    "listen.password-file",
    Form::Text("a file with lines `name:password`"),
    |_| None,
    |value, form| access::read_passwords(&form.path(value)?).map(Some),
    |file| Some(quoted(&file.as_ref()?.path.display().to_string())),
)
.flag("--listen-password-file", "FILE")
.default_text("none")
.reloadable()
.meaning("file with the passwords of clients, readable by its owner only")
.reason(
    "Passwords have at least 12 characters. Once the key is set, every client needs one of \
         the passwords, including clients on this machine (`Proxy-Authorization: Basic`). Each \
         name is a separate client. Passwords cross the network unencrypted: use them only in a \
         network that nobody can eavesdrop on, or through a VPN",
);

/// `control`
pub const CONTROL: Setting<SocketAddr> = Setting::new(
    "control",
    Form::Text("a loopback address and port, such as `127.0.0.1:3129` or `[::1]:3129`"),
    |_| DEFAULT_CONTROL,
    parse::loopback_address,
    |address| Some(quoted(&address.to_string())),
)
.flag("--control", "ADDR:PORT")
.meaning("address of the status page, `/status.json`, `/proxy.pac` and `POST /pictures?level=`")
.reason(
    "The user who runs the agent sees everything; changes, and other users, need the token \
         (below)",
);

/// `state-dir`
pub const STATE_DIR: Setting<Option<PathBuf>> = Setting::new(
    "state-dir",
    Form::Text("a directory"),
    default_state_dir,
    |value, form| form.path(value).map(Some),
    |path| Some(quoted(&path.as_ref()?.display().to_string())),
)
.flag("--state-dir", "DIR")
.default_text("`~/.local/state/longhaul-agent`")
.meaning("directory of the data that the agent keeps between runs")
.reason(
    "It contains the invite, the newest token, what is remembered about networks and, while \
         the agent runs, its addresses and the token of the control port. It is accessible to its \
         owner only. `XDG_STATE_HOME` is respected",
);

/// `invite`
pub const INVITE: Setting<Option<Invite>> = Setting::new(
    "invite",
    Form::Text("the whole line from the gateway's operator"),
    |_| None,
    parse::invite,
    // The invite contains the device's secret key.
    |_| None,
)
.flag("--invite", "LINE")
.default_text("the file `invite` in the state directory")
.meaning(
    "gateway address and key, and the key of this device. Other users of the machine can see \
         flags: prefer `longhaul enroll LINE`, which writes the file",
);

/// `link`
pub const LINK: Setting<Option<LinkProfile>> = Setting::new(
    "link",
    Form::Text(
        "gprs-3+1, gprs-class6, edge, cdma-1x, umts-384, umts-dch256, lte, geo-sat, leo-sat, \
         wlan-lossy, dialup or lan-fast",
    ),
    |_| None,
    parse::link,
    |profile| profile.as_ref().and_then(parse::name_of_link).map(quoted),
)
.or_key("link.profile")
.flag("--link", "PROFILE")
.default_text("remembered or measured")
.meaning("profile of the slow link")
.reason(
    "The transport starts at the rate of the profile and corrects a wrong profile within the \
         first round trips. Without a profile the agent uses what it remembers about the network \
         (`link.remember`)",
);

/// `link.remember`
pub const LINK_REMEMBER: Setting<bool> = Setting::yes_no("link.remember", |_| true)
    .flag("--link-remember", "YES|NO")
    .meaning(
        "whether the agent remembers rates and round-trip time of the links of up to 64 networks, \
         for 30 days, and starts with them when it is in the same network again",
    )
    .reason(
        "A session on a known link loads its first page in a fraction of the time. The file \
         `networks` of the state directory names networks only by a keyed hash, and nothing of it \
         is sent; `longhaul-agent forget` deletes it. `no`: nothing is stored, and an existing \
         file is neither read nor changed",
    );
/// `link.metered`
pub const LINK_METERED: Setting<Metered> = Setting::new(
    "link.metered",
    Form::Text("`yes`, `no` or `auto`"),
    |_| Metered::No,
    parse::metered,
    |metered| {
        Some(quoted(match metered {
            Metered::Yes => "yes",
            Metered::No => "no",
            Metered::Auto => "auto",
        }))
    },
)
.flag("--link-metered", "YES|NO|AUTO")
.meaning("whether the user pays for each byte of the link, so that it is measured by as few bytes as possible")
.reason(
    "On a link that it does not know, the agent lets the gateway send one full packet and then a train of at most \
         41 kB, which finds the rate. `yes`: only the packet, so that the first page of a fast link takes some round trips \
         longer. `auto`: as NetworkManager says about the interface on the way to the gateway (`nmcli`, within 0.5 s), which \
         guesses it for modems and phones; `no` where it does not know or is not there. Not the default, because each \
         session on an unknown link then waits for the answer",
);

/// `carrier`
pub const CARRIER: Setting<Carriers> = Setting::new(
    "carrier",
    Form::Text("`auto`, or carriers separated by commas or as a list: `udp`, `tls`, `quic`"),
    |_| Carriers::AUTO,
    parse::carriers,
    |carriers| Some(quoted(&carriers.names())),
)
.or_key("carrier.use")
.flag("--carrier", "CARRIERS")
.meaning("protocols that may carry the session to the gateway")
.reason(
    "`udp` is the fastest and has the least overhead. `tls` is a WebSocket over TLS, for networks \
         that block UDP; the gateway needs `carriers.tls`. `quic` is for networks that pass no other UDP; \
         the gateway needs `carriers.quic`. `auto`, or all names, uses UDP where the gateway answers over \
         UDP, else TLS, and QUIC where TLS fails or QUIC works and UDP stays silent",
);

/// `carrier.tls-port`
pub const CARRIER_TLS_PORT: Setting<usize> = Setting::count("carrier.tls-port", 65_535, |_| {
    usize::from(longhaul_carriers::DEFAULT_PORT)
})
.flag("--carrier-tls-port", "PORT")
.meaning("TCP port of the gateway for the carrier `tls`")
.reason("Networks that block UDP pass the port of HTTPS");

/// `carrier.quic-port`
pub const CARRIER_QUIC_PORT: Setting<usize> = Setting::count("carrier.quic-port", 65_535, |_| {
    usize::from(longhaul_carriers::DEFAULT_PORT)
})
.flag("--carrier-quic-port", "PORT")
.meaning("UDP port of the gateway for the carrier `quic`")
.reason("Networks that pass only QUIC pass the port of HTTPS");

/// `carrier.proxy`
pub const CARRIER_PROXY: Setting<ProxySetting> = Setting::new(
    "carrier.proxy",
    Form::Text("`system`, `off`, or an address such as `http://proxy.example.org:3128`"),
    |_| ProxySetting::System,
    proxy::proxy,
    |setting| Some(quoted(&setting.text())),
)
.flag("--carrier-proxy", "URL")
.meaning(
    "HTTP proxy of a network that lets nothing else out. The carrier `tls` reaches the gateway through it (CONNECT), and \
         so do requests that the agent sends without the gateway",
)
.reason(
    "`system` is the proxy of the variables `https_proxy`, `HTTPS_PROXY`, `all_proxy` or `ALL_PROXY` of the agent's own \
         environment, except for the hosts of `no_proxy` or `NO_PROXY` and for this computer; an address of the agent \
         itself is ignored there. An address in this setting is used for every host. Name and password may be in it \
         (`http://NAME:PASSWORD@HOST:PORT`, percent-encoded), or in `carrier.proxy-password-file`. Only the Basic method \
         is supported; for NTLM, Kerberos, SOCKS or a script, run a local proxy that can, such as cntlm. UDP never uses \
         the proxy. Addresses of private networks are reached without it",
);

/// `carrier.proxy-password-file`
pub const CARRIER_PROXY_PASSWORD_FILE: Setting<Option<CredentialsFile>> = Setting::new(
    "carrier.proxy-password-file",
    Form::Text("a file with one line `name:password`"),
    |_| None,
    |value, form| proxy::read_credentials(&form.path(value)?).map(Some),
    |file| Some(quoted(&file.as_ref()?.path.display().to_string())),
)
.flag("--carrier-proxy-password-file", "FILE")
.default_text("none")
.meaning("file with name and password for the HTTP proxy, readable by its owner only")
.reason(
    "Other users of the machine can see flags and the environment of root's services. Name and password cross the \
         network to the proxy unencrypted, as the method Basic has it",
);

/// `carrier.pin`
pub const CARRIER_PIN: Setting<PinPolicy> = Setting::new(
    "carrier.pin",
    Form::OneOf(&["note", "require"]),
    |_| PinPolicy::Note,
    parse::pin,
    |policy| {
        Some(quoted(match policy {
            PinPolicy::Note => "note",
            PinPolicy::Require => "require",
        }))
    },
)
.flag("--carrier-pin", "WHAT")
.meaning(
    "what happens if the certificate of the carriers `tls` and `quic` has another key than the gateway's, because somebody \
         on the way ends TLS",
)
.reason(
    "`note`: the status shows it, and the session goes on: what is intercepted is the ciphertext of the session, whose \
         gateway the invite authenticates. `require`: the carrier is refused. The agent learns the key from the gateway in \
         a session and remembers it; before the first session nothing is compared",
);

/// `portal.port`
pub const PORTAL_PORT: Setting<usize> = Setting::count("portal.port", 65_535, |_| {
    usize::from(PortalSettings::DEFAULT_PORT)
})
.flag("--portal-port", "PORT")
.meaning("TCP port of the gateway on which the agent finds out whether a login page (captive portal) is in the way")
.reason(
    "The gateway answers there if it has `portal.listen`. Port 80, because portals answer requests of plain HTTP. The agent \
         asks only while the gateway is silent",
);

/// `portal.check`
pub const PORTAL_CHECK: Setting<PortalCheck> = Setting::new(
    "portal.check",
    Form::Text("`on`, `off`, or the address of a page that answers 204, such as `http://check.example.org/generate_204`"),
    |_| PortalCheck::Public,
    parse::portal_check,
    |check| {
        Some(quoted(match check {
            PortalCheck::Public => "on",
            PortalCheck::Off => "off",
            PortalCheck::Url(url) => url.as_str(),
        }))
    },
)
.flag("--portal-check", "URL")
.meaning("who is asked about a login page if the gateway does not answer on `portal.port`")
.reason(
    "`on`: `http://detectportal.firefox.com/success.txt`, as Firefox does in each new network. It learns nothing but the \
         address of this computer, and is asked only in a network in which no session was open yet, and not if the gateway \
         has announced its own port. `off`: nobody; then only a redirect in the place of the gateway is recognised",
);

/// `image-level`
pub const IMAGE_LEVEL: Setting<ImageLevel> = Setting::new(
    "image-level",
    Form::OneOf(&["original", "high", "medium", "low", "text"]),
    |_| DEFAULT_IMAGE_LEVEL,
    parse::image_level,
    |level| Some(quoted(level.name())),
)
.flag("--image-level", "LEVEL")
.reloadable()
.meaning("fidelity of the images that a page displays")
.reason(
    "`original`: unchanged; `high`: differences are hard to find side by side; `medium`: \
         slight differences; `low`: obvious differences, recognisable content; `text`: no images, \
         browsers show the alternative text. The status page changes the level until the agent \
         ends. A reload without caches (Ctrl+Shift+R) shows the original images of a page at \
         every level. At `medium` and `low`, images that are larger than the screen are scaled to \
         the screen. Only images that a page displays are converted, never images that scripts \
         read, downloads, or responses that the origin marks `no-transform`. If sending the \
         original is faster than converting it, as on a fast and otherwise idle link, the \
         original is sent. Images are most of the bytes of most pages",
);

/// `fallback.after`
pub const FALLBACK_AFTER: Setting<Fallback> = Setting::new(
    "fallback.after",
    Form::Text("a time with its unit, such as `10s`, or `never`"),
    |_| Fallback::After(DEFAULT_FALLBACK),
    parse::fallback,
    |fallback| {
        Some(quoted(&match fallback {
            Fallback::After(time) => show_duration(*time),
            Fallback::Never => "never".to_owned(),
        }))
    },
)
.flag("--fallback-after", "TIME")
.reloadable()
.meaning(
    "time without an answer from the gateway after which the agent loads pages without the \
         gateway",
)
.reason(
    "The default is longer than the start of a session on the slowest links and shorter than \
         users wait",
);

/// `direct.allow`
pub const DIRECT_ALLOW: Setting<Vec<Cidr>> = Setting::new(
    "direct.allow",
    RANGES,
    |_| Vec::new(),
    parse::ranges,
    |ranges| Some(list(ranges)),
)
.flag("--direct-allow", "CIDRS")
.reloadable()
.meaning(
    "address ranges that the agent may reach without the gateway although they are loopback, \
         link-local or private addresses",
)
.reason(
    "Without an entry the agent rejects such addresses in this mode, except a private address \
         (RFC 1918, RFC 4193, RFC 6598) that the browser itself names as an IP address: a host \
         name of a foreign site that resolves into your network is an attack (DNS rebinding). The \
         agent's own ports are always rejected",
);

const CACHE: Form = Form::Size {
    least: MIN_CACHE_SIZE,
    most: None,
    zero: Some("no cache"),
};

/// `away.page-after`
pub const AWAY_PAGE_AFTER: Setting<Option<Duration>> = Setting::new(
    "away.page-after",
    Form::Text("a time with its unit, such as `10s`, or `never`"),
    |_| Some(DEFAULT_PAGE_AFTER),
    parse::page_after,
    |after| Some(quoted(&after.map_or_else(|| "never".to_owned(), show_duration))),
)
.flag("--away-page-after", "TIME")
.reloadable()
.meaning(
    "silence of a gateway that has answered before, after which the browser gets a page that says that \
         the link is away, if the page cannot be loaded without the gateway either",
)
.reason(
    "The request goes on waiting, and the page completes by itself when the link is back. With `never`, \
         requests wait without a page for two minutes and then fail. Only pages that are opened in a tab get \
         it; other requests wait as long as the browser does",
);

/// `away.queue`
pub const AWAY_QUEUE: Setting<bool> = Setting::yes_no("away.queue", |_| false)
    .flag("--away-queue", "YES|NO")
    .reloadable()
    .meaning(
        "whether a page that was asked for while the link was away is loaded when it is back although its \
         tab was closed in the meantime",
    )
    .reason(
        "Off, because it costs bytes, and a visit at the site, that nobody may want any more. At most 64 \
         pages wait, in memory only; the status page lists and cancels them, and `longhaul-agent forget` \
         removes them. The answer waits until the page is opened again. Without it, a page is given up two \
         minutes after its tab was closed",
    );

/// `away.queue-time`
pub const AWAY_QUEUE_TIME: Setting<Duration> = Setting::duration(
    "away.queue-time",
    Duration::from_secs(60),
    Duration::from_secs(7 * 24 * 3600),
    |_| DEFAULT_QUEUE_TIME,
)
.reloadable()
.meaning("how long such a page waits, for the link and then for its reader")
.reason("The default is a working day on the road");

/// `cache.size`
pub const CACHE_SIZE: Setting<ByteCount> = Setting::size("cache.size", CACHE, |_| DEFAULT_CACHE_SIZE)
    .flag("--cache-size", "SIZE")
    .meaning("maximum size of the agent's cache")
    .reason(
        "The default holds some weeks of one reader's pages; browsers use more for their own \
         caches. Without the cache the agent writes nothing to disk, and unchanged content \
         crosses the slow link again",
    );

/// `cache.dir`
pub const CACHE_DIR: Setting<PathBuf> = Setting::path("cache.dir", "a directory", |_| PathBuf::from("cache"))
    .flag("--cache-dir", "DIR")
    .default_text("`cache` in the state directory")
    .meaning("directory of the cache file")
    .reason(
        "It is accessible to its owner only. Two agents cannot share a cache: the second one runs \
         without a cache and reports this",
    );

/// `https.accelerate`
pub const HTTPS_ACCELERATE: Setting<Accelerate> = Setting::new(
    "https.accelerate",
    Form::Text(
        "`off`, `all` (except built-in exclusions), or host names such as `example.org`, \
         separated by commas or as a list",
    ),
    |_| Accelerate::Off,
    parse::accelerate,
    |accelerate| {
        Some(match accelerate {
            Accelerate::All => quoted("all"),
            Accelerate::Off => quoted("off"),
            Accelerate::Only(hosts) => list(hosts),
        })
    },
)
.flag("--https-accelerate", "HOSTS")
.reloadable()
.meaning("HTTPS hosts that are accelerated, which lets the gateway's operator read their traffic")
.reason(
    "Each name includes its subdomains. The default is off because the user has to make this \
         decision (https.md)",
);

/// `https.except`
pub const HTTPS_EXCEPT: Setting<Vec<String>> = Setting::new(
    "https.except",
    Form::Text(HOSTS),
    |_| Vec::new(),
    parse::hosts,
    |hosts| Some(list(hosts)),
)
.flag("--https-except", "HOSTS")
.reloadable()
.meaning("hosts whose HTTPS is never accelerated");

/// `push.enabled`
pub const PUSH_ENABLED: Setting<bool> = Setting::yes_no("push.enabled", |_| true)
    .switch(
        "--no-push",
        "no",
        "Disable pushes of the gateway: each object is fetched when the browser requests it",
    )
    .reloadable()
    .meaning(
        "page bundles: the gateway fetches and pushes the objects of a page before the browser \
         requests them",
    )
    .reason(
        "With `no` (or the flag, which takes no value) the agent sends the fetch of a page like \
         that of any other object, and the gateway plans no bundle; compression and caches remain \
         active. `longhaul-bench` compares both modes",
    );

/// `push.patience`
pub const PUSH_PATIENCE: Setting<Duration> = Setting::new(
    "push.patience",
    Form::Text("a time with its unit, such as `5s`"),
    |_| DEFAULT_PATIENCE,
    parse::patience,
    |time| Some(quoted(&show_duration(*time))),
)
.reloadable()
.meaning(
    "how long a browser request waits for a promised object while no data of its page arrives \
         over an open session (or eight round trips, if that is longer)",
)
.reason(
    "After this time the agent fetches the object with an ordinary request. The default is \
         longer than any retransmission takes",
);

/// `session.early-credentials`
pub const SESSION_EARLY_CREDENTIALS: Setting<bool> = Setting::yes_no("session.early-credentials", |_| true)
    .flag("--session-early-credentials", "YES|NO")
    .reloadable()
    .meaning(
        "whether requests with cookies may travel in early data, the first datagrams of a \
         session, which saves one round trip per session start",
    )
    .reason(
        "Early data cannot be replayed, but an attacker who recorded it and later steals the \
         gateway's static key can read it. `no`: requests with cookies wait until the handshake \
         is complete. Requests with `Authorization` or a body always wait",
    );
