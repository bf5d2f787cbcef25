//! Inputs to begin with.
use super::*;

fn packet(choices: u8, frames: &[Frame<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in frames {
        frame.encode(&mut bytes);
    }
    let length = u8::try_from(bytes.len()).expect("a short packet");
    [&[choices, length], &bytes[..]].concat()
}

fn feedback(largest: u32, credit: u64, gaps: Gaps) -> Frame<'static> {
    Frame::Feedback(Feedback {
        largest,
        echo: Stamp::from_raw(0),
        hold: 3,
        credit,
        rate: RateFloat::of(BitRate::kbps(200)),
        gaps,
    })
}

fn no_gaps() -> Gaps {
    Gaps {
        floor_distance: 0,
        declared: Vec::new(),
        pending: Vec::new(),
    }
}

pub(crate) fn authentic_seeds() -> Vec<Vec<u8>> {
    let data = |stream, offset, total, fin| {
        let mut bytes = Vec::new();
        let data = Data {
            stream: StreamId(stream),
            offset,
            total,
            fin,
            bytes: b"some bytes of a stream",
        };
        data.encode(Extent::Delimited, &mut bytes);
        let length = u8::try_from(bytes.len()).expect("a short packet");
        [&[WAIT, length], &bytes[..]].concat()
    };
    let gap = |skip, length| GapRange { skip, length };
    let lost = Gaps {
        floor_distance: 5,
        declared: vec![gap(1, 2)],
        pending: vec![gap(0, 1)],
    };
    let stream = StreamId(0);
    let mut seeds = vec![
        // A stream in two parts, the second first, from either side.
        [data(0, 22, None, true), data(0, 0, Some(44), false)].concat(),
        [data(1, 22, None, true), data(1, 0, Some(44), false)].concat(),
        // Feedback: all received, some lost, credit of zero and of the maximum.
        [
            packet(WAIT, &[feedback(2, 30_000, no_gaps())]),
            packet(WAIT, &[feedback(6, 0, lost.clone())]),
        ]
        .concat(),
        [
            packet(WAIT, &[feedback(6, 1 << 60, lost)]),
            packet(WAIT | IDLE, &[Frame::Ping]),
        ]
        .concat(),
        packet(
            WAIT,
            &[
                Frame::Stop { stream, error: 3 },
                Frame::Streams { count: 1 << 30 },
            ],
        ),
        packet(
            WAIT | 4,
            &[
                Frame::StreamLimit {
                    stream,
                    limit: 1 << 40,
                },
                Frame::PathChallenge([1; 8]),
                Frame::PathResponse([2; 8]),
                Frame::Train { packets: 32 },
                Frame::Token([9; 32]),
                Frame::Forward { distance: 0 },
            ],
        ),
        packet(
            0,
            &[Frame::Cancel {
                stream,
                error: 1,
                final_offset: 100,
            }],
        ),
        packet(
            0,
            &[Frame::Close {
                error: 0,
                reason: "done",
            }],
        ),
    ];
    let all: Vec<u8> = seeds.iter().take(6).flatten().copied().collect();
    seeds.push(all);
    seeds
}
