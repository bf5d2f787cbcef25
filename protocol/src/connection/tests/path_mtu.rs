//! Paths with other MTUs than Ethernet, and paths whose MTU changes.
use super::*;

fn load(pair: &mut Pair, users: &mut (User, User), bytes: usize) -> Duration {
    fetch(pair, users, &[bytes], Duration::from_secs(120))
}

#[test]
fn bulk_data_searches_the_path_mtu_and_small_messages_do_not() {
    for (mtu, payload) in [(1500, 1472), (1492, 1464), (1420, 1392), (1280, 1252)] {
        let (mut up, mut down) = hop("umts-384");
        (up.mtu, down.mtu) = (mtu, mtu);
        let mut pair = Pair::new(Some("umts-384"), up, down, 3);
        let mut users = (User::default(), User::default());
        load(&mut pair, &mut users, 1000);
        assert_eq!(pair.gateway.stats().path_payload, 1252);
        assert_eq!(pair.gateway.stats().packets_lost, 0, "MTU {mtu}");
        for _ in 0..14 {
            load(&mut pair, &mut users, 40_000);
            pair.run_for(Duration::from_secs(330));
        }
        assert_eq!(pair.gateway.stats().path_payload, payload, "MTU {mtu}");
        assert!(
            pair.gateway.stats().packets_lost <= 12,
            "{:?}",
            pair.gateway.stats()
        );
        assert_eq!(pair.agent.stats().path_payload, 1252, "it sends nothing large");
    }
}

#[test]
fn a_page_on_an_ethernet_path_uses_full_datagrams_at_once() {
    let (up, down) = hop("gprs-3+1");
    let mut pair = Pair::new(Some("gprs-3+1"), up, down, 3);
    let mut users = (User::default(), User::default());
    load(&mut pair, &mut users, 60_000);
    let stats = pair.gateway.stats();
    assert_eq!((stats.path_payload, stats.packets_lost), (1472, 0));
}

#[test]
fn a_path_whose_mtu_falls_costs_only_seconds() {
    let (up, down) = hop("umts-384");
    let mut pair = Pair::new(Some("umts-384"), up, down, 3);
    let mut users = (User::default(), User::default());
    load(&mut pair, &mut users, 60_000);
    assert_eq!(pair.gateway.stats().path_payload, 1472);
    pair.down.mtu = 1400;
    let time = load(&mut pair, &mut users, 200_000);
    println!("{time:?}, {:?}", pair.gateway.stats());
    assert!(time < Duration::from_secs(30), "{time:?}");
    assert_eq!(pair.gateway.stats().path_payload, 1252);
    pair.run_for(Duration::from_secs(61));
    for _ in 0..14 {
        load(&mut pair, &mut users, 40_000);
        pair.run_for(Duration::from_secs(330));
    }
    assert_eq!(pair.gateway.stats().path_payload, 1352);
}

#[test]
fn datagrams_stay_within_the_peers_limit() {
    let (up, down) = hop("umts-384");
    let small = TransportConfig {
        max_udp_payload: 1300,
        ..TransportConfig::agent("umts-384".parse().ok())
    };
    let mut pair = Pair::with(small, TransportConfig::gateway(), up, down, 3);
    let mut users = (User::default(), User::default());
    load(&mut pair, &mut users, 60_000);
    assert_eq!(pair.gateway.stats().path_payload, 1300);
}
