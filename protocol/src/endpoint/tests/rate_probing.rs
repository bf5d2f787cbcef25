//! The packet behind the RESP, and the first flight: only for a fresh INIT.
use super::*;
use crate::congestion::Start;

/// Length of a datagram of 1,280 bytes with its headers.
const FULL: usize = 1252;

fn full_packets(pair: &Pair, from: Side) -> Vec<&Sent> {
    let of_side = pair.sent.iter().filter(|sent| sent.from == from);
    of_side
        .filter(|sent| sent.kind() == Some(PacketKind::Short) && sent.bytes.len() == FULL)
        .collect()
}

#[test]
fn an_unknown_link_is_measured_by_a_pair_and_a_train() {
    let mut pair = Pair::new();
    let token = pair.token();
    let to = pair.connect_to(token);
    let handle = pair.agent.connect(pair.now, to).unwrap();
    pair.agent.start(handle);
    let begun = pair.now;
    pair.run_for(Duration::from_secs(1));
    assert!(full_packets(&pair, Side::Agent).is_empty(), "there is no request");
    let full = full_packets(&pair, Side::Gateway);
    // The wire has no rate: the pair gives the largest one, whose train has 32 packets.
    assert_eq!(full.len(), 1 + 32);
    assert_eq!(full[0].at, begun + ONE_WAY, "right behind the RESP");
    assert!(full[1..].iter().all(|sent| sent.at == begun + RTT + ONE_WAY));
    let stats = pair.agent.peek(handle).unwrap().stats();
    assert_eq!(stats.start, Start::Steady);
    assert!(stats.estimated_capacity.is_some());
    let gateway = pair.gateway.handles().next().unwrap();
    let granted = pair.gateway.peek(gateway).unwrap().stats();
    assert!(
        granted.send_credit.bytes() > 500_000,
        "the estimate is granted before anything is requested: {:?}",
        granted.send_credit
    );
    assert!(granted.link_rate.is_some());
}

#[test]
fn a_request_in_the_init_is_followed_by_a_full_packet() {
    let mut pair = Pair::new();
    let token = pair.token();
    pair.open(token, b"GET /");
    pair.run_for(Duration::from_secs(1));
    let full = full_packets(&pair, Side::Agent);
    assert_eq!(full.len(), 1);
    assert_eq!(full[0].at, pair.sent[0].at, "right behind the INIT");
    assert_eq!(pair.bytes_of(Side::Agent).len(), 1);
}

#[test]
fn a_request_of_a_session_without_a_token_is_followed_by_a_full_packet() {
    let mut pair = Pair::new();
    pair.open(None, b"GET /");
    pair.run_for(RTT * 5 / 2);
    let full = full_packets(&pair, Side::Agent);
    assert_eq!(full.len(), 1);
    assert_eq!(full[0].at, pair.sent[0].at + RTT, "behind the first packet");
    let gateway = pair.gateway.handles().next().unwrap();
    let granted = pair.gateway.peek(gateway).unwrap().stats();
    assert!(
        granted.send_credit.bytes() >= 80 * 1280,
        "{:?}",
        granted.send_credit
    );
    assert!(granted.link_rate.is_some());
}

#[test]
fn a_link_with_a_profile_is_not_measured() {
    let mut pair = Pair::new();
    let token = pair.token();
    let to = ConnectTo {
        profile: Some("lte".parse().unwrap()),
        ..pair.connect_to(token)
    };
    let handle = pair.agent.connect(pair.now, to).unwrap();
    pair.request(handle, b"GET /");
    pair.agent.start(handle);
    pair.run_for(Duration::from_secs(1));
    for side in [Side::Agent, Side::Gateway] {
        assert!(full_packets(&pair, side).is_empty());
    }
    assert_eq!(pair.agent.peek(handle).unwrap().stats().start, Start::Told);
}

/// An attacker replays an INIT from the address of a victim when its RESP is no longer stored.
#[test]
fn a_replayed_init_gets_no_full_packet() {
    let mut pair = Pair::new();
    let token = pair.token();
    pair.open(token, b"GET /");
    pair.run_for(Duration::from_secs(200));
    let init = pair.sent_of(PacketKind::Init)[0].clone();
    let victim: SocketAddr = "203.0.113.9:53".parse().unwrap();
    let now = pair.now;
    pair.gateway.handle_datagram(now, victim, &mut init.bytes.clone());
    assert_eq!(pair.gateway.counters().accepted, 2);
    let (mut sent, mut buf) = (0, Vec::new());
    while let Some(transmit) = pair.gateway.poll_transmit(now, &mut buf) {
        if transmit.remote == victim {
            sent += transmit.len;
        }
    }
    assert!(
        sent > 0 && sent <= 3 * init.bytes.len(),
        "{sent} bytes for {}",
        init.bytes.len()
    );
}

/// Neither the length of a RESP nor that of a refusal tells the status.
#[test]
fn a_refusal_is_as_long_as_an_acceptance() {
    let accepted = {
        let mut pair = Pair::new();
        let token = pair.token();
        pair.open(token, b"");
        pair.run_for(Duration::from_secs(1));
        crate::wire::Resp::parse(&pair.sent_of(PacketKind::Resp)[0].bytes)
            .unwrap()
            .1
    };
    let mut pair = Pair::new();
    let token = pair.token();
    let now = pair.now;
    pair.gateway.set_devices(now, BTreeMap::new());
    pair.open(token, b"");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.sent_of(PacketKind::Resp)[0].bytes.len(), accepted);
}
