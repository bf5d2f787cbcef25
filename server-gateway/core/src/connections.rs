//! Limits of the connections to ports that are open to strangers, and of what else clients have a number of places for.
use std::{collections::BTreeMap, iter, net::IpAddr, sync::Arc};

use parking_lot::Mutex;

use crate::client_network::ClientNetwork;

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
/// Questions to the name server that are in progress, of all addresses and of one. At the permitted rate, two clients whose
/// questions nobody answers would otherwise take all places.
const MAX_QUESTIONS: usize = 1024;
const MAX_QUESTIONS_OF_ADDRESS: usize = 256;

/// Connections to the port for captive portals at the same time, of all addresses and of one: an agent opens one.
const MAX_OF_PORTAL: usize = 256;
const MAX_OF_PORTAL_AND_ADDRESS: usize = 32;

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// From a network of `clientless.allow`, or from one in which a client with a name was lately served.
    Client,
    /// From anywhere else: all of these together have half of the places at most.
    Stranger,
}

/// The connections that are open, or in the handshake.
#[derive(Debug)]
pub struct Connections {
    counts: Mutex<Counts>,
    most: usize,
    most_of_address: usize,
}

#[derive(Debug, Default)]
struct Counts {
    by_address: BTreeMap<IpAddr, usize>,
    /// A single computer has all addresses of an IPv6 network, but a network may have many computers: it gets more than
    /// one address, and never all. Nor do all networks of one customer.
    by_network: BTreeMap<ClientNetwork, usize>,
    /// Connections of strangers, in all and by network.
    of_strangers: usize,
    strangers: BTreeMap<ClientNetwork, usize>,
    in_all: usize,
}

/// The networks of an address, and how many of so many places each of them may have: half for that of a client, and three
/// quarters for the largest one that a customer may have.
fn networks(address: IpAddr, most: usize) -> impl Iterator<Item = (ClientNetwork, usize)> + Clone {
    let largest = ClientNetwork::delegated(address).last();
    let largest = largest.map(|(network, _)| (network, most - most / 4));
    iter::once((ClientNetwork::of(address), most / 2)).chain(largest)
}

/// Removes one from a count; returns false if it is zero.
fn leave<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K) -> bool {
    let Some(count) = counts.get_mut(&key) else {
        return false;
    };
    *count -= 1;
    if *count == 0 {
        counts.remove(&key);
    }
    true
}

/// The place of a connection among those of its address, until dropped.
#[derive(Debug)]
pub struct Place {
    connections: Arc<Connections>,
    address: IpAddr,
    standing: Standing,
}

impl Connections {
    /// No connection is open.
    pub fn open() -> Arc<Self> {
        Self::limited(MAX_CONNECTIONS, MAX_OF_ADDRESS)
    }

    /// No connection is in the handshake.
    pub fn in_handshake() -> Arc<Self> {
        Self::limited(MAX_HANDSHAKES, MAX_HANDSHAKES_OF_ADDRESS)
    }

    /// No connection to the name server is open.
    pub fn of_name_server() -> Arc<Self> {
        Self::limited(MAX_OF_NAME_SERVER, MAX_OF_NAME_SERVER_AND_ADDRESS)
    }

    /// No question to the name server is in progress.
    pub fn of_questions() -> Arc<Self> {
        Self::limited(MAX_QUESTIONS, MAX_QUESTIONS_OF_ADDRESS)
    }

    /// No connection to the port for captive portals is open.
    pub fn of_portal() -> Arc<Self> {
        Self::limited(MAX_OF_PORTAL, MAX_OF_PORTAL_AND_ADDRESS)
    }

    fn limited(most: usize, most_of_address: usize) -> Arc<Self> {
        Arc::new(Self {
            counts: Mutex::default(),
            most,
            most_of_address,
        })
    }

    /// Counts a connection; `None` beyond the limits.
    pub fn enter(self: &Arc<Self>, address: IpAddr, standing: Standing) -> Option<Place> {
        let mut counts = self.counts.lock();
        let of_address = counts.by_address.get(&address).copied().unwrap_or(0);
        let is_stranger = standing == Standing::Stranger;
        let most = if is_stranger { self.most / 2 } else { self.most };
        let is_full = counts.in_all >= self.most || is_stranger && counts.of_strangers >= most;
        let networks = networks(address, most);
        let is_network_full = networks.clone().any(|(network, most)| {
            counts
                .by_network
                .get(&network)
                .is_some_and(|count| *count >= most)
        });
        if is_full || of_address >= self.most_of_address || is_network_full {
            return None;
        }
        counts.in_all += 1;
        if is_stranger {
            counts.of_strangers += 1;
            *counts.strangers.entry(ClientNetwork::of(address)).or_default() += 1;
        }
        counts.by_address.insert(address, of_address + 1);
        for (network, _) in networks {
            *counts.by_network.entry(network).or_default() += 1;
        }
        Some(Place {
            connections: Arc::clone(self),
            address,
            standing,
        })
    }

    /// The network of an address is one of clients from now on, with the connections that it has.
    pub fn promote(&self, address: IpAddr) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.strangers.remove(&ClientNetwork::of(address)) {
            counts.of_strangers -= count;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.connections.counts.lock();
        counts.in_all -= 1;
        let network = ClientNetwork::of(self.address);
        if self.standing == Standing::Stranger && leave(&mut counts.strangers, network) {
            counts.of_strangers -= 1;
        }
        leave(&mut counts.by_address, self.address);
        for (network, _) in networks(self.address, 0) {
            leave(&mut counts.by_network, network);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Standing::*, *};

    #[test]
    fn one_address_cannot_use_up_all_connections() {
        let connections = Connections::open();
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let mut open: Vec<Place> = (0..MAX_CONNECTIONS)
            .filter_map(|_| connections.enter(one, Client))
            .collect();
        assert_eq!(open.len(), MAX_OF_ADDRESS);
        assert!(connections.enter(other, Client).is_some());
        open.pop();
        assert!(connections.enter(one, Client).is_some());
        open.clear();
        assert!(connections.counts.lock().by_address.is_empty());
    }

    #[test]
    fn one_ipv6_network_cannot_use_up_all_connections() {
        let connections = Connections::open();
        let address = |number: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, number]);
        let mut open: Vec<Place> = (0..2048)
            .filter_map(|number| connections.enter(address(number), Client))
            .collect();
        assert_eq!(open.len(), MAX_CONNECTIONS / 2);
        let other = IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, 1]);
        assert!(connections.enter(other, Client).is_some());
        open.clear();
        assert!(connections.counts.lock().by_network.is_empty());
    }

    #[test]
    fn the_networks_of_one_customer_cannot_use_up_all_connections() {
        for (standing, most) in [(Client, MAX_CONNECTIONS), (Stranger, MAX_CONNECTIONS / 2)] {
            let connections = Connections::open();
            let address = |number: u16| IpAddr::from([0x2001, 0xdb8, 0, number, 0, 0, 0, 1]);
            let mut open: Vec<Place> = (0..2048)
                .filter_map(|number| connections.enter(address(number), standing))
                .collect();
            assert_eq!(open.len(), most * 3 / 4);
            let other = IpAddr::from([0x2001, 0xdb8, 1, 0, 0, 0, 0, 1]);
            assert!(connections.enter(other, standing).is_some());
            open.clear();
            assert!(connections.counts.lock().by_network.is_empty());
        }
    }

    #[test]
    fn strangers_leave_half_of_the_places_to_clients() {
        let connections = Connections::in_handshake();
        let address = |network: u8, host: u8| IpAddr::from([198, 51, network, host]);
        let all = || (0..100).flat_map(|network| (0..100).map(move |host| (network, host)));
        let enter = |standing| {
            all()
                .filter_map(|(network, host)| connections.enter(address(network, host), standing))
                .collect::<Vec<Place>>()
        };
        let mut strangers = enter(Stranger);
        assert_eq!(strangers.len(), MAX_HANDSHAKES / 2);
        let clients = enter(Client);
        assert_eq!(clients.len(), MAX_HANDSHAKES / 2);
        strangers.clear();
        drop(clients);
        assert_eq!(enter(Client).len(), MAX_HANDSHAKES);
        assert_eq!(connections.counts.lock().of_strangers, 0);
    }

    #[test]
    fn a_network_whose_client_has_logged_in_takes_no_places_of_strangers() {
        let connections = Connections::limited(8, 4);
        let address = |host: u8| IpAddr::from([198, 51, 100, host]);
        let enter = |host: u8| connections.enter(address(host), Stranger);
        // Of the four places of strangers, a network has two.
        let mut of_client: Vec<Place> = (0..3).filter_map(|_| enter(1)).collect();
        assert_eq!(of_client.len(), 2);
        let _strangers = [enter(2).unwrap(), enter(3).unwrap()];
        assert!(enter(4).is_none());
        connections.promote(address(1));
        let strangers: Vec<Place> = (4..9).filter_map(enter).collect();
        assert_eq!(strangers.len(), 2);
        of_client.clear();
        assert_eq!(connections.counts.lock().of_strangers, 4);
        assert!(enter(9).is_none() && connections.enter(address(9), Client).is_some());
    }

    #[test]
    fn one_client_does_not_use_up_the_questions_and_the_port_of_others() {
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        for (places, most) in [
            (Connections::of_questions(), MAX_QUESTIONS_OF_ADDRESS),
            (Connections::of_portal(), MAX_OF_PORTAL_AND_ADDRESS),
        ] {
            let taken: Vec<Place> = (0..2048).filter_map(|_| places.enter(one, Client)).collect();
            assert_eq!(taken.len(), most);
            assert!(places.enter(other, Client).is_some());
        }
    }

    #[test]
    fn only_the_places_of_strangers_are_given_back_to_strangers() {
        let connections = Connections::limited(16, 8);
        let address = |host: u8| IpAddr::from([198, 51, 100, host]);
        let of_strangers = || connections.counts.lock().of_strangers;
        let mut strangers: Vec<Place> = [1, 1, 2, 3, 4, 5]
            .into_iter()
            .filter_map(|host| connections.enter(address(host), Stranger))
            .collect();
        assert_eq!(of_strangers(), 6);
        drop(connections.enter(address(5), Client).unwrap());
        assert_eq!(of_strangers(), 6);
        strangers.pop();
        assert_eq!(of_strangers(), 5);
        // Two connections of one network.
        connections.promote(address(1));
        assert_eq!(of_strangers(), 3);
        strangers.clear();
        assert_eq!(of_strangers(), 0);
    }
}
