//! Byte-exact vectors, written manually from transport.md.
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount, LinkProfile, StreamId, UnixTime};

use super::encoded;
use crate::wire::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parameters() -> Parameters {
    Parameters {
        stream_window: ByteCount::kib(512),
        max_streams: 100,
        max_udp_payload: 1252,
        profile: Some(LinkProfile {
            down: BitRate::bps(39_600),
            up: BitRate::bps(13_400),
            rtt: Duration::from_millis(660),
        }),
        rate_probing: false,
        datagrams: false,
    }
}

#[test]
fn frames_match_the_specification() {
    let data = Data {
        stream: StreamId(4),
        offset: 1000,
        total: Some(1003),
        fin: true,
        bytes: b"abc",
    };
    let feedback = Feedback {
        largest: 0x01_0203,
        echo: Stamp::from_raw(0x0a_0b0c),
        hold: 0x0102,
        credit: 20_000,
        rate: RateFloat::from_bits(0x0c00),
        gaps: Gaps {
            floor_distance: 20,
            declared: vec![GapRange { skip: 0, length: 2 }],
            pending: vec![GapRange { skip: 3, length: 1 }],
        },
    };
    let vectors = [
        (Frame::Pad, "00".to_owned()),
        (Frame::Ping, "01".to_owned()),
        (
            Frame::Feedback(feedback),
            "020102030a0b0c010280004e200c00010114000203 01".replace(' ', ""),
        ),
        (Frame::Forward { distance: 70 }, "034046".to_owned()),
        (
            Frame::Cancel {
                stream: StreamId(3),
                error: 5,
                final_offset: 16_384,
            },
            "04030580004000".to_owned(),
        ),
        (
            Frame::Stop {
                stream: StreamId(3),
                error: 5,
            },
            "050305".to_owned(),
        ),
        (
            Frame::StreamLimit {
                stream: StreamId(3),
                limit: 1 << 20,
            },
            "060380100000".to_owned(),
        ),
        (Frame::Streams { count: 100 }, "074064".to_owned()),
        (Frame::Token([0xaa; 32]), format!("08{}", "aa".repeat(32))),
        (Frame::PathChallenge([1; 8]), format!("09{}", "01".repeat(8))),
        (Frame::PathResponse([2; 8]), format!("0a{}", "02".repeat(8))),
        (
            Frame::Close {
                error: 1,
                reason: "bye",
            },
            "0b0103627965".to_owned(),
        ),
        (Frame::Train { packets: 32 }, "0c20".to_owned()),
        (Frame::Datagram(Datagram(b"abc")), "3103616263".to_owned()),
        (Frame::Data(data), "4f0443e843eb03616263".to_owned()),
    ];
    for (frame, expected) in vectors {
        let bytes = encoded(|out| frame.encode(out));
        assert_eq!(hex(&bytes), expected, "{frame:?}");
        let mut rest = &bytes[..];
        assert_eq!(Frame::decode(&mut rest), Ok(frame));
        assert!(rest.is_empty());
    }
    let to_end = encoded(|out| data.encode(Extent::ToEnd, out));
    assert_eq!(hex(&to_end), "4b0443e843eb616263");
    assert_eq!(Frame::decode(&mut &to_end[..]), Ok(Frame::Data(data)));
    assert_eq!(Data::header_len(data.stream, data.offset, data.total, 3) + 3, 10);
}

#[test]
fn datagrams_match_the_specification() {
    let header = ShortHeader {
        keys: KeySpace::Early,
        phase: KeyPhase::Even,
        activity: Activity::Idle,
        index: ReceiverIndex::Gateway(0x0102_0304),
        truncated: 0x0a_0b0c,
    };
    let bytes = encoded(|out| header.encode(out));
    assert_eq!(hex(&bytes), "b0010203040a0b0c");
    let to_agent = ShortHeader {
        keys: KeySpace::Full,
        phase: KeyPhase::Even,
        activity: Activity::More,
        index: ReceiverIndex::Agent(7),
        truncated: 1,
    };
    assert_eq!(hex(&encoded(|out| to_agent.encode(out))), "8007000001");
    let odd = ShortHeader {
        phase: KeyPhase::Odd,
        ..to_agent
    };
    assert_eq!(hex(&encoded(|out| odd.encode(out))), "c007000001");
    let versions = Versions {
        agent_index: 7,
        versions: &[1, 2],
    };
    assert_eq!(hex(&encoded(|out| versions.encode(out))), "0307020102");
    assert_eq!(
        hex(&encoded(|out| Reset { tag: [9; 16] }.encode(out))),
        format!("04{}", "09".repeat(16))
    );
    assert_eq!(
        hex(&encoded(|out| Init::encode_clear(7, Some(&[0xcc; 32]), out))),
        format!("01010107{}", "cc".repeat(32))
    );
    assert_eq!(hex(&encoded(|out| Init::encode_clear(7, None, out))), "01010007");
    let noise = [0x55; 48];
    let resp = Resp {
        agent_index: 7,
        noise: &noise,
    };
    assert_eq!(
        hex(&encoded(|out| resp.encode(out))),
        format!("0201070030{}", "55".repeat(48))
    );
}

#[test]
fn handshake_payloads_match_the_specification() {
    let init = InitPayload {
        wall: UnixTime::new(Duration::new(0x6500_0000, 0x0102_0304)),
        parameters: parameters(),
        stamp: Stamp::from_raw(0x01_0203),
        frames: &[0x01],
    };
    let bytes = encoded(|out| init.encode(out));
    let fields = "0e4200406444e480009ab074584294";
    assert_eq!(hex(&bytes), format!("000000006500000001020304{fields}01020301"));
    assert_eq!(InitPayload::decode(&bytes), Ok(init));
    let probing = Parameters {
        rate_probing: true,
        ..parameters()
    };
    let bytes = encoded(|out| probing.encode(out));
    assert_eq!(hex(&bytes), "0f4200406444e480009ab07458429401");
    assert_eq!(Parameters::decode(&mut &bytes[..]), Ok(probing));
    let both = Parameters {
        datagrams: true,
        ..probing
    };
    assert_eq!(
        hex(&encoded(|out| both.encode(out))),
        "0f4200406444e480009ab07458429403"
    );
    // Flags of a later version, and bytes after the seventh field.
    let later = [&[0x11], &bytes[1..15], &[0x07, 0xff, 0xff]].concat();
    assert_eq!(Parameters::decode(&mut &later[..]), Ok(both));
    let resp = RespPayload::Accepted(Acceptance {
        early: EarlyOutcome::Accepted,
        gateway_index: 0x0102_0304,
        reset_tag: [3; 16],
        token: [4; 32],
        parameters: Parameters {
            profile: None,
            ..parameters()
        },
    });
    let bytes = encoded(|out| resp.encode(out));
    let (tag, token) = ("03".repeat(16), "04".repeat(32));
    assert_eq!(
        hex(&bytes),
        format!("000101020304{tag}{token}094200406444e4000000")
    );
    assert_eq!(RespPayload::decode(&bytes), Ok(resp));
    for (refusal, status) in [
        (Refusal::UnknownDevice, 1),
        (Refusal::Revoked, 2),
        (Refusal::TooManySessions, 3),
        (Refusal::Expired, 4),
        (Refusal::Draining, 5),
    ] {
        let bytes = encoded(|out| RespPayload::Refused(refusal).encode(out));
        assert_eq!((bytes.len(), bytes[0]), (64, status));
        assert!(bytes[1..].iter().all(|byte| *byte == 0));
        assert_eq!(RespPayload::decode(&bytes), Ok(RespPayload::Refused(refusal)));
    }
}

#[test]
fn packet_numbers_expand_to_the_nearest() {
    // RFC 9000 appendix A.3, with 24 bits instead of 16.
    assert_eq!(expand_packet_number(5, None), 5);
    assert_eq!(expand_packet_number(0, Some(0xff_ffff)), 0x100_0000);
    assert_eq!(expand_packet_number(0xff_ffff, Some(0x100_0000)), 0xff_ffff);
    assert_eq!(expand_packet_number(0xff_fff0, Some(3)), 0xff_fff0);
    assert_eq!(expand_packet_number(0x12_3456, Some(0x7712_3400)), 0x7712_3456);
}

#[test]
fn contradictions_are_malformed() {
    let cases: [(&[u8], FrameError); 10] = [
        (&[0x0d], FrameError::UnknownType(0x0d)),
        (&[0x0c], FrameError::Truncated),
        (&[0x0c, 1], FrameError::TrainLength),
        (&[0x0c, 33], FrameError::TrainLength),
        (&[0x50], FrameError::UnknownType(0x50)),
        (&[0x46, 0, 1, 2, 1, 1], FrameError::DataRange),
        (&[0x4e, 0, 3, 2, 1, 1], FrameError::DataRange),
        (&[0x0b, 0, 1, 0xff], FrameError::Reason),
        (&[0x0b, 0, 0x40, 201], FrameError::Reason),
        (&[0x03, 0x40, 0x01], FrameError::NotShortest),
    ];
    for (bytes, error) in cases {
        assert_eq!(Frame::decode(&mut &bytes[..]), Err(error), "{bytes:02x?}");
    }
    let head = [2, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0];
    for (gaps, error) in [
        (&[1, 0, 5, 0, 0][..], FrameError::GapRange),
        (&[1, 0, 5, 3, 3], FrameError::GapRange),
        (&[0x40, 0xff, 2], FrameError::TooManyGaps),
        (&[1, 0, 5, 3], FrameError::Truncated),
    ] {
        let bytes = [&head[..], gaps].concat();
        assert_eq!(Frame::decode(&mut &bytes[..]), Err(error));
    }
    // Undefined bits, and an early packet with the odd key phase.
    for flags in [0x81, 0x82, 0x84, 0x88, 0xe0] {
        assert_eq!(
            ShortHeader::parse(&[flags; 40], IndexLength::Agent),
            Err(HeaderError::Flags)
        );
    }
    assert_eq!(
        ShortHeader::parse(&[0x80; 23], IndexLength::Agent),
        Err(HeaderError::Truncated)
    );
}

#[test]
fn gaps_resolve_to_packet_numbers_and_back() {
    let ranges = [
        (GapKind::Declared, 10..12),
        (GapKind::Declared, 15..16),
        (GapKind::Pending, 20..29),
    ];
    let gaps = Gaps::from_ranges(30, ranges.clone().into_iter(), 32);
    assert_eq!(gaps.floor(30), Some(10));
    assert!(gaps.ranges(30).eq(ranges));
    assert_eq!(gaps.ranges(5).count(), 0);
    assert_eq!(Gaps::from_ranges(30, std::iter::empty(), 32).floor(30), Some(31));
}
