//! Assignment of an address to every host.
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
};

/// Network of the hosts' addresses, a /16.
const NETWORK: u32 = 0x0A4F_0000;
/// Number of addresses in the network without its own and its broadcast address.
const MAX_HOSTS: usize = 65_534;

/// A separate address for each host, in 10.79.0.0/16.
///
/// The addresses are assigned in the sorted order of the names, from 10.79.0.1 on: equal sets of hosts have
/// equal addresses, whatever their order. A host that is an IP address has no name to resolve and gets none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostAddresses(BTreeMap<String, Ipv4Addr>);

/// More hosts than the network has addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} hosts are too many for one network; at most {MAX_HOSTS} can have an address of their own")]
pub struct TooManyHosts(pub usize);

impl HostAddresses {
    /// Assigns each host an address. Names are compared in lower case, without a final dot.
    ///
    /// # Errors
    /// There are more hosts than addresses.
    pub fn assign<H: AsRef<str>>(hosts: impl IntoIterator<Item = H>) -> Result<Self, TooManyHosts> {
        let mut addresses: BTreeMap<String, Ipv4Addr> = hosts
            .into_iter()
            .map(|host| normalised(host.as_ref()))
            .filter(|host| !is_address(host))
            .map(|host| (host, Ipv4Addr::UNSPECIFIED))
            .collect();
        if addresses.len() > MAX_HOSTS {
            return Err(TooManyHosts(addresses.len()));
        }
        for (number, address) in (1..).zip(addresses.values_mut()) {
            *address = Ipv4Addr::from_bits(NETWORK + number);
        }
        Ok(Self(addresses))
    }

    /// Returns the address of this host.
    pub fn address(&self, host: &str) -> Option<Ipv4Addr> {
        self.0.get(&normalised(host)).copied()
    }

    /// Returns the host at this address.
    pub fn host(&self, address: Ipv4Addr) -> Option<&str> {
        // Addresses ascend with the names.
        let number = address.to_bits().checked_sub(NETWORK + 1)?;
        let (host, _) = self.0.iter().nth(usize::try_from(number).ok()?)?;
        Some(host)
    }

    /// Returns all hosts with their addresses, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Ipv4Addr)> {
        self.0.iter().map(|(host, address)| (host.as_str(), *address))
    }

    /// Number of hosts with an address.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if no host has an address.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns a host in the form used for comparisons: lower case, without the final dot.
pub(crate) fn normalised(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

fn is_address(host: &str) -> bool {
    host.is_empty() || host.starts_with('[') || host.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_depend_only_on_the_set_of_hosts() {
        let one =
            HostAddresses::assign(["b.example", "A.example.", "a.example", "192.0.2.1", "[::1]"]).unwrap();
        let other = HostAddresses::assign(["a.example", "b.example"]).unwrap();
        assert_eq!(one, other);
        assert_eq!(one.address("A.EXAMPLE"), Some(Ipv4Addr::new(10, 79, 0, 1)));
        assert_eq!(one.address("b.example"), Some(Ipv4Addr::new(10, 79, 0, 2)));
        assert_eq!(one.host(Ipv4Addr::new(10, 79, 0, 2)), Some("b.example"));
        assert_eq!(one.host(Ipv4Addr::new(10, 79, 0, 3)), None);
        assert_eq!(one.host(Ipv4Addr::new(10, 79, 0, 0)), None);
        assert_eq!(one.len(), 2);
    }

    #[test]
    fn more_hosts_than_addresses_are_rejected() {
        let names = |count: usize| (0..count).map(|number| format!("h{number}.example"));
        let full = HostAddresses::assign(names(MAX_HOSTS)).unwrap();
        let last = full.iter().last().map(|(_, address)| address);
        assert_eq!(last, Some(Ipv4Addr::new(10, 79, 255, 254)));
        assert_eq!(
            HostAddresses::assign(names(MAX_HOSTS + 1)),
            Err(TooManyHosts(MAX_HOSTS + 1))
        );
    }
}
