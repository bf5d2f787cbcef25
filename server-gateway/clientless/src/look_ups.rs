//! Limit of the names that each client lets the gateway look up.
use std::{
    collections::BTreeMap,
    iter,
    net::IpAddr,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use longhaul_gateway_core::client_network::ClientNetwork;

/// Look-ups a second and client, and those that it may save up: a page refers to a few dozen hosts.
const A_SECOND: u32 = 64;
/// Maximum number of remembered clients. With more, the one that has been silent for longest is forgotten.
const MAX_CLIENTS: usize = 4096;

/// Look-ups by network.
#[derive(Debug, Default)]
pub(super) struct LookUps(Mutex<BTreeMap<ClientNetwork, Saved>>);

#[derive(Clone, Copy, Debug)]
struct Saved {
    count: f64,
    at: Instant,
}

impl LookUps {
    /// Returns true if the client may cause a look-up now.
    pub(super) fn permit(&self, client: IpAddr, now: Instant) -> bool {
        let mut clients = self.0.lock();
        let delegated =
            ClientNetwork::delegated(client).map(|(network, clients)| (network, A_SECOND * clients));
        let networks: Vec<_> = iter::once((ClientNetwork::of(client), A_SECOND))
            .chain(delegated)
            .collect();
        // A refused look-up counts for none of them.
        let is_permitted = networks
            .iter()
            .all(|(network, most)| saved(&mut clients, *network, *most, now).count >= 1.0);
        for (network, most) in networks.iter().filter(|_| is_permitted) {
            saved(&mut clients, *network, *most, now).count -= 1.0;
        }
        is_permitted
    }
}

/// What a network has saved up by now.
fn saved(
    clients: &mut BTreeMap<ClientNetwork, Saved>,
    client: ClientNetwork,
    most: u32,
    now: Instant,
) -> &mut Saved {
    if !clients.contains_key(&client) && clients.len() >= MAX_CLIENTS {
        // Those who have saved up everything are as good as forgotten.
        clients.retain(|_, saved| now.saturating_duration_since(saved.at) < Duration::from_secs(1));
        if clients.len() >= MAX_CLIENTS
            && let Some((oldest, _)) = clients.iter().min_by_key(|(_, saved)| saved.at)
        {
            let oldest = *oldest;
            clients.remove(&oldest);
        }
    }
    let most = f64::from(most);
    let saved = clients.entry(client).or_insert(Saved { count: most, at: now });
    let since = now.saturating_duration_since(saved.at).as_secs_f64();
    saved.count = (saved.count + since * most).min(most);
    saved.at = now;
    saved
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_client_causes_64_look_ups_a_second_and_does_not_use_up_those_of_others() {
        let look_ups = LookUps::default();
        let (start, client) = (Instant::now(), IpAddr::from([192, 0, 2, 1]));
        let permitted = |now| (0..1000).filter(|_| look_ups.permit(client, now)).count();
        assert_eq!(permitted(start), 64);
        assert_eq!(permitted(start + Duration::from_millis(500)), 32);
        assert_eq!(permitted(start + Duration::from_secs(60)), 64);
        assert!(look_ups.permit(IpAddr::from([192, 0, 2, 2]), start));
        for number in 0..4_200_u32 {
            assert!(look_ups.permit(Ipv4Addr::from(number).into(), start));
        }
        assert!(look_ups.0.lock().len() <= MAX_CLIENTS);
    }

    #[test]
    fn the_networks_of_one_customer_share_a_multiple() {
        let look_ups = LookUps::default();
        let start = Instant::now();
        let permitted = |network: u16, number: u16| {
            let client = IpAddr::from([0x2001, 0xdb8, network, number, 0, 0, 0, 1]);
            (0..64).filter(|_| look_ups.permit(client, start)).count()
        };
        // 256 networks of a /56, then further ones of the /48.
        assert_eq!(
            (0..256).map(|number| permitted(1, number)).sum::<usize>(),
            16 * 64
        );
        let further = (0..256).flat_map(|first| (0..4).map(move |second| first << 8 | second));
        assert_eq!(
            further.skip(4).map(|number| permitted(1, number)).sum::<usize>(),
            48 * 64
        );
        assert_eq!(permitted(2, 0), 64);
    }

    #[test]
    fn who_has_used_up_its_look_ups_is_not_forgotten_for_others() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let other = |number: u32| IpAddr::from(Ipv4Addr::from(number));
        let client = IpAddr::from([192, 0, 2, 1]);
        let is_exhausted = |look_ups: &LookUps, now| !look_ups.permit(client, now);
        // Others fill the memory after this client, and ask again: no client is forgotten for them.
        let look_ups = LookUps::default();
        (0..64).for_each(|_| assert!(look_ups.permit(client, start)));
        for number in 1..u32::try_from(MAX_CLIENTS).unwrap() {
            assert!(look_ups.permit(other(number), at(1)));
        }
        assert!(look_ups.permit(other(1), at(2)));
        assert!(is_exhausted(&look_ups, at(3)));
        // Others filled the memory before: one of them is forgotten for this client.
        let look_ups = LookUps::default();
        for number in 0..u32::try_from(MAX_CLIENTS).unwrap() {
            assert!(look_ups.permit(other(number), start));
        }
        (0..64).for_each(|_| assert!(look_ups.permit(client, at(500))));
        assert!(look_ups.permit(other(5000), at(501)));
        assert!(is_exhausted(&look_ups, at(502)));
        assert_eq!(look_ups.0.lock().len(), MAX_CLIENTS);
    }
}
