//! Limits of connections that have not opened a link yet (docs/protocol/transport.md section 8.4).
use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Connections in the handshake from one /24 or /56: agents behind one NAT that all connect anew.
const PER_NETWORK: usize = 32;
/// Connections in the handshake from all addresses; each has up to 32 KiB of buffers.
const IN_ALL: usize = 1024;
/// Connections in the handshake, from one network and from all, from which on an address has to be proved first, where
/// the carrier does not do so by itself.
const PROVED_PER_NETWORK: usize = 8;
const PROVED_IN_ALL: usize = 128;
/// TLS handshakes a second: about half of one core.
const HANDSHAKES: u32 = 500;
/// Handshakes at once after a pause.
const BURST: u32 = 100;

/// Network of an address: an IPv4 /24 or an IPv6 /56, which one customer of a provider may own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Network([u8; 7]);

impl Network {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            // The first byte of a global IPv6 address is not 0.
            IpAddr::V4(address) => {
                let [a, b, c, _] = address.octets();
                Self([0, 0, 0, 0, a, b, c])
            }
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, ..] = address.octets();
                Self([a, b, c, d, e, f, g])
            }
        }
    }
}

#[derive(Debug)]
struct Counts {
    by_network: BTreeMap<Network, usize>,
    in_all: usize,
    /// Theoretical arrival time of the next handshake (generic cell rate algorithm).
    next: Instant,
}

/// Counts the connections in the handshake.
#[derive(Clone, Debug)]
pub(crate) struct HandshakeLimits(Arc<Mutex<Counts>>);

/// A connection in the handshake; it counts until this is dropped.
#[derive(Debug)]
pub(crate) struct Handshake {
    network: Network,
    counts: Arc<Mutex<Counts>>,
}

impl HandshakeLimits {
    pub(crate) fn new(now: Instant) -> Self {
        Self(Arc::new(Mutex::new(Counts {
            by_network: BTreeMap::new(),
            in_all: 0,
            next: now,
        })))
    }

    /// Returns true if so many connections are in the handshake that senders should prove their addresses first: a
    /// forged address would use up the share of its network.
    pub(crate) fn is_loaded(&self, address: IpAddr) -> bool {
        let counts = self.0.lock();
        let of_network = counts.by_network.get(&Network::of(address));
        counts.in_all >= PROVED_IN_ALL || of_network.is_some_and(|of| *of >= PROVED_PER_NETWORK)
    }

    /// Admits a connection from `address`, or refuses it.
    pub(crate) fn admit(&self, now: Instant, address: IpAddr) -> Option<Handshake> {
        let network = Network::of(address);
        let mut counts = self.0.lock();
        let of_network = counts.by_network.get(&network).copied().unwrap_or(0);
        let interval = Duration::from_secs(1) / HANDSHAKES;
        let base = counts.next.max(now);
        if of_network >= PER_NETWORK || counts.in_all >= IN_ALL || base - now > interval * (BURST - 1) {
            return None;
        }
        counts.next = base + interval;
        counts.in_all += 1;
        counts.by_network.insert(network, of_network + 1);
        Some(Handshake {
            network,
            counts: Arc::clone(&self.0),
        })
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        counts.in_all = counts.in_all.saturating_sub(1);
        if let Some(of_network) = counts.by_network.get_mut(&self.network) {
            *of_network = of_network.saturating_sub(1);
            if *of_network == 0 {
                counts.by_network.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_network_cannot_use_up_the_handshakes() {
        let now = Instant::now();
        let limits = HandshakeLimits::new(now);
        let from = |last: u8| IpAddr::from([192, 0, 2, last]);
        let mut open: Vec<_> = (0..100)
            .filter_map(|last| limits.admit(now, from(last)))
            .collect();
        assert_eq!(open.len(), PER_NETWORK);
        assert!(limits.admit(now, "198.51.100.1".parse().unwrap()).is_some());
        assert!(limits.admit(now, "::ffff:192.0.2.9".parse().unwrap()).is_none());
        let in_56: IpAddr = "2001:db8:0:1::1".parse().unwrap();
        assert!(limits.admit(now, in_56).is_some());
        assert!(limits.is_loaded(from(7)) && !limits.is_loaded(in_56));
        open.pop();
        assert!(limits.admit(now, from(200)).is_some());
    }

    #[test]
    fn handshakes_have_a_rate() {
        let start = Instant::now();
        let limits = HandshakeLimits::new(start);
        let mut admitted = 0;
        for step in 0..10_000_u32 {
            let address = IpAddr::from([10, 0, u8::try_from(step % 250).unwrap(), 1]);
            // The connection ends at once.
            admitted += usize::from(
                limits
                    .admit(start + Duration::from_micros(200) * step, address)
                    .is_some(),
            );
        }
        assert!((1000..=1100).contains(&admitted), "{admitted} in two seconds");
    }
}
