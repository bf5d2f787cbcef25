//! Tests of the coder alone; `window::tests` and `choice::tests` test its use.
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::{MIX_MEMORY, MIX_SESSION_MEMORY, MixDecoder, MixEncoder};
use crate::{MAX_WINDOW, MemoryShare, MemoryShares, decompress::Corrupt};
use longhaul_types::{ByteCount, PublicKey};

/// Memory of the encoders of one session.
pub(crate) fn memory() -> MemoryShare {
    let shares = MemoryShares::new(MIX_MEMORY);
    shares
        .of(PublicKey::from_bytes([1; 32]))
        .at_most(MIX_SESSION_MEMORY)
}

const SEED: u64 = 0x006d_6978;

/// Windows as on the wire: coded bytes and decoded length.
type Windows = Vec<(Vec<u8>, usize)>;

fn runner(cases: u32) -> TestRunner {
    println!("seed {SEED:#x}");
    TestRunner::new(Config {
        cases,
        rng_seed: RngSeed::Fixed(SEED),
        failure_persistence: None,
        ..Config::default()
    })
}

/// Deterministic text of this many items.
pub(crate) fn page(items: u32, seed: u32) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = |below: u32| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state % below
    };
    let words = [
        "link",
        "long",
        "satellite",
        "window",
        "of",
        "the",
        "rate",
        "page",
        "and",
        "über",
    ];
    let mut text = String::from("<!DOCTYPE html>\n<style>a { color: #123; margin: 0 4px }</style>\n<ul>\n");
    for item in 0..items {
        let link = item * 7 + next(5);
        text += &format!(
            "  <li class=\"item kind-{}\"><a href=\"/news/{link}.html\">",
            next(4)
        );
        for _ in 0..3 + next(9) {
            text += words[next(10) as usize];
            text.push(' ');
        }
        text += "</a></li>\n";
    }
    text += "</ul>\n<script>var data = {\"rate\": 12, \"list\": [1, 2, 3]};</script>\n";
    text.into_bytes()
}

fn encode(body: &[u8], window: usize) -> Windows {
    let length = Some(ByteCount::new(body.len() as u64));
    let mut encoder = MixEncoder::new(length, &memory()).unwrap();
    let coded = |window: &[u8]| {
        let mut coded = Vec::new();
        encoder.code(window, &mut coded);
        (coded, window.len())
    };
    body.chunks(window).map(coded).collect()
}

fn decode(windows: &Windows) -> Result<Vec<u8>, Corrupt> {
    let mut decoder = MixDecoder::new();
    let mut body = Vec::new();
    for (coded, length) in windows {
        let decoded = decoder.decode(coded, *length)?;
        assert_eq!(decoded.len(), *length);
        body.extend(decoded);
    }
    Ok(body)
}

fn size(windows: &Windows) -> usize {
    windows.iter().map(|(coded, _)| coded.len()).sum()
}

#[test]
fn any_bytes_round_trip_in_any_windows() {
    let fragments = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..80),
        (0u32..6, any::<u32>()).prop_map(|(items, seed)| page(items, seed)),
        (any::<u8>(), 1usize..600).prop_map(|(byte, count)| vec![byte; count]),
    ];
    let bodies = proptest::collection::vec(fragments, 0..6).prop_map(|parts| parts.concat());
    runner(64)
        .run(&(bodies, 1usize..3_000), |(body, window)| {
            prop_assert_eq!(decode(&encode(&body, window)).unwrap(), body);
            Ok(())
        })
        .unwrap();
}

#[test]
fn flushes_and_noise_cost_little() {
    let body = page(500, 3);
    let (whole, cut) = (encode(&body, MAX_WINDOW), encode(&body, 500));
    assert!(size(&cut) - size(&whole) <= 2 * (cut.len() - whole.len()));
    let mut state = 1u64;
    let mut noise = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    let noise: Vec<u8> = (0..100_000).map(|_| noise()).collect();
    let windows = encode(&noise, 10_000);
    assert!(size(&windows) <= noise.len() + 2 * windows.len() + 1);
    assert_eq!(decode(&windows).unwrap(), noise);
}

#[test]
fn malformed_windows_give_an_error_or_the_announced_length() {
    let valid = encode(&page(20, 3), 700);
    let index = any::<prop::sample::Index>();
    let changes = proptest::collection::vec((index.clone(), index, any::<u8>()), 1..4);
    let junk = proptest::collection::vec(any::<u8>(), 0..60);
    runner(96)
        .run(&(changes, junk, 1usize..2_000), |(changes, junk, announced)| {
            let mut windows = valid.clone();
            for (window, at, byte) in changes {
                let coded = &mut windows[window.index(valid.len())].0;
                let at = at.index(coded.len());
                coded[at] ^= byte;
            }
            let _ = decode(&windows);
            let mut later = valid[..1].to_vec();
            later.push((junk.clone(), announced));
            let _ = decode(&later);
            let _ = decode(&vec![(junk, announced)]);
            Ok(())
        })
        .unwrap();
}

#[test]
fn malformed_windows_are_rejected_and_a_failed_decoder_stays_failed() {
    let body = page(3, 3);
    let valid = encode(&body, MAX_WINDOW);
    let refused = |change: &dyn Fn(&mut Vec<u8>, &mut usize)| {
        let (mut coded, mut length) = valid[0].clone();
        change(&mut coded, &mut length);
        decode(&vec![(coded, length)]).is_err()
    };
    assert!(!refused(&|_, _| ()));
    assert!(refused(&|coded, _| coded[0] ^= 0x10), "another version");
    assert!(refused(&|coded, _| coded[0] |= 0x0f), "a table too large");
    assert!(refused(&|coded, _| coded.truncate(1)), "nothing");
    assert!(refused(&|coded, _| coded.clear()), "not even a header");
    assert!(refused(&|coded, _| coded.extend([0; 5])), "not used up");
    assert!(refused(&|_, length| *length = 1), "shorter than its content");
    assert!(
        refused(&|coded, _| coded.splice(1.., [0, 0, 1]).for_each(drop)),
        "stored, of another length"
    );
    let mut decoder = MixDecoder::new();
    assert!(decoder.decode(&[0xff, 0xff], 4).is_err());
    assert!(decoder.decode(&valid[0].0, body.len()).is_err());
}

/// If this test fails, the format has changed, and peers of the other version decode other bytes: raise
/// `VERSION`.
#[test]
fn encoded_bytes_match_golden_vectors() {
    let coded: Vec<u8> = encode(&page(600, 3), 20_000)
        .into_iter()
        .flat_map(|(coded, _)| coded)
        .collect();
    let hash = blake3::hash(&coded).to_hex();
    assert_eq!(
        format!("{} {}", coded.len(), &hash[..16]),
        "3137 576f3b3f68c61c0d"
    );
}
