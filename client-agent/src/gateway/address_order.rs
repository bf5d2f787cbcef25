//! The order in which the gateway's UDP addresses and ports are tried (docs/protocol/transport.md section 3.9).
use std::net::SocketAddr;

use crate::networks::Family;

/// What answered last in the network.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answered {
    pub(super) family: Option<Family>,
    pub(super) port: Option<u16>,
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
                ordered.push(SocketAddr::new(address.ip(), *port));
            }
        }
    }
    ordered
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
}
