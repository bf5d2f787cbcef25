//! Hosts that are reached without the proxy: the list of the variable `NO_PROXY`.
//!
//! There is no standard. As in curl and Go, entries are separated by commas or spaces; an entry is a name, which
//! includes its subdomains, an address or a range of addresses, or `*` for all hosts. A port restricts an entry.
use std::net::IpAddr;

/// Maximum number of entries; lists that administrators write have some dozens.
const MAX_ENTRIES: usize = 1000;

/// A list of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exceptions {
    entries: Vec<Entry>,
    /// True if this computer itself is never reached through the proxy.
    has_this_computer: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    All,
    /// In lower case, without a leading dot.
    Name(String),
    Range(IpAddr, u8),
}

impl Exceptions {
    /// The list in `text`, and this computer. Entries that are neither names nor addresses are skipped, as every
    /// other program does.
    pub fn parse(text: &str) -> Self {
        let words = text.split([',', ' ', '\t']).map(str::trim);
        let entries = words.filter(|word| !word.is_empty()).filter_map(Entry::parse);
        Self {
            entries: entries.take(MAX_ENTRIES).collect(),
            has_this_computer: true,
        }
    }

    /// True if `host`, a name or an address without brackets, is reached without the proxy.
    pub fn contain(&self, host: &str, port: u16) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let address = host.parse().ok().map(|address: IpAddr| address.to_canonical());
        if self.has_this_computer {
            let is_local = address.map_or_else(
                || host == "localhost" || host.ends_with(".localhost"),
                |address| address.is_loopback() || address.is_unspecified(),
            );
            if is_local {
                return true;
            }
        }
        self.entries
            .iter()
            .any(|entry| entry.port.is_none_or(|of| of == port) && entry.hosts.contain(&host, address))
    }
}

impl Entry {
    fn parse(word: &str) -> Option<Self> {
        if word == "*" {
            let hosts = Hosts::All;
            return Some(Self { hosts, port: None });
        }
        // An IPv6 address without brackets has no port.
        let (host, port) = match word.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, Some(port.parse().ok()?))
            }
            Some(_) | None => (word, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let hosts = match host.split_once('/') {
            Some((address, length)) => {
                let address: IpAddr = address.parse().ok()?;
                let length: u8 = length.parse().ok()?;
                (length <= bits(address).1).then_some(Hosts::Range(address, length))?
            }
            None => match host.parse::<IpAddr>() {
                Ok(address) => Hosts::Range(address, bits(address).1),
                Err(_) => {
                    let name = host.strip_prefix('*').unwrap_or(host);
                    let name = name.trim_start_matches('.').trim_end_matches('.');
                    (!name.is_empty()).then(|| Hosts::Name(name.to_ascii_lowercase()))?
                }
            },
        };
        Some(Self { hosts, port })
    }
}

impl Hosts {
    fn contain(&self, host: &str, address: Option<IpAddr>) -> bool {
        match (self, address) {
            (Self::All, _) => true,
            (Self::Name(name), None) => host
                .strip_suffix(name.as_str())
                .is_some_and(|before| before.is_empty() || before.ends_with('.')),
            (Self::Range(network, length), Some(address)) => {
                let ((network, whole), (address, width)) = (bits(*network), bits(address));
                let shift = u32::from(whole - length);
                whole == width
                    && network.checked_shr(shift).unwrap_or(0) == address.checked_shr(shift).unwrap_or(0)
            }
            (Self::Name(_), Some(_)) | (Self::Range(..), None) => false,
        }
    }
}

/// The bits of an address, and their number.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_include_their_subdomains_and_ranges_their_addresses() {
        let list = Exceptions::parse(
            "corp.test, .intra.test *.lab.test,10.0.0.0/8 [fd00::1]:8080,192.0.2.7, shop.test:81",
        );
        for (host, port, expected) in [
            ("corp.test", 80, true),
            ("www.CORP.test.", 80, true),
            ("notcorp.test", 80, false),
            ("intra.test", 80, true),
            ("a.lab.test", 443, true),
            ("10.200.1.1", 443, true),
            ("11.0.0.1", 443, false),
            ("::ffff:10.0.0.1", 443, true),
            ("fd00::1", 8080, true),
            ("fd00::1", 80, false),
            ("192.0.2.7", 1, true),
            ("192.0.2.8", 1, false),
            ("shop.test", 81, true),
            ("shop.test", 80, false),
            ("localhost", 80, true),
            ("a.localhost", 80, true),
            ("127.0.0.9", 80, true),
            ("::1", 80, true),
            ("example.org", 80, false),
        ] {
            assert_eq!(list.contain(host, port), expected, "{host}:{port}");
        }
        assert!(Exceptions::parse("*").contain("example.org", 1));
        assert!(Exceptions::parse("0.0.0.0/0").contain("192.0.2.1", 1));
        // A proxy that the user names is used for every host.
        assert!(!Exceptions::default().contain("localhost", 80));
    }

    proptest! {
        #[test]
        fn any_list_is_read(text in ".{0,80}", odd in "[a-z0-9.:/*\\[\\], -]{0,80}", host in "[a-z0-9.:-]{0,30}") {
            for list in [text, odd] {
                let _any = Exceptions::parse(&list).contain(&host, 80);
            }
        }

        #[test]
        fn an_address_is_in_the_ranges_that_begin_like_it(address: [u8; 4], length in 0_u8..=32) {
            let address = IpAddr::from(address);
            let range = format!("{address}/{length}");
            prop_assert!(Exceptions::parse(&range).contain(&address.to_string(), 80));
        }
    }
}
