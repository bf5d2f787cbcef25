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
fn a_train_of_full_packets_answers_at_most_three_requests() {
    let mut pair = pair(TransportConfig::gateway());
    for _ in 0..3 {
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
fn an_idle_ordered_path_of_a_long_link_is_warmed_up() {
    let trains = 3 * u64::from(TRAIN);
    let bytes = sent_to_warm_up("geo-sat", RateProbing::Full);
    assert!(
        (trains * FULL..trains * 1_450).contains(&bytes),
        "geo-sat: {bytes} bytes"
    );
    for (link, rate_probing) in [
        // Slow start is over soon.
        ("lte", RateProbing::Full),
        // The link holds less than what TCP sends at once.
        ("gprs-3+1", RateProbing::Full),
        // Bytes cost money.
        ("geo-sat", RateProbing::Pair),
    ] {
        let bytes = sent_to_warm_up(link, rate_probing);
        assert!(bytes < 2_000, "{link}, {rate_probing:?}: {bytes} bytes");
    }
}
