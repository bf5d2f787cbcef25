//! Open sessions at the level of the endpoint.
use super::*;

/// Opens a session and completes one exchange.
fn opened() -> (Pair, ConnectionHandle) {
    let mut pair = Pair::new();
    let token = pair.token();
    let handle = pair.open(token, b"GET /");
    pair.run_for(Duration::from_secs(1));
    (pair, handle)
}

#[test]
fn a_session_follows_its_agent_to_another_address() {
    let (mut pair, handle) = opened();
    pair.agent_address = "203.0.113.9:61000".parse().unwrap();
    pair.response = 30_000;
    pair.request(handle, b"more");
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.bytes_of(Side::Gateway), [&b"GET /"[..], b"more"]);
    assert_eq!(pair.bytes_of(Side::Agent).len(), 2);
    let moved = pair
        .events
        .iter()
        .filter(|(side, _, event)| (*side, event) == (Side::Gateway, &Event::Moved));
    assert_eq!(moved.count(), 1);
    assert_eq!(pair.gateway.counters().accepted, 1);
}

#[test]
fn a_long_session_gets_a_new_token_every_day_which_opens_the_next_one() {
    let (mut pair, _) = opened();
    pair.run_for(Duration::from_secs(49 * 3600));
    let tokens = pair.events.iter().filter_map(|(side, _, event)| {
        if let (Side::Agent, Event::Token(token)) = (side, event) {
            Some(*token)
        } else {
            None
        }
    });
    let tokens: Vec<_> = tokens.collect();
    assert_eq!(tokens.len(), 3, "one of the RESP, and two of the days");
    assert!(tokens[0] != tokens[1] && tokens[1] != tokens[2]);
    pair.open(tokens.last().copied(), b"again");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.connected(), [EarlyOutcome::Accepted; 2]);
}

#[test]
fn a_close_reaches_the_peer_and_leaves_no_state() {
    let (mut pair, handle) = opened();
    let now = pair.now;
    pair.agent.connection(handle).unwrap().close(now, 1, "going away");
    pair.run_for(Duration::from_secs(30));
    assert_eq!(pair.closed(Side::Agent).len(), 1);
    let [CloseReason::PeerClosed { error: 1, reason }] = pair.closed(Side::Gateway)[..] else {
        panic!("{:?}", pair.closed(Side::Gateway));
    };
    assert_eq!(reason, "going away");
    assert_eq!(
        (pair.agent.handles().count(), pair.gateway.handles().count()),
        (0, 0)
    );
    assert_eq!(
        (pair.agent.poll_timeout(), pair.gateway.poll_timeout()),
        (None, None)
    );
}

#[test]
fn a_session_that_is_closed_before_it_opened_is_gone_at_once() {
    let mut pair = Pair::new();
    let token = pair.token();
    let handle = pair.open(token, b"GET /");
    let now = pair.now;
    pair.agent.connection(handle).unwrap().close(now, 0, "");
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.agent.handles().count(), 0);
    assert_eq!(pair.closed(Side::Agent).len(), 1);
}

#[test]
fn an_endpoint_may_be_moved_to_another_thread() {
    fn assert_send<T: Send>(_: &T) {}
    assert_send(&agent_endpoint(1));
}

#[test]
fn both_sides_export_the_same_secret_and_each_session_another() {
    let exporters = |pair: &mut Pair| {
        let of = |endpoint: &mut Endpoint| {
            let handle = endpoint.handles().last().unwrap();
            endpoint.connection(handle).unwrap().exporter().unwrap()
        };
        (of(&mut pair.agent), of(&mut pair.gateway))
    };
    let (mut pair, _) = opened();
    let (agent, gateway) = exporters(&mut pair);
    assert_eq!(agent, gateway);
    pair.open(None, b"GET /2");
    pair.run_for(Duration::from_secs(1));
    assert_ne!(exporters(&mut pair).0, agent);
}

#[test]
fn an_agent_has_at_most_256_sessions() {
    let mut pair = Pair::new();
    let to = pair.connect_to(None);
    for _ in 0..256 {
        pair.agent.connect(pair.now, to.clone()).unwrap();
    }
    assert_eq!(
        pair.agent.connect(pair.now, to.clone()),
        Err(ConnectError::TooManySessions)
    );
    let first = pair.agent.handles().next().unwrap();
    pair.agent.abandon(first);
    assert!(pair.agent.connect(pair.now, to.clone()).is_ok());
    assert_eq!(pair.gateway.connect(pair.now, to), Err(ConnectError::NotAnAgent));
}

#[test]
fn over_ipv6_datagrams_are_20_bytes_shorter() {
    let mut pair = Pair::new();
    pair.agent_address = "[2001:db8::1]:4000".parse().unwrap();
    pair.gateway_address = "[2001:db8::2]:443".parse().unwrap();
    pair.response = 50_000;
    let token = pair.token();
    pair.open(token, &[b'q'; 5000]);
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.bytes_of(Side::Agent).len(), 1);
    assert_eq!(
        pair.sent.iter().map(|sent| sent.bytes.len()).max(),
        Some(1500 - 48)
    );
}

/// Loss of 30 % in both directions, duplicates, and held datagrams: with every seed, each request is answered
/// exactly once.
#[test]
fn sessions_open_over_a_lossy_link() {
    for seed in 0..60_u8 {
        let mut pair = Pair::new();
        let mut rng = ChaCha20Rng::from_seed([seed; 32]);
        pair.loses = Box::new(move |_| rng.next_u32() % 10 < 3);
        let token = pair.token().filter(|_| seed % 2 == 0);
        pair.open(token, &[b'q'; 4000]);
        let mut copies = ChaCha20Rng::from_seed([seed; 32]);
        for _ in 0..200 {
            pair.run_for(Duration::from_millis(300));
            let index = copies.next_u32() as usize % pair.sent.len();
            let copy = pair.sent[index].clone();
            pair.deliver(&copy);
        }
        assert_eq!(pair.bytes_of(Side::Gateway), [&[b'q'; 4000][..]], "seed {seed}");
        assert_eq!(pair.bytes_of(Side::Agent), [[b'r'; 20]], "seed {seed}");
        assert!(pair.closed(Side::Agent).is_empty(), "seed {seed}");
    }
}
