//! Refused sessions, and sessions that the gateway ends.
use super::*;
use crate::wire::Refusal;

fn refused_with(devices: BTreeMap<PublicKey, DeviceStatus>) -> Vec<CloseReason> {
    let mut pair = Pair::new();
    pair.gateway.set_devices(pair.now, devices);
    let token = pair.token();
    let handle = pair.open(token, b"GET /");
    pair.run_for(Duration::from_secs(5));
    assert!(pair.agent.connection(handle).is_none());
    assert!(pair.bytes_of(Side::Gateway).is_empty());
    assert_eq!(pair.gateway.counters().refused, 1);
    let (device, _) = pair.gateway.poll_refusal().expect("the refusal is reported");
    assert_eq!(device, AGENT_KEY.public());
    assert_eq!(pair.gateway.poll_refusal(), None, "once");
    assert_eq!(pair.gateway.handles().count(), 0);
    pair.closed(Side::Agent).into_iter().cloned().collect()
}

#[test]
fn unknown_revoked_and_expired_devices_get_their_refusal() {
    let unknown = refused_with(BTreeMap::from([(device(9), DeviceStatus::Admitted)]));
    assert_eq!(unknown, [CloseReason::Refused(Refusal::UnknownDevice)]);
    let revoked = refused_with(BTreeMap::from([(AGENT_KEY.public(), DeviceStatus::Revoked)]));
    assert_eq!(revoked, [CloseReason::Refused(Refusal::Revoked)]);
    let expired = refused_with(BTreeMap::from([(AGENT_KEY.public(), DeviceStatus::Expired)]));
    assert_eq!(expired, [CloseReason::Refused(Refusal::Expired)]);
}

#[test]
fn a_revoked_device_loses_its_session() {
    let mut pair = Pair::new();
    let token = pair.token();
    pair.open(token, b"GET /");
    pair.run_for(Duration::from_secs(1));
    let revoked = BTreeMap::from([(AGENT_KEY.public(), DeviceStatus::Revoked)]);
    pair.gateway.set_devices(pair.now, revoked);
    pair.run_for(Duration::from_secs(60));
    let [CloseReason::PeerClosed { error: 4, .. }] = pair.closed(Side::Agent)[..] else {
        panic!("{:?}", pair.closed(Side::Agent));
    };
    assert_eq!(pair.agent.handles().count(), 0);
    assert_eq!(pair.gateway.handles().count(), 0);
}

#[test]
fn a_full_gateway_refuses() {
    let mut pair = Pair::new();
    let mut config = gateway_config(1);
    config.max_sessions = 0;
    pair.gateway = Endpoint::gateway(config, UNIX, [3; 32]);
    let devices = BTreeMap::from([(AGENT_KEY.public(), DeviceStatus::Admitted)]);
    pair.gateway.set_devices(pair.now, devices);
    pair.open(None, b"GET /");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(
        pair.closed(Side::Agent),
        [&CloseReason::Refused(Refusal::TooManySessions)]
    );
}

#[test]
fn a_changed_limit_applies_to_later_sessions_and_leaves_open_ones() {
    let mut pair = Pair::new();
    pair.open(None, b"GET /");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.gateway.handles().count(), 1);
    pair.gateway.set_limits(1, 8);
    pair.open(None, b"GET /");
    pair.run_for(Duration::from_secs(1));
    let refused = CloseReason::Refused(Refusal::TooManySessions);
    assert_eq!(pair.closed(Side::Agent), [&refused]);
    assert_eq!(pair.gateway.handles().count(), 1, "the open session stays");
    pair.gateway.set_limits(2, 8);
    pair.open(None, b"GET /");
    pair.run_for(Duration::from_secs(1));
    let refusals = pair
        .closed(Side::Agent)
        .into_iter()
        .filter(|reason| **reason == refused);
    assert_eq!(refusals.count(), 1, "no further refusal");
}

#[test]
fn a_gateway_with_another_key_is_silent() {
    let mut pair = Pair::new();
    let mut to = pair.connect_to(None);
    to.gateway = device(0x77);
    let handle = pair.agent.connect(pair.now, to).unwrap();
    pair.agent.start(handle);
    pair.run_for(Duration::from_secs(20));
    assert!(pair.sent.iter().all(|sent| sent.from == Side::Agent));
    assert_eq!(pair.gateway.counters().bad_mac1, pair.gateway.counters().received);
    // 0, 1, 2.5, 4.75 s, then every 3 s without end.
    assert_eq!(pair.sent_of(PacketKind::Init).len(), 9);
    assert!(pair.closed(Side::Agent).is_empty());
    pair.agent.abandon(handle);
    pair.run_for(Duration::from_secs(20));
    assert_eq!(pair.closed(Side::Agent), [&CloseReason::TimedOut]);
    assert_eq!(pair.sent_of(PacketKind::Init).len(), 9);
}

#[test]
fn another_version_is_answered_with_the_versions_spoken() {
    let mut pair = Pair::new();
    let token = pair.token();
    pair.open(token, b"GET /");
    pair.pump();
    let mut init = pair.flying.pop_first().unwrap().1;
    // A later agent: another version, mac1 at its place.
    init.bytes[1] = 2;
    let covered = init.bytes.len() - 16;
    let mac1 = crate::crypto::Mac1Key::new(&GATEWAY_KEY.public()).tag(&init.bytes[..covered]);
    init.bytes[covered..].copy_from_slice(&mac1);
    pair.deliver(&init);
    pair.pump();
    let answer = pair.sent_of(PacketKind::Versions)[0].clone();
    assert_eq!(answer.bytes[2..], [1, 1]);
    assert!(answer.bytes.len() < init.bytes.len());
    // The agent supports version 1, which is in the list: the datagram is forged.
    pair.deliver(&answer);
    pair.pump();
    assert!(pair.closed(Side::Agent).is_empty());
    let mut other = answer;
    other.bytes[3] = 7;
    pair.deliver(&other);
    pair.pump();
    assert_eq!(pair.closed(Side::Agent), [&CloseReason::VersionMismatch(vec![7])]);
}

#[test]
fn half_open_sessions_time_out() {
    let mut pair = Pair::new();
    // The agent gets no answer and its user drops the session.
    pair.loses = Box::new(|sent| sent.from == Side::Gateway);
    for seed in 0..6 {
        pair.agent = agent_endpoint(20 + seed);
        let token = pair.token();
        let handle = pair.open(token, b"GET /");
        pair.run_for(Duration::from_millis(200));
        pair.agent.abandon(handle);
    }
    assert_eq!(pair.gateway.handles().count(), 4);
    pair.run_for(Duration::from_secs(200));
    assert_eq!(pair.gateway.handles().count(), 0);
    assert_eq!(pair.gateway.counters().half_open_dropped, 6);
    assert_eq!(pair.closed(Side::Gateway), [&CloseReason::TimedOut; 6]);
}

/// Asks the gateway for a session, and closes it when the answer has arrived, before any other packet.
fn ask_and_close(pair: &mut Pair) {
    let to = pair.connect_to(None);
    let asking = pair.agent.connect(pair.now, to).unwrap();
    pair.agent.start(asking);
    pair.run_for(ONE_WAY);
    let is_resp = |sent: &Sent| sent.kind() == Some(PacketKind::Resp);
    let key = pair
        .flying
        .iter()
        .find(|(_, sent)| is_resp(sent))
        .map(|(key, _)| *key);
    let resp = pair.flying.remove(&key.unwrap()).unwrap();
    pair.now += ONE_WAY;
    pair.deliver(&resp);
    let now = pair.now;
    pair.agent.connection(asking).unwrap().close(now, 0, "");
}

#[test]
fn a_session_that_is_closed_instead_of_opened_ends_at_once_and_replaces_none() {
    let mut pair = Pair::new();
    pair.open(None, b"GET /");
    pair.run_for(Duration::from_secs(1));
    // Another program with the same key.
    let running = std::mem::replace(&mut pair.agent, agent_endpoint(9));
    ask_and_close(&mut pair);
    assert_eq!(pair.gateway.handles().count(), 2);
    pair.run_for(ONE_WAY * 2);
    let [CloseReason::PeerClosed { error: 0, .. }] = pair.closed(Side::Gateway)[..] else {
        panic!("{:?}", pair.closed(Side::Gateway));
    };
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.gateway.handles().count(), 1);
    assert_eq!(pair.gateway.counters().half_open_dropped, 0);
    pair.agent = running;
    let open = pair.agent.handles().next().unwrap();
    pair.request(open, b"more");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.bytes_of(Side::Gateway), [&b"GET /"[..], b"more"]);
}

#[test]
fn a_closed_session_takes_no_place_at_a_full_gateway() {
    let mut pair = Pair::new();
    pair.gateway.set_limits(1, 8);
    for _ in 0..3 {
        ask_and_close(&mut pair);
        pair.run_for(ONE_WAY * 2);
    }
    pair.open(None, b"GET /");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.bytes_of(Side::Gateway), [b"GET /"]);
    assert_eq!(pair.gateway.counters().refused, 0);
    assert_eq!(pair.gateway.handles().count(), 1);
    let ends = pair.closed(Side::Gateway);
    assert_eq!(ends.len(), 3, "each end was reported: {ends:?}");
}

#[test]
fn a_draining_gateway_refuses_new_sessions_and_keeps_open_ones() {
    let mut pair = Pair::new();
    let token = pair.token();
    pair.open(token, b"GET /");
    pair.run_for(Duration::from_secs(1));
    pair.gateway.set_draining(true);
    pair.run_for(Duration::from_secs(60));
    assert_eq!(pair.gateway.handles().count(), 1);
    let mut other = Pair::new();
    other.gateway.set_draining(true);
    other.open(None, b"GET /");
    other.run_for(Duration::from_secs(1));
    assert_eq!(
        other.closed(Side::Agent),
        [&CloseReason::Refused(Refusal::Draining)]
    );
}
