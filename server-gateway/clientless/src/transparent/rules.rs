//! The rules of nftables that redirect the connections of clients to the gateway.
use std::{
    fmt::Write as _,
    net::{IpAddr, SocketAddr},
};

use longhaul_gateway_core::config::Config;
use longhaul_origin::Cidr;

use crate::dns::BoostedNames;

/// Name of the table, which the rules replace as a whole.
const TABLE: &str = "inet longhaul_clientless";
/// Networks that are not the Internet: what is behind the router itself stays reachable.
const NOT_PUBLIC_V4: &str = "0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, \
                             192.168.0.0/16, 224.0.0.0/3";
const PUBLIC_V6: &str = "2000::/3";
/// Maximum length of an interface's name on Linux.
const MAX_INTERFACE: usize = 15;

/// Reasons for printing no rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// The name of the interface is not one.
    #[error(
        "`{0}` is not the name of a network interface; `ip link` shows the names, such as `eth1` or `wlan0`"
    )]
    Interface(String),
    /// There is no port to redirect to.
    #[error(
        "[clientless] transparent: no port takes redirected connections of {0} networks; set clientless.transparent, for \
         example to [\"[::]:3130\"] for IPv4 and IPv6"
    )]
    NoPort(&'static str),
    /// The gateway would refuse the clients, and they could load nothing.
    #[error(
        "[clientless] allow: the gateway serves no clients of {0}, so they could load nothing; add the network to \
         clientless.allow"
    )]
    NotAllowed(Cidr),
}

/// Returns the rules that redirect the web connections of clients of these networks behind this interface. Nothing is
/// applied.
///
/// # Errors
/// With the rules, clients could load nothing.
pub fn redirect_rules(config: &Config, interface: &str, networks: &[Cidr]) -> Result<String, RulesError> {
    let is_in_name = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '/' | '\\' | '*');
    if interface.is_empty() || interface.len() > MAX_INTERFACE || !interface.chars().all(is_in_name) {
        return Err(RulesError::Interface(interface.to_owned()));
    }
    let (mut from, mut to, mut own) = (String::new(), String::new(), String::new());
    let names = BoostedNames::new(&config.dns);
    for network in networks {
        let clientless = &config.clientless;
        if !clientless.allow.iter().any(|allowed| is_inside(network, allowed)) {
            return Err(RulesError::NotAllowed(*network));
        }
        let family = Family::of(network.network());
        let port = port(&clientless.transparent, family).ok_or_else(|| RulesError::NoPort(family.name()))?;
        // Writing into a string does not fail.
        let _written = writeln!(
            from,
            "\t\tiifname \"{interface}\" {} saddr {network} tcp dport {{ 80, 443 }} jump web",
            family.word()
        );
        let redirect = format!(
            "\t\tmeta nfproto {} tcp dport {{ 80, 443 }} redirect to :{port}\n",
            family.protocol()
        );
        if to.contains(&redirect) {
            continue;
        }
        to.push_str(&redirect);
        for address in names.addresses().filter(|address| Family::of(*address) == family) {
            let _written = writeln!(
                own,
                "\t\t{} daddr {address} tcp dport {{ 80, 443 }} redirect to :{port}",
                family.word()
            );
        }
    }
    Ok(format!(
        "# Redirects web connections of clients to the Longhaul gateway on this router.\n\
         # Apply: longhaul-gateway clientless rules ... | nft -f -    Remove: nft delete table {TABLE}\n\
         table {TABLE}\n\
         delete table {TABLE}\n\
         table {TABLE} {{\n\
         \tchain incoming {{\n\
         \t\ttype nat hook prerouting priority dstnat; policy accept;\n\
         {from}\t}}\n\
         \tchain web {{\n\
         {own}\
         \t\tfib daddr type local return\n\
         \t\tip daddr {{ {NOT_PUBLIC_V4} }} return\n\
         \t\tip6 daddr != {PUBLIC_V6} return\n\
         {to}\t}}\n\
         }}\n"
    ))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// The header in an expression.
    const fn word(self) -> &'static str {
        match self {
            Self::V4 => "ip",
            Self::V6 => "ip6",
        }
    }

    const fn protocol(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }
}

/// The port that takes connections of a family. An unspecified IPv6 address takes those of both.
fn port(addresses: &[SocketAddr], family: Family) -> Option<u16> {
    let takes = |address: &&SocketAddr| match (address.ip(), family) {
        (IpAddr::V4(_), Family::V4) | (IpAddr::V6(_), Family::V6) => true,
        (IpAddr::V6(v6), Family::V4) => v6.is_unspecified(),
        (IpAddr::V4(_), Family::V6) => false,
    };
    addresses.iter().find(takes).map(SocketAddr::port)
}

fn is_inside(network: &Cidr, of: &Cidr) -> bool {
    network.prefix() >= of.prefix() && of.contains(network.network())
}

#[cfg(test)]
mod tests {
    use longhaul_settings::Environment;

    use super::*;
    use longhaul_gateway_core::config::{SettingArgs, resolve, settings};

    fn rules(transparent: &[&str], interface: &str, from: &str) -> Result<String, RulesError> {
        let mut flags = SettingArgs::default()
            .with(&settings::CLIENTLESS_ALLOW, "10.0.0.0/8")
            .with(&settings::CLIENTLESS_ALLOW, "fd00:1::/32");
        for address in transparent {
            flags = flags.with(&settings::CLIENTLESS_TRANSPARENT, address);
        }
        let (config, _) = resolve(&flags, &Environment::new()).unwrap();
        redirect_rules(&config, interface, &[from.parse().unwrap()])
    }

    #[test]
    fn each_network_is_redirected_to_a_port_of_its_family() {
        let text = rules(&["[::]:3130"], "lan0", "10.1.0.0/16").unwrap();
        assert!(text.contains("iifname \"lan0\" ip saddr 10.1.0.0/16 tcp dport { 80, 443 } jump web"));
        assert!(text.contains("meta nfproto ipv4 tcp dport { 80, 443 } redirect to :3130"));
        assert!(!text.contains("nfproto ipv6"));
        let text = rules(&["10.0.0.1:81", "[fd00:1::1]:82"], "lan0", "fd00:1::/64").unwrap();
        assert!(
            text.contains("ip6 saddr fd00:1::/64")
                && text.contains("nfproto ipv6 tcp dport { 80, 443 } redirect to :82")
        );
    }

    #[test]
    fn rules_with_which_clients_could_load_nothing_are_not_printed() {
        let both = ["[::]:3130"];
        for name in ["", "a\"b", "a b", "interface-too-long", "eth*"] {
            assert_eq!(
                rules(&both, name, "10.0.0.0/8"),
                Err(RulesError::Interface(name.to_owned()))
            );
        }
        for from in ["11.0.0.0/8", "fd00:2::/32", "fd00::/16"] {
            assert_eq!(
                rules(&both, "lan0", from),
                Err(RulesError::NotAllowed(from.parse().unwrap()))
            );
        }
        assert_eq!(rules(&[], "lan0", "10.0.0.0/8"), Err(RulesError::NoPort("IPv4")));
        assert_eq!(
            rules(&["0.0.0.0:1"], "lan0", "fd00:1::/32"),
            Err(RulesError::NoPort("IPv6"))
        );
    }

    #[test]
    fn names_of_15_characters_are_those_of_interfaces() {
        let text = rules(&["[::]:3130"], "interface-of-15", "10.0.0.0/8").unwrap();
        assert!(text.contains("iifname \"interface-of-15\" "));
        assert!(rules(&["[::]:3130"], "interface-of--16", "10.0.0.0/8").is_err());
    }

    #[test]
    fn the_addresses_of_boosted_names_are_redirected_for_clients_of_their_family() {
        let flags = SettingArgs::default()
            .with(&settings::CLIENTLESS_ALLOW, "10.0.0.0/8")
            .with(&settings::CLIENTLESS_ALLOW, "fd00:1::/32")
            .with(&settings::CLIENTLESS_TRANSPARENT, "[::]:3130")
            .with(&settings::DNS_LISTEN, "10.0.0.1:53")
            .with(&settings::DNS_ADDRESSES, "10.0.0.1,fd00:1::1");
        let (config, _) = resolve(&flags, &Environment::new()).unwrap();
        let rules = |networks: &[&str]| {
            let networks: Vec<Cidr> = networks.iter().map(|text| text.parse().unwrap()).collect();
            redirect_rules(&config, "lan0", &networks).unwrap()
        };
        let to = |address| format!("daddr {address} tcp dport {{ 80, 443 }} redirect to :3130");
        let (v4, v6) = (to("10.0.0.1"), to("fd00:1::1"));
        let text = rules(&["10.1.0.0/16"]);
        assert!(
            text.contains(&format!("ip {v4}")) && !text.contains(&v6),
            "{text}"
        );
        let text = rules(&["fd00:1::/64"]);
        assert!(
            text.contains(&format!("ip6 {v6}")) && !text.contains(&v4),
            "{text}"
        );
        // One rule for all networks of an address family.
        let text = rules(&["10.1.0.0/16", "10.2.0.0/16", "fd00:1::/64"]);
        assert_eq!(
            (text.matches(&v4).count(), text.matches(&v6).count()),
            (1, 1),
            "{text}"
        );
    }
}
