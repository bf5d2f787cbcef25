//! Damaged and malicious deltas: every error, every limit, and no panic.
use longhaul_codec::vcdiff::{
    Checksum, DecodeError, Decoder, DeltaEffort, Limits, Section, decode, encode_with,
};
use longhaul_types::ByteCount;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};

use crate::{
    delta::{HEADER, Window},
    pairs,
};

const SOURCE: &[u8] = b"abcdefghijklmnop";

fn failure(delta: &[u8]) -> DecodeError {
    decode(SOURCE, delta, Limits::default()).unwrap_err()
}

/// A window that adds the 4 bytes of `data`.
fn added() -> Window {
    Window {
        length: 4,
        data: b"abcd".to_vec(),
        instructions: vec![5],
        ..Window::default()
    }
}

/// A window that copies 4 bytes from an address.
fn copied(mode: u8, addresses: &[u8]) -> Window {
    Window {
        segment: Some((16, 0)),
        length: 4,
        instructions: vec![20 + 16 * mode],
        addresses: addresses.to_vec(),
        ..Window::default()
    }
}

#[test]
fn unsupported_headers_are_rejected() {
    assert_eq!(failure(b"PK\x03\x04 no delta"), DecodeError::NotVcdiff);
    assert_eq!(failure(&[0xd6, 0xc3, 0xc4, b'S', 0]), DecodeError::Version(b'S'));
    assert_eq!(
        failure(&[0xd6, 0xc3, 0xc4, 0, 1, 2]),
        DecodeError::SecondaryCompression { id: 2 }
    );
    assert_eq!(failure(&[0xd6, 0xc3, 0xc4, 0, 2, 9]), DecodeError::CodeTable);
    assert_eq!(
        failure(&[0xd6, 0xc3, 0xc4, 0, 8]),
        DecodeError::UnknownHeaderBits(8)
    );
    assert_eq!(
        failure(&[&HEADER[..4], &[4], &[0xff; 12]].concat()),
        DecodeError::Integer
    );
}

#[test]
fn unsupported_windows_are_rejected() {
    let window = |bytes: &[u8]| failure(&[&HEADER, bytes].concat());
    assert_eq!(window(&[8]), DecodeError::UnknownWindowBits(8));
    assert_eq!(window(&[3, 1, 0]), DecodeError::TwoSegments);
    assert_eq!(window(&[0, 5, 0, 1, 0, 0, 0]), DecodeError::CompressedSections(1));
    assert_eq!(
        window(&[0, 6, 0, 0, 0, 0, 0]),
        DecodeError::CodedLength { claimed: 6, parts: 5 }
    );
    assert_eq!(window(&[&[0][..], &[0xff; 12]].concat()), DecodeError::Integer);
}

#[test]
fn instructions_beyond_their_sections_are_rejected() {
    let mut window = added();
    window.data.pop();
    assert_eq!(failure(&window.delta()), DecodeError::SectionShort(Section::Data));
    window.data.extend_from_slice(b"xyz");
    let left = DecodeError::SectionLeft {
        section: Section::Data,
        left: 2,
    };
    assert_eq!(failure(&window.delta()), left);
    let run = Window {
        data: Vec::new(),
        instructions: vec![0, 4],
        ..added()
    };
    assert_eq!(failure(&run.delta()), DecodeError::SectionShort(Section::Data));
    let explicit = Window {
        instructions: vec![1],
        ..added()
    };
    assert_eq!(
        failure(&explicit.delta()),
        DecodeError::SectionShort(Section::Instructions)
    );
    let endless = Window {
        instructions: vec![1, 0x84],
        ..added()
    };
    assert_eq!(
        failure(&endless.delta()),
        DecodeError::SectionShort(Section::Instructions)
    );
    let huge = Window {
        instructions: [&[1][..], &[0xff; 12]].concat(),
        ..added()
    };
    assert_eq!(failure(&huge.delta()), DecodeError::Integer);
    assert_eq!(
        failure(&copied(0, &[]).delta()),
        DecodeError::SectionShort(Section::Addresses)
    );
    assert_eq!(
        failure(&copied(6, &[]).delta()),
        DecodeError::SectionShort(Section::Addresses)
    );
    let left = DecodeError::SectionLeft {
        section: Section::Addresses,
        left: 1,
    };
    assert_eq!(failure(&copied(0, &[0, 0]).delta()), left);
}

#[test]
fn addresses_beyond_the_position_are_rejected() {
    for (mode, address) in [
        (0, &[16][..]),
        (1, &[17]),
        (1, &[0]),
        (2, &[16]),
        (0, &[0x90, 0x80, 0x80, 0x80, 0]),
    ] {
        assert_eq!(
            failure(&copied(mode, address).delta()),
            DecodeError::Address { here: 16 }
        );
    }
    let across = DecodeError::CopyCrossesSegment { address: 14, size: 4 };
    assert_eq!(failure(&copied(0, &[14]).delta()), across);
}

#[test]
fn windows_with_a_wrong_length_are_rejected() {
    let short = Window { length: 5, ..added() };
    assert_eq!(
        failure(&short.delta()),
        DecodeError::WindowLength { made: 4, length: 5 }
    );
    for instructions in [vec![5, 1, 9], vec![5, 0, 0x8f, 0xff, 0xff, 0xff, 0x7f]] {
        let long = Window {
            instructions,
            ..added()
        };
        assert!(matches!(
            failure(&long.delta()),
            DecodeError::WindowLength { length: 4, .. }
        ));
    }
}

#[test]
fn segments_outside_the_source_are_rejected() {
    for (length, start) in [(17, 0), (1, 16), (16, 1), (u32::MAX, u32::MAX)] {
        let window = Window {
            segment: Some((length, start)),
            ..added()
        };
        let outside = DecodeError::SourceSegment {
            start: u64::from(start),
            length: u64::from(length),
            source_length: 16,
        };
        assert_eq!(failure(&window.delta()), outside);
    }
    // The sum does not fit into 64 bits.
    let mut delta = [&HEADER[..], &[1]].concat();
    for _ in 0..2 {
        delta.extend_from_slice(&[0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    }
    assert!(matches!(
        failure(&delta),
        DecodeError::SourceSegment { start: u64::MAX, .. }
    ));
}

#[test]
fn a_wrong_checksum_is_rejected() {
    let window = Window {
        checksum: Some(0x1234_5678),
        ..added()
    };
    let wrong = DecodeError::Checksum {
        window: 0,
        expected: 0x1234_5678,
        found: 0x03d8_018b,
    };
    assert_eq!(failure(&window.delta()), wrong);
    let right = Window {
        checksum: Some(0x03d8_018b),
        ..added()
    };
    assert_eq!(
        decode(SOURCE, &right.delta(), Limits::default()).unwrap(),
        b"abcd"
    );
}

#[test]
fn every_truncation_is_noticed() {
    let mut delta = [&HEADER[..4], &[4, 3], b"app"].concat();
    Window {
        segment: Some((16, 0)),
        ..added()
    }
    .put(&mut delta);
    let first = delta.len();
    Window {
        checksum: Some(0x03d8_018b),
        ..added()
    }
    .put(&mut delta);
    for length in 0..delta.len() {
        let offset = if length >= first { 4 } else { 0 };
        let found = decode(SOURCE, &delta[..length], Limits::default());
        // Between two windows the decoder cannot detect that data is missing.
        if length == first {
            assert_eq!(found.unwrap(), b"abcd");
        } else if length == 9 {
            assert_eq!(found.unwrap(), b"");
        } else {
            assert_eq!(
                found,
                Err(DecodeError::Truncated { offset }),
                "after {length} bytes"
            );
        }
    }
    assert_eq!(decode(SOURCE, &delta, Limits::default()).unwrap(), b"abcdabcd");
}

#[test]
fn limits_hold() {
    let limits = Limits::default();
    let small = ByteCount::new(3);
    let decode = |window: &Window, limits| decode(SOURCE, &window.delta(), limits);
    let source = Limits {
        max_source: small,
        ..limits
    };
    assert_eq!(decode(&added(), source), Err(DecodeError::SourceTooLarge(small)));
    let target = Limits {
        max_target: small,
        ..limits
    };
    assert_eq!(decode(&added(), target), Err(DecodeError::TargetTooLarge(small)));
    let window = Limits {
        max_window: small,
        ..limits
    };
    assert_eq!(decode(&added(), window), Err(DecodeError::WindowTooLarge(small)));
    let coded = Limits {
        max_coded_window: small,
        ..limits
    };
    assert_eq!(
        decode(&added(), coded),
        Err(DecodeError::CodedWindowTooLarge(small))
    );
    let windows = Limits {
        max_windows: 0,
        ..limits
    };
    assert_eq!(decode(&added(), windows), Err(DecodeError::TooManyWindows(0)));
    let instructions = Limits {
        max_instructions: 1,
        ..limits
    };
    let two = Window {
        instructions: vec![3, 3],
        ..added()
    };
    assert_eq!(
        decode(&two, instructions),
        Err(DecodeError::TooManyInstructions(1))
    );
    // An opcode with two instructions counts twice.
    let pair = Window {
        length: 8,
        instructions: vec![163 + 9],
        addresses: vec![0],
        ..added()
    };
    assert_eq!(
        decode(&pair, instructions),
        Err(DecodeError::TooManyInstructions(1))
    );
    assert_eq!(decode(&pair, limits).unwrap(), b"abcdabcd");
}

#[test]
fn a_claimed_length_allocates_no_memory() {
    // A window of 16 MiB without contents, and sections beyond all limits.
    let mut delta = HEADER.to_vec();
    delta.extend_from_slice(&[
        0, 15, 0x88, 0x80, 0x80, 0x00, 0, 0x88, 0x80, 0x80, 0x00, 0, 0, b'a',
    ]);
    assert!(matches!(failure(&delta), DecodeError::CodedLength { .. }));
    let mut delta = HEADER.to_vec();
    delta.extend_from_slice(&[0, 5, 0, 0, 0x8f, 0xff, 0xff, 0xff, 0x7f, 0, 0]);
    let limit = Limits::default().max_coded_window;
    assert_eq!(failure(&delta), DecodeError::CodedWindowTooLarge(limit));
}

#[test]
fn a_failed_decoder_stays_failed() {
    let mut decoder = Decoder::new(SOURCE, Limits::default()).unwrap();
    assert_eq!(decoder.next(&mut &b"no delta"[..]), Err(DecodeError::NotVcdiff));
    assert_eq!(decoder.next(&mut &HEADER[..]), Err(DecodeError::NotVcdiff));
    assert_eq!(decoder.finish(), Err(DecodeError::NotVcdiff));
}

#[test]
fn damaged_deltas_fail_or_decode_but_never_panic() {
    const SEED: u64 = 0xdead_3284;
    println!("seed {SEED:#x}");
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let mut below = |limit: usize| usize::try_from(rng.next_u64() % limit as u64).unwrap();
    let limits = Limits {
        max_target: ByteCount::mib(1),
        ..Limits::default()
    };
    for pair in pairs::generated(13, 2) {
        let delta = encode_with(&pair.old, &pair.new, DeltaEffort::Fast, Checksum::Adler32);
        let mut passed = 0;
        for _ in 0..500 {
            let mut damaged = delta.clone();
            for _ in 0..1 + below(3) {
                let at = below(damaged.len());
                match below(3) {
                    0 => damaged[at] ^= 1 << below(8),
                    1 => damaged.insert(at, below(256).to_le_bytes()[0]),
                    _ => drop(damaged.remove(at)),
                }
            }
            if let Ok(decoded) = decode(&pair.old, &damaged, limits) {
                assert!(decoded == pair.new, "the checksum let damage pass");
                passed += 1;
            }
        }
        assert!(passed < 50, "{passed} of 500 damaged deltas decode");
    }
}
