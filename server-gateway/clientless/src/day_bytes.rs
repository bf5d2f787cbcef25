//! Bytes that a client has transferred today: what a stolen password may cost.
use std::{
    collections::BTreeMap,
    iter,
    net::IpAddr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use longhaul_types::{ByteCount, PublicKey};
use parking_lot::Mutex;

use longhaul_gateway_core::client_network::ClientNetwork;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of remembered clients. With more, the one with the fewest bytes is forgotten.
const MAX_CLIENTS: usize = 65_536;

/// The bytes of the clients: bodies and tunnels, in both directions, and objects that are fetched ahead of them. Days begin at midnight UTC.
#[derive(Debug)]
pub(super) struct DayBytes {
    /// `None`: as many as they like.
    most: Option<u64>,
    today: Mutex<Today>,
    delegated: Mutex<BTreeMap<PublicKey, Delegated>>,
}

/// The networks around that of a client, which have bytes of their own: those of so many clients each.
type Delegated = Vec<(PublicKey, u64)>;

#[derive(Debug, Default)]
struct Today {
    number: u64,
    used: BTreeMap<PublicKey, u64>,
}

impl DayBytes {
    /// At most so many bytes a day and client; 0 for as many as they like.
    pub(super) fn new(most: ByteCount) -> Self {
        Self {
            most: Some(most.bytes()).filter(|most| *most > 0),
            today: Mutex::default(),
            delegated: Mutex::default(),
        }
    }

    /// The bytes of a client without a name count for the networks that its customer may have, too.
    pub(super) fn locate(&self, client: PublicKey, address: IpAddr) {
        let networks = ClientNetwork::delegated(address);
        let networks: Delegated = networks
            .map(|(network, clients)| (network.key(), clients.into()))
            .collect();
        if self.most.is_none() || networks.is_empty() {
            return;
        }
        let mut delegated = self.delegated.lock();
        if delegated.len() >= MAX_CLIENTS && !delegated.contains_key(&client) {
            delegated.pop_first();
        }
        delegated.insert(client, networks);
    }

    /// Those for which the bytes of a client count, and the number of clients whose bytes each of them has.
    fn counted(&self, client: PublicKey) -> impl Iterator<Item = (PublicKey, u64)> {
        let networks = self.delegated.lock().get(&client).cloned().unwrap_or_default();
        iter::once((client, 1)).chain(networks)
    }

    /// Counts bytes; returns false if the client has used up those of the day.
    pub(super) fn add(&self, client: PublicKey, bytes: u64, now: SystemTime) -> bool {
        let Some(most) = self.most else { return true };
        let (number, counted) = (number_of(now), self.counted(client));
        let mut today = self.today.lock();
        if today.number != number {
            *today = Today {
                number,
                used: BTreeMap::new(),
            };
        }
        let mut is_within = true;
        for (client, clients) in counted {
            is_within &= today.add(client, bytes) <= most.saturating_mul(clients);
        }
        is_within
    }

    /// Takes back bytes that were counted, unless it was on another day.
    pub(super) fn give_back(&self, client: PublicKey, bytes: u64, (counted, now): (SystemTime, SystemTime)) {
        let clients = self.counted(client);
        let mut today = self.today.lock();
        if number_of(counted) != number_of(now) || today.number != number_of(now) {
            return;
        }
        for (client, _) in clients {
            if let Some(used) = today.used.get_mut(&client) {
                *used = used.saturating_sub(bytes);
            }
        }
    }

    /// Why a client that has used up its bytes gets nothing.
    pub(super) fn refusal(&self) -> String {
        format!(
            "this client has transferred its {} of today; the count begins anew at midnight (UTC)",
            ByteCount::new(self.most.unwrap_or_default())
        )
    }
}

impl Today {
    /// Counts bytes; returns all of the client.
    fn add(&mut self, client: PublicKey, bytes: u64) -> u64 {
        if self.used.len() >= MAX_CLIENTS
            && !self.used.contains_key(&client)
            && let Some((least, _)) = self.used.iter().min_by_key(|(_, used)| **used)
        {
            let least = *least;
            self.used.remove(&least);
        }
        let used = self.used.entry(client).or_default();
        *used = used.saturating_add(bytes);
        *used
    }
}

/// Number of the day of a time.
fn number_of(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / DAY.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_bytes_each_day() {
        let bytes = DayBytes::new(ByteCount::new(1000));
        let (ann, bob) = (PublicKey::from_bytes([1; 32]), PublicKey::from_bytes([2; 32]));
        let noon = UNIX_EPOCH + DAY * 20_000 + DAY / 2;
        assert!(bytes.add(ann, 600, noon));
        assert!(bytes.add(ann, 400, noon));
        assert!(!bytes.add(ann, 1, noon) && !bytes.add(ann, 0, noon));
        assert!(bytes.add(bob, 1000, noon));
        assert!(bytes.add(ann, 0, noon + DAY / 2), "the next day");
        assert!(bytes.refusal().contains("midnight"));
        let unlimited = DayBytes::new(ByteCount::ZERO);
        assert!(unlimited.add(ann, u64::MAX, noon) && unlimited.add(ann, u64::MAX, noon));
    }

    #[test]
    fn the_networks_of_one_customer_have_the_bytes_of_some_clients() {
        let bytes = DayBytes::new(ByteCount::new(1000));
        let add = |network: u16, number: u16, count| {
            let address = IpAddr::from([0x2001, 0xdb8, network, number, 0, 0, 0, 1]);
            let client = ClientNetwork::of(address).key();
            bytes.locate(client, address);
            bytes.add(client, count, UNIX_EPOCH)
        };
        // 16 clients in a /56, 64 in a /48.
        assert!((0..16).all(|number| add(1, number, 1000)));
        assert!(!add(1, 16, 1));
        assert!((1..=47).all(|number| add(1, number << 8, 1000)));
        assert!(!add(1, 48 << 8, 1000) && add(2, 0, 1000));
    }

    #[test]
    fn bytes_are_given_back_on_their_own_day_only() {
        let bytes = DayBytes::new(ByteCount::new(1000));
        let ann = PublicKey::from_bytes([1; 32]);
        let noon = UNIX_EPOCH + DAY * 20_000 + DAY / 2;
        assert!(!bytes.add(ann, 1500, noon));
        bytes.give_back(ann, 600, (noon, noon));
        assert!(bytes.add(ann, 100, noon));
        let tomorrow = noon + DAY;
        assert!(bytes.add(ann, 1000, tomorrow));
        bytes.give_back(ann, 600, (noon, tomorrow));
        assert!(!bytes.add(ann, 1, tomorrow));
    }

    #[test]
    fn memory_is_bounded_and_heavy_users_are_remembered() {
        let bytes = DayBytes::new(ByteCount::new(1000));
        let heavy = PublicKey::from_bytes([0xff; 32]);
        assert!(!bytes.add(heavy, 2000, UNIX_EPOCH));
        for number in 0..70_000_u32 {
            let mut key = [0; 32];
            key[..4].copy_from_slice(&number.to_be_bytes());
            bytes.add(PublicKey::from_bytes(key), 1, UNIX_EPOCH);
            if number > 66_000 {
                break;
            }
        }
        assert!(bytes.today.lock().used.len() <= MAX_CLIENTS);
        assert!(!bytes.add(heavy, 0, UNIX_EPOCH));
    }

    #[test]
    fn a_day_lasts_from_midnight_to_midnight() {
        let bytes = DayBytes::new(ByteCount::new(1000));
        let ann = PublicKey::from_bytes([1; 32]);
        let midnight = UNIX_EPOCH + DAY * 20_000;
        assert!(bytes.add(ann, 1000, midnight));
        for within in [1, 3600, DAY.as_secs() - 1] {
            assert!(!bytes.add(ann, 1, midnight + Duration::from_secs(within)));
        }
        assert!(bytes.add(ann, 1000, midnight + DAY));
    }

    #[test]
    fn the_networks_of_few_clients_are_remembered() {
        let address = |number: u32| {
            let [a, b, c, d] = number.to_be_bytes();
            IpAddr::from([
                0x2001,
                0xdb8,
                u16::from_be_bytes([a, b]),
                u16::from_be_bytes([c, d]),
                0,
                0,
                0,
                1,
            ])
        };
        let locate = |bytes: &DayBytes, number: u32| {
            bytes.locate(ClientNetwork::of(address(number)).key(), address(number));
        };
        let unlimited = DayBytes::new(ByteCount::ZERO);
        locate(&unlimited, 1);
        assert!(unlimited.delegated.lock().is_empty());
        let bytes = DayBytes::new(ByteCount::new(1000));
        let v4 = IpAddr::from([192, 0, 2, 1]);
        bytes.locate(ClientNetwork::of(v4).key(), v4);
        assert!(bytes.delegated.lock().is_empty());
        for number in 0..=u32::try_from(MAX_CLIENTS).unwrap() {
            locate(&bytes, number);
        }
        assert_eq!(bytes.delegated.lock().len(), MAX_CLIENTS);
        // A client that is remembered already displaces no other.
        let known = *bytes.delegated.lock().last_key_value().unwrap().0;
        let first = *bytes.delegated.lock().first_key_value().unwrap().0;
        bytes.locate(known, address(7));
        assert!(bytes.delegated.lock().contains_key(&first));
        assert_eq!(bytes.delegated.lock().len(), MAX_CLIENTS);
    }
}
