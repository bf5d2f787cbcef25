//! Datagrams and frames of the transport (docs/protocol/transport.md sections 1 to 5).
use longhaul_protocol::wire::{
    Activity, Data, Datagram, Extent, Frame, IndexLength, Init, InitPayload, KeyPhase, KeySpace, Parameters,
    ReceiverIndex, Reset, Resp, RespPayload, ShortHeader, Versions, init::InitOutline,
};
use longhaul_types::StreamId;

/// Frames decode or fail; decoded frames survive a round trip.
pub(crate) fn frames(bytes: &[u8]) {
    let mut input = bytes;
    while !input.is_empty() {
        let Ok(frame) = Frame::decode(&mut input) else {
            return;
        };
        let mut wire = Vec::new();
        frame.encode(&mut wire);
        let mut again = wire.as_slice();
        assert_eq!(
            Frame::decode(&mut again).as_ref(),
            Ok(&frame),
            "a frame changed in a round trip"
        );
    }
}

pub(crate) fn frame_seeds() -> Vec<Vec<u8>> {
    let data = |offset, total, fin| Data {
        stream: StreamId(6),
        offset,
        total,
        fin,
        bytes: b"bytes",
    };
    let mut all = Vec::new();
    let mut seeds = Vec::new();
    for frame in [
        Frame::Ping,
        Frame::Forward { distance: 300 },
        Frame::Token([7; 32]),
        Frame::PathChallenge([1; 8]),
        Frame::Train { packets: 32 },
        Frame::Close {
            error: 2,
            reason: "malformed",
        },
    ] {
        let mut one = Vec::new();
        frame.encode(&mut one);
        all.extend_from_slice(&one);
        seeds.push(one);
    }
    for data in [data(0, Some(5), true), data(70_000, None, false)] {
        data.encode(Extent::Delimited, &mut all);
        let mut one = Vec::new();
        data.encode(Extent::ToEnd, &mut one);
        seeds.push(one);
    }
    for extent in [Extent::Delimited, Extent::ToEnd] {
        let mut one = Vec::new();
        Datagram(b"a datagram").encode(extent, &mut one);
        seeds.push(one);
    }
    seeds.push(all);
    seeds
}

/// Runs every parser of a datagram, whatever its first byte.
pub(crate) fn packets(bytes: &[u8]) {
    if let Ok(outline) = InitOutline::parse(bytes)
        && let Ok(init) = Init::parse(outline.covered)
    {
        assert_eq!(init.agent_index, outline.agent_index);
    }
    let _malformed = InitPayload::decode(bytes);
    if let Ok((resp, taken)) = Resp::parse(bytes) {
        let mut wire = Vec::new();
        resp.encode(&mut wire);
        assert_eq!(wire, bytes[..taken], "a RESP changed in a round trip");
    }
    if let Ok(payload) = RespPayload::decode(bytes) {
        let mut wire = Vec::new();
        payload.encode(&mut wire);
        assert_eq!(RespPayload::decode(&wire), Ok(payload));
    }
    let _malformed = Versions::parse(bytes);
    let _malformed = Reset::parse(bytes);
    for length in [IndexLength::Agent, IndexLength::Gateway] {
        if let Ok((header, taken)) = ShortHeader::parse(bytes, length) {
            let mut wire = Vec::new();
            header.encode(&mut wire);
            assert_eq!(wire, bytes[..taken], "a short header changed in a round trip");
        }
    }
    let mut input = bytes;
    if let Ok(parameters) = Parameters::decode(&mut input) {
        let mut wire = Vec::new();
        parameters.encode(&mut wire);
        assert_eq!(Parameters::decode(&mut wire.as_slice()), Ok(parameters));
    }
}

pub(crate) fn packet_seeds() -> Vec<Vec<u8>> {
    let mut init = Vec::new();
    Init::encode_clear(3, Some(&[9; 32]), &mut init);
    init.extend_from_slice(&[5; 160]);
    let mut resp = Vec::new();
    Resp {
        agent_index: 3,
        noise: &[4; 140],
    }
    .encode(&mut resp);
    let mut short = Vec::new();
    let index = ReceiverIndex::Gateway(77);
    ShortHeader {
        keys: KeySpace::Full,
        phase: KeyPhase::Even,
        activity: Activity::Idle,
        index,
        truncated: 500,
    }
    .encode(&mut short);
    short.extend_from_slice(&[8; 40]);
    vec![init, resp, short]
}
