//! Settings of the hop: the link, the carriers of the session, captive portals, and early data.
use longhaul_settings::{Form, Setting, quoted};
use longhaul_types::LinkProfile;

use super::super::{
    parse,
    proxy::{self, CredentialsFile, ProxySetting},
};
use crate::{
    gateway::{Carriers, PinPolicy, PortalCheck, PortalSettings},
    networks::Metered,
};

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
         is sent; `longhaul-agent forget` deletes it. `no`: nothing is stored, neither there \
         nor in `hold-out`, and existing files are neither read nor changed",
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
    "Without this setting, a session costs up to 41 kB to measure an unknown link, up to 43 kB to verify a remembered one, and \
         over TLS up to 180 kB to open TCP's window on links with a round trip of 150 ms or more, and 48 kB from 50 ms on. `yes`: on an unknown link one packet \
         only, and nothing else of this, so that the first page of a fast link takes some round trips longer; and TLS is not tried where \
         UDP works but seems to be limited. `auto`: as NetworkManager says about the interface on the way to the gateway (`nmcli`, \
         within 0.5 s). NetworkManager guesses for modems and phones; where it does not know or is not there, the value is `no`. Not \
         the default, because each session then waits for the answer",
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
    usize::from(longhaul_types::CARRIER_PORT)
})
.flag("--carrier-tls-port", "PORT")
.meaning("TCP port of the gateway for the carrier `tls`")
.reason("Networks that block UDP pass the port of HTTPS");

/// `carrier.quic-port`
pub const CARRIER_QUIC_PORT: Setting<usize> = Setting::count("carrier.quic-port", 65_535, |_| {
    usize::from(longhaul_types::CARRIER_PORT)
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
