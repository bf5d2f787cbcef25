//! Encoded values decode to themselves, and no input causes a panic of a decoder.
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount, LinkProfile, StreamId, UnixTime};
use proptest::prelude::*;

use super::encoded;
use crate::wire::{init::InitOutline, *};

fn any_varint() -> impl Strategy<Value = u64> {
    (0_u32..62, any::<u64>()).prop_map(|(shift, value)| (value & varint::MAX) >> shift)
}

fn any_gaps() -> impl Strategy<Value = Gaps> {
    let range = || (0_u64..100, 1_u64..100).prop_map(|(skip, length)| GapRange { skip, length });
    let list = move || proptest::collection::vec(range(), 0..=16);
    (list(), list(), 0_u64..1000).prop_map(|(declared, pending, above)| {
        let sum: u64 = declared
            .iter()
            .chain(&pending)
            .map(|range| range.skip + range.length)
            .sum();
        let floor_distance = if sum == 0 { 0 } else { sum + above };
        Gaps {
            floor_distance,
            declared,
            pending,
        }
    })
}

fn any_parameters() -> impl Strategy<Value = Parameters> {
    let profile = (1..varint::MAX, 1..varint::MAX, 1_u64..1 << 40);
    (
        0..1_u64 << 40,
        any_varint(),
        256..=u16::MAX,
        proptest::option::of(profile),
        any::<[bool; 2]>(),
    )
        .prop_map(
            |(window, max_streams, max_udp_payload, profile, [rate_probing, datagrams])| Parameters {
                stream_window: ByteCount::kib(window),
                max_streams,
                max_udp_payload,
                profile: profile.map(|(down, up, rtt)| LinkProfile {
                    down: BitRate::bps(down),
                    up: BitRate::bps(up),
                    rtt: Duration::from_millis(rtt),
                }),
                rate_probing,
                datagrams,
            },
        )
}

proptest! {
    #[test]
    fn feedback_round_trips(raw in any::<[u32; 2]>(), hold in any::<u16>(), credit in any_varint(), rate in any::<u16>(), gaps in any_gaps()) {
        let frame = Frame::Feedback(Feedback {
            largest: raw[0] >> 8,
            echo: Stamp::from_raw(raw[1]),
            hold,
            credit,
            rate: RateFloat::from_bits(rate),
            gaps,
        });
        let bytes = encoded(|out| frame.encode(out));
        let mut rest = &bytes[..];
        prop_assert_eq!(Frame::decode(&mut rest), Ok(frame));
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn data_round_trips(stream in any_varint(), offset in 0_u64..1 << 40, more in proptest::option::of(0_u64..100), fin in any::<bool>(), bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let end = offset + bytes.len() as u64;
        let data = Data {
            stream: StreamId(stream),
            offset,
            total: more.map(|more| if fin { end } else { end + more }),
            fin,
            bytes: &bytes,
        };
        let delimited = encoded(|out| data.encode(Extent::Delimited, out));
        prop_assert_eq!(delimited.len(), Data::header_len(data.stream, offset, data.total, bytes.len()) + bytes.len());
        let to_end = encoded(|out| data.encode(Extent::ToEnd, out));
        for bytes in [&delimited, &to_end] {
            let mut rest = &bytes[..];
            prop_assert_eq!(Frame::decode(&mut rest), Ok(Frame::Data(data)));
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn datagrams_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let datagram = Datagram(&bytes);
        for extent in [Extent::Delimited, Extent::ToEnd] {
            let wire = encoded(|out| datagram.encode(extent, out));
            let mut rest = &wire[..];
            prop_assert_eq!(Frame::decode(&mut rest), Ok(Frame::Datagram(datagram)));
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn other_frames_round_trip(a in any_varint(), b in any_varint(), c in any_varint(), token in any::<[u8; 32]>(), data in any::<[u8; 8]>(), reason in ".{0,60}") {
        let stream = StreamId(a);
        let reason = &reason[..reason.floor_char_boundary(MAX_REASON)];
        for frame in [
            Frame::Ping,
            Frame::Forward { distance: a },
            Frame::Cancel { stream, error: b, final_offset: c },
            Frame::Stop { stream, error: b },
            Frame::StreamLimit { stream, limit: c },
            Frame::Streams { count: a },
            Frame::Token(token),
            Frame::PathChallenge(data),
            Frame::PathResponse(data),
            Frame::Close { error: b, reason },
            Frame::Train { packets: data[0] % 31 + 2 },
        ] {
            let mut bytes = encoded(|out| frame.encode(out));
            bytes.push(1);
            let mut rest = &bytes[..];
            prop_assert_eq!(Frame::decode(&mut rest), Ok(frame));
            prop_assert_eq!(rest, [1]);
        }
    }

    #[test]
    fn headers_round_trip(early in any::<bool>(), replaced in any::<u32>(), idle in any::<bool>(), agent in any::<u8>(), gateway in any::<u32>(), number in 0_u32..1 << 24) {
        for (index, length) in [(ReceiverIndex::Agent(agent), IndexLength::Agent), (ReceiverIndex::Gateway(gateway), IndexLength::Gateway)] {
            let header = ShortHeader {
                keys: if early { KeySpace::Early } else { KeySpace::Full },
                phase: if early { KeyPhase::Even } else { KeyPhase::of(replaced) },
                activity: if idle { Activity::Idle } else { Activity::More },
                index,
                truncated: number,
            };
            let mut bytes = encoded(|out| header.encode(out));
            prop_assert_eq!(bytes.len(), length.header_len());
            bytes.extend_from_slice(&[0; 19]);
            prop_assert_eq!(ShortHeader::parse(&bytes, length), Ok((header, length.header_len())));
            // Early packets have one key, and their low bits are undefined.
            for unknown in [1, 2, 4, 8].into_iter().chain(early.then_some(0x40)) {
                bytes[0] ^= unknown;
                prop_assert_eq!(ShortHeader::parse(&bytes, length), Err(HeaderError::Flags));
                bytes[0] ^= unknown;
            }
        }
    }

    #[test]
    fn packet_numbers_within_half_a_window_expand(largest in 0_u64..1 << 62, ahead in -(1_i64 << 23) + 1..1 << 23) {
        if let Some(number) = (largest + 1).checked_add_signed(ahead) {
            prop_assert_eq!(expand_packet_number((number & 0xff_ffff) as u32, Some(largest)), number);
        }
    }

    #[test]
    fn handshake_messages_round_trip(seconds in any::<u64>(), nanos in 0_u32..1_000_000_000, parameters in any_parameters(), stamp in any::<u32>(), frames in proptest::collection::vec(any::<u8>(), 0..50), token in any::<[u8; 32]>(), index in any::<u32>()) {
        let init = InitPayload {
            wall: UnixTime::new(Duration::new(seconds, nanos)),
            parameters,
            stamp: Stamp::from_raw(stamp),
            frames: &frames,
        };
        let bytes = encoded(|out| init.encode(out));
        prop_assert_eq!(InitPayload::decode(&bytes), Ok(init));
        let resp = RespPayload::Accepted(Acceptance {
            early: EarlyOutcome::Rejected,
            gateway_index: index,
            reset_tag: [index.to_be_bytes()[0]; 16],
            token,
            parameters,
        });
        let bytes = encoded(|out| resp.encode(out));
        prop_assert_eq!(RespPayload::decode(&bytes), Ok(resp));
    }

    #[test]
    fn init_round_trips(index in any::<u8>(), token in proptest::option::of(any::<[u8; 32]>()), noise in proptest::collection::vec(any::<u8>(), 96..200)) {
        let mut bytes = encoded(|out| Init::encode_clear(index, token.as_ref(), out));
        let clear = bytes.clone();
        bytes.extend_from_slice(&noise);
        bytes.extend_from_slice(&[7; 16]);
        let outline = InitOutline::parse(&bytes).unwrap();
        prop_assert_eq!((outline.version, outline.agent_index, outline.mac1), (VERSION, index, [7; 16]));
        let init = Init::parse(outline.covered).unwrap();
        prop_assert_eq!(init, Init { agent_index: index, token, clear: &clear, noise: &noise });
    }

    #[test]
    fn resp_and_stateless_round_trip(index in any::<u8>(), noise in proptest::collection::vec(any::<u8>(), 48..200), tag in any::<[u8; 16]>()) {
        let resp = Resp { agent_index: index, noise: &noise };
        let mut bytes = encoded(|out| resp.encode(out));
        let length = bytes.len();
        bytes.push(0x80);
        prop_assert_eq!(Resp::parse(&bytes), Ok((resp, length)));
        let reset = Reset { tag };
        prop_assert_eq!(Reset::parse(&encoded(|out| reset.encode(out))), Ok(reset));
        let versions = Versions { agent_index: index, versions: &noise };
        let bytes = encoded(|out| versions.encode(out));
        prop_assert_eq!(Versions::parse(&bytes), Ok(versions));
    }

    #[test]
    fn no_input_makes_a_decoder_panic(kind in any::<u8>(), tail in proptest::collection::vec(any::<u8>(), 0..300)) {
        let bytes = [&[kind][..], &tail].concat();
        let _ = PacketKind::classify(&bytes);
        for length in [IndexLength::Agent, IndexLength::Gateway] {
            let _ = ShortHeader::parse(&bytes, length);
        }
        for first in [kind, PacketKind::INIT, PacketKind::RESP, PacketKind::VERSIONS, PacketKind::RESET] {
            let bytes = [&[first, VERSION][..], &tail].concat();
            if let Ok(outline) = InitOutline::parse(&bytes) {
                let _ = Init::parse(outline.covered);
            }
            let _ = Resp::parse(&bytes);
            let _ = Versions::parse(&bytes);
            let _ = Reset::parse(&bytes);
        }
        let _ = InitPayload::decode(&bytes);
        let _ = RespPayload::decode(&bytes);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            // A decoded frame encodes to bytes that decode to the same frame.
            let Ok(frame) = Frame::decode(&mut rest) else { break };
            if let Frame::Feedback(feedback) = &frame {
                let _ = feedback.gaps.ranges(u64::from(feedback.largest)).count();
            }
            let again = encoded(|out| frame.encode(out));
            prop_assert_eq!(Frame::decode(&mut &again[..]), Ok(frame));
        }
    }
}
