//! Limit of the names that each client lets the gateway look up.
use std::{
    collections::BTreeMap,
    net::IpAddr,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::network::ClientNetwork;

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
        let client = ClientNetwork::of(client);
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
        let most = f64::from(A_SECOND);
        let saved = clients.entry(client).or_insert(Saved { count: most, at: now });
        let since = now.saturating_duration_since(saved.at).as_secs_f64();
        saved.count = (saved.count + since * most).min(most);
        saved.at = now;
        let is_permitted = saved.count >= 1.0;
        if is_permitted {
            saved.count -= 1.0;
        }
        is_permitted
    }
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
}
