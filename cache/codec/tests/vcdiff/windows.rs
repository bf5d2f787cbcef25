//! Examples of the format, and the incremental decoder.
use longhaul_codec::vcdiff::{DecodeError, Decoder, DeltaEffort, Event, Limits, decode, encode};
use longhaul_types::ByteCount;

use crate::{
    delta::{HEADER, Window},
    pairs,
};

const SOURCE: &[u8] = b"abcdefghijklmnop";

/// The example of RFC 3284 section 3: COPY 4, 0; ADD 4, w x y z; COPY 4, 4; COPY 12, 24; RUN 4, z.
fn example() -> Window {
    Window {
        segment: Some((16, 0)),
        length: 28,
        data: b"wxyzz".to_vec(),
        // 20: COPY 4, SELF. 163 + 3 * 3: ADD 4 and COPY 4, SELF. 28: COPY 12, SELF. 0: RUN.
        instructions: vec![20, 163 + 3 * 3, 28, 0, 4],
        addresses: vec![0, 4, 24],
        ..Window::default()
    }
}

#[test]
fn the_example_of_section_3() {
    let target = b"abcdwxyzefghefghefghefghzzzz";
    assert_eq!(
        decode(SOURCE, &example().delta(), Limits::default()).unwrap(),
        target
    );
    for effort in [DeltaEffort::Fast, DeltaEffort::Best] {
        let delta = encode(SOURCE, target, effort);
        assert!(
            delta.len() < HEADER.len() + 28,
            "{effort:?}: {} bytes",
            delta.len()
        );
        assert_eq!(decode(SOURCE, &delta, Limits::default()).unwrap(), target);
    }
}

#[test]
fn every_address_mode_is_decoded() {
    // Copies of 4 bytes: SELF 8; HERE with distance 8 (address 12); near slot 0 + 1 = 9; same slot of 12.
    let window = Window {
        segment: Some((16, 0)),
        length: 16,
        instructions: vec![20, 20 + 16, 20 + 2 * 16, 20 + 6 * 16],
        addresses: vec![8, 16 + 4 - 12, 1, 12],
        ..Window::default()
    };
    assert_eq!(
        decode(SOURCE, &window.delta(), Limits::default()).unwrap(),
        b"ijklmnopjklmmnop"
    );
}

#[test]
fn a_segment_may_be_any_part_of_the_source() {
    let window = Window {
        segment: Some((6, 4)),
        length: 6,
        instructions: vec![22],
        addresses: vec![0],
        ..Window::default()
    };
    assert_eq!(
        decode(SOURCE, &window.delta(), Limits::default()).unwrap(),
        b"efghij"
    );
}

#[test]
fn address_caches_are_reset_in_every_window() {
    // The near cache is all 0 at the start of each window.
    let mut delta = HEADER.to_vec();
    for _ in 0..2 {
        let window = Window {
            segment: Some((16, 0)),
            length: 8,
            instructions: vec![20, 20 + 2 * 16],
            addresses: vec![8, 1],
            ..Window::default()
        };
        window.put(&mut delta);
    }
    assert_eq!(
        decode(SOURCE, &delta, Limits::default()).unwrap(),
        b"ijkljklmijkljklm"
    );
}

#[test]
fn a_segment_may_be_earlier_target() {
    let mut delta = HEADER.to_vec();
    let first = Window {
        length: 8,
        data: b"uvwxyzab".to_vec(),
        instructions: vec![9],
        ..Window::default()
    };
    // 5 bytes of the segment `wxyza`, then the first 4 bytes of this window.
    let second = Window {
        segment: Some((5, 2)),
        from_target: true,
        length: 9,
        instructions: vec![21, 20],
        addresses: vec![0, 5],
        ..Window::default()
    };
    // Across the border of the two windows before.
    let third = Window {
        segment: Some((4, 6)),
        from_target: true,
        length: 4,
        instructions: vec![20],
        addresses: vec![0],
        ..Window::default()
    };
    for window in [&first, &second, &third] {
        window.put(&mut delta);
    }
    let limits = Limits {
        max_history: ByteCount::new(10),
        ..Limits::default()
    };
    assert_eq!(decode(SOURCE, &delta, limits).unwrap(), b"uvwxyzabwxyzawxyzabwx");
    let small = ByteCount::new(9);
    let limits = Limits {
        max_history: small,
        ..limits
    };
    assert_eq!(
        decode(SOURCE, &delta, limits),
        Err(DecodeError::HistoryTooLarge(small))
    );
    // A window is not earlier target for its own first byte and beyond.
    let beyond = Window {
        segment: Some((2, 20)),
        from_target: true,
        ..third
    };
    beyond.put(&mut delta);
    let outside = DecodeError::TargetSegment {
        start: 20,
        length: 2,
        target_length: 21,
    };
    assert_eq!(decode(SOURCE, &delta, Limits::default()), Err(outside));
}

#[test]
fn a_delta_without_windows_is_empty() {
    assert_eq!(decode(SOURCE, &HEADER, Limits::default()).unwrap(), b"");
}

#[test]
fn a_delta_in_pieces_decodes_like_the_whole() {
    let pair = pairs::generated(9, 1).swap_remove(0);
    let mut delta = encode(&pair.old, &pair.new, DeltaEffort::Best);
    // A second delta's windows after the first, with the same source.
    delta.extend_from_slice(&encode(&pair.old, &pair.old, DeltaEffort::Fast)[HEADER.len()..]);
    let expected = [pair.new, pair.old.clone()];
    for size in [1, 2, 7, 100, 5000, delta.len()] {
        let mut decoder = Decoder::new(&pair.old[..], Limits::default()).unwrap();
        let mut windows = Vec::new();
        for mut piece in delta.chunks(size) {
            // Between windows the decoder cannot detect that data is missing.
            if let Err(error) = decoder.finish() {
                let offset = windows.iter().map(Vec::len).sum::<usize>() as u64;
                assert_eq!(error, DecodeError::Truncated { offset });
            }
            while let Event::Window(window) = decoder.next(&mut piece).unwrap() {
                windows.push(window);
            }
            assert!(piece.is_empty());
        }
        decoder.finish().unwrap();
        assert!(windows == expected, "pieces of {size}");
    }
}
