//! `[clientless]`: settings of the proxy for clients without an agent.
use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use longhaul_origin::Cidr;
use longhaul_session::ImageLevel;
use longhaul_settings::{Form, Setting, Value, Wrong, list, quoted};
use longhaul_types::{ByteCount, LinkProfile};

use super::{PortSet, parse, settings::address_or_off};

/// `[clientless]`: the proxy for clients without an agent.
#[derive(Clone, Debug)]
pub struct ClientlessConfig {
    /// `listen`: TCP address of the proxy; `None` if it is off.
    pub listen: Option<SocketAddr>,
    /// `tls`: TCP address of the proxy inside TLS; `None` if it is off.
    pub tls: Option<SocketAddr>,
    /// `transparent`: TCP addresses of redirected connections.
    pub transparent: Vec<SocketAddr>,
    /// `certificate`: certificate chain of `tls`.
    pub certificate: Option<PathBuf>,
    /// `key`: its private key.
    pub key: Option<PathBuf>,
    /// `allow`: networks whose clients are served.
    pub allow: Vec<Cidr>,
    /// `passwords`: clients that need a name and a password.
    pub passwords: Passwords,
    /// `ports`: ports that CONNECT may reach.
    pub ports: PortSet,
    /// `level`: image level of clients that state none.
    pub level: ImageLevel,
    /// `link`: link of the clients, if it is known.
    pub link: Option<LinkProfile>,
    /// `day-size`: bytes of bodies and tunnels a day and client; 0 for no limit.
    pub day_size: ByteCount,
    /// `idle-timeout`: maximum silence of a client's connection.
    pub idle_timeout: Duration,
}

/// Clients that need a name and a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passwords {
    /// None. A client that states them gets a private cache.
    Optional,
    /// All.
    Required,
}

/// Largest networks of `allow`: wider ones are mistakes, or make the proxy open.
const MIN_PREFIX_V4: u8 = 8;
const MIN_PREFIX_V6: u8 = 32;
/// Maximum sum of all networks of `allow`, in networks of the largest size. All private and shared IPv4 networks
/// together are smaller; a list of many large networks is an open proxy, too.
const MAX_LARGEST: u128 = 4;
const SMTP: u16 = 25;

/// `clientless.listen`
pub const CLIENTLESS_LISTEN: Setting<Option<SocketAddr>> = Setting::new(
    "clientless.listen",
    Form::Text("`off`, or an address and port, such as `10.0.0.1:3128`"),
    |_| None,
    listen,
    address_or_off,
)
.flag("--clientless-listen", "ADDR:PORT")
.meaning("TCP address of an HTTP proxy for browsers without an agent")
.reason(
    "Off: a gateway is for agents, whose hop is encrypted and much faster. The proxy does not start until \
         `clientless.allow` names its clients' networks",
);

/// `clientless.allow`
pub const CLIENTLESS_ALLOW: Setting<Vec<Cidr>> = Setting::new(
    "clientless.allow",
    Form::Text("address ranges, such as `10.0.0.0/8`, none wider than /8 (IPv6: /32)"),
    |_| Vec::new(),
    allow,
    |ranges| Some(list(ranges)),
)
.repeated_flag("--clientless-allow", "CIDR")
.meaning("networks whose browsers may use the proxy")
.reason(
    "Requests and passwords cross these networks unencrypted, so name only networks that you trust. \
         Every other client gets the status 404. All ranges together may be as large as four of the widest",
);

/// `clientless.passwords`
pub const CLIENTLESS_PASSWORDS: Setting<Passwords> = Setting::new(
    "clientless.passwords",
    Form::OneOf(&["optional", "required"]),
    |_| Passwords::Optional,
    |value, form| Ok([Passwords::Optional, Passwords::Required][form.word(value)?]),
    |passwords| {
        Some(quoted(match passwords {
            Passwords::Optional => "optional",
            Passwords::Required => "required",
        }))
    },
)
.meaning("whether clients of `clientless.allow` need a name and a password")
.reason(
    "`longhaul-gateway client add NAME` makes a name and its password. A client that states them gets a private \
         cache of its own; without them it gets only what all clients may share. Browsers state them only if the \
         proxy requires them",
);

/// `clientless.ports`
pub const CLIENTLESS_PORTS: Setting<PortSet> = Setting::new(
    "clientless.ports",
    Form::Text("ports and ranges without 25, such as `80,443,8443`"),
    |_| PortSet::web(),
    ports,
    |ports| Some(list(ports.texts())),
)
.meaning("ports that CONNECT may reach through the proxy")
.reason(
    "The ports of the web. Requests that the proxy fetches itself may name any port that browsers fetch from",
);

/// `clientless.level`
pub const CLIENTLESS_LEVEL: Setting<ImageLevel> = Setting::new(
    "clientless.level",
    Form::OneOf(&["original", "high", "medium", "low"]),
    |_| ImageLevel::Medium,
    |value, form| Ok(LEVELS[form.word(value)?]),
    |level| Some(quoted(level.name())),
)
.meaning("level of images for requests without the field `X-Longhaul-Level`")
.reason("The default of agents");

/// The levels of `clientless.level`, in its order. At level text an agent asks its user before it loads an image,
/// which a proxy cannot.
pub const LEVELS: [ImageLevel; 4] = [
    ImageLevel::Original,
    ImageLevel::High,
    ImageLevel::Medium,
    ImageLevel::Low,
];

/// `clientless.link`
pub const CLIENTLESS_LINK: Setting<Option<LinkProfile>> = Setting::new(
    "clientless.link",
    Form::Text("a link profile, such as `umts-384`, or `unknown`"),
    |_| None,
    link,
    |profile| {
        let name = |profile: &LinkProfile| LinkProfile::names().find(|name| name.parse() == Ok(*profile));
        Some(quoted(profile.as_ref().and_then(name).unwrap_or("unknown")))
    },
)
.meaning("link of the proxy's clients")
.reason(
    "It decides the effort of compression; an unknown link gets the effort for UMTS. All connections of a client together \
         write no faster than the named link; name no slower one than they have. Without it, the gateway measures how fast \
         each client's link is (Linux)",
);

/// Less than a page would be of no use.
const DAY: Form = Form::Size {
    least: ByteCount::mib(1),
    most: None,
    zero: Some("no limit"),
};

/// `clientless.day-size`
pub const CLIENTLESS_DAY_SIZE: Setting<ByteCount> =
    Setting::size("clientless.day-size", DAY, |_| ByteCount::mib(20 * 1024))
        .meaning("bytes of bodies and tunnels that one client may transfer a day, in both directions together, and of objects that are fetched ahead for it; days begin at midnight UTC")
        .reason(
            "It bounds what a stolen password costs; the default is about ten hours of video. A client without a name is \
         an IPv4 address or the /64 of an IPv6 address; a /56 has the bytes of 16 clients, a /48 those of 64. A gateway that starts again begins at zero",
        );

/// `clientless.idle-timeout`
pub const CLIENTLESS_IDLE_TIMEOUT: Setting<Duration> = Setting::duration(
    "clientless.idle-timeout",
    Duration::from_secs(10),
    Duration::from_secs(24 * 3600),
    |_| Duration::from_secs(600),
)
.meaning("a client's connection ends after this time without a byte in either direction")
.reason("A new connection takes a round trip of the hop, and more on a radio link that sleeps");

pub(super) fn listen(value: &Value, _: &Form) -> Result<Option<SocketAddr>, Wrong> {
    match value.text()? {
        "off" => Ok(None),
        _ => parse::address(value).map(Some),
    }
}

fn link(value: &Value, _: &Form) -> Result<Option<LinkProfile>, Wrong> {
    match value.text()? {
        "unknown" => Ok(None),
        name => name.parse().map(Some).map_err(Wrong::explained),
    }
}

fn ports(value: &Value, form: &Form) -> Result<PortSet, Wrong> {
    let ports = parse::ports(value, form)?;
    if ports.contains(SMTP) {
        let wrong = Wrong::new("port 25 would let clients send mail from this gateway's address");
        return Err(wrong.instead("leave it out"));
    }
    Ok(ports)
}

/// Parses `allow`; refuses ranges that make the proxy open.
fn allow(value: &Value, form: &Form) -> Result<Vec<Cidr>, Wrong> {
    let ranges = parse::ranges(value, form)?;
    let (mut v4, mut v6) = (0_u128, 0_u128);
    for range in &ranges {
        let (least, sum, bits) = match range.network() {
            IpAddr::V4(_) => (MIN_PREFIX_V4, &mut v4, 32),
            IpAddr::V6(address) if is_other_form_of_v4(address) => {
                let wrong = Wrong::new(format!("`{range}` is an IPv4 network in another form"));
                return Err(wrong.instead("write it as IPv4"));
            }
            IpAddr::V6(_) => (MIN_PREFIX_V6, &mut v6, 128),
        };
        if range.prefix() < least {
            let wrong = Wrong::new(format!(
                "`{range}` is wider than /{least}, which makes an open proxy"
            ));
            return Err(wrong.instead("name the networks of your clients"));
        }
        *sum = sum.saturating_add(1 << (bits - u32::from(range.prefix())));
    }
    let is_open = |sum: u128, bits: u32, least: u8| sum > MAX_LARGEST << (bits - u32::from(least));
    if is_open(v4, 32, MIN_PREFIX_V4) || is_open(v6, 128, MIN_PREFIX_V6) {
        let wrong = Wrong::new("all ranges together are so large that they make an open proxy");
        return Err(wrong.instead("name the networks of your clients"));
    }
    Ok(ranges)
}

/// Returns true for IPv4-mapped addresses and those of NAT64 (RFC 6052).
fn is_other_form_of_v4(address: Ipv6Addr) -> bool {
    let bits = address.to_bits() >> 32;
    bits == 0xffff || bits == 0x0064_ff9b << 64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(texts: &[&str]) -> Result<Vec<Cidr>, String> {
        let value = Value::List(texts.iter().map(|text| Value::Text((*text).to_owned())).collect());
        allow(&value, &Form::Text("")).map_err(|wrong| format!("{wrong:?}"))
    }

    #[test]
    fn networks_that_make_an_open_proxy_are_refused() {
        for open in [
            "0.0.0.0/0",
            "::/0",
            "128.0.0.0/7",
            "2000::/3",
            "2001::/31",
            "::ffff:0:0/96",
            "::ffff:10.0.0.0/104",
            "64:ff9b::/96",
        ] {
            assert!(allowed(&[open]).is_err(), "{open}");
        }
        let private = [
            "10.0.0.0/8",
            "127.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "100.64.0.0/10",
            "fd00:1::/32",
        ];
        assert_eq!(allowed(&private).unwrap().len(), 6);
        let many: Vec<String> = (1..=5).map(|first| format!("{first}.0.0.0/8")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(allowed(&many).is_err());
        assert!(allowed(&many[..4]).is_ok());
    }

    #[test]
    fn smtp_is_never_a_port_of_connect() {
        for (text, is_ok) in [
            ("443", true),
            ("1-1024", false),
            ("25", false),
            ("80,443,8443", true),
        ] {
            let ports = ports(&Value::Text(text.to_owned()), &Form::Text(""));
            assert_eq!(ports.is_ok(), is_ok, "{text}");
        }
    }
}
