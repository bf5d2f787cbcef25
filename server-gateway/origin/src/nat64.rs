//! Prefixes of NAT64 (RFC 6052): IPv6 addresses that a translator in the gateway's network turns into IPv4 addresses.
//!
//! The well-known prefix 64:ff9b::/96 is known to [`crate::address_class`]. A network may have prefixes of its own, which
//! look like public addresses. They are discovered as in RFC 7050: the name `ipv4only.arpa` has only two IPv4 addresses,
//! so that each IPv6 address of it comes from a prefix.
use std::{
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use hickory_resolver::proto::rr::{Name, RecordType};
use tokio::{sync::Mutex, time::Instant};

use crate::{
    dns::{DnsResolver, NoRecords},
    owner::ConnectionOwner,
};

const NAME: &str = "ipv4only.arpa.";
/// The addresses of [`NAME`] (RFC 7050 section 8.2).
const WELL_KNOWN: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 0, 170), Ipv4Addr::new(192, 0, 0, 171)];
/// Lengths of prefixes in bytes (RFC 6052 section 2.2).
const LENGTHS: [usize; 6] = [4, 5, 6, 7, 8, 12];
/// Byte of an address that is zero behind a prefix of less than 96 bits: the IPv4 address surrounds it.
const ZERO_BYTE: usize = 8;
/// Maximum number of prefixes.
const MAX_PREFIXES: usize = 16;
/// Least and greatest time for which an answer is kept, whatever its TTL, and the time after a failure.
const LEAST_AGE: Duration = Duration::from_secs(60);
const MAX_AGE: Duration = Duration::from_secs(3600);

/// A prefix of NAT64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nat64Prefix {
    bytes: [u8; 16],
    length: usize,
}

impl Nat64Prefix {
    /// The IPv4 address to which an IPv6 address with this prefix is translated.
    pub(crate) fn embedded(&self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        let has_prefix = address.octets()[..self.length] == self.bytes[..self.length];
        has_prefix.then(|| embedded(address, self.length))
    }
}

/// The IPv4 address behind a prefix of so many bytes.
fn embedded(address: Ipv6Addr, length: usize) -> Ipv4Addr {
    let mut found = [0; 4];
    let behind = address.octets();
    let bytes = behind.iter().enumerate().skip(length);
    let bytes = bytes.filter(|(index, _)| *index != ZERO_BYTE || length > ZERO_BYTE);
    for (place, (_, byte)) in found.iter_mut().zip(bytes) {
        *place = *byte;
    }
    found.into()
}

/// The prefixes of these addresses of `ipv4only.arpa`.
fn prefixes(addresses: impl Iterator<Item = Ipv6Addr>) -> Vec<Nat64Prefix> {
    let all = addresses.flat_map(|address| LENGTHS.map(|length| (address, length)));
    let found = all.filter(|(address, length)| WELL_KNOWN.contains(&embedded(*address, *length)));
    found
        .map(|(address, length)| Nat64Prefix {
            bytes: address.octets(),
            length,
        })
        .take(MAX_PREFIXES)
        .collect()
}

/// The prefixes of the network in which the gateway's name servers are.
#[derive(Debug)]
pub(crate) struct Nat64Prefixes(Mutex<Known>);

#[derive(Debug)]
struct Known {
    prefixes: Arc<[Nat64Prefix]>,
    until: Instant,
}

impl Nat64Prefixes {
    /// Nothing is known yet.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Known {
            prefixes: Arc::default(),
            until: Instant::now(),
        }))
    }

    /// The prefixes, which are looked up first if what is known is old. After a failure, the last known ones stay.
    pub(crate) async fn current(&self, dns: &DnsResolver, owner: ConnectionOwner) -> Arc<[Nat64Prefix]> {
        // While one task asks, the others wait for the answer.
        let mut known = self.0.lock().await;
        if Instant::now() >= known.until {
            let (found, age) = look_up(dns, owner).await;
            if let Some(found) = found {
                known.prefixes = found.into();
            }
            known.until = Instant::now() + age.clamp(LEAST_AGE, MAX_AGE);
        }
        Arc::clone(&known.prefixes)
    }
}

/// Asks for the prefixes; returns `None` after a failure, and the time for which this may be kept.
async fn look_up(dns: &DnsResolver, owner: ConnectionOwner) -> (Option<Vec<Nat64Prefix>>, Duration) {
    let Ok(name) = Name::from_ascii(NAME) else {
        return (None, MAX_AGE);
    };
    match dns.records(&name, RecordType::AAAA, owner).await {
        Ok(records) => {
            let ttl = records.iter().map(|record| record.ttl).min().unwrap_or_default();
            let addresses = records.iter().filter_map(|record| match record.data.ip_addr() {
                Some(std::net::IpAddr::V6(address)) => Some(address),
                Some(std::net::IpAddr::V4(_)) | None => None,
            });
            (Some(prefixes(addresses)), Duration::from_secs(ttl.into()))
        }
        // There is no NAT64.
        Err(NoRecords::Absent { .. }) => (Some(Vec::new()), MAX_AGE),
        Err(NoRecords::Failed(_)) => (None, LEAST_AGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v6(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_of_all_lengths_are_recognized() {
        // The examples of RFC 6052 section 2.4, and the address of `ipv4only.arpa` behind the same prefixes.
        for (synthesized, example) in [
            ("2001:db8:c000:aa::", "2001:db8:c000:221::"),
            ("2001:db8:1c0:0:aa::", "2001:db8:1c0:2:21::"),
            ("2001:db8:122:c000:0:aa00::", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:3c0:0:aa::", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344:c0:0:aa00:0", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::192.0.0.170", "2001:db8:122:344::192.0.2.33"),
        ] {
            let found = prefixes([v6(synthesized)].into_iter());
            assert_eq!(found.len(), 1, "{synthesized}");
            let embedded = found[0].embedded(v6(example));
            assert_eq!(embedded, Some(Ipv4Addr::new(192, 0, 2, 33)), "{example}");
            assert_eq!(found[0].embedded(v6("2600::1")), None);
        }
        let both = ["2001:db8::192.0.0.170", "2001:db8::192.0.0.171"].map(v6);
        assert_eq!(prefixes(both.into_iter()).len(), 2);
        assert_eq!(prefixes([v6("2001:db8::192.0.0.8")].into_iter()), []);
    }
}
