//! Idle sessions and their end.
use super::*;

#[test]
fn close_ends_both_sides() {
    let (up, down) = hop("lte");
    let mut pair = Pair::new(Some("lte"), up, down, 1);
    pair.run_for(Duration::from_secs(1));
    pair.agent.close(pair.now, 1, "going away");
    pair.run_for(Duration::from_secs(5));
    assert!(pair.agent.is_drained() && pair.gateway.is_drained());
    let closed = pair.events.iter().filter_map(|(_, up, event)| {
        let Event::Closed(reason) = event else { return None };
        Some((*up, reason.clone()))
    });
    let closed: Vec<_> = closed.collect();
    assert_eq!(closed[0], (true, CloseReason::Local { error: 1 }));
    let reason = "going away".to_owned();
    assert_eq!(closed[1], (false, CloseReason::PeerClosed { error: 1, reason }));
}

#[test]
fn an_idle_session_sends_one_packet_each_way_in_25_seconds() {
    let (up, down) = hop("gprs-3+1");
    let mut pair = Pair::new(Some("gprs-3+1"), up, down, 1);
    let mut users = (User::default(), User::default());
    fetch(&mut pair, &mut users, &[5000], Duration::from_secs(60));
    pair.run_for(Duration::from_secs(30));
    let before = (pair.agent.stats().packets_sent, pair.gateway.stats().packets_sent);
    pair.run_for(Duration::from_secs(250));
    let after = (pair.agent.stats().packets_sent, pair.gateway.stats().packets_sent);
    assert_eq!((after.0 - before.0, after.1 - before.1), (10, 10));
}

#[test]
fn an_idle_session_stays_silent_after_reordering() {
    for seed in 0..20 {
        let (mut up, mut down) = hop("lte");
        (up.reorder, down.reorder) = (0.3, 0.3);
        let mut pair = Pair::new(Some("lte"), up, down, seed);
        let mut users = (User::default(), User::default());
        fetch(
            &mut pair,
            &mut users,
            &[3_000, 40_000, 9_000],
            Duration::from_secs(60),
        );
        pair.run_for(Duration::from_secs(30));
        let sent = |pair: &Pair| pair.agent.stats().packets_sent + pair.gateway.stats().packets_sent;
        let before = sent(&pair);
        pair.run_for(Duration::from_secs(120));
        let idle = sent(&pair) - before;
        assert!(idle <= 12, "seed {seed}: {idle} packets in two idle minutes");
    }
}

#[test]
fn a_closed_connection_drains_late_packets() {
    let (up, down) = hop("umts-384");
    let mut pair = Pair::new(Some("umts-384"), up, down, 1);
    pair.agent.close(pair.now, 0, "done");
    pair.run_for(Duration::from_millis(500));
    assert_eq!(pair.gateway.state(), State::Closed);
    assert!(!pair.gateway.is_drained());
    pair.run_for(Duration::from_secs(20));
    assert!(pair.gateway.is_drained() && pair.agent.is_drained());
}
