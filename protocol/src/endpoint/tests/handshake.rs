//! Opening of sessions with early data, without early data, and over a lossy wire.
use super::*;
use longhaul_types::{BitRate, ByteCount, LinkProfile};

#[test]
fn a_request_in_the_first_datagram_is_answered_after_one_round_trip() {
    let mut pair = Pair::new();
    let begin = pair.now;
    let token = pair.token();
    pair.open(token, b"GET /");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.connected(), [EarlyOutcome::Accepted]);
    let at = |side| {
        let mut of_side = pair.received.iter().filter(move |(of, _)| *of == side);
        of_side
            .next()
            .map(|(_, received)| (received.at - begin, received.early))
    };
    assert_eq!(at(Side::Gateway), Some((ONE_WAY, true)));
    assert_eq!(at(Side::Agent), Some((RTT, false)));
    assert_eq!(pair.bytes_of(Side::Gateway), [b"GET /"]);
    let first = &pair.sent[0];
    assert_eq!((first.kind(), first.at), (Some(PacketKind::Init), begin));
    let resp = pair.sent_of(PacketKind::Resp);
    assert_eq!((resp.len(), resp[0].at), (1, begin + ONE_WAY));
    // Without early data, INIT and RESP together take at most 304 bytes.
    let (_, resp_len) = crate::wire::Resp::parse(&resp[0].bytes).unwrap();
    let frames = 4 + b"GET /".len();
    let fixed = first.bytes.len() - frames + resp_len;
    assert!(fixed <= 304, "{} and {resp_len} bytes", first.bytes.len());
}

#[test]
fn early_data_beyond_the_init_follows_at_once() {
    let mut pair = Pair::new();
    pair.response = 0;
    let begin = pair.now;
    let token = pair.token();
    let request = vec![b'q'; 3000];
    pair.open(token, &request);
    pair.run_until(begin + (RTT - Duration::from_millis(1)));
    let first: Vec<_> = pair.sent.iter().filter(|sent| sent.from == Side::Agent).collect();
    assert!(first.len() >= 3, "{} datagrams", first.len());
    assert!(first[1..].iter().all(|sent| sent.bytes[0] & 0xe0 == 0xa0));
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.bytes_of(Side::Gateway), [&request[..]]);
    assert_eq!(pair.connected(), [EarlyOutcome::Accepted]);
}

#[test]
fn without_a_token_early_data_is_refused_and_replies_are_limited_until_address_validation() {
    let mut pair = Pair::new();
    pair.response = 100_000;
    let begin = pair.now;
    pair.open(None, b"GET /");
    pair.run_until(begin + RTT);
    assert_eq!(pair.connected(), [EarlyOutcome::Rejected]);
    assert!(pair.bytes_of(Side::Gateway).is_empty());
    let bytes = |from: Side| {
        let of_side = pair.sent.iter().filter(move |sent| sent.from == from);
        of_side.map(|sent| sent.bytes.len()).sum::<usize>()
    };
    let received = pair.sent_of(PacketKind::Init)[0].bytes.len();
    assert!(bytes(Side::Gateway) <= 3 * received);
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.bytes_of(Side::Gateway), [b"GET /"]);
    assert_eq!(pair.bytes_of(Side::Agent), [&[b'r'; 100_000][..]]);
}

#[test]
fn a_lost_init_is_sent_again_byte_for_byte() {
    let mut pair = Pair::new();
    let begin = pair.now;
    pair.loses = first_lost(PacketKind::Init, 3);
    let token = pair.token();
    pair.open(token, b"GET /");
    pair.run_for(Duration::from_secs(12));
    let inits = pair.sent_of(PacketKind::Init);
    let times: Vec<Duration> = inits.iter().map(|init| init.at - begin).collect();
    let millis = [0, 1000, 2500, 4750].map(Duration::from_millis);
    assert_eq!(times, millis);
    assert!(inits.iter().all(|init| init.bytes == inits[0].bytes));
    assert_eq!(pair.bytes_of(Side::Gateway), [b"GET /"]);
    assert_eq!(pair.bytes_of(Side::Agent), [[b'r'; 20]]);
    assert!(pair.received[0].1.early);
}

#[test]
fn a_lost_resp_is_sent_again_and_early_data_counts_once() {
    let mut pair = Pair::new();
    pair.loses = first_lost(PacketKind::Resp, 2);
    let token = pair.token();
    pair.open(token, b"GET /");
    pair.run_for(Duration::from_secs(10));
    let resps = pair.sent_of(PacketKind::Resp);
    assert_eq!(resps.len(), 3);
    let (_, resp_len) = crate::wire::Resp::parse(&resps[0].bytes).unwrap();
    assert!(
        resps[1..]
            .iter()
            .all(|resp| resp.bytes[..resp_len] == resps[0].bytes[..resp_len])
    );
    assert_eq!(pair.bytes_of(Side::Gateway), [b"GET /"]);
    assert_eq!(pair.bytes_of(Side::Agent), [[b'r'; 20]]);
    assert_eq!(pair.gateway.counters().accepted, 1);
    assert_eq!(pair.gateway.counters().repeated, 2);
}

#[test]
fn data_received_before_a_lost_resp_is_not_sent_again() {
    let mut pair = Pair::new();
    let begin = pair.now;
    pair.response = 8000;
    pair.loses = first_lost(PacketKind::Resp, 1);
    let token = pair.token();
    pair.open(token, b"GET /");
    pair.run_for(Duration::from_secs(5));
    let inits = pair.sent_of(PacketKind::Init);
    assert_eq!(inits.len(), 2);
    let asked = inits[1].at - begin;
    // The third packet without keys causes a repeated INIT, long before the timer of one second.
    assert!(asked < RTT * 2, "{asked:?}");
    assert_eq!(pair.bytes_of(Side::Agent), [&[b'r'; 8000][..]]);
    // One round trip for the RESP, and one for the data in its datagram.
    let arrived = pair.received.last().unwrap().1.at - begin;
    assert!(arrived <= asked + RTT * 2 + RTT / 2, "{arrived:?}");
    assert_eq!(responses(&pair), 8, "seven packets, and one of them again");
    assert_eq!(pair.agent.counters().unexpected, 0);
}

#[test]
fn packets_that_overtake_the_resp_are_processed_after_it() {
    let mut pair = Pair::without_probing();
    let begin = pair.now;
    pair.response = 8000;
    let token = pair.token();
    let handle = pair.open(token, b"GET /");
    pair.run_for(ONE_WAY);
    pair.pump();
    let mut flying = pair.flying.iter();
    let resp = flying.find(|(_, sent)| sent.kind() == Some(PacketKind::Resp));
    let key = resp.map(|(key, _)| *key).unwrap();
    let resp = pair.flying.remove(&key).unwrap();
    // Until two packets have arrived.
    while pair.agent.counters().received < 2 {
        pair.run_for(Duration::from_millis(1));
    }
    assert!(pair.connected().is_empty());
    pair.deliver(&resp);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.connected(), [EarlyOutcome::Accepted]);
    assert_eq!(pair.bytes_of(Side::Agent), [&[b'r'; 8000][..]]);
    assert!(pair.received.last().unwrap().1.at - begin < RTT * 3);
    assert_eq!(responses(&pair), 7, "nothing again");
    assert_eq!(pair.sent_of(PacketKind::Init).len(), 1);
    assert_eq!(pair.agent.peek(handle).unwrap().stats().packets_dropped, 0);
}

/// A window that is larger than the buffer: the rest is dropped locally and must not reduce the session's
/// window.
#[test]
fn packets_beyond_the_early_buffer_do_not_count_as_loss() {
    let config = AgentEndpointConfig {
        secret: AGENT_KEY,
        transport: TransportConfig {
            stream_window: ByteCount::mib(8),
            ..TransportConfig::default()
        },
    };
    let mut pair = Pair {
        agent: Endpoint::agent(config, UNIX, [1; 32]),
        ..Pair::new()
    };
    pair.response = 8_000_000;
    pair.loses = first_lost(PacketKind::Resp, 1);
    let token = pair.token();
    let rate = BitRate::bps(800_000_000);
    let profile = LinkProfile {
        down: rate,
        up: rate,
        rtt: RTT,
    };
    let to = ConnectTo {
        profile: Some(profile),
        ..pair.connect_to(token)
    };
    let handle = pair.agent.connect(pair.now, to).unwrap();
    pair.request(handle, b"GET /");
    pair.agent.start(handle);
    pair.run_for(ONE_WAY);
    let first = pair.agent.peek(handle).unwrap().stats().window;
    pair.run_for(RTT * 4);
    assert!(pair.agent.counters().unexpected > 1000, "more than fits");
    let window = pair.agent.peek(handle).unwrap().stats().window;
    assert!(window.bytes() * 10 > first.bytes() * 9, "{window:?} of {first:?}");
    pair.run_for(Duration::from_secs(5));
    let lengths: Vec<usize> = pair
        .bytes_of(Side::Agent)
        .iter()
        .map(|bytes| bytes.len())
        .collect();
    assert_eq!(lengths, [8_000_000]);
}

/// Loses the first `left` datagrams of this kind.
fn first_lost(kind: PacketKind, mut left: u32) -> Fate {
    Box::new(move |sent| {
        let lost = sent.kind() == Some(kind) && left > 0;
        left -= u32::from(lost);
        lost
    })
}

/// Number of response packets that the gateway sent.
fn responses(pair: &Pair) -> usize {
    let of_gateway = pair.sent.iter().filter(|sent| sent.from == Side::Gateway);
    of_gateway.filter(|sent| sent.bytes.len() > 600).count()
}

#[test]
fn a_token_allows_early_data_in_the_next_session_which_replaces_the_token() {
    let mut pair = Pair::new();
    pair.open(None, b"first");
    pair.run_for(Duration::from_secs(1));
    let token = pair.events.iter().find_map(|(.., event)| {
        if let Event::Token(token) = event {
            Some(*token)
        } else {
            None
        }
    });
    assert!(token.is_some());
    pair.open(token, b"second");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.connected(), [EarlyOutcome::Rejected, EarlyOutcome::Accepted]);
    assert_eq!(pair.bytes_of(Side::Gateway), [&b"first"[..], b"second"]);
    assert_eq!(pair.closed(Side::Gateway), [&CloseReason::Replaced]);
    let [CloseReason::PeerClosed { error: 6, .. }] = pair.closed(Side::Agent)[..] else {
        panic!("{:?}", pair.closed(Side::Agent));
    };
    // The gateway answers late packets of the replaced session for a while.
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.gateway.handles().count(), 1);
}

#[test]
fn after_a_restart_early_data_is_refused_and_sent_again() {
    let mut pair = Pair::new();
    let token = pair.token();
    pair.gateway = gateway_endpoint(2, 3);
    pair.open(token, b"GET /");
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.connected(), [EarlyOutcome::Rejected]);
    assert_eq!(pair.bytes_of(Side::Gateway), [b"GET /"]);
    assert!(!pair.received[0].1.early);
    assert_eq!(pair.gateway.counters().early_rejected, 1);
    assert_eq!(pair.bytes_of(Side::Agent), [[b'r'; 20]]);
}

#[test]
fn after_a_restart_the_gateway_resets_unknown_sessions() {
    let mut pair = Pair::new();
    let token = pair.token();
    let handle = pair.open(token, b"GET /");
    pair.run_for(Duration::from_secs(1));
    pair.gateway = gateway_endpoint(2, 3);
    pair.request(handle, b"more");
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.closed(Side::Agent), [&CloseReason::Reset]);
    assert!(pair.agent.connection(handle).is_none());
    assert!(pair.gateway.counters().resets >= 1);
    let handle = pair.open(None, b"again");
    pair.run_for(Duration::from_secs(2));
    assert!(pair.agent.connection(handle).is_some());
    assert_eq!(pair.bytes_of(Side::Gateway), [&b"GET /"[..], b"again"]);
}

#[test]
fn stamps_grow_although_the_clock_was_set_back() {
    let mut pair = Pair::new();
    let stamp = UNIX + Duration::from_secs(1_000_000);
    let mut to = pair.connect_to(None);
    to.last_stamp = Some(stamp);
    let handle = pair.agent.connect(pair.now, to).unwrap();
    pair.agent.start(handle);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.agent.last_stamp(), Some(stamp + Duration::from_nanos(1)));
    let (token, last) = (pair.token(), pair.agent.last_stamp());
    pair.agent = agent_endpoint(9);
    let mut to = pair.connect_to(token);
    to.last_stamp = last;
    let handle = pair.agent.connect(pair.now, to).unwrap();
    pair.request(handle, b"GET /");
    pair.agent.start(handle);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.connected(), [EarlyOutcome::Rejected, EarlyOutcome::Accepted]);
}

#[test]
fn the_same_seeds_give_the_same_datagrams() {
    let run = || {
        let mut pair = Pair::new();
        let token = pair.token();
        pair.open(token, &[b'q'; 5000]);
        pair.run_for(Duration::from_secs(3));
        pair.sent
            .iter()
            .map(|sent| (sent.at, sent.bytes.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

/// Bytes of the datagrams that a side sent, with IP and UDP headers.
fn wire_bytes(pair: &Pair, from: Side) -> u64 {
    let of_side = pair.sent.iter().filter(|sent| sent.from == from);
    of_side.map(|sent| sent.bytes.len() as u64 + 28).sum()
}

#[test]
fn every_datagram_is_counted_and_figures_are_measured_first() {
    let mut pair = Pair::without_probing();
    pair.loses = Box::new(|_| true);
    let token = pair.token();
    let handle = pair.open(token, b"GET /");
    pair.run_for(Duration::from_secs(2));
    let unanswered = pair.agent.peek(handle).unwrap().stats();
    assert_eq!((unanswered.packets_sent, unanswered.packets_received), (2, 0));
    assert_eq!(unanswered.bytes_sent, wire_bytes(&pair, Side::Agent));
    assert_eq!(unanswered.measured_srtt, None);
    assert_eq!(unanswered.measured_receive_rate, None);

    pair.loses = Box::new(|_| false);
    pair.response = 50_000;
    pair.run_for(Duration::from_secs(20));
    let agent = pair.agent.peek(handle).unwrap().stats();
    let handle = pair.gateway.handles().next().unwrap();
    let gateway = pair.gateway.peek(handle).unwrap().stats();
    let (up, down) = (wire_bytes(&pair, Side::Agent), wire_bytes(&pair, Side::Gateway));
    assert_eq!((agent.bytes_sent, gateway.bytes_sent), (up, down));
    assert_eq!(agent.bytes_received, down);
    // The two lost INITs.
    assert_eq!(gateway.packets_received, agent.packets_sent - 2);
    assert!(agent.measured_srtt.is_some() && agent.measured_receive_rate.is_some());
}
