//! Bytes that a client has transferred today: what a stolen password may cost.
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use longhaul_types::{ByteCount, PublicKey};
use parking_lot::Mutex;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of remembered clients. With more, the one with the fewest bytes is forgotten.
const MAX_CLIENTS: usize = 65_536;

/// The bytes of the clients: bodies and tunnels, in both directions, and objects that are fetched ahead of them. Days begin at midnight UTC.
#[derive(Debug)]
pub(super) struct DayBytes {
    /// `None`: as many as they like.
    most: Option<u64>,
    today: Mutex<Today>,
}

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
        }
    }

    /// Counts bytes; returns false if the client has used up those of the day.
    pub(super) fn add(&self, client: PublicKey, bytes: u64, now: SystemTime) -> bool {
        let Some(most) = self.most else { return true };
        let number = number_of(now);
        let mut today = self.today.lock();
        if today.number != number {
            *today = Today {
                number,
                used: BTreeMap::new(),
            };
        }
        if today.used.len() >= MAX_CLIENTS
            && !today.used.contains_key(&client)
            && let Some((least, _)) = today.used.iter().min_by_key(|(_, used)| **used)
        {
            let least = *least;
            today.used.remove(&least);
        }
        let used = today.used.entry(client).or_default();
        *used = used.saturating_add(bytes);
        *used <= most
    }

    /// Takes back bytes that were counted, unless it was on another day.
    pub(super) fn give_back(&self, client: PublicKey, bytes: u64, (counted, now): (SystemTime, SystemTime)) {
        let mut today = self.today.lock();
        let is_same = number_of(counted) == number_of(now) && today.number == number_of(now);
        if let Some(used) = today.used.get_mut(&client).filter(|_| is_same) {
            *used = used.saturating_sub(bytes);
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
}
