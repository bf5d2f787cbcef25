//! Limit of wrong passwords for each network.
use std::{
    collections::BTreeMap,
    iter,
    net::IpAddr,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use longhaul_gateway_core::client_network::ClientNetwork;

/// Wrong passwords within [`PERIOD`] after which a network gets no answer.
const MAX_FAILURES: u32 = 5;
const PERIOD: Duration = Duration::from_secs(60);
/// Time without answers.
const SILENCE: Duration = Duration::from_secs(60);
/// Maximum number of remembered networks. With more, the oldest is forgotten: an attacker with so many networks
/// has as many tries.
const MAX_NETWORKS: usize = 4096;

/// Wrong passwords by network.
#[derive(Debug, Default)]
pub(super) struct PasswordFailures(Mutex<BTreeMap<ClientNetwork, Entry>>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    first: Instant,
    count: u32,
    silent_until: Option<Instant>,
}

impl PasswordFailures {
    /// Records a wrong password.
    pub(super) fn note(&self, address: IpAddr, now: Instant) {
        let mut entries = self.0.lock();
        entries.retain(|_, entry| entry.is_needed(now));
        let client = iter::once((ClientNetwork::of(address), 1));
        for (network, clients) in client.chain(ClientNetwork::delegated(address)) {
            if entries.len() >= MAX_NETWORKS
                && !entries.contains_key(&network)
                && let Some(oldest) = entries.iter().min_by_key(|(_, entry)| entry.first)
            {
                let oldest = *oldest.0;
                entries.remove(&oldest);
            }
            let entry = entries.entry(network).or_insert(Entry {
                first: now,
                count: 0,
                silent_until: None,
            });
            entry.count += 1;
            if entry.count >= MAX_FAILURES * clients {
                entry.silent_until = Some(now + SILENCE);
            }
        }
    }

    /// Returns true if the address gets no answer now.
    pub(super) fn is_silent(&self, address: IpAddr, now: Instant) -> bool {
        is_silent(&self.0.lock(), &ClientNetwork::of(address), now)
    }

    /// Returns true if so many passwords were tried in the networks around that of the address, which one customer may have,
    /// that no further one is looked at. Other people may be in these networks: whoever states no password is served.
    pub(super) fn is_exhausted(&self, address: IpAddr, now: Instant) -> bool {
        let entries = self.0.lock();
        ClientNetwork::delegated(address).any(|(network, _)| is_silent(&entries, &network, now))
    }
}

fn is_silent(entries: &BTreeMap<ClientNetwork, Entry>, network: &ClientNetwork, now: Instant) -> bool {
    let until = entries.get(network).and_then(|entry| entry.silent_until);
    until.is_some_and(|until| now < until)
}

impl Entry {
    fn is_needed(&self, now: Instant) -> bool {
        match self.silent_until {
            Some(until) => now < until,
            None => now < self.first + PERIOD,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn five_wrong_passwords_silence_an_address_for_a_minute() {
        let failures = PasswordFailures::default();
        let (start, address) = (Instant::now(), "192.0.2.1".parse().unwrap());
        for _ in 0..4 {
            failures.note(address, start);
        }
        assert!(!failures.is_silent(address, start));
        failures.note(address, start + Duration::from_secs(59));
        let silenced = start + Duration::from_secs(59);
        assert!(failures.is_silent(address, silenced));
        assert!(!failures.is_silent("192.0.2.2".parse().unwrap(), silenced));
        assert!(failures.is_silent(address, silenced + Duration::from_secs(59)));
        assert!(!failures.is_silent(address, silenced + SILENCE));
        let later = silenced + 2 * SILENCE;
        failures.note(address, later);
        assert!(
            !failures.is_silent(address, later),
            "an old failure does not count"
        );
    }

    #[test]
    fn the_addresses_of_one_ipv6_network_count_together_and_memory_is_bounded() {
        let failures = PasswordFailures::default();
        let now = Instant::now();
        for host in 1..=5_u128 {
            let address = Ipv6Addr::from_bits((0x2001_0db8 << 96) + host);
            failures.note(address.into(), now);
        }
        assert!(failures.is_silent("2001:db8::9".parse().unwrap(), now));
        assert!(!failures.is_silent("2001:db8:0:1::9".parse().unwrap(), now));
        for number in 0..10_000_u32 {
            failures.note(IpAddr::V4(number.into()), now);
        }
        assert!(failures.0.lock().len() <= MAX_NETWORKS);
    }

    #[test]
    fn the_networks_of_one_customer_have_the_tries_of_some_clients() {
        let failures = PasswordFailures::default();
        let now = Instant::now();
        let address = |network: u16, number: u16| IpAddr::from([0x2001, 0xdb8, network, number, 0, 0, 0, 1]);
        let tries = |network: u16, number: u16| {
            let mut tried = 0;
            while !failures.is_silent(address(network, number), now)
                && !failures.is_exhausted(address(network, number), now)
            {
                failures.note(address(network, number), now);
                tried += 1;
            }
            tried
        };
        // 16 clients in a /56, 64 in a /48.
        assert_eq!((0..256).map(|number| tries(1, number)).sum::<u32>(), 16 * 5);
        assert_eq!((1..256).map(|number| tries(1, number << 8)).sum::<u32>(), 48 * 5);
        assert_eq!(tries(2, 0), 5);
        let unused = address(1, 0xff);
        assert!(failures.is_exhausted(unused, now) && !failures.is_silent(unused, now));
        assert!(!failures.is_exhausted(unused, now + SILENCE));
        let v4 = IpAddr::from([192, 0, 2, 1]);
        (0..1000).for_each(|_| failures.note(v4, now));
        assert!(!failures.is_exhausted(v4, now));
    }

    #[test]
    fn what_is_a_minute_old_counts_no_more() {
        let address = "192.0.2.1".parse().unwrap();
        let start = Instant::now();
        let failures = PasswordFailures::default();
        let fail = |times, now| (0..times).for_each(|_| failures.note(address, now));
        fail(4, start);
        let at = start + PERIOD;
        fail(1, at);
        assert!(!failures.is_silent(address, at));
        fail(4, at);
        assert!(failures.is_silent(address, at));
        // The first wrong password after a silence is the first of a new period.
        let after = at + SILENCE;
        fail(1, after);
        assert!(!failures.is_silent(address, after));
        fail(4, after);
        assert!(failures.is_silent(address, after));
    }
}
