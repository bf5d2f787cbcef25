//! The order in which the gateway's UDP addresses and ports are tried, and the time between them (docs/protocol/transport.md section 3.9).
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use longhaul_types::{ByteCount, LinkProfile};

use super::reachability;
use crate::networks::{Family, Recalled, source_towards};

/// Round-trip time of an unknown link, for the delay between two addresses.
const UNKNOWN_RTT: Duration = Duration::from_millis(200);
/// Size of an INIT with a request.
const INIT_SIZE: ByteCount = ByteCount::new(1_000);
/// Bounds of the delay between two addresses: the least one of RFC 8305 section 8, and a wait that users still
/// accept.
const LEAST_DELAY: Duration = Duration::from_millis(250);
const LONGEST_DELAY: Duration = Duration::from_secs(3);
/// What answered last in the network.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answered {
    pub(super) family: Option<Family>,
    pub(super) port: Option<u16>,
}

impl Answered {
    pub(super) const fn of(recalled: &Recalled) -> Self {
        Self {
            family: recalled.family,
            port: recalled.port,
        }
    }
}

/// The addresses of the gateway's name, also those that cannot be reached at present, and its further ports.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownAddresses {
    pub(super) all: Vec<SocketAddr>,
    pub(super) ports: Vec<u16>,
}

impl KnownAddresses {
    /// The address `used`, or one to which there is a route if there is none to that one, and the source address towards
    /// it.
    pub(super) async fn way(&self, used: SocketAddr) -> Option<(SocketAddr, IpAddr)> {
        let others = self.all.iter().map(|other| at_port(*other, used.port()));
        for address in std::iter::once(used).chain(others) {
            if let Ok(source) = source_towards(address).await {
                return Some((address, source));
            }
        }
        None
    }

    /// The addresses that can be reached from here, in their order. The one that is `used` is the first one if nothing
    /// else is known to work here.
    pub(super) async fn reachable(&self, used: SocketAddr, answered: Answered) -> Vec<SocketAddr> {
        let mut addresses = self.all.clone();
        let _missing = reachability::drop_unreachable(&mut addresses).await;
        let answered = Answered {
            family: answered.family.or_else(|| Some(Family::of(&used))),
            port: answered.port.or_else(|| Some(used.port())),
        };
        let mut ordered = ordered(&addresses, &self.ports, answered);
        let first = ordered.first().copied();
        let is_like_first =
            |first: SocketAddr| first.port() == used.port() && first.is_ipv4() == used.is_ipv4();
        if first.is_some_and(is_like_first)
            && let Some(place) = ordered.iter().position(|address| *address == used)
        {
            ordered.swap(0, place);
        }
        ordered
    }
}

/// The addresses of the gateway's name, which have the port of the invite, and the same with the further `ports`. Each
/// attempt differs from the one before in address and port, if there are several of both, so that neither a port that is
/// blocked nor a family that does not work costs more than one attempt.
pub(super) fn ordered(addresses: &[SocketAddr], ports: &[u16], answered: Answered) -> Vec<SocketAddr> {
    let Some(first) = addresses.first() else {
        return Vec::new();
    };
    let mut all = vec![first.port()];
    for port in ports {
        if *port != 0 && !all.contains(port) {
            all.push(*port);
        }
    }
    if let Some(place) = all.iter().position(|port| Some(*port) == answered.port) {
        let port = all.remove(place);
        all.insert(0, port);
    }
    let addresses = interleaved(addresses, answered.family);
    let mut ordered = Vec::with_capacity(addresses.len() * all.len());
    for round in 0..all.len() {
        for (place, address) in addresses.iter().enumerate() {
            if let Some(port) = all.get((place + round) % all.len()) {
                ordered.push(at_port(*address, *port));
            }
        }
    }
    ordered
}

/// The address with another port; a link-local address keeps its scope.
pub(super) const fn at_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// The addresses with alternating families (RFC 8305 section 4): `first` begins, or the family of the first address.
fn interleaved(addresses: &[SocketAddr], first: Option<Family>) -> Vec<SocketAddr> {
    let first = first.or_else(|| addresses.first().map(Family::of));
    let (begins, follows): (Vec<SocketAddr>, Vec<SocketAddr>) = addresses
        .iter()
        .partition(|address| Some(Family::of(address)) == first);
    let mut ordered = Vec::with_capacity(addresses.len());
    let (mut begins, mut follows) = (begins.into_iter(), follows.into_iter());
    loop {
        let pair = [begins.next(), follows.next()];
        if pair == [None, None] {
            return ordered;
        }
        ordered.extend(pair.into_iter().flatten());
    }
}

/// Time between the first INITs to two addresses: most links have answered by then.
pub(super) fn delay(profile: Option<LinkProfile>) -> Duration {
    let (rtt, sending) = match profile {
        Some(LinkProfile { rtt, up, .. }) if up.as_bps() > 0 => (rtt, INIT_SIZE / up),
        Some(_) | None => (UNKNOWN_RTT, Duration::ZERO),
    };
    (rtt.min(LONGEST_DELAY) * 5 / 4)
        .saturating_add(sending)
        .clamp(LEAST_DELAY, LONGEST_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn families_alternate_and_the_remembered_one_begins() {
        let addresses = addresses(&["[2001:db8::1]:1", "[2001:db8::2]:1", "192.0.2.1:1", "192.0.2.2:1"]);
        let order = |family| {
            let answered = Answered { family, port: None };
            let ordered = ordered(&addresses, &[], answered);
            ordered
                .iter()
                .map(|of| addresses.iter().position(|at| at == of).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(order(None), [0, 2, 1, 3]);
        assert_eq!(order(Some(Family::V6)), [0, 2, 1, 3]);
        assert_eq!(order(Some(Family::V4)), [2, 0, 3, 1]);
        assert_eq!(interleaved(&addresses[..2], Some(Family::V4)), addresses[..2]);
        assert_eq!(ordered(&[], &[443], Answered::default()), []);
    }

    #[test]
    fn ports_alternate_with_families_and_the_remembered_one_begins() {
        let both = addresses(&["[2001:db8::1]:1", "192.0.2.1:1"]);
        let order = |port| ordered(&both, &[2, 1, 0], Answered { family: None, port });
        let expected = ["[2001:db8::1]:1", "192.0.2.1:2", "[2001:db8::1]:2", "192.0.2.1:1"];
        assert_eq!(order(None), addresses(&expected));
        assert_eq!(
            order(Some(7)),
            addresses(&expected),
            "a port that the gateway has no more"
        );
        let expected = ["[2001:db8::1]:2", "192.0.2.1:1", "[2001:db8::1]:1", "192.0.2.1:2"];
        assert_eq!(order(Some(2)), addresses(&expected));
        let one = ordered(&both[1..], &[1, 2, 3], Answered::default());
        assert_eq!(one, addresses(&["192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3"]));
    }

    #[test]
    fn the_delay_between_addresses_follows_the_link() {
        let of = |name: &str| delay(Some(name.parse().unwrap()));
        assert_eq!(delay(None), LEAST_DELAY);
        assert_eq!(of("lte"), LEAST_DELAY);
        assert_eq!(of("geo-sat"), Duration::from_micros(756_500));
        assert!((Duration::from_millis(1_400)..Duration::from_millis(1_450)).contains(&of("gprs-3+1")));
        let absurd = LinkProfile {
            rtt: Duration::MAX,
            .."lte".parse().unwrap()
        };
        assert_eq!(delay(Some(absurd)), LONGEST_DELAY);
    }
}
