//! `[dns]`: settings of the name server for clients without an agent.
use std::{
    collections::BTreeSet,
    fmt,
    net::{IpAddr, SocketAddr},
};

use longhaul_origin::Host;
use longhaul_settings::{Form, Setting, Value, Wrong, list};

use super::{clientless::listen, settings::address_or_off};

/// Maximum number of names.
const MAX_NAMES: usize = 1000;
/// Maximum number of addresses of the gateway.
const MAX_ADDRESSES: usize = 4;

/// `[dns]`: the name server for clients without an agent.
#[derive(Clone, Debug)]
pub struct DnsConfig {
    /// `listen`: UDP and TCP address of the name server; `None` if it is off.
    pub listen: Option<SocketAddr>,
    /// `names`: names that lead to the gateway.
    pub names: HostNames,
    /// `addresses`: addresses of the gateway that these names get; that of `listen` if it is empty.
    pub addresses: Vec<IpAddr>,
}

/// Names of hosts, and names above those of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNames {
    exact: BTreeSet<String>,
    /// Names above, without `*.`.
    above: BTreeSet<String>,
}

impl HostNames {
    /// Returns true if there is no name.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.above.is_empty()
    }

    /// Returns true if this is one of the names; a final dot and upper case do not count.
    pub fn contains(&self, name: &str) -> bool {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let mut above = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
        self.exact.contains(&name) || above.any(|above| self.above.contains(above))
    }

    fn insert(&mut self, text: &str) -> Option<()> {
        let (names, host) = match text.strip_prefix("*.") {
            Some(above) => (&mut self.above, above),
            None => (&mut self.exact, text),
        };
        match Host::parse(host).ok()? {
            Host::Name(name) if !name.contains('*') => {
                names.insert(name.trim_end_matches('.').to_owned());
                Some(())
            }
            Host::Name(_) | Host::Address(_) => None,
        }
    }

    fn texts(&self) -> impl Iterator<Item = String> {
        let above = self.above.iter().map(|name| format!("*.{name}"));
        self.exact.iter().cloned().chain(above)
    }
}

impl fmt::Display for HostNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.texts().collect::<Vec<_>>().join(","))
    }
}

/// `dns.listen`
pub const DNS_LISTEN: Setting<Option<SocketAddr>> = Setting::new(
    "dns.listen",
    Form::Text("`off`, or an address and port, such as `10.0.0.1:53`"),
    |_| None,
    listen,
    address_or_off,
)
.flag("--dns-listen", "ADDR:PORT")
.meaning("UDP and TCP address of a name server for clients without an agent, which sends the hosts of `dns.names` to the gateway")
.reason(
    "Off: mail, ssh and everything else but the web does not work for these names at such clients. Only clients of \
         `clientless.allow` are answered. It needs `clientless.transparent`, where the connections arrive",
);

/// `dns.names`
pub const DNS_NAMES: Setting<HostNames> = Setting::new(
    "dns.names",
    Form::Text("host names, such as `www.example.org`; `*.example.org` for all names below it"),
    |_| HostNames::default(),
    names,
    |names| Some(list(names.texts())),
)
.meaning("hosts whose A and AAAA records are the gateway, for clients that ask `dns.listen`")
.reason(
    "Their web pages come through the gateway's cache without a rule in the firewall of the clients' router. Everything else \
         is forwarded to the name servers of `fetch.dns`",
);

/// `dns.addresses`
pub const DNS_ADDRESSES: Setting<Vec<IpAddr>> = Setting::new(
    "dns.addresses",
    Form::Text("addresses, such as `10.0.0.1`"),
    |_| Vec::new(),
    addresses,
    |addresses| Some(list(addresses)),
)
.default_text("the address of `dns.listen`")
.meaning("addresses of the gateway that clients get for the hosts of `dns.names`")
.reason("A gateway that listens on all addresses cannot know by which one its clients reach it");

fn names(value: &Value, _: &Form) -> Result<HostNames, Wrong> {
    let mut names = HostNames::default();
    let texts = value.texts()?;
    if texts.len() > MAX_NAMES {
        return Err(Wrong::new(format!("there are more than {MAX_NAMES} names")));
    }
    for text in texts {
        names
            .insert(&text)
            .ok_or_else(|| Wrong::new(format!("`{text}` is neither a host name nor `*.` and a name")))?;
    }
    Ok(names)
}

fn addresses(value: &Value, _: &Form) -> Result<Vec<IpAddr>, Wrong> {
    let texts = value.texts()?;
    if texts.len() > MAX_ADDRESSES {
        return Err(Wrong::new(format!(
            "there are more than {MAX_ADDRESSES} addresses"
        )));
    }
    let address = |text: String| match text.parse::<IpAddr>() {
        Ok(address) if !address.is_unspecified() => Ok(address),
        Ok(_) | Err(_) => Err(Wrong::new(format!("`{text}` is not an address of this machine"))),
    };
    texts.into_iter().map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exact_or_all_below_another() {
        let mut names = HostNames::default();
        for text in ["www.example.org", "*.Example.net", "a.test."] {
            names.insert(text).unwrap();
        }
        for name in [
            "www.example.org",
            "WWW.example.org.",
            "x.example.net",
            "x.y.example.net.",
            "a.test",
        ] {
            assert!(names.contains(name), "{name}");
        }
        for name in [
            "example.org",
            "x.www.example.org",
            "example.net",
            "xexample.net",
            "b.a.test",
            "",
            ".",
        ] {
            assert!(!names.contains(name), "{name}");
        }
        for text in ["*", "*.", "", "10.0.0.1", "[::1]", "a.*.test", "*.*.test", "a b"] {
            assert!(names.insert(text).is_none(), "{text}");
        }
    }
}
