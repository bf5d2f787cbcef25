//! Tests of bodies with a base.
use std::collections::BTreeSet;

use longhaul_types::varint;
use proptest::prelude::*;

use super::*;
use crate::{coding::After, compress::Compressor};

fn with_base(coder: Coder, base: &[u8], body: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut wire = Vec::new();
    let mut encoder = BodyEncoder::with_base(KEY, coder, None, base).unwrap();
    let mut from = 0;
    for cut in cuts.iter().copied().chain([body.len()]) {
        let cut = cut.clamp(from, body.len());
        encoder.push(&body[from..cut], &mut wire).unwrap();
        encoder.flush(&mut wire).unwrap();
        from = cut;
    }
    encoder.finish(&mut wire).unwrap();
    wire
}

fn from_base(coding: Coding, base: &[u8], mut wire: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut decoder = BodyDecoder::with_base(KEY, coding, BodyLimits::default(), base);
    let mut body = Vec::new();
    loop {
        match decoder.next(&mut wire)? {
            BodyEvent::Window(bytes) => body.extend_from_slice(&bytes),
            BodyEvent::End(_) => return Ok(body),
            BodyEvent::NeedInput => return decoder.finish().map(|_| body),
        }
    }
}

#[test]
fn text_in_common_with_the_base_takes_few_bytes() {
    let mut rng = 7_u64;
    let mut noise = |length: usize| -> Vec<u8> {
        let next = |_| {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            rng.to_be_bytes()[0]
        };
        (0..length).map(next).collect()
    };
    for size in [10, 5_000, 200_000, 900_000] {
        let base = noise(size);
        let mut body = base[size / 2..].to_vec();
        body.extend(noise(100));
        body.extend_from_slice(&base[size / 2..]);
        for coder in [
            Coder::Zstd { level: 1 },
            Coder::Zstd { level: 3 },
            Coder::Zstd { level: 12 },
            Coder::Zstd { level: 19 },
            Coder::Brotli { quality: 5 },
            Coder::Brotli { quality: 9 },
            Coder::Brotli { quality: 11 },
        ] {
            let wire = with_base(coder, &base, &body, &[1, 77, size / 3]);
            assert_eq!(
                from_base(coder.coding(), &base, &wire).unwrap(),
                body,
                "{coder:?} {size}"
            );
            if size == 5_000 {
                assert!(wire.len() < 700, "{coder:?}: {} bytes", wire.len());
            }
            // A wrong base never yields wrong bytes.
            if size > 10 {
                let other = noise(size);
                assert!(from_base(coder.coding(), &other, &wire).is_err());
            }
        }
    }
}

proptest! {
    #[test]
    fn bodies_against_bases_round_trip(
        base in proptest::collection::vec(0_u8..4, 0..3000),
        body in proptest::collection::vec(0_u8..4, 0..3000),
        cuts in proptest::collection::vec(0_usize..3000, 0..4),
        quality in 0_u8..12,
    ) {
        for coder in [Coder::Brotli { quality }, Coder::Zstd { level: quality + 1 }, Coder::Identity] {
            let wire = with_base(coder, &base, &body, &cuts);
            prop_assert_eq!(&from_base(coder.coding(), &base, &wire).unwrap(), &body);
        }
    }
}

#[test]
fn a_length_is_a_hint_also_with_a_base() {
    let (base, body) = (text(40_000), text(90_000));
    for told in [0, 10, 89_999, 90_001, 10_000_000] {
        for quality in [5, 9, 11] {
            let mut wire = Vec::new();
            let told = Some(ByteCount::new(told));
            let mut encoder = BodyEncoder::with_base(KEY, Coder::Brotli { quality }, told, &base).unwrap();
            encoder.push(&body, &mut wire).unwrap();
            encoder.finish(&mut wire).unwrap();
            assert!(from_base(Coding::Brotli, &base, &wire).unwrap() == body);
        }
    }
}

#[test]
fn padding_hides_the_similarity_to_the_base_and_consists_of_zeros() {
    let base = text(20_000);
    for coder in [Coder::Zstd { level: 9 }, Coder::Brotli { quality: 5 }] {
        let sizes: BTreeSet<usize> = (0..40)
            .map(|different| {
                let mut body = base.clone();
                body.extend_from_slice(&noise(different));
                let mut encoder = BodyEncoder::with_base(KEY, coder, None, &base).unwrap();
                encoder.pad();
                let mut wire = Vec::new();
                encoder.push(&body, &mut wire).unwrap();
                encoder.finish(&mut wire).unwrap();
                assert!(from_base(coder.coding(), &base, &wire).unwrap() == body);
                wire.len()
            })
            .collect();
        assert!(sizes.len() <= 3, "{coder:?}: {sizes:?}");
    }
    let body = b"abc".repeat(100);
    let mut compressor = Compressor::new(Coder::Brotli { quality: 5 }, None, &base).unwrap();
    let mut coded = Vec::new();
    compressor.code(&body, After::End, &mut coded).unwrap();
    for (padding, is_good) in [(&[0; 9][..], true), (b"\0\0\0\x01", false)] {
        let mut wire = Vec::new();
        varint::encode(size_field(body.len(), WindowPosition::Last), &mut wire);
        varint::encode((coded.len() + padding.len()) as u64, &mut wire);
        wire.extend_from_slice(&whole_hash(&KEY, ContentHash::of(&body)));
        wire.extend_from_slice(&coded);
        wire.extend_from_slice(padding);
        let decoded = from_base(Coding::Brotli, &base, &wire);
        assert_eq!(decoded.is_ok(), is_good, "{decoded:?}");
    }
}

#[test]
fn large_coder_windows_are_refused_with_a_base_too() {
    let coded = brotli(23, b"abc");
    let mut wire = Vec::new();
    varint::encode(size_field(3, WindowPosition::Last), &mut wire);
    varint::encode(coded.len() as u64, &mut wire);
    wire.extend_from_slice(&whole_hash(&KEY, ContentHash::of(b"abc")));
    wire.extend_from_slice(&coded);
    let error = DecodeError::WindowMismatch { offset: 0 };
    assert_eq!(from_base(Coding::Brotli, b"a base", &wire), Err(error));
}
