//! `[fetch] resolve`: the operator's own answers to name lookups.
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use longhaul_http::target;
use serde::Deserialize;
use thiserror::Error;

use crate::target::Host;

/// Map from hosts to addresses that takes precedence over DNS.
///
/// A key is `NAME`, `*.SUFFIX` (every name below the suffix, not the suffix itself) or `*` (every host,
/// including address literals), each with an optional `:PORT` that must then match. A value is `ADDRESS` or
/// `ADDRESS:PORT`, with IPv6 in brackets if a port follows. The most specific key wins: an exact name before
/// a longer suffix, before a shorter suffix, before `*`; among equal ones, the key with a port. TLS still
/// verifies the certificate for the name in the URL.
///
/// The operator chooses these addresses explicitly: **the address guard does not apply to them.**
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>")]
pub struct ResolveMap {
    entries: BTreeMap<(Pattern, Option<u16>), Override>,
}

/// Value of an entry of a [`ResolveMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override {
    /// The address to connect to.
    pub address: IpAddr,
    /// The port to connect to, instead of the URL's.
    pub port: Option<u16>,
}

/// Errors of parsing an entry of `[fetch] resolve`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ResolveMapError {
    /// The value is not an address.
    #[error(
        "`{key}`: `{value}` is no address; write ADDRESS or ADDRESS:PORT, IPv6 with a port as [ADDRESS]:PORT"
    )]
    Address {
        /// Key of the entry.
        key: String,
        /// Value of the entry.
        value: String,
    },
    /// Two keys denote the same hosts.
    #[error("`{0}` is given twice")]
    Duplicate(String),
    /// The key is not a host pattern.
    #[error("`{0}` is no host; write NAME, *.SUFFIX or *, with :PORT where needed")]
    Host(String),
    /// The port of the key or of the value is not in 1-65535.
    #[error("`{0}` has no valid port")]
    Port(String),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pattern {
    Any,
    Below(String),
    Exact(Host),
}

impl ResolveMap {
    /// Parses entries.
    ///
    /// # Errors
    /// [`ResolveMapError`] for the first invalid entry.
    pub fn parse<K, V>(entries: impl IntoIterator<Item = (K, V)>) -> Result<Self, ResolveMapError>
    where
        K: AsRef<str>,
        V: AsRef<str>,
    {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key.as_ref(), value.as_ref())?;
        }
        Ok(map)
    }

    /// Adds one entry, as written in the configuration or in `--resolve NAME=ADDR`.
    ///
    /// # Errors
    /// [`ResolveMapError`] if the entry is invalid or its key already exists.
    pub fn insert(&mut self, key: &str, value: &str) -> Result<(), ResolveMapError> {
        let pattern = parse_key(key)?;
        let address = parse_value(key, value)?;
        if self.entries.contains_key(&pattern) {
            return Err(ResolveMapError::Duplicate(key.to_owned()));
        }
        self.entries.insert(pattern, address);
        Ok(())
    }

    /// Returns the entry for a host and port, if any.
    pub fn lookup(&self, host: &Host, port: u16) -> Option<Override> {
        if self.entries.is_empty() {
            return None;
        }
        let below = match host {
            Host::Address(_) => None,
            Host::Name(name) => Some(
                name.match_indices('.')
                    .map(|(dot, _)| Pattern::Below(name[dot + 1..].to_owned())),
            ),
        };
        std::iter::once(Pattern::Exact(host.clone()))
            .chain(below.into_iter().flatten())
            .chain(std::iter::once(Pattern::Any))
            .find_map(|pattern| {
                let with_port = self.entries.get(&(pattern.clone(), Some(port)));
                with_port.or_else(|| self.entries.get(&(pattern, None))).copied()
            })
    }
}

impl TryFrom<BTreeMap<String, String>> for ResolveMap {
    type Error = ResolveMapError;

    fn try_from(entries: BTreeMap<String, String>) -> Result<Self, ResolveMapError> {
        Self::parse(entries)
    }
}

fn parse_key(key: &str) -> Result<(Pattern, Option<u16>), ResolveMapError> {
    let no_host = || ResolveMapError::Host(key.to_owned());
    // An IPv6 address without brackets contains colons, but no port.
    let is_bare_v6 = key.parse::<std::net::Ipv6Addr>().is_ok();
    let (host, port) = match key.rsplit_once(':') {
        Some((host, port)) if !is_bare_v6 && !port.contains(']') => {
            let port = target::port(port).ok_or_else(|| ResolveMapError::Port(key.to_owned()))?;
            (host, Some(port))
        }
        Some(_) | None => (key, None),
    };
    let pattern = match host.strip_prefix('*') {
        Some("") => Pattern::Any,
        Some(rest) => {
            let suffix = rest.strip_prefix('.').ok_or_else(no_host)?;
            match Host::parse(suffix).map_err(|_| no_host())? {
                Host::Name(suffix) if !suffix.contains('*') => Pattern::Below(suffix),
                Host::Name(_) | Host::Address(_) => return Err(no_host()),
            }
        }
        None if host.contains('*') => return Err(no_host()),
        None => Pattern::Exact(Host::parse(host).map_err(|_| no_host())?),
    };
    Ok((pattern, port))
}

fn parse_value(key: &str, value: &str) -> Result<Override, ResolveMapError> {
    if let Ok(address) = value.parse::<IpAddr>() {
        return Ok(Override { address, port: None });
    }
    if let Some(Ok(address)) = value
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .map(str::parse::<std::net::Ipv6Addr>)
    {
        return Ok(Override {
            address: address.into(),
            port: None,
        });
    }
    match value.parse::<SocketAddr>() {
        Ok(socket) if socket.port() == 0 => Err(ResolveMapError::Port(value.to_owned())),
        Ok(socket) => Ok(Override {
            address: socket.ip(),
            port: Some(socket.port()),
        }),
        Err(_) => Err(ResolveMapError::Address {
            key: key.to_owned(),
            value: value.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, &str)]) -> ResolveMap {
        ResolveMap::parse(entries.iter().copied()).unwrap()
    }

    fn found(map: &ResolveMap, host: &str, port: u16) -> Option<String> {
        let entry = map.lookup(&Host::parse(host).unwrap(), port)?;
        Some(match entry.port {
            Some(port) => SocketAddr::new(entry.address, port).to_string(),
            None => entry.address.to_string(),
        })
    }

    #[test]
    fn the_most_specific_key_wins() {
        let map = map(&[
            ("*", "10.0.0.1"),
            ("*:443", "10.0.0.2"),
            ("*.test", "10.0.0.3"),
            ("*.a.test", "10.0.0.4"),
            ("*.a.test:8080", "10.0.0.5:80"),
            ("x.a.test", "10.0.0.6"),
            ("X.A.test:443", "[::1]:8443"),
            ("192.0.2.1", "10.0.0.8"),
        ]);
        for (host, port, expected) in [
            ("other.example", 80, "10.0.0.1"),
            ("other.example", 443, "10.0.0.2"),
            ("test", 80, "10.0.0.1"),
            ("b.test", 443, "10.0.0.3"),
            ("a.test", 80, "10.0.0.3"),
            ("y.a.test", 80, "10.0.0.4"),
            ("z.y.a.test", 80, "10.0.0.4"),
            ("y.a.test", 8080, "10.0.0.5:80"),
            ("x.a.test", 80, "10.0.0.6"),
            ("x.a.test", 8080, "10.0.0.6"),
            ("x.a.test", 443, "[::1]:8443"),
            ("192.0.2.1", 80, "10.0.0.8"),
            ("192.0.2.2", 80, "10.0.0.1"),
        ] {
            assert_eq!(
                found(&map, host, port).as_deref(),
                Some(expected),
                "{host}:{port}"
            );
        }
        assert_eq!(found(&ResolveMap::default(), "a.test", 80), None);
    }

    #[test]
    fn a_suffix_matches_whole_labels_only() {
        let map = map(&[("*.test", "10.0.0.3")]);
        assert_eq!(found(&map, "atest", 80), None);
        assert_eq!(found(&map, "test", 80), None);
        assert_eq!(found(&map, "a.test.example", 80), None);
    }

    #[test]
    fn mistakes_are_described() {
        let error = |key: &str, value: &str| ResolveMap::parse([(key, value)]).unwrap_err();
        for key in [
            "",
            "*test",
            "a.*.test",
            "*.*.test",
            "*.",
            "a b",
            "*.1.2.3.4",
            ":80",
        ] {
            assert_eq!(
                error(key, "10.0.0.1"),
                ResolveMapError::Host(key.to_owned()),
                "{key}"
            );
        }
        for key in ["a.test:0", "a.test:", "a.test:99999", "a.test:http", "*:x"] {
            assert_eq!(
                error(key, "10.0.0.1"),
                ResolveMapError::Port(key.to_owned()),
                "{key}"
            );
        }
        for value in [
            "",
            "b.test",
            "10.0.0",
            "10.0.0.1:",
            "::1:80:",
            "[::1",
            "10.0.0.1:99999",
        ] {
            let expected = ResolveMapError::Address {
                key: "a.test".to_owned(),
                value: value.to_owned(),
            };
            assert_eq!(error("a.test", value), expected, "{value}");
        }
        assert_eq!(
            error("a.test", "10.0.0.1:0"),
            ResolveMapError::Port("10.0.0.1:0".to_owned())
        );
        let twice = ResolveMap::parse([("a.test", "10.0.0.1"), ("A.test.", "10.0.0.2")]);
        assert_eq!(twice, Err(ResolveMapError::Duplicate("A.test.".to_owned())));
    }

    #[test]
    fn ipv6_addresses_are_accepted_everywhere() {
        let map = map(&[("[2001:db8::1]:443", "::1"), ("2001:db8::2", "[::1]")]);
        assert_eq!(found(&map, "[2001:db8::1]", 443).as_deref(), Some("::1"));
        assert_eq!(found(&map, "[2001:db8::1]", 80), None);
        assert_eq!(found(&map, "[2001:db8::2]", 80).as_deref(), Some("::1"));
    }

    #[test]
    fn deserialises_from_a_table() {
        let map: ResolveMap = serde_json::from_str(r#"{"*.test": "10.79.0.1"}"#).unwrap();
        assert_eq!(found(&map, "a.test", 443).as_deref(), Some("10.79.0.1"));
        assert!(serde_json::from_str::<ResolveMap>(r#"{"*.test": "nowhere"}"#).is_err());
    }
}
