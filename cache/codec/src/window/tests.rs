mod bases;
mod damage;

use longhaul_types::{ByteCount, ContentHash};
use proptest::prelude::*;

use super::*;

use crate::{Coder, Coding, mix::tests::memory};

const KEY: [u8; 32] = [7; 32];
const CODERS: [Coder; 5] = [
    Coder::Identity,
    Coder::Zstd { level: 3 },
    Coder::Brotli { quality: 5 },
    Coder::Brotli { quality: 9 },
    Coder::Brotli { quality: 11 },
];

fn text(length: usize) -> Vec<u8> {
    let mut text = Vec::new();
    let mut state = 1_u32;
    while text.len() < length {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.extend_from_slice(
            format!("<li class=\"item-{}\">entry {}</li>\n", state >> 28, state >> 20).as_bytes(),
        );
    }
    text.truncate(length);
    text
}

fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    (0..length)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        })
        .collect()
}

fn brotli(window_log: u8, body: &[u8]) -> Vec<u8> {
    let window = mbrotli::Window::standard(window_log).unwrap();
    let config = mbrotli::EncoderConfig::default().with_window(window);
    mbrotli::Compressor::new(config).unwrap().compress(body).unwrap()
}

fn encode(coder: Coder, body: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    let mut encoder = BodyEncoder::new(KEY, coder, None).unwrap();
    encoder.push(body, &mut wire).unwrap();
    assert_eq!(encoder.finish(&mut wire), Ok(ContentHash::of(body)));
    wire
}

fn drain(
    decoder: &mut BodyDecoder,
    mut wire: &[u8],
    out: &mut Vec<u8>,
) -> Result<Option<ContentHash>, DecodeError> {
    loop {
        match decoder.next(&mut wire)? {
            BodyEvent::Window(window) => {
                assert!(!window.is_empty() && window.len() <= MAX_WINDOW);
                out.extend_from_slice(&window);
            }
            BodyEvent::End(hash) => return Ok(Some(hash)),
            BodyEvent::NeedInput => return Ok(None),
        }
    }
}

fn decode(coding: Coding, wire: &[u8]) -> (Vec<u8>, Result<ContentHash, DecodeError>) {
    let mut decoder = BodyDecoder::new(KEY, coding, BodyLimits::default());
    let mut out = Vec::new();
    let result = drain(&mut decoder, wire, &mut out).and_then(|_| decoder.finish());
    (out, result)
}

#[test]
fn encoders_and_decoders_are_send() {
    fn send<T: Send + 'static>() {}
    send::<BodyEncoder>();
    send::<BodyDecoder>();
    send::<crate::ContentDecoder>();
    send::<crate::AdaptiveEncoder>();
}

#[test]
fn every_length_and_coder_round_trips() {
    for coder in CODERS {
        for length in [
            0,
            1,
            100,
            MAX_WINDOW - 1,
            MAX_WINDOW,
            MAX_WINDOW + 1,
            3 * MAX_WINDOW + 77,
        ] {
            for body in [text(length), noise(length), vec![0; length]] {
                let wire = encode(coder, &body);
                let (out, result) = decode(coder.coding(), &wire);
                assert_eq!(result, Ok(ContentHash::of(&body)), "{coder:?} {length}");
                assert!(out == body);
            }
        }
    }
}

#[test]
fn a_body_larger_than_the_coders_window_round_trips() {
    let body: Vec<u8> = [noise(40_000), text(2_000_000), noise(40_000)].concat();
    for coder in [Coder::Zstd { level: 19 }, Coder::Brotli { quality: 5 }] {
        let (out, result) = decode(coder.coding(), &encode(coder, &body));
        assert_eq!(result, Ok(ContentHash::of(&body)));
        assert!(out == body);
    }
}

#[test]
fn flushed_bytes_decode_without_later_windows() {
    for coder in CODERS {
        let mut encoder = BodyEncoder::new(KEY, coder, None).unwrap();
        let mut decoder = BodyDecoder::new(KEY, coder.coding(), BodyLimits::default());
        let mut out = Vec::new();
        for part in [
            "a",
            "data: 1\n\n",
            "data: 2\n\n",
            "data: 2\n\n",
            "the rest of the page",
        ] {
            let (mut wire, before) = (Vec::new(), out.len());
            encoder.push(part.as_bytes(), &mut wire).unwrap();
            assert!(wire.is_empty());
            encoder.flush(&mut wire).unwrap();
            assert_eq!(drain(&mut decoder, &wire, &mut out), Ok(None));
            assert_eq!(&out[before..], part.as_bytes());
        }
        let mut wire = Vec::new();
        encoder.flush(&mut wire).unwrap();
        assert!(wire.is_empty());
        let hash = encoder.finish(&mut wire).unwrap();
        assert_eq!(wire.len(), 9);
        assert_eq!(drain(&mut decoder, &wire, &mut out), Ok(Some(hash)));
    }
}

/// Examples of docs/protocol/body.md section 6.
#[test]
fn golden_vectors() {
    let key: [u8; 32] = std::array::from_fn(|i| u8::try_from(i).unwrap());
    let mut wire = Vec::new();
    let mut encoder = BodyEncoder::new(key, Coder::Identity, None).unwrap();
    encoder.push(b"hello ", &mut wire).unwrap();
    encoder.flush(&mut wire).unwrap();
    encoder.push(b"world", &mut wire).unwrap();
    let hash = encoder.finish(&mut wire).unwrap();
    assert_eq!(hash, ContentHash::of(b"hello world"));
    let hex: String = wire.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        concat!(
            "0e",
            "2a1df6b6d22f7212",
            "68656c6c6f20",
            "0d",
            "ce3c56bb501cc329",
            "776f726c64"
        )
    );
    let mut wire = Vec::new();
    let encoder = BodyEncoder::new(key, Coder::Brotli { quality: 5 }, None).unwrap();
    assert_eq!(encoder.finish(&mut wire).unwrap(), ContentHash::of(b""));
    let hex: String = wire.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "0126738a0966239ac8");
}

const CODINGS: &[Coding] = &[Coding::Identity, Coding::Zstd, Coding::Brotli, Coding::Mix];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_split_round_trips(
        seed in any::<u64>(),
        length in 0_usize..120_000,
        coder in prop::sample::select(CODERS.to_vec()),
        writes in prop::collection::vec((1_usize..40_000, any::<bool>()), 1..8),
        reads in prop::collection::vec(1_usize..5_000, 1..8),
    ) {
        let mut body = text(length);
        for (index, byte) in noise(length / 16).into_iter().enumerate() {
            let at = usize::try_from(seed.rotate_left(u32::try_from(index % 64).unwrap()) % length.max(1) as u64).unwrap();
            body[at] = byte;
        }
        let mut encoder = BodyEncoder::new(KEY, coder, None).unwrap();
        let (mut wire, mut rest) = (Vec::new(), body.as_slice());
        for (size, flush) in writes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at(rest.len().min(*size));
            encoder.push(now, &mut wire).unwrap();
            if *flush {
                encoder.flush(&mut wire).unwrap();
            }
            rest = later;
        }
        let hash = encoder.finish(&mut wire).unwrap();
        prop_assert_eq!(hash, ContentHash::of(&body));

        let mut decoder = BodyDecoder::new(KEY, coder.coding(), BodyLimits::default());
        let (mut out, mut rest, mut end) = (Vec::new(), wire.as_slice(), None);
        for size in reads.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at(rest.len().min(*size));
            end = drain(&mut decoder, now, &mut out).unwrap();
            rest = later;
        }
        prop_assert_eq!(end, Some(hash));
        prop_assert!(out == body);
    }

    #[test]
    fn arbitrary_input_never_panics(coding in prop::sample::select(CODINGS), wire in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = decode(coding, &wire);
    }
}

#[test]
fn a_context_mixed_body_of_several_windows_resumes_after_a_damaged_one() {
    let body = crate::mix::tests::page(900, 3);
    assert!(body.len() > 2 * MAX_WINDOW);
    let length = Some(ByteCount::new(body.len() as u64));
    let mut encoder = BodyEncoder::mixed(KEY, length, &memory()).unwrap();
    assert_eq!(encoder.coding(), Coding::Mix);
    let mut wire = Vec::new();
    encoder.push(&body[..1000], &mut wire).unwrap();
    encoder.flush(&mut wire).unwrap();
    encoder.push(&body[1000..], &mut wire).unwrap();
    encoder.finish(&mut wire).unwrap();
    let (decoded, end) = decode(Coding::Mix, &wire);
    assert!(decoded == body);
    assert_eq!(end, Ok(ContentHash::of(&body)));

    let late = wire.len() - 5;
    wire[late] ^= 1;
    let mut decoder = BodyDecoder::new(KEY, Coding::Mix, BodyLimits::default());
    let mut out = Vec::new();
    let end = drain(&mut decoder, &wire, &mut out);
    let offset = out.len() as u64;
    assert_eq!(end, Err(DecodeError::WindowMismatch { offset }));
    assert_eq!(out.len() % MAX_WINDOW, 1000);
    let mut rest = Vec::new();
    let mut encoder = BodyEncoder::resume(KEY, Coder::Identity, None, &body[..out.len()]).unwrap();
    encoder.push(&body[out.len()..], &mut rest).unwrap();
    encoder.finish(&mut rest).unwrap();
    let mut decoder = decoder.resume(KEY, Coding::Identity);
    assert_eq!(
        drain(&mut decoder, &rest, &mut out),
        Ok(Some(ContentHash::of(&body)))
    );
    assert!(out == body);
}
