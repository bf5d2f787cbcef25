//! Rate limits without allocation per source (transport.md section 3.8).
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use longhaul_types::Timestamp;

/// A rate with a burst, implemented as the generic cell rate algorithm (ITU-T I.371): one timestamp per
/// bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenRate {
    interval: Duration,
    burst: u32,
}

impl TokenRate {
    /// Creates a rate of `per_second` with a burst of `burst`; both are at least 1.
    pub(super) const fn new(per_second: u32, burst: u32) -> Self {
        Self {
            interval: Duration::from_nanos(1_000_000_000 / per_second as u64),
            burst,
        }
    }

    /// Takes one token if there is one. `next` is the theoretical arrival time of the algorithm.
    fn take(self, next: &mut Timestamp, now: Timestamp) -> bool {
        let base = (*next).max(now);
        if base - now > self.interval * (self.burst - 1) {
            return false;
        }
        *next = base + self.interval;
        true
    }
}

/// A single bucket.
#[derive(Debug)]
pub(super) struct TokenBucket {
    rate: TokenRate,
    next: Timestamp,
}

impl TokenBucket {
    pub(super) const fn new(rate: TokenRate) -> Self {
        Self {
            rate,
            next: Timestamp::ZERO,
        }
    }

    pub(super) fn take(&mut self, now: Timestamp) -> bool {
        self.rate.take(&mut self.next, now)
    }
}

/// Buckets by key in a table of fixed size: colliding keys share a bucket. An attacker does not know which
/// keys collide, and the common limit of all addresses bounds a flood from many addresses anyway.
pub(super) struct KeyedTokenBuckets {
    rate: TokenRate,
    hash_key: [u8; 32],
    next: Box<[Timestamp; Self::BUCKETS]>,
}

impl KeyedTokenBuckets {
    const BUCKETS: usize = 4096;

    pub(super) fn new(rate: TokenRate, hash_key: [u8; 32]) -> Self {
        Self {
            rate,
            hash_key,
            next: Box::new([Timestamp::ZERO; Self::BUCKETS]),
        }
    }

    pub(super) fn take(&mut self, key: &[u8], now: Timestamp) -> bool {
        let hash = blake3::keyed_hash(&self.hash_key, key);
        let [a, b, ..] = *hash.as_bytes();
        let slot = usize::from(u16::from_be_bytes([a, b])) % Self::BUCKETS;
        self.rate.take(&mut self.next[slot], now)
    }

    /// Like [`KeyedTokenBuckets::take`], with the address as key. An IPv6 /64 counts as one address, because one
    /// host can use all of it.
    pub(super) fn take_address(&mut self, address: SocketAddr, now: Timestamp) -> bool {
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => self.take(&ip.octets(), now),
            IpAddr::V6(ip) => self.take(&ip.octets()[..8], now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_burst_is_followed_by_the_rate() {
        let mut limit = TokenBucket::new(TokenRate::new(20, 5));
        assert_eq!((0..100).filter(|_| limit.take(at(1000))).count(), 5);
        assert!(!limit.take(at(1049)));
        assert!(limit.take(at(1050)));
        let taken = (0..10_000).filter(|step| limit.take(at(2000 + step))).count();
        assert!((200..=205).contains(&taken), "{taken}");
    }

    #[test]
    fn addresses_have_their_own_buckets() {
        let mut limit = KeyedTokenBuckets::new(TokenRate::new(1, 1), [1; 32]);
        assert!(limit.take_address("192.0.2.1:1".parse().unwrap(), at(0)));
        assert!(!limit.take_address("192.0.2.1:2".parse().unwrap(), at(0)));
        assert!(limit.take_address("192.0.2.2:1".parse().unwrap(), at(0)));
        assert!(limit.take_address("[2001:db8::1]:1".parse().unwrap(), at(0)));
        assert!(!limit.take_address("[2001:db8::2]:1".parse().unwrap(), at(0)));
    }
}
