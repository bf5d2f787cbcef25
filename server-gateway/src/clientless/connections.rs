//! Limits of the connections to the proxy.
use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::password_failures::network;

/// Time within which a connection must send a request that is admitted: until then it takes up a place of those who may.
pub(super) const UNUSED_TIME: Duration = Duration::from_secs(60);
/// Connections at the same time.
const MAX_CONNECTIONS: usize = 2048;
/// Connections of one address at the same time. Browsers open up to 32 through a proxy.
const MAX_OF_ADDRESS: usize = 256;

/// TLS handshakes at the same time, of all addresses and of one: each costs a signature.
const MAX_HANDSHAKES: usize = 256;
const MAX_HANDSHAKES_OF_ADDRESS: usize = 32;

/// Connections to the name server at the same time, of all addresses and of one: resolvers keep one or two.
const MAX_OF_NAME_SERVER: usize = 256;
const MAX_OF_NAME_SERVER_AND_ADDRESS: usize = 16;

/// The connections that are open, or in the handshake.
#[derive(Debug)]
pub(super) struct Connections {
    counts: Mutex<Counts>,
    most: usize,
    most_of_address: usize,
}

#[derive(Debug, Default)]
struct Counts {
    by_address: BTreeMap<IpAddr, usize>,
    /// By IPv6 network: a single computer has all addresses of one.
    by_network: BTreeMap<IpAddr, usize>,
    in_all: usize,
}

/// Removes one from a count.
fn leave(counts: &mut BTreeMap<IpAddr, usize>, key: IpAddr) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

/// The place of a connection among those of its address, until dropped.
#[derive(Debug)]
pub(super) struct Place {
    connections: Arc<Connections>,
    address: IpAddr,
}

impl Connections {
    /// No connection is open.
    pub(super) fn open() -> Arc<Self> {
        Self::limited(MAX_CONNECTIONS, MAX_OF_ADDRESS)
    }

    /// No connection is in the handshake.
    pub(super) fn in_handshake() -> Arc<Self> {
        Self::limited(MAX_HANDSHAKES, MAX_HANDSHAKES_OF_ADDRESS)
    }

    /// No connection to the name server is open.
    pub(super) fn of_name_server() -> Arc<Self> {
        Self::limited(MAX_OF_NAME_SERVER, MAX_OF_NAME_SERVER_AND_ADDRESS)
    }

    fn limited(most: usize, most_of_address: usize) -> Arc<Self> {
        Arc::new(Self {
            counts: Mutex::default(),
            most,
            most_of_address,
        })
    }

    /// Counts a connection; `None` beyond the limits.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut counts = self.counts.lock();
        let of_address = counts.by_address.get(&address).copied().unwrap_or(0);
        let network = network(address);
        let of_network = counts.by_network.get(&network).copied().unwrap_or(0);
        if counts.in_all >= self.most || of_address >= self.most_of_address || of_network >= self.most / 2 {
            return None;
        }
        counts.in_all += 1;
        counts.by_address.insert(address, of_address + 1);
        counts.by_network.insert(network, of_network + 1);
        Some(Place {
            connections: Arc::clone(self),
            address,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.connections.counts.lock();
        counts.in_all -= 1;
        leave(&mut counts.by_address, self.address);
        leave(&mut counts.by_network, network(self.address));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_use_up_all_connections() {
        let connections = Connections::open();
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let mut open: Vec<Place> = (0..MAX_CONNECTIONS)
            .filter_map(|_| connections.enter(one))
            .collect();
        assert_eq!(open.len(), MAX_OF_ADDRESS);
        assert!(connections.enter(other).is_some());
        open.pop();
        assert!(connections.enter(one).is_some());
        open.clear();
        assert!(connections.counts.lock().by_address.is_empty());
    }

    #[test]
    fn one_ipv6_network_cannot_use_up_all_connections() {
        let connections = Connections::open();
        let address = |number: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, number]);
        let mut open: Vec<Place> = (0..2048)
            .filter_map(|number| connections.enter(address(number)))
            .collect();
        assert_eq!(open.len(), MAX_CONNECTIONS / 2);
        let other = IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, 1]);
        assert!(connections.enter(other).is_some());
        open.clear();
        assert!(connections.counts.lock().by_network.is_empty());
    }
}
