//! Request counts of bodies, which select the bodies for background recoding.
use std::collections::BTreeMap;

use longhaul_codec::Coder;
use longhaul_types::{ContentHash, PublicKey};

use super::recode::BEST;

/// Maximum number of counted bodies: the texts of some sites. The least recently requested body is evicted.
const MAX_COUNTED: usize = 1024;
/// Number of requests that makes a body popular even if they are from one device.
const REQUESTS: u32 = 3;
/// Number of aborted attempts after which recoding is not tried again: the body is too long for the idle
/// periods.
const TRIES: u32 = 3;

/// Request counts by body.
#[derive(Debug, Default)]
pub(super) struct PopularBodies {
    bodies: BTreeMap<ContentHash, RequestCount>,
    clock: u64,
}

#[derive(Clone, Copy, Debug)]
struct RequestCount {
    first: PublicKey,
    has_others: bool,
    requests: u32,
    tries: u32,
    last: u64,
    is_best: bool,
}

impl RequestCount {
    fn waits(&self) -> bool {
        !self.is_best && self.tries < TRIES && (self.has_others || self.requests >= REQUESTS)
    }
}

impl PopularBodies {
    /// Counts a device's request of a body whose stored result was made by `kept`. Returns true if the body
    /// waits for recoding.
    pub(super) fn requested(&mut self, chk: ContentHash, device: &PublicKey, kept: Option<Coder>) -> bool {
        self.clock += 1;
        if self.bodies.len() >= MAX_COUNTED && !self.bodies.contains_key(&chk) {
            let oldest = self.bodies.iter().min_by_key(|(_, count)| count.last);
            if let Some(oldest) = oldest.map(|(chk, _)| *chk) {
                self.bodies.remove(&oldest);
            }
        }
        let count = self.bodies.entry(chk).or_insert(RequestCount {
            first: *device,
            has_others: false,
            requests: 0,
            tries: 0,
            last: 0,
            is_best: false,
        });
        count.has_others |= count.first != *device;
        count.requests = count.requests.saturating_add(1);
        count.last = self.clock;
        // A result may also have been evicted from the cache.
        count.is_best = kept == Some(BEST);
        count.waits()
    }

    /// The most requested body that waits for recoding.
    pub(super) fn next(&self) -> Option<ContentHash> {
        let waiting = self.bodies.iter().filter(|(_, count)| count.waits());
        waiting
            .max_by_key(|(_, count)| count.requests)
            .map(|(chk, _)| *chk)
    }

    /// Marks a body as done: its result is the best possible, or cannot be made.
    pub(super) fn settled(&mut self, chk: &ContentHash) {
        if let Some(count) = self.bodies.get_mut(chk) {
            count.is_best = true;
        }
    }

    /// Counts an aborted attempt.
    pub(super) fn tried(&mut self, chk: &ContentHash) {
        if let Some(count) = self.bodies.get_mut(chk) {
            count.tries += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chk(n: usize) -> ContentHash {
        ContentHash::of(&n.to_le_bytes())
    }

    const ONE: PublicKey = PublicKey::from_bytes([1; 32]);
    const OTHER: PublicKey = PublicKey::from_bytes([2; 32]);

    #[test]
    fn two_devices_or_three_requests_make_a_body_popular() {
        let mut popular = PopularBodies::default();
        let kept = Some(Coder::Brotli { quality: 5 });
        assert!(!popular.requested(chk(1), &ONE, kept));
        assert!(!popular.requested(chk(1), &ONE, kept));
        assert_eq!(popular.next(), None);
        assert!(popular.requested(chk(1), &ONE, kept));
        assert!(!popular.requested(chk(2), &ONE, None));
        assert!(popular.requested(chk(2), &OTHER, None));
        assert_eq!(popular.next(), Some(chk(1)));
        popular.settled(&chk(1));
        assert_eq!(popular.next(), Some(chk(2)));
        for _ in 0..TRIES {
            popular.tried(&chk(2));
        }
        assert_eq!(popular.next(), None);
        assert!(!popular.requested(chk(1), &OTHER, Some(BEST)));
        assert!(
            popular.requested(chk(1), &OTHER, None),
            "its result left the cache"
        );
    }

    #[test]
    fn bodies_without_recent_requests_are_forgotten() {
        let mut popular = PopularBodies::default();
        for n in 0..3 * MAX_COUNTED {
            popular.requested(chk(n), &ONE, None);
            popular.requested(chk(0), &OTHER, None);
        }
        assert_eq!(popular.bodies.len(), MAX_COUNTED);
        assert_eq!(popular.next(), Some(chk(0)));
    }
}
