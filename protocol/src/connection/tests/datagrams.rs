//! Datagrams: once at most, not retransmitted, beside streams, and only to peers that receive them.
use super::*;
use crate::streams::{Datagram, DatagramError};

const FLOW: u64 = 7;

fn datagram(number: u64, len: usize) -> Datagram {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.resize(len.max(8), 0x5a);
    Datagram {
        flow: FLOW,
        class: Priority::NORMAL,
        bytes: bytes.into(),
    }
}

/// Numbers of the datagrams that have arrived.
fn taken(connection: &mut Connection) -> Vec<u64> {
    let number = |bytes: Bytes| u64::from_be_bytes(*bytes.first_chunk().expect("a number"));
    std::iter::from_fn(|| connection.take_datagram())
        .map(number)
        .collect()
}

/// Sends datagrams from the gateway at an interval; returns those that arrived, in the order of their arrival.
fn stream(pair: &mut Pair, count: u64, len: usize, interval: Duration) -> Vec<u64> {
    let mut arrived = Vec::new();
    for number in 0..count {
        let sent = pair.gateway.send_datagram(pair.now, datagram(number, len));
        assert_eq!(sent, Ok(()));
        pair.run_for(interval);
        arrived.extend(taken(&mut pair.agent));
    }
    pair.run_for(Duration::from_secs(5));
    arrived.extend(taken(&mut pair.agent));
    arrived
}

#[test]
fn datagrams_of_every_size_arrive_in_both_directions() {
    let (up, down) = hop("umts-384");
    let mut pair = Pair::new(Some("umts-384"), up, down, 1);
    pair.run_for(Duration::from_secs(1));
    for len in [8, 9, 63, 64, 500, pair.agent.max_datagram().expect("negotiated")] {
        for number in 0..5 {
            pair.agent
                .send_datagram(pair.now, datagram(number, len))
                .expect("it fits");
            pair.gateway
                .send_datagram(pair.now, datagram(number, len))
                .expect("it fits");
            pair.run_for(Duration::from_millis(400));
        }
        assert_eq!(taken(&mut pair.agent), [0, 1, 2, 3, 4], "{len} bytes");
        assert_eq!(taken(&mut pair.gateway), [0, 1, 2, 3, 4], "{len} bytes");
    }
    let (agent, gateway) = (pair.agent.stats(), pair.gateway.stats());
    assert_eq!((agent.datagrams_sent, gateway.datagrams_received), (30, 30));
    assert_eq!((agent.datagrams_dropped, gateway.datagrams_dropped), (0, 0));
}

#[test]
fn small_datagrams_share_packets() {
    let (up, down) = hop("umts-384");
    let mut pair = Pair::new(Some("umts-384"), up, down, 1);
    pair.run_for(Duration::from_secs(1));
    let before = pair.gateway.stats().packets_sent;
    for number in 0..20 {
        pair.gateway
            .send_datagram(pair.now, datagram(number, 40))
            .expect("it fits");
    }
    pair.run_for(Duration::from_secs(1));
    assert_eq!(taken(&mut pair.agent), (0..20).collect::<Vec<_>>());
    let packets = pair.gateway.stats().packets_sent - before;
    assert!(packets <= 3, "{packets} packets");
}

#[test]
fn lost_datagrams_are_not_sent_again_and_none_arrives_twice() {
    for seed in 0..seeds().min(10) {
        let (mut up, mut down) = hop("lte");
        for link in [&mut up, &mut down] {
            (link.loss, link.reorder, link.duplicate) = (0.1, 0.1, 0.05);
        }
        let mut pair = Pair::new(Some("lte"), up, down, seed);
        pair.run_for(Duration::from_secs(1));
        let mut arrived = stream(&mut pair, 1000, 200, Duration::from_millis(20));
        let count = arrived.len();
        arrived.sort_unstable();
        arrived.dedup();
        assert_eq!(arrived.len(), count, "seed {seed}: one arrived twice");
        assert!((850..=945).contains(&count), "seed {seed}: {count} of 1000");
        let stats = pair.gateway.stats();
        assert_eq!(stats.datagrams_sent, 1000, "each once");
        assert_eq!(stats.retransmitted_bytes, 0);
    }
}

#[test]
fn a_peer_that_does_not_announce_datagrams_is_sent_none() {
    for (agent, gateway) in [(true, false), (false, true), (false, false)] {
        let (up, down) = hop("lte");
        let profile: Option<LinkProfile> = Some("lte".parse().expect("known"));
        let config = TransportConfig {
            datagrams: agent,
            ..TransportConfig::agent(profile)
        };
        let mut server = TransportConfig::gateway();
        server.datagrams = gateway;
        let mut pair = Pair::with(config, server, up, down, 1);
        pair.run_for(Duration::from_secs(1));
        for side in [&mut pair.agent, &mut pair.gateway] {
            assert_eq!(side.max_datagram(), None);
            let sent = side.send_datagram(pair.now, datagram(1, 10));
            assert_eq!(sent, Err(DatagramError::Unsupported));
        }
        // A peer that sends one all the same violates the protocol.
        let violator = if agent { &mut pair.agent } else { &mut pair.gateway };
        violator.peer_takes_datagrams = true;
        let sent = violator.send_datagram(pair.now, datagram(1, 10));
        assert_eq!(sent, Ok(()));
        pair.run_for(Duration::from_secs(1));
        let closed = pair.events.iter().any(|(_, up, event)| {
            let is_victim = *up != agent;
            let is_violation = matches!(event, Event::Closed(CloseReason::PeerViolation { error: 2, .. }));
            is_victim && is_violation
        });
        assert!(closed, "{:?}", pair.events);
    }
}

#[test]
fn what_does_not_fit_a_packet_is_refused() {
    let (up, down) = hop("lte");
    let mut pair = Pair::new(Some("lte"), up, down, 1);
    pair.run_for(Duration::from_secs(1));
    let max = pair.gateway.max_datagram().expect("negotiated");
    let sent = pair.gateway.send_datagram(pair.now, datagram(1, max + 1));
    assert_eq!(sent, Err(DatagramError::TooLarge));
    assert!(max >= 1200, "{max}: QUIC must fit");
    assert_eq!(pair.gateway.stats().datagrams_sent, 0);
}

/// Feedback, FORWARD and retransmissions are in the packets, too.
#[test]
fn the_largest_datagrams_arrive_beside_transfers_in_both_directions() {
    let (mut up, mut down) = hop("lte");
    (up.loss, down.loss) = (0.05, 0.05);
    let mut pair = Pair::new(Some("lte"), up, down, 3);
    let mut users = (User::default(), User::default());
    pair.run_for(Duration::from_secs(1));
    let mut arrived = 0;
    for round in 0..20 {
        users.0.send(pair.now, &mut pair.agent, 5, body(40_000, round));
        users.1.send(pair.now, &mut pair.gateway, 5, body(200_000, round));
        for number in 0..20 {
            let max = pair.gateway.max_datagram().expect("negotiated");
            pair.gateway
                .send_datagram(pair.now, datagram(number, max))
                .expect("it fits");
            pair.run_for(Duration::from_millis(15));
            users.0.push(pair.now, &mut pair.agent);
            users.1.push(pair.now, &mut pair.gateway);
            users.0.pull(pair.now, &mut pair.agent);
            users.1.pull(pair.now, &mut pair.gateway);
            arrived += taken(&mut pair.agent).len();
        }
    }
    assert!(arrived >= 340, "{arrived} of 400");
    assert_eq!(pair.gateway.stats().datagrams_dropped, 0);
}

#[test]
fn datagrams_of_an_outage_are_lost_and_later_ones_arrive() {
    let (mut up, mut down) = hop("umts-384");
    let out = vec![(Duration::from_secs(4), Duration::from_secs(14))];
    (up.outages, down.outages) = (out.clone(), out);
    let mut pair = Pair::new(Some("umts-384"), up, down, 1);
    pair.run_for(Duration::from_secs(1));
    let arrived = stream(&mut pair, 200, 100, Duration::from_millis(100));
    let before: Vec<_> = arrived.iter().filter(|number| **number < 20).collect();
    assert!(before.len() >= 18, "{arrived:?}");
    assert!(arrived.contains(&199), "{arrived:?}");
    // Of the outage, at most what was sent in its last second arrives.
    let late = arrived
        .iter()
        .filter(|number| (21..110).contains(*number))
        .count();
    assert!(late <= 2, "{arrived:?}");
    assert!(arrived.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn a_download_leaves_room_for_datagrams_and_they_for_it() {
    let (up, down) = hop("umts-384");
    let mut pair = Pair::new(Some("umts-384"), up, down, 1);
    let mut users = (User::default(), User::default());
    pair.run_for(Duration::from_secs(1));
    let bulk = users.1.send(pair.now, &mut pair.gateway, 5, body(1_000_000, 1));
    let mut arrived = 0;
    for number in 0..500 {
        // More than the link carries, in a more urgent class.
        for _ in 0..3 {
            pair.gateway
                .send_datagram(pair.now, datagram(number, 1000))
                .expect("it fits");
        }
        pair.run_for(Duration::from_millis(50));
        users.1.push(pair.now, &mut pair.gateway);
        users.0.pull(pair.now, &mut pair.agent);
        arrived += taken(&mut pair.agent).len();
    }
    let stats = pair.gateway.stats();
    println!("{arrived} of 1500 datagrams, {stats:?}");
    assert!(stats.datagrams_dropped > 100, "the queue is bounded in time");
    assert!(arrived > 900);
    let got = users.0.received.get(&bulk).map_or(0, Vec::len);
    assert!(got > 10_000, "the download got {got} bytes");
}
