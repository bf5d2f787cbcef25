//! Races of the gateway's addresses, in virtual time.
use super::*;

const DELAY: Duration = Duration::from_millis(250);

/// Opens a session with the IPv6 address first and the IPv4 address second.
fn raced(pair: &mut Pair, token: Option<Token>, request: &[u8]) -> ConnectionHandle {
    let [_, first] = pair.others;
    let to = ConnectTo {
        remote: first.into(),
        ..pair.connect_to(token)
    };
    let handle = pair.agent.connect(pair.now, to).unwrap();
    pair.agent.race(handle, &[pair.gateway_address], DELAY);
    pair.request(handle, request);
    pair.agent.start(handle);
    handle
}

/// Time from the first INIT to the response, in a session that was raced.
fn time_to_response(pair: &mut Pair, token: Option<Token>, request: &[u8]) -> Duration {
    let begin = pair.now;
    raced(pair, token, request);
    pair.run_for(Duration::from_secs(20));
    let response = pair.received.iter().find(|(side, _)| *side == Side::Agent);
    response.unwrap().1.at - begin
}

fn inits_to(pair: &Pair, is_other: bool) -> usize {
    let inits = pair.sent_of(PacketKind::Init);
    inits.iter().filter(|sent| sent.to.is_ipv6() == is_other).count()
}

#[test]
fn a_working_first_address_is_the_only_one_used() {
    let mut pair = Pair::new();
    let token = pair.token();
    assert_eq!(time_to_response(&mut pair, token, b"GET /"), RTT);
    assert_eq!((inits_to(&pair, true), inits_to(&pair, false)), (1, 0));
    assert!(pair.sent.iter().all(|sent| sent.to.is_ipv6()));
}

#[test]
fn a_dead_first_address_costs_the_delay_and_nothing_else() {
    let mut pair = Pair::new();
    pair.loses = Box::new(|sent| sent.to.is_ipv6());
    let token = pair.token();
    assert_eq!(time_to_response(&mut pair, token, b"GET /"), DELAY + RTT);
    assert_eq!(pair.connected(), [EarlyOutcome::Accepted]);
    assert_eq!((inits_to(&pair, true), inits_to(&pair, false)), (1, 1));
    let inits = pair.sent_of(PacketKind::Init);
    assert_eq!(inits[0].bytes, inits[1].bytes, "the same INIT");
    let late = pair.sent.iter().filter(|sent| sent.at > inits[1].at);
    assert!(late.clone().count() > 0 && late.clone().all(|sent| sent.to.is_ipv4()));
}

/// Early data beyond the INIT goes to the first address; if another one answers, it is sent again.
#[test]
fn early_data_that_the_dead_address_swallowed_is_sent_again() {
    let mut pair = Pair::new();
    pair.loses = Box::new(|sent| sent.to.is_ipv6());
    let token = pair.token();
    let request = vec![b'q'; 5_000];
    let time = time_to_response(&mut pair, token, &request);
    assert_eq!(pair.bytes_of(Side::Gateway), [&request[..]]);
    assert!(time <= DELAY + RTT * 3, "{time:?}");
}

#[test]
fn two_slow_addresses_make_one_session() {
    let mut pair = Pair::new();
    // The first RESP is lost, with the response in its datagram, so that both INITs are answered.
    let mut lost = 0;
    pair.loses = Box::new(move |sent| {
        let is_first = sent.kind() == Some(PacketKind::Resp) && lost < 1;
        lost += u32::from(is_first);
        is_first
    });
    let token = pair.token();
    raced(&mut pair, token, b"GET /");
    pair.run_for(DELAY + RTT);
    assert_eq!(pair.connected(), [EarlyOutcome::Accepted], "by the repeated RESP");
    assert_eq!((inits_to(&pair, true), inits_to(&pair, false)), (1, 1));
    // The gateway's probe brings the response, before an INIT to one address would be repeated.
    pair.run_for(Duration::from_millis(600));
    assert_eq!(pair.gateway.counters().accepted, 1);
    assert_eq!(pair.connected().len(), 1);
    assert_eq!(pair.bytes_of(Side::Agent).len(), 1);
    pair.run_for(Duration::from_secs(60));
    assert_eq!(pair.gateway.handles().count(), 1);
}

/// The way down in the first family is dead: the gateway has heard the INIT there, and the agent's first packet
/// under the full keys moves the session to the other family.
#[test]
fn a_session_moves_to_the_family_whose_answer_arrives() {
    let mut pair = Pair::new();
    pair.response = 60_000;
    pair.loses = Box::new(|sent| sent.from == Side::Gateway && sent.to.is_ipv6());
    let token = pair.token();
    let time = time_to_response(&mut pair, token, b"GET /");
    assert!(time < Duration::from_secs(3), "{time:?}");
    assert_eq!(pair.gateway.counters().accepted, 1);
    assert_eq!(pair.bytes_of(Side::Agent), [&[b'r'; 60_000][..]]);
}

#[test]
fn an_answer_from_an_address_that_was_not_asked_is_ignored() {
    let mut pair = Pair::new();
    pair.loses = Box::new(|sent| sent.kind() == Some(PacketKind::Resp));
    let token = pair.token();
    let handle = raced(&mut pair, token, b"GET /");
    pair.run_for(ONE_WAY + Duration::from_millis(10));
    let mut resp = pair.sent_of(PacketKind::Resp)[0].bytes.clone();
    let now = pair.now;
    for from in ["192.0.2.77:443".parse().unwrap(), pair.gateway_address] {
        pair.agent.handle_datagram(now, from, &mut resp.clone());
    }
    assert_eq!(pair.connected().len(), 0, "the IPv4 address has got no INIT yet");
    let [_, first] = pair.others;
    pair.agent.handle_datagram(now, first, &mut resp);
    pair.run_for(RTT * 4);
    assert_eq!(pair.connected().len(), 1);
    assert!(pair.agent.peek(handle).is_some());
}
