//! Packets that probe another path than the session's (docs/protocol/transport.md section 7.7).
use super::*;
use crate::path::LinkId;

/// The other path, as either end names it.
const OTHER: Path = Path::Link(LinkId::ordered(7));

/// A session that has carried a page.
fn session() -> Pair {
    let (up, down) = hop("lte");
    let mut pair = Pair::new(Some("lte"), up, down, 3);
    fetch(
        &mut pair,
        &mut (User::default(), User::default()),
        &[20_000],
        Duration::from_secs(5),
    );
    pair.run_for(Duration::from_secs(2));
    pair
}

/// The agent's challenge on the other path.
fn challenge(pair: &mut Pair) -> Vec<u8> {
    let mut datagram = Vec::new();
    pair.agent.probe_path(OTHER, 3);
    assert_eq!(pair.agent.transmit_probing(pair.now, &mut datagram), Some(OTHER));
    datagram
}

/// Lets the gateway receive a datagram on the other path.
fn arrive(pair: &mut Pair, mut datagram: Vec<u8>) {
    let (header, length) = ShortHeader::parse(&datagram, IndexLength::Gateway).expect("a short packet");
    pair.gateway
        .handle_short(pair.now, OTHER, header, length, &mut datagram);
}

#[test]
fn a_challenge_is_answered_on_its_path_and_moves_nothing() {
    let mut pair = session();
    let sent = challenge(&mut pair);
    let size = sent.len();
    arrive(&mut pair, sent);
    let mut answer = Vec::new();
    assert_eq!(pair.gateway.transmit_probing(pair.now, &mut answer), Some(OTHER));
    assert_eq!(answer.len(), size, "as long as the challenge");
    assert_eq!(pair.gateway.path.remote, pair.from);
    assert!(
        !pair
            .events
            .iter()
            .any(|(.., event)| matches!(event, Event::Moved))
    );
}

#[test]
fn packets_that_a_challenge_overtakes_are_not_lost() {
    let mut pair = session();
    let before = pair.agent.stats().packets_lost;
    // The request is on its way for longer than the patience with a gap.
    pair.up.delay += Duration::from_millis(60);
    let mut user = User::default();
    user.send(pair.now, &mut pair.agent, 1, body(400, 1));
    pair.run_for(Duration::from_millis(10));
    assert!(!pair.flying.is_empty());
    let sent = challenge(&mut pair);
    arrive(&mut pair, sent);
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.agent.stats().packets_lost, before);
}
