//! Which clients without a name share the streams, turns and slots of one client.
use std::{
    collections::BTreeMap,
    net::IpAddr,
    time::{Duration, Instant},
};

use longhaul_types::PublicKey;
use parking_lot::Mutex;

use longhaul_gateway_core::client_network::ClientNetwork;

/// Time for which the share of a network is remembered after its last request.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Maximum number of remembered networks. With more, the one that was not used for the longest time is forgotten.
const MAX_NETWORKS: usize = 4096;

/// The shares of IPv6 networks.
///
/// A network that a customer may have has a fixed number of shares: a /48 those of 64 clients, of which each of its /56s may
/// take 16. Each /64 takes one of these, the one that the fewest others take. So clients have a share of their own as long as
/// their customer does not use more than that, and no number of addresses gives anybody more.
#[derive(Debug, Default)]
pub(super) struct NetworkShares(Mutex<BTreeMap<ClientNetwork, Member>>);

/// A /64 that takes a share.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// The network that has the share, and its number there.
    share: (ClientNetwork, u32),
    used: Instant,
}

impl NetworkShares {
    /// Whose share of the limits a client without a name takes.
    pub(super) fn of(&self, address: IpAddr, now: Instant) -> PublicKey {
        let client = ClientNetwork::of(address);
        let mut delegated = ClientNetwork::delegated(address);
        let (Some((middle, most)), Some((largest, all))) = (delegated.next(), delegated.last()) else {
            return client.key();
        };
        let mut members = self.0.lock();
        let member = members.get(&client).copied().unwrap_or_else(|| {
            make_room(&mut members, now);
            let mut taken = BTreeMap::<u32, usize>::new();
            for member in members.values().filter(|member| member.share.0 == largest) {
                *taken.entry(member.share.1).or_default() += 1;
            }
            // A middle network may take only these, so that it never has more, whatever is remembered.
            let first = u32::from(middle.key().as_bytes()[0]);
            let numbers = (first..first + most).map(|number| number % all);
            let least = numbers.min_by_key(|number| taken.get(number).copied().unwrap_or(0));
            Member {
                share: (largest, least.unwrap_or(0)),
                used: now,
            }
        });
        members.insert(client, Member { used: now, ..member });
        let (network, number) = member.share;
        network.share_key(number)
    }
}

/// Forgets networks that are not used, so that there is room for one more.
fn make_room(members: &mut BTreeMap<ClientNetwork, Member>, now: Instant) {
    if members.len() < MAX_NETWORKS {
        return;
    }
    members.retain(|_, member| now.saturating_duration_since(member.used) < REMEMBERED);
    if members.len() >= MAX_NETWORKS
        && let Some((oldest, _)) = members.iter().min_by_key(|(_, member)| member.used)
    {
        let oldest = *oldest;
        members.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn address(network: u16, number: u16, host: u16) -> IpAddr {
        IpAddr::from([0x2001, 0xdb8, network, number, 0, 0, 0, host])
    }

    fn distinct(shares: &NetworkShares, numbers: impl Iterator<Item = u16>) -> usize {
        let now = Instant::now();
        let keys = numbers.map(|number| shares.of(address(1, number, 1), now));
        keys.collect::<BTreeSet<_>>().len()
    }

    #[test]
    fn the_clients_of_one_customer_have_their_own_shares_up_to_a_number() {
        let shares = NetworkShares::default();
        assert_eq!(distinct(&shares, 0..16), 16);
        // The rest of the /56 shares these.
        assert_eq!(distinct(&shares, 0..256), 16);
        let shares = NetworkShares::default();
        assert!(distinct(&shares, (0..48).map(|number| number << 8)) > 40);
        assert_eq!(distinct(&shares, (0..4000).map(|number| number << 4)), 64);
    }

    #[test]
    fn no_more_shares_are_had_by_being_forgotten() {
        let (shares, mut keys) = (NetworkShares::default(), BTreeSet::new());
        let mut now = Instant::now();
        for round in 0..3 {
            for number in 0..32 {
                keys.insert(shares.of(address(1, round << 5 | number, 1), now));
            }
            for number in 0..5000 {
                shares.of(address(2, number, 1), now);
            }
            assert!(shares.0.lock().len() <= MAX_NETWORKS);
            now += REMEMBERED;
        }
        assert_eq!(keys.len(), 16);
    }

    #[test]
    fn a_network_keeps_its_share_and_others_have_their_own() {
        let (shares, now) = (NetworkShares::default(), Instant::now());
        let of = |text: &str| shares.of(text.parse().unwrap(), now);
        let first = of("2001:db8:1:1::1");
        assert_ne!(of("2001:db8:1:2::1"), first);
        assert_eq!(of("2001:db8:1:1::ffff"), first);
        assert_ne!(of("2001:db8:2:1::1"), first);
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn networks_that_were_used_lately_are_remembered() {
        let (shares, start) = (NetworkShares::default(), Instant::now());
        for number in 0..u16::try_from(MAX_NETWORKS).unwrap() {
            shares.of(address(2, number, 1), start);
        }
        let later = start + REMEMBERED;
        shares.of(address(2, 7, 1), later);
        shares.of(address(1, 1, 1), later);
        let members = shares.0.lock();
        let is_known =
            |network, number| members.contains_key(&ClientNetwork::of(address(network, number, 1)));
        assert!(is_known(2, 7) && is_known(1, 1));
        assert_eq!(members.len(), 2);
    }
}
