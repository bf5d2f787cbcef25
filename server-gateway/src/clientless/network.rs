//! The network of a client: what the limits of clients without a name count by.
use std::net::{IpAddr, Ipv6Addr};

use longhaul_types::PublicKey;

/// The addresses that count as one client: an IPv4 address in any form, or the /64 of an IPv6 address, all addresses of
/// which a single computer may use.
///
/// For limits only: what belongs to a client belongs to its address ([`super::client::owner`]), because several people are
/// in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClientNetwork(IpAddr);

impl ClientNetwork {
    /// The network of an address.
    pub(super) fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            v4 @ IpAddr::V4(_) => v4,
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        })
    }

    /// The network among those who have limits.
    pub(super) fn key(self) -> PublicKey {
        let address = self.0.to_string();
        PublicKey::from_bytes(blake3::derive_key(
            "longhaul clientless network",
            address.as_bytes(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(address: &str) -> ClientNetwork {
        ClientNetwork::of(address.parse().unwrap())
    }

    #[test]
    fn a_network_is_an_ipv4_address_or_the_64_of_an_ipv6_address() {
        for (one, other, is_same) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.2", false),
            ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
        ] {
            assert_eq!(network(one) == network(other), is_same, "{one} {other}");
            let keys = [one, other].map(|address| network(address).key());
            assert_eq!(keys[0] == keys[1], is_same, "{one} {other}");
        }
    }
}
