//! Cache of sent RESPs: a repeated INIT gets the same RESP again (transport.md section 3.2).
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use longhaul_types::Timestamp;

/// Time for which a RESP is kept after the last reception of its INIT.
pub(super) const KEEP: Duration = Duration::from_secs(60);
/// Maximum number of RESPs, about 1 MiB. At no more than 500 new INITs per second, a RESP is kept for at
/// least 8 s.
const MAX: usize = 4096;

/// Hash of a complete INIT.
pub(super) type InitHash = [u8; 32];

struct CachedResp {
    datagram: Vec<u8>,
    until: Timestamp,
}

#[derive(Default)]
pub(super) struct RespCache {
    resps: BTreeMap<InitHash, CachedResp>,
    /// Hashes in the order of insertion; removed resps may be among them.
    order: VecDeque<InitHash>,
}

impl RespCache {
    /// Returns the RESP to the INIT with this hash and extends its lifetime.
    pub(super) fn get(&mut self, hash: &InitHash, now: Timestamp) -> Option<&[u8]> {
        let answer = self.resps.get_mut(hash).filter(|answer| now < answer.until)?;
        answer.until = now + KEEP;
        Some(&answer.datagram)
    }

    pub(super) fn insert(&mut self, hash: InitHash, datagram: Vec<u8>, now: Timestamp) {
        while let Some(oldest) = self.order.front() {
            let expired = match self.resps.get(oldest) {
                None => true,
                Some(answer) => answer.until <= now,
            };
            if !expired && self.order.len() < MAX {
                break;
            }
            self.resps.remove(oldest);
            self.order.pop_front();
        }
        let until = now + KEEP;
        if self.resps.insert(hash, CachedResp { datagram, until }).is_none() {
            self.order.push_back(hash);
        }
    }

    pub(super) fn remove(&mut self, hash: &InitHash) {
        self.resps.remove(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: usize) -> InitHash {
        *blake3::hash(&number.to_be_bytes()).as_bytes()
    }

    #[test]
    fn responses_expire_after_a_minute_and_are_bounded() {
        let mut cache = RespCache::default();
        let at = |secs: u64| Timestamp::from_nanos(secs * 1_000_000_000);
        cache.insert(hash(0), vec![1], at(0));
        assert_eq!(cache.get(&hash(0), at(59)), Some(&[1][..]));
        assert_eq!(cache.get(&hash(0), at(118)), Some(&[1][..]));
        assert_eq!(cache.get(&hash(0), at(178)), None);
        for number in 0..2 * MAX {
            cache.insert(hash(number), vec![2], at(200));
            assert!(cache.resps.len() <= MAX && cache.order.len() <= MAX);
        }
        assert!(cache.get(&hash(2 * MAX - 1), at(201)).is_some());
    }
}
