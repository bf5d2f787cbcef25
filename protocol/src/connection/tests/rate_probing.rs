//! Trains of full packets: their limits at the gateway.
use std::net::SocketAddr;

use super::*;
use crate::{path::LinkId, wire::Stamp};

const TRAIN: u8 = 32;
const FULL: u64 = 1280;

fn pair(gateway: TransportConfig) -> Pair {
    let (up, down) = hop("lte");
    Pair::with(TransportConfig::agent(None), gateway, up, down, 5)
}

/// Bytes that the gateway sends within a second after the agent has asked for a train.
fn answered(pair: &mut Pair) -> u64 {
    let before = pair.gateway.stats().bytes_sent;
    pair.agent.probing.train_due = Some(TRAIN);
    pair.agent.rearm();
    pair.run_for(Duration::from_secs(1));
    pair.gateway.stats().bytes_sent - before
}

#[test]
fn a_train_of_full_packets_answers_at_most_five_requests() {
    let mut pair = pair(TransportConfig::gateway());
    for _ in 0..5 {
        let bytes = answered(&mut pair);
        let train = u64::from(TRAIN) * FULL;
        assert!((train..train + 400).contains(&bytes), "{bytes} bytes");
    }
    for _ in 0..10 {
        let bytes = answered(&mut pair);
        assert!(bytes < 400, "{bytes} bytes beyond the limit");
    }
    assert_eq!(pair.agent.state(), State::Open, "TRAIN then is a PING");
}

#[test]
fn an_unvalidated_address_gets_no_train() {
    let mut pair = pair(TransportConfig::gateway());
    pair.run_for(Duration::from_secs(1));
    pair.from = SocketAddr::from(([203, 0, 113, 7], 4000)).into();
    let before = pair.gateway.stats().bytes_sent;
    let before_agent = pair.agent.stats().bytes_sent;
    pair.agent.probing.train_due = Some(TRAIN);
    pair.agent.rearm();
    pair.run_for(Duration::from_millis(60));
    let (sent, received) = (
        pair.gateway.stats().bytes_sent - before,
        pair.agent.stats().bytes_sent - before_agent,
    );
    assert!(sent <= 3 * received, "{sent} bytes for {received}");
    pair.run_for(Duration::from_secs(5));
    assert!(
        answered(&mut pair) >= u64::from(TRAIN) * FULL,
        "the address is validated by now"
    );
}

#[test]
fn a_train_ends_when_the_address_changes() {
    let mut pair = pair(TransportConfig::gateway());
    pair.run_for(Duration::from_secs(1));
    pair.gateway.on_train(TRAIN, false);
    assert!(pair.gateway.probing.has_full_packet());
    pair.gateway.probing.end_train();
    assert!(!pair.gateway.probing.has_full_packet());
}

#[test]
fn early_data_agents_and_old_gateways_give_no_train() {
    let mut early = pair(TransportConfig::gateway());
    let now = early.now;
    early
        .gateway
        .handle_init_frames(now, Stamp::of(now), &[0x0c, TRAIN]);
    assert!(!early.gateway.probing.has_full_packet());
    early.agent.on_train(TRAIN, false);
    assert!(!early.agent.probing.has_full_packet());
    let mut off = pair(TransportConfig {
        rate_probing: RateProbing::Off,
        ..TransportConfig::gateway()
    });
    assert!(answered(&mut off) < 400);
}

/// Shows the gateway an uplink whose padded packet arrives `dispersion` after the packet before it.
fn show_uplink(gateway: &mut Connection, now: Timestamp, dispersion: Duration) {
    gateway.granted.by = None;
    gateway.measure_uplink(now, 1_000, FULL);
    gateway.measure_uplink(now + dispersion, 1_001, FULL);
}

#[test]
fn the_first_flight_of_a_fast_uplink_outlasts_the_estimate_of_a_pair() {
    let mut pair = pair(TransportConfig::gateway());
    let now = pair.now;
    show_uplink(&mut pair.gateway, now, Duration::from_millis(2));
    let flight = pair.gateway.granted.credit;
    // 80 packets, and 1.2 s at 2 Mbit/s.
    assert!((400_000..420_000).contains(&flight), "{flight} bytes");
    assert_eq!(pair.gateway.first_flight_credit(), flight);
    let mut users = (User::default(), User::default());
    let mut left_after = |bytes| {
        fetch(&mut pair, &mut users, &[bytes], Duration::from_secs(5));
        pair.run_for(Duration::from_secs(1));
        pair.gateway.first_flight_credit()
    };
    assert_eq!(left_after(5_000), flight, "few packets of data");
    let left = left_after(20_000);
    assert!((70_000..80_000).contains(&left), "the rest of the burst: {left}");
    assert_eq!(left_after(100_000), 0, "all was sent");
}

#[test]
fn the_first_flight_ends_after_some_seconds_and_with_its_path() {
    let mut late = pair(TransportConfig::gateway());
    let now = late.now;
    show_uplink(&mut late.gateway, now, Duration::from_millis(2));
    late.run_for(Duration::from_secs(6));
    let mut users = (User::default(), User::default());
    fetch(&mut late, &mut users, &[5_000], Duration::from_secs(5));
    late.run_for(Duration::from_secs(1));
    assert_eq!(late.gateway.first_flight_credit(), 0);

    let mut moved = pair(TransportConfig::gateway());
    let now = moved.now;
    show_uplink(&mut moved.gateway, now, Duration::from_millis(2));
    moved.gateway.probing.end_train();
    assert_eq!(moved.gateway.first_flight_credit(), 0);
}

#[test]
fn a_slow_uplink_says_no_more_than_a_pair() {
    let mut pair = pair(TransportConfig::gateway());
    let (now, credit) = (pair.now, pair.gateway.granted.credit);
    show_uplink(&mut pair.gateway, now, Duration::from_millis(80));
    assert_eq!(pair.gateway.granted.credit, credit);
    assert_eq!(pair.gateway.first_flight_credit(), 0);
}

#[test]
fn the_rate_of_an_unknown_link_is_not_the_rate_of_its_start() {
    let pair = pair(TransportConfig::gateway());
    assert_eq!(pair.gateway.stats().link_rate, None);
    assert!(pair.gateway.stats().send_rate > BitRate::bps(0));
    let known: LinkProfile = "lte".parse().expect("known");
    let (up, down) = hop("lte");
    let told = TransportConfig::agent(Some(known));
    let pair = Pair::with(told, TransportConfig::gateway(), up, down, 5);
    let rate = pair.gateway.stats().link_rate.expect("a profile").as_bps();
    assert!(
        rate.abs_diff(known.down.as_bps()) * 20 < known.down.as_bps(),
        "{rate}"
    );
}

/// Bytes that the gateway sends within ten seconds after an idle session has changed to a TLS link.
fn sent_to_warm_up(link: &str, rate_probing: RateProbing) -> u64 {
    let known: LinkProfile = link.parse().expect("known");
    let (up, down) = hop(link);
    let agent = TransportConfig {
        rate_probing,
        ..TransportConfig::agent(Some(known))
    };
    let mut pair = Pair::with(agent, TransportConfig::gateway(), up, down, 5);
    pair.agent.probing.peer_probes = true;
    pair.run_for(Duration::from_secs(2));
    let path = Path::Link(LinkId::ordered(7));
    pair.agent.change_path(pair.now, path);
    pair.from = path;
    let before = pair.gateway.stats().bytes_sent;
    pair.run_for(Duration::from_secs(10));
    pair.gateway.stats().bytes_sent - before
}

#[test]
fn an_idle_ordered_path_is_warmed_up() {
    for (link, trains) in [("geo-sat", 4), ("lte", 1)] {
        let packets = trains * u64::from(TRAIN);
        let bytes = sent_to_warm_up(link, RateProbing::Full);
        assert!(
            (packets * FULL..packets * 1_450 + 2_000).contains(&bytes),
            "{link}: {bytes} bytes"
        );
    }
    for (link, rate_probing) in [
        // Slow start is over soon.
        ("lan-fast", RateProbing::Full),
        // The link holds less than what TCP sends at once.
        ("gprs-3+1", RateProbing::Full),
        // Bytes cost money.
        ("geo-sat", RateProbing::Pair),
    ] {
        let bytes = sent_to_warm_up(link, rate_probing);
        assert!(bytes < 2_000, "{link}, {rate_probing:?}: {bytes} bytes");
    }
}
