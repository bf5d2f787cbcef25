//! Round trips: encoded data decodes to the same bytes.
use longhaul_codec::vcdiff::{
    Checksum, DecodeError, DeltaEffort, Limits, MAX_SOURCE_SEGMENT, MAX_TARGET_WINDOW, decode, encode,
    encode_with,
};
use proptest::{
    prelude::*,
    test_runner::{Config, RngSeed, TestRunner},
};

use crate::pairs;

const EFFORTS: [DeltaEffort; 2] = [DeltaEffort::Fast, DeltaEffort::Best];

fn check(old: &[u8], new: &[u8], effort: DeltaEffort, checksum: Checksum) -> Result<(), TestCaseError> {
    let delta = encode_with(old, new, effort, checksum);
    let decoded = decode(old, &delta, Limits::default());
    prop_assert!(
        decoded.as_deref() == Ok(new),
        "{effort:?}: {decoded:?} from {delta:02x?}"
    );
    // Bound for texts without anything in common: indicators, lengths, and one ADD.
    prop_assert!(
        delta.len() <= new.len() + 64,
        "{} bytes for {}",
        delta.len(),
        new.len()
    );
    Ok(())
}

/// Bytes from an alphabet small enough for repetitions, mixed with pieces of `old`.
fn targets(old: Vec<u8>) -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let length = old.len();
    let fresh = prop_oneof![
        prop::collection::vec(0_u8..4, 0..40),
        prop::collection::vec(any::<u8>(), 0..40),
        (any::<u8>(), 0_usize..400).prop_map(|(byte, length)| vec![byte; length]),
    ];
    let copied = {
        let old = old.clone();
        (0..=length, 0_usize..300)
            .prop_map(move |(start, size)| old[start..length.min(start + size)].to_vec())
    };
    let pieces = prop::collection::vec(prop_oneof![fresh, copied], 0..20);
    pieces.prop_map(move |pieces| (old.clone(), pieces.concat()))
}

#[test]
fn random_texts_round_trip() {
    const SEED: u64 = 0x5eed_3284;
    println!("seed {SEED:#x}");
    let mut runner = TestRunner::new(Config {
        cases: 600,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(SEED),
        ..Config::default()
    });
    let old = prop_oneof![
        prop::collection::vec(0_u8..4, 0..3000),
        prop::collection::vec(any::<u8>(), 0..600),
    ];
    let texts = old.prop_flat_map(targets);
    let result = runner.run(&texts, |(old, new)| {
        for effort in EFFORTS {
            for checksum in [Checksum::None, Checksum::Adler32] {
                check(&old, &new, effort, checksum)?;
            }
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("seed {SEED:#x}: {error}"));
}

#[test]
fn extreme_texts_round_trip() {
    let zeros = vec![0; 100_000];
    let periodic: Vec<u8> = (0..=255).cycle().take(50_000).collect();
    let texts: [&[u8]; 6] = [b"", b"a", b"abc", b"abcd", &zeros, &periodic];
    for old in texts {
        for new in texts {
            for effort in EFFORTS {
                check(old, new, effort, Checksum::Adler32).unwrap();
            }
        }
    }
}

#[test]
fn texts_of_a_megabyte_round_trip() {
    for pair in pairs::large(pairs::SEED, 1) {
        check(&pair.old, &pair.new, DeltaEffort::Fast, Checksum::Adler32).unwrap();
    }
}

#[test]
fn a_wrong_source_fails_the_checksum() {
    for pair in pairs::generated(7, 2) {
        let delta = encode_with(&pair.old, &pair.new, DeltaEffort::Fast, Checksum::Adler32);
        let mut other = pair.old.clone();
        other.rotate_left(100);
        let found = decode(&other, &delta, Limits::default());
        assert!(
            matches!(found, Err(DecodeError::Checksum { window: 0, .. })),
            "{}: {found:?}",
            pair.name
        );
    }
}

#[test]
fn best_is_not_larger_than_fast_and_both_are_deterministic() {
    for pair in pairs::generated(11, 3) {
        let [fast, best] = EFFORTS.map(|effort| encode(&pair.old, &pair.new, effort));
        assert!(
            best.len() <= fast.len(),
            "{}: {} > {}",
            pair.name,
            best.len(),
            fast.len()
        );
        assert_eq!(encode(&pair.old, &pair.new, DeltaEffort::Best), best);
        assert_eq!(encode(&pair.old, &pair.new, DeltaEffort::Fast), fast);
    }
}

/// Lines that do not repeat.
fn lines(length: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(length + 32);
    let mut line = 0_u64;
    while text.len() < length {
        text.extend_from_slice(format!("{:x}\n", line.wrapping_mul(0x9e37_79b9_7f4a_7c15)).as_bytes());
        line += 1;
    }
    text.truncate(length);
    text
}

#[test]
fn a_text_longer_than_a_window_takes_several() {
    let old = lines(MAX_SOURCE_SEGMENT + (3 << 20));
    let mut new = old[1000..].to_vec();
    new.splice(5_000_000..5_000_100, *b"another text here");
    for effort in EFFORTS {
        let delta = encode_with(&old, &new, effort, Checksum::Adler32);
        let limits = Limits {
            max_windows: new.len().div_ceil(MAX_TARGET_WINDOW) as u64,
            ..Limits::default()
        };
        assert!(decode(&old, &delta, limits).unwrap() == new, "{effort:?}");
        // The segment moves with the window, so each window has one to three copies.
        assert!(delta.len() < 200, "{effort:?}: {} bytes", delta.len());
    }
}
