//! An admitted device that sends invalid contents under valid keys: it affects only its own session.
use longhaul_types::{BitRate, ByteCount};
use proptest::prelude::*;

use super::*;
use crate::{
    crypto::{Initiator, Mac1Key, SessionKeys},
    wire::{
        Acceptance, Activity, Data, Extent, Feedback, Frame, GapKind, GapRange, Gaps, Init, InitPayload,
        KeyPhase, Parameters, RateFloat, ReceiverIndex, Resp, RespPayload, Stamp, varint,
    },
};

const MALICIOUS: SecretKey = SecretKey::from_bytes([0x33; 32]);

fn source() -> SocketAddr {
    "192.0.2.66:6666".parse().unwrap()
}

/// A correctly sealed packet of the device.
fn seal(
    keys: &SessionKeys,
    acceptance: &Acceptance,
    number: u64,
    activity: Activity,
    frames: &[u8],
) -> Vec<u8> {
    let header = ShortHeader {
        keys: KeySpace::Full,
        phase: KeyPhase::Even,
        activity,
        index: ReceiverIndex::Gateway(acceptance.gateway_index),
        truncated: u32::try_from(number).unwrap(),
    };
    let mut datagram = Vec::new();
    header.encode(&mut datagram);
    let start = datagram.len();
    datagram.extend_from_slice(&[0, 0, 1]);
    datagram.extend_from_slice(frames);
    keys.agent_to_gateway.seal(number, &mut datagram, 0, start);
    datagram
}

/// Opens a session manually, with `frames` as early data.
fn open_by_hand(pair: &mut Pair, frames: &[u8]) -> (SessionKeys, Acceptance) {
    let now = pair.now;
    let token = pair.gateway.mint_token(now, MALICIOUS.public());
    let mut datagram = Vec::new();
    Init::encode_clear(5, token.as_ref(), &mut datagram);
    let payload = InitPayload {
        wall: UNIX,
        parameters: Parameters {
            stream_window: ByteCount::kib(64),
            max_streams: 1 << 40,
            max_udp_payload: 256,
            profile: None,
            rate_probing: false,
            datagrams: false,
        },
        stamp: Stamp::from_raw(9),
        frames,
    };
    let mut plain = Vec::new();
    payload.encode(&mut plain);
    let clear = datagram.clone();
    let gateway = GATEWAY_KEY.public();
    let seed = Zeroizing::new([5; 32]);
    let (mut initiator, _) =
        Initiator::start(&MALICIOUS, &gateway, seed, &clear, &plain, &mut datagram).unwrap();
    let mac1 = Mac1Key::new(&gateway).tag(&datagram);
    datagram.extend_from_slice(&mac1);
    pair.gateway.handle_datagram(now, source(), &mut datagram);
    let mut buf = Vec::new();
    while pair.gateway.poll_transmit(now, &mut buf).is_some() {
        if PacketKind::classify(&buf) == Some(PacketKind::Resp) {
            let (resp, _) = Resp::parse(&buf).unwrap();
            let (payload, keys) = initiator.finish(resp.noise).unwrap();
            let Ok(RespPayload::Accepted(acceptance)) = RespPayload::decode(&payload) else {
                panic!("refused");
            };
            return (keys, acceptance);
        }
    }
    panic!("no RESP");
}

fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0_u64..10,
        0_u64..100_000,
        (0_u32..62, any::<u64>()).prop_map(|(shift, value)| (value & varint::MAX) >> shift)
    ]
}

/// Valid frames with unreasonable field values, and invalid frames.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let raw = proptest::collection::vec(any::<u8>(), 1..40);
    let fields = (
        any::<u8>(),
        any_number(),
        any_number(),
        any_number(),
        any_number(),
    );
    let structured = fields.prop_map(|(kind, a, b, c, d)| {
        let stream = StreamId(a);
        let bytes = [b'm'; 60];
        let bytes = &bytes[..usize::try_from(d % 60).unwrap()];
        let end = b.saturating_add(bytes.len() as u64);
        let mut out = Vec::new();
        match kind % 10 {
            0 => Frame::Forward { distance: a }.encode(&mut out),
            1 => Frame::Stop { stream, error: b }.encode(&mut out),
            2 => Frame::StreamLimit { stream, limit: b }.encode(&mut out),
            3 => Frame::Streams { count: a }.encode(&mut out),
            4 => Frame::PathChallenge(a.to_be_bytes()).encode(&mut out),
            5 => Frame::PathResponse(a.to_be_bytes()).encode(&mut out),
            6 => {
                let cancel = Frame::Cancel {
                    stream,
                    error: b,
                    final_offset: c,
                };
                cancel.encode(&mut out);
            }
            7 => {
                let (skip, length) = (c % 100, 1 + d % 1000);
                let feedback = Feedback {
                    largest: u32::try_from(a & 0xff_ffff).unwrap(),
                    echo: Stamp::from_raw(u32::try_from(b & 0xff_ffff).unwrap()),
                    hold: u16::try_from(b >> 46).unwrap(),
                    credit: c,
                    rate: RateFloat::from_bits(u16::try_from(d & 0xffff).unwrap()),
                    gaps: Gaps {
                        floor_distance: (skip + length).max(a >> 30),
                        declared: vec![GapRange { skip, length }],
                        pending: Vec::new(),
                    },
                };
                Frame::Feedback(feedback).encode(&mut out);
            }
            _ => {
                let total = (d % 3 == 0).then_some(end.max(c));
                let data = Data {
                    stream,
                    offset: b,
                    total,
                    fin: c % 5 == 0 && total.is_none_or(|total| total == end),
                    bytes,
                };
                data.encode(Extent::Delimited, &mut out);
            }
        }
        out
    });
    prop_oneof![6 => structured, 1 => raw]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn malformed_packets_under_valid_keys_affect_only_their_session(
        early in proptest::collection::vec(any_frame(), 0..6),
        packets in proptest::collection::vec((proptest::collection::vec(any_frame(), 0..8), 1_u64..40, 0_u64..2000), 0..40),
    ) {
        let mut pair = Pair::new();
        let devices = [AGENT_KEY.public(), MALICIOUS.public()].map(|key| (key, DeviceStatus::Admitted));
        let now = pair.now;
        pair.gateway.set_devices(now, BTreeMap::from(devices));
        let (keys, acceptance) = open_by_hand(&mut pair, &early.concat());
        let token = pair.token();
        let handle = pair.open(token, b"GET /");
        let mut number = 0;
        for (frames, step, millis) in packets {
            number += step;
            let activity = if step % 2 == 0 { Activity::Idle } else { Activity::More };
            let mut datagram = seal(&keys, &acceptance, number, activity, &frames.concat());
            let now = pair.now;
            pair.gateway.handle_datagram(now, source(), &mut datagram);
            pair.run_for(Duration::from_millis(millis));
        }
        pair.run_for(Duration::from_secs(5));
        prop_assert!(pair.agent.connection(handle).is_some());
        prop_assert!(pair.bytes_of(Side::Gateway).contains(&&b"GET /"[..]));
        prop_assert_eq!(pair.bytes_of(Side::Agent).len(), 1);
    }
}

/// The receiver grants 100 Mbit/s and reports most packets as lost: the sender reduces its rate.
#[test]
fn a_receiver_that_grants_too_much_gets_little() {
    const TURN: Duration = Duration::from_millis(50);
    let mut pair = Pair::new();
    let now = pair.now;
    pair.gateway.set_devices(
        now,
        BTreeMap::from([(MALICIOUS.public(), DeviceStatus::Admitted)]),
    );
    pair.response = 500_000_000;
    let data = Data {
        stream: StreamId(0),
        offset: 0,
        total: Some(5),
        fin: true,
        bytes: b"GET /",
    };
    let mut request = Vec::new();
    data.encode(Extent::Delimited, &mut request);
    let (keys, acceptance) = open_by_hand(&mut pair, &request);
    let mut sent_in_turn = Vec::new();
    let mut told = 0;
    for number in 1..=1_000 {
        let (before, since) = (pair.sent.len(), pair.now);
        pair.run_for(TURN);
        sent_in_turn.push(pair.sent.len() - before);
        let largest = pair.sent_of(PacketKind::Short).len().saturating_sub(1) as u64;
        if largest <= told {
            continue;
        }
        let lost = [(GapKind::Declared, told + 1..largest - (largest - told) / 4)];
        let feedback = Feedback {
            largest: u32::try_from(largest & 0xff_ffff).unwrap(),
            echo: Stamp::of(since),
            hold: 0,
            credit: 10_000_000,
            rate: RateFloat::of(BitRate::bps(100_000_000)),
            gaps: Gaps::from_ranges(largest, lost.into_iter(), 8),
        };
        told = largest;
        let mut frames = Vec::new();
        Frame::Feedback(feedback).encode(&mut frames);
        let limit = 1 << 40;
        Frame::StreamLimit {
            stream: StreamId(1),
            limit,
        }
        .encode(&mut frames);
        let mut datagram = seal(&keys, &acceptance, number, Activity::Idle, &frames);
        let now = pair.now;
        pair.gateway.handle_datagram(now, source(), &mut datagram);
    }
    let most = sent_in_turn.iter().max().unwrap();
    let last = sent_in_turn.iter().rev().take(20).max().unwrap();
    assert!(*most > 400, "it was granted: {sent_in_turn:?}");
    assert!(last * 20 < *most, "{sent_in_turn:?}");
}
