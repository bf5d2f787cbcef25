//! The network of a client: what the limits of clients without a name count by.
use std::net::{IpAddr, Ipv6Addr};

use longhaul_types::PublicKey;

/// The addresses that count as one client: an IPv4 address in any form, or the /64 of an IPv6 address, all addresses of
/// which a single computer may use.
///
/// For limits only: what belongs to a client belongs to its address, because several people are
/// in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientNetwork {
    address: IpAddr,
    /// Length of the prefix in bits; that of an IPv4 address is not distinguished.
    bits: u32,
}

/// Length of the prefix of one client.
const CLIENT: u32 = 64;
/// Lengths of the prefixes that providers delegate, and how many clients of full use each of them may be: one customer may
/// have a whole one, and a small provider may have all of its customers in one.
const DELEGATED: [(u32, u32); 2] = [(56, 16), (48, 64)];

impl ClientNetwork {
    /// The network of an address.
    pub fn of(address: IpAddr) -> Self {
        Self::with_prefix(address, CLIENT)
    }

    fn with_prefix(address: IpAddr, bits: u32) -> Self {
        let address = match address.to_canonical() {
            v4 @ IpAddr::V4(_) => v4,
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & u128::MAX << (128 - bits)).into(),
        };
        Self { address, bits }
    }

    /// The networks around that of an IPv6 address which one customer may have, each with the number of clients whose
    /// limits it has.
    pub fn delegated(address: IpAddr) -> impl Iterator<Item = (Self, u32)> {
        let networks = DELEGATED.iter().filter(move |_| address.to_canonical().is_ipv6());
        networks.map(move |(bits, clients)| (Self::with_prefix(address, *bits), *clients))
    }

    /// The network among those who have limits.
    pub fn key(self) -> PublicKey {
        let address = format!("{}/{}", self.address, self.bits);
        PublicKey::from_bytes(blake3::derive_key(
            "longhaul clientless network",
            address.as_bytes(),
        ))
    }

    /// One of the shares that the network has of the limits, among those who have some.
    pub fn share_key(self, number: u32) -> PublicKey {
        let share = format!("{}/{} {number}", self.address, self.bits);
        PublicKey::from_bytes(blake3::derive_key("longhaul clientless share", share.as_bytes()))
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

    #[test]
    fn the_networks_that_a_customer_may_have_are_those_of_ipv6() {
        let delegated =
            |address: &str| ClientNetwork::delegated(address.parse().unwrap()).collect::<Vec<_>>();
        let (one, near) = (delegated("2001:db8:0:1::1"), delegated("2001:db8:0:ff::1"));
        let (far, other) = (delegated("2001:db8:0:ff00::1"), delegated("2001:db8:1::1"));
        assert_eq!(one, near);
        assert!(one[0] != far[0] && one[1] == far[1] && one[1] != other[1]);
        assert_ne!(one[0].0.key(), network("2001:db8::1").key());
        assert!(delegated("192.0.2.1").is_empty() && delegated("::ffff:192.0.2.1").is_empty());
    }
}
