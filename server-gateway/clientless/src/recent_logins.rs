//! Networks in which clients with a name were lately served.
//!
//! Before its first request, a connection of such a client looks like that of a stranger. Its network keeps the better
//! standing ([`longhaul_gateway_core::connections::Standing`]) for a day, so that strangers who take all of their places do not keep it
//! out. Wrong passwords from around the network do not keep it out either. Nobody in the network is served without a password.
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::{Duration, Instant},
};

use longhaul_gateway_core::{
    admission::clients::{ClientIdentity, Clients},
    client_network::ClientNetwork,
};
use parking_lot::Mutex;

/// Time for which a network is remembered: a client that comes every day is known.
const MEMORY: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of remembered networks, and of those of one client: home, office, some mobile networks. With more, the
/// oldest is forgotten. One client can thus not make the gateway forget the networks of others.
const MAX_NETWORKS: usize = 4096;
const MAX_OF_CLIENT: usize = 16;

/// Networks of successful logins.
#[derive(Debug, Default)]
pub(super) struct RecentLogins(Mutex<BTreeMap<ClientNetwork, Login>>);

#[derive(Clone, Copy, Debug)]
struct Login {
    client: ClientIdentity,
    at: Instant,
}

impl RecentLogins {
    /// Records a successful login; returns true if the network was not known.
    pub(super) fn note(&self, address: IpAddr, client: ClientIdentity, now: Instant) -> bool {
        let network = ClientNetwork::of(address);
        let mut logins = self.0.lock();
        let is_new = logins.get(&network).is_none_or(|login| !login.is_recent(now));
        if is_new {
            logins.retain(|_, login| login.is_recent(now));
            let of_client = logins.values().filter(|login| login.client == client).count();
            if of_client >= MAX_OF_CLIENT {
                forget_oldest(&mut logins, |login| login.client == client);
            } else if logins.len() >= MAX_NETWORKS {
                forget_oldest(&mut logins, |_| true);
            }
        }
        logins.insert(network, Login { client, at: now });
        is_new
    }

    /// Returns true if a client was lately served in the network of an address.
    pub(super) fn is_known(&self, address: IpAddr, now: Instant) -> bool {
        let logins = self.0.lock();
        let login = logins.get(&ClientNetwork::of(address));
        login.is_some_and(|login| login.is_recent(now))
    }

    /// Forgets the networks of clients that are no longer in the list.
    pub(super) fn retain(&self, list: &Clients) {
        let clients: BTreeSet<ClientIdentity> = list.identities().collect();
        self.0.lock().retain(|_, login| clients.contains(&login.client));
    }
}

impl Login {
    fn is_recent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < MEMORY
    }
}

/// Removes the oldest of these logins.
fn forget_oldest(logins: &mut BTreeMap<ClientNetwork, Login>, is_candidate: impl Fn(&Login) -> bool) {
    let candidates = logins.iter().filter(|(_, login)| is_candidate(login));
    if let Some((oldest, _)) = candidates.min_by_key(|(_, login)| login.at) {
        let oldest = *oldest;
        logins.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(client: u8, number: u16) -> IpAddr {
        IpAddr::from([0x2001, 0xdb8, u16::from(client), number, 0, 0, 0, 1])
    }

    #[test]
    fn a_network_is_remembered_for_a_day_or_until_its_client_is_removed() {
        let (logins, start) = (RecentLogins::default(), Instant::now());
        let (ann, address) = (ClientIdentity::from_bytes([1; 32]), address(1, 1));
        assert!(!logins.is_known(address, start));
        assert!(logins.note(address, ann, start) && !logins.note(address, ann, start));
        let neighbour = IpAddr::from([0x2001, 0xdb8, 1, 1, 9, 9, 9, 9]);
        assert!(logins.is_known(neighbour, start + MEMORY / 2));
        assert!(!logins.is_known(address, start + MEMORY));
        logins.retain(&Clients::default());
        assert!(!logins.is_known(address, start));
    }

    #[test]
    fn memory_is_bounded_and_one_client_does_not_take_it_from_others() {
        let (logins, start) = (RecentLogins::default(), Instant::now());
        logins.note(address(1, 0), ClientIdentity::from_bytes([1; 32]), start);
        for number in 0..1000 {
            let now = start + Duration::from_secs(u64::from(number));
            logins.note(address(2, number), ClientIdentity::from_bytes([2; 32]), now);
        }
        assert_eq!(logins.0.lock().len(), 1 + MAX_OF_CLIENT);
        assert!(logins.is_known(address(1, 0), start));
        assert!(logins.is_known(address(2, 999), start));
        assert!(!logins.is_known(address(2, 0), start));
    }
}
