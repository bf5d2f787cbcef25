//! Datagrams of an attacker: replayed, damaged, forged, and in large numbers.
use super::*;
use proptest::prelude::*;

fn address(number: u32) -> SocketAddr {
    SocketAddr::from((std::net::Ipv4Addr::from_bits(0x0a00_0000 + number), 5000))
}

/// A pair after one exchange, and all datagrams of the exchange.
fn exchanged() -> (Pair, ConnectionHandle, Vec<Sent>) {
    let mut pair = Pair::new();
    let token = pair.token();
    let handle = pair.open(token, b"GET /");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.bytes_of(Side::Agent).len(), 1);
    let sent = pair.sent.clone();
    (pair, handle, sent)
}

fn still_works(pair: &mut Pair, handle: ConnectionHandle) {
    let before = pair.bytes_of(Side::Agent).len();
    pair.request(handle, b"more");
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.bytes_of(Side::Gateway).last(), Some(&&b"more"[..]));
    assert_eq!(pair.bytes_of(Side::Agent).len(), before + 1);
    assert!(pair.closed(Side::Agent).is_empty());
}

/// `LONGHAUL_REPLAYS` sets the number of replayed datagrams; `make sim` sets a million.
#[test]
fn replays_are_never_accepted() {
    let asked = std::env::var("LONGHAUL_REPLAYS").ok();
    let replays: usize = asked.and_then(|number| number.parse().ok()).unwrap_or(1000);
    let (mut pair, handle, sent) = exchanged();
    let rounds = replays.div_ceil(sent.len());
    for round in 0..rounds {
        for sent in &sent {
            pair.deliver(sent);
        }
        // Spread over a time in which no session expires, whatever their number.
        pair.now += Duration::from_secs(75) / u32::try_from(rounds).unwrap();
        pair.pump();
        assert_eq!(pair.bytes_of(Side::Gateway), [b"GET /"], "round {round}");
        assert_eq!(pair.bytes_of(Side::Agent), [[b'r'; 20]]);
    }
    assert_eq!(pair.gateway.counters().accepted, 1);
    // Much later, the INIT's RESP has expired: the INIT opens a session without early data that nobody can
    // use.
    pair.run_for(Duration::from_secs(100));
    pair.deliver(&sent[0]);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.gateway.counters().accepted, 2);
    assert_eq!(pair.gateway.counters().early_rejected, 1);
    assert_eq!(pair.bytes_of(Side::Gateway), [b"GET /"]);
    still_works(&mut pair, handle);
    pair.run_for(Duration::from_secs(300));
    assert_eq!(pair.gateway.handles().count(), 1);
}

#[test]
fn packets_forged_before_the_resp_are_ignored() {
    let mut pair = Pair::new();
    let token = pair.token();
    let handle = pair.open(token, b"GET /");
    pair.pump();
    let index = pair.sent_of(PacketKind::Init)[0].bytes[3];
    let mut forged = vec![0x80, index];
    forged.resize(1200, 0xaa);
    assert_eq!(PacketKind::classify(&forged), Some(PacketKind::Short));
    let (now, gateway) = (pair.now, pair.gateway_address);
    pair.agent.handle_datagram(now, address(9), &mut forged.clone());
    assert_eq!(pair.agent.counters().unexpected, 1, "not from the gateway");
    for _ in 0..5000 {
        pair.agent.handle_datagram(now, gateway, &mut forged.clone());
    }
    let kept = (4 << 20) / 1200;
    assert_eq!(pair.agent.counters().unexpected, 1 + 5000 - kept);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.bytes_of(Side::Agent), [[b'r'; 20]]);
    assert_eq!(pair.agent.peek(handle).unwrap().stats().packets_dropped, kept);
    // The packets cause one repetition of the INIT, not one each.
    assert_eq!(pair.sent_of(PacketKind::Init).len(), 2);
    still_works(&mut pair, handle);
}

#[test]
fn replays_after_a_restart_are_never_accepted() {
    let (mut pair, _, sent) = exchanged();
    pair.gateway = gateway_endpoint(2, 3);
    for sent in sent.iter().filter(|sent| sent.from == Side::Agent) {
        pair.deliver(sent);
    }
    pair.pump();
    assert_eq!(pair.bytes_of(Side::Gateway), [b"GET /"]);
    assert_eq!(pair.gateway.counters().early_rejected, 1);
}

#[test]
fn a_forged_resp_does_not_break_the_handshake() {
    let mut pair = Pair::without_probing();
    let token = pair.token();
    pair.open(token, b"GET /");
    pair.pump();
    let init = pair.flying.pop_first().unwrap().1;
    pair.deliver(&init);
    pair.pump();
    let resp = pair.flying.pop_first().unwrap().1;
    let mut forged = resp.clone();
    for bit in 0..64 * 8 {
        forged.bytes = resp.bytes.clone();
        forged.bytes[5 + bit / 8] ^= 1 << (bit % 8);
        pair.deliver(&forged);
    }
    let (_, resp_len) = crate::wire::Resp::parse(&resp.bytes).unwrap();
    for len in 0..resp_len {
        forged.bytes = resp.bytes[..len].to_vec();
        pair.deliver(&forged);
    }
    forged = resp.clone();
    forged.source = address(1);
    pair.deliver(&forged);
    assert!(pair.connected().is_empty());
    pair.deliver(&resp);
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.connected(), [EarlyOutcome::Accepted]);
    assert_eq!(pair.bytes_of(Side::Agent), [[b'r'; 20]]);
}

#[test]
fn a_reset_with_a_wrong_tag_is_ignored() {
    let (mut pair, handle, _) = exchanged();
    let mut reset = Vec::new();
    crate::wire::Reset { tag: [1; 16] }.encode(&mut reset);
    let (now, remote) = (pair.now, pair.gateway_address);
    pair.agent.handle_datagram(now, remote, &mut reset);
    assert_eq!(pair.agent.counters().bad_handshake, 1);
    still_works(&mut pair, handle);
}

#[test]
fn resets_are_rate_limited() {
    let mut pair = Pair::new();
    let now = pair.now;
    for number in 0..10_000_u32 {
        let mut packet = [&[0x80][..], &number.to_be_bytes(), &[0; 40]].concat();
        pair.gateway
            .handle_datagram(now, address(number % 1000), &mut packet);
    }
    assert_eq!(pair.gateway.counters().resets, 200);
    assert_eq!(pair.gateway.counters().unknown_session, 10_000);
    let mut early = [&[0xa0][..], &[1, 2, 3, 4], &[0; 40]].concat();
    pair.gateway
        .handle_datagram(now + Duration::from_secs(9), address(1), &mut early);
    assert_eq!(pair.gateway.counters().resets, 200);
}

#[test]
fn a_flood_without_token_is_limited_and_those_with_a_token_get_through() {
    let mut pair = Pair::new();
    let now = pair.now;
    let mut flood = Vec::new();
    let unknown = AgentEndpointConfig {
        secret: SecretKey::from_bytes([0x99; 32]),
        transport: TransportConfig::default(),
    };
    for seed in 0..40 {
        let mut stranger = Endpoint::agent(unknown.clone(), UNIX, [seed; 32]);
        let to = pair.connect_to(None);
        let handle = stranger.connect(now, to).unwrap();
        stranger.start(handle);
        let mut init = Vec::new();
        stranger.poll_transmit(now, &mut init).unwrap();
        flood.push(init);
    }
    for init in &mut flood {
        pair.gateway.handle_datagram(now, address(1), init);
    }
    assert_eq!(pair.gateway.counters().refused, 5);
    assert_eq!(pair.gateway.counters().rate_limited, 35);
    let token = pair.token();
    pair.open(token, b"GET /");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.bytes_of(Side::Gateway), [b"GET /"]);
}

#[test]
fn the_token_of_another_device_gives_no_early_data() {
    let mut pair = Pair::new();
    let token = pair.gateway.mint_token(pair.now, device(9));
    pair.open(token, b"GET /");
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.connected(), [EarlyOutcome::Rejected]);
    assert_eq!(pair.bytes_of(Side::Gateway), [b"GET /"]);
    let mut forged = pair.token().unwrap();
    forged[20] ^= 1;
    pair.open(Some(forged), b"GET /2");
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.connected(), [EarlyOutcome::Rejected; 2]);
    assert_eq!(pair.bytes_of(Side::Gateway), [&b"GET /"[..], b"GET /2"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn garbage_leaves_everything_intact(rounds in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1_u8.., any::<bool>(), any::<bool>()), 1..60), noise in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (mut pair, handle, sent) = exchanged();
        for (which, at, flip, cut, from_gateway) in rounds {
            let mut datagram = which.get(&sent).clone();
            let at = at.index(datagram.bytes.len());
            if cut {
                datagram.bytes.truncate(at);
            } else {
                datagram.bytes[at] ^= flip;
            }
            pair.deliver(&datagram);
            let side = if from_gateway { Side::Gateway } else { Side::Agent };
            let (now, source) = (pair.now, datagram.source);
            let mut noise = [&[flip][..], &noise].concat();
            pair.endpoint(side.other()).handle_datagram(now, source, &mut noise);
        }
        pair.pump();
        prop_assert_eq!(pair.bytes_of(Side::Gateway), [b"GET /"]);
        still_works(&mut pair, handle);
    }

    #[test]
    fn garbage_before_the_handshake_leaves_it_intact(noise in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..40)) {
        let mut pair = Pair::new();
        let token = pair.token();
        pair.open(token, b"GET /");
        pair.pump();
        let (now, agent, gateway) = (pair.now, pair.agent_address, pair.gateway_address);
        for datagram in &noise {
            // No VERSIONS: the datagram is not authenticated and has an effect if its index is right.
            for kind in [1, 2, 4, 0x80, 0xa0] {
                let mut datagram = [&[kind][..], datagram].concat();
                pair.agent.handle_datagram(now, gateway, &mut datagram.clone());
                pair.gateway.handle_datagram(now, agent, &mut datagram);
            }
        }
        pair.run_for(Duration::from_secs(2));
        prop_assert_eq!(pair.bytes_of(Side::Agent), [[b'r'; 20]]);
    }
}
