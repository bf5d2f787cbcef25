//! Prefixes of NAT64 (RFC 6052): IPv6 addresses that a translator in the gateway's network turns into IPv4 addresses.
//!
//! The well-known prefix 64:ff9b::/96 is known to [`crate::address_class`]. A network may have prefixes of its own, which
//! look like public addresses. They are discovered as in RFC 7050 ([`crate::nat64_discovery`]): the name `ipv4only.arpa` has only two IPv4 addresses,
//! so that each IPv6 address of it comes from a prefix.
use std::net::{Ipv4Addr, Ipv6Addr};

/// The addresses of `ipv4only.arpa` (RFC 7050 section 8.2).
const WELL_KNOWN: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 0, 170), Ipv4Addr::new(192, 0, 0, 171)];
/// Lengths of prefixes in bytes (RFC 6052 section 2.2).
const LENGTHS: [usize; 6] = [4, 5, 6, 7, 8, 12];
/// Byte of an address that is zero behind a prefix of less than 96 bits: the IPv4 address surrounds it.
const ZERO_BYTE: usize = 8;
/// Maximum number of prefixes.
const MAX_PREFIXES: usize = 16;

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
pub(crate) fn prefixes(addresses: impl Iterator<Item = Ipv6Addr>) -> Vec<Nat64Prefix> {
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
