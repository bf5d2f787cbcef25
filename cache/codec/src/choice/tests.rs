use bytes::Bytes;
use longhaul_types::{BitRate, ContentHash};

use super::*;
use crate::{
    BodyDecoder, BodyEncoder, BodyEvent, BodyLimits, CodedBody, Coding, MAX_WINDOW, MemoryShare,
    mix::tests::{memory, page},
};

const KEY: [u8; 32] = [3; 32];

fn traits(content_type: &str, kbps: u64) -> BodyTraits<'_> {
    BodyTraits {
        content_type: Some(content_type),
        length: None,
        link: Some(BitRate::kbps(kbps)),
        load: Load::NONE,
        effort: EffortPolicy::ByLink,
    }
}

fn decode(coding: Coding, mut wire: &[u8]) -> Vec<u8> {
    let mut decoder = BodyDecoder::new(KEY, coding, BodyLimits::default());
    let mut out = Vec::new();
    loop {
        match decoder.next(&mut wire).unwrap() {
            BodyEvent::Window(window) => out.extend_from_slice(&window),
            BodyEvent::End(hash) => {
                assert_eq!(hash, ContentHash::of(&out));
                return out;
            }
            BodyEvent::NeedInput => panic!("the body is not complete"),
        }
    }
}

fn noise(length: usize) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"noise");
    let mut noise = vec![0; length];
    hasher.finalize_xof().fill(&mut noise);
    noise
}

#[test]
fn bodies_of_compressed_formats_are_not_compressed_again() {
    for content_type in [
        "image/jpeg",
        "IMAGE/PNG; q=1",
        "video/mp4",
        "font/woff2",
        "application/zip",
    ] {
        assert_eq!(
            choose(traits(content_type, 40), b"abc"),
            Coder::Identity,
            "{content_type}"
        );
    }
    for first in [
        &b"\xff\xd8\xff\xe0"[..],
        b"GIF89a...",
        b"RIFF\0\0\0\0WEBPVP8 ",
        b"\0\0\0\x20ftypavif",
    ] {
        assert_eq!(choose(traits("text/html", 40), first), Coder::Identity);
    }
    for content_type in [
        "text/html; charset=utf-8",
        "application/ld+json",
        "image/svg+xml",
        "font/ttf",
        "odd",
    ] {
        assert_ne!(
            choose(traits(content_type, 40), b"<a>"),
            Coder::Identity,
            "{content_type}"
        );
    }
    assert_ne!(choose(BodyTraits::default(), b""), Coder::Identity);
}

#[test]
fn higher_link_rates_get_lower_effort() {
    let at = |kbps| choose(traits("text/css", kbps), b"a {}");
    assert_eq!(at(2_000_000), Coder::Identity);
    assert_eq!(at(100_000).coding(), Coding::Zstd);
    let quality = |kbps| match at(kbps) {
        Coder::Brotli { quality } => quality,
        Coder::Identity | Coder::Zstd { .. } => 0,
    };
    assert_eq!([quality(40), quality(384), quality(12_000)], [11, 10, 5]);
    assert_eq!(
        choose(BodyTraits::default(), b"a {}"),
        Coder::Brotli { quality: 5 }
    );
}

#[test]
fn small_bodies_are_sent_in_the_smaller_coding() {
    for (body, coding) in [
        (b"".to_vec(), Coding::Identity),
        (b"GIF".to_vec(), Coding::Identity),
        (noise(500), Coding::Identity),
        (
            b"<p>again and again and again and again and again</p>".to_vec(),
            Coding::Brotli,
        ),
    ] {
        let mut wire = Vec::new();
        let mut encoder = AdaptiveEncoder::new(KEY, BodyTraits::default());
        encoder.push(&body, &mut wire).unwrap();
        assert_eq!((encoder.coding(), wire.len()), (None, 0));
        let finished = encoder.finish(&mut wire).unwrap();
        assert_eq!((finished.coding, finished.hash), (coding, ContentHash::of(&body)));
        assert!(wire.len() <= body.len() + 13);
        assert_eq!(decode(coding, &wire), body);
    }
}

#[test]
fn the_first_window_decides_the_coding() {
    let text: Vec<u8> = b"some words of a page "
        .iter()
        .copied()
        .cycle()
        .take(100_000)
        .collect();
    for (body, coding) in [(text, Coding::Brotli), (noise(100_000), Coding::Identity)] {
        let mut wire = Vec::new();
        let mut encoder = AdaptiveEncoder::new(KEY, BodyTraits::default());
        encoder.push(&body[..MAX_WINDOW - 1], &mut wire).unwrap();
        assert_eq!((encoder.coding(), wire.len()), (None, 0));
        encoder.push(&body[MAX_WINDOW - 1..50_000], &mut wire).unwrap();
        assert_eq!(encoder.coding(), Some(coding));
        encoder.push(&body[50_000..], &mut wire).unwrap();
        let finished = encoder.finish(&mut wire).unwrap();
        assert_eq!(finished.coding, coding);
        assert!(decode(coding, &wire) == body);
    }
}

#[test]
fn a_flush_decides_the_coding_and_writes_a_window() {
    let mut wire = Vec::new();
    let mut encoder = AdaptiveEncoder::new(KEY, traits("text/event-stream", 40));
    encoder.flush(&mut wire).unwrap();
    assert_eq!((encoder.coding(), wire.len()), (None, 0));
    encoder.push(b"data: 1\n\n", &mut wire).unwrap();
    encoder.flush(&mut wire).unwrap();
    assert_eq!(encoder.coding(), Some(Coding::Brotli));
    assert!(!wire.is_empty());
    encoder.push(b"data: 2\n\n", &mut wire).unwrap();
    let finished = encoder.finish(&mut wire).unwrap();
    assert_eq!(decode(finished.coding, &wire), b"data: 1\n\ndata: 2\n\n");
}

fn decode_with(coding: Coding, base: &[u8], mut wire: &[u8]) -> Vec<u8> {
    let mut decoder = BodyDecoder::with_base(KEY, coding, BodyLimits::default(), base);
    let mut body = Vec::new();
    while let BodyEvent::Window(window) = decoder.next(&mut wire).unwrap() {
        body.extend_from_slice(&window);
    }
    decoder.finish().unwrap();
    body
}

/// Text that has little in common with that of other seeds.
fn words(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = Vec::new();
    while text.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.extend_from_slice(format!("{:x} ", state >> 40).as_bytes());
    }
    text.truncate(length);
    text
}

#[test]
fn a_fixed_effort_ignores_link_and_load() {
    let text = vec![b'x'; 40_000];
    for (kbps, load) in [(40, Load::NONE), (384, Load::of(40, 2)), (2_000_000, Load::NONE)] {
        let fixed = BodyTraits {
            load,
            effort: EffortPolicy::Fixed,
            ..traits("text/html", kbps)
        };
        assert_eq!(choose(fixed, &text), Coder::Brotli { quality: 5 });
        assert!(!is_to_mix(fixed, choose(fixed, &text), &text));
    }
    let picture = BodyTraits {
        effort: EffortPolicy::Fixed,
        ..traits("image/jpeg", 40)
    };
    assert_eq!(choose(picture, &text), Coder::Identity);
}

#[test]
fn without_compression_bases_and_context_mixing_are_still_tried() {
    let text = words(1, 20_000);
    let off = BodyTraits {
        effort: EffortPolicy::Off,
        ..traits("text/html", 40)
    };
    assert_eq!(choose(off, &text), Coder::Identity);
    assert!(is_to_mix(off, choose(off.for_trials(), &text), &text));
    let code = |bases: Vec<Bytes>| {
        let mut wire = Vec::new();
        let mut encoder = AdaptiveEncoder::new([7; 32], off).with_bases(bases);
        encoder.push(&text, &mut wire).unwrap();
        let finished = encoder.finish(&mut wire).unwrap();
        (finished.base, wire.len())
    };
    let (base, alone) = code(Vec::new());
    assert!(base.is_none() && alone > text.len());
    let (base, with) = code(vec![Bytes::from(text.clone())]);
    assert!(base.is_some() && with < text.len() / 10);
}

#[test]
fn a_new_version_is_small_against_the_held_version() {
    for length in [3_000, 32_768, 100_000, 900_000, 1_900_000] {
        let old = words(1, length);
        let mut new = old.clone();
        new.splice(length / 2..length / 2 + 10, words(2, 300));
        let other = words(3, length);
        for known in [None, Some(new.len() as u64)] {
            let traits = BodyTraits {
                content_type: Some("text/html"),
                length: known.map(ByteCount::new),
                link: Some(BitRate::kbps(384)),
                load: Load::NONE,
                effort: EffortPolicy::ByLink,
            };
            let bases = vec![other.clone().into(), old.clone().into()];
            let mut encoder = AdaptiveEncoder::new(KEY, traits).with_bases(bases);
            let mut wire = Vec::new();
            for part in new.chunks(10_000) {
                encoder.push(part, &mut wire).unwrap();
            }
            let finished = encoder.finish(&mut wire).unwrap();
            assert_eq!(finished.base, Some(Base::Offered(1)), "{length}");
            assert!(matches!(finished.coding, Coding::Zstd | Coding::Brotli));
            assert!(wire.len() < 1_200, "{length}: {}", wire.len());
            assert!(decode_with(finished.coding, &old, &wire) == new);
        }
    }
}

#[test]
fn a_base_that_saves_nothing_is_not_used() {
    let body = words(1, 50_000);
    let mut wire = Vec::new();
    let mut encoder =
        AdaptiveEncoder::new(KEY, traits("text/html", 384)).with_bases(vec![words(2, 50_000).into()]);
    encoder.push(&body, &mut wire).unwrap();
    let finished = encoder.finish(&mut wire).unwrap();
    assert_eq!((finished.coding, finished.base), (Coding::Brotli, None));
    assert_eq!(decode(finished.coding, &wire), body);
}

/// Sizes of bodies with and without a guess in common with a base differ by less than the padding.
#[test]
fn padded_bodies_have_stepped_sizes_and_decode_to_the_same_bytes() {
    let base = words(1, 40_000);
    let mut sizes = std::collections::BTreeMap::<usize, u32>::new();
    for tail in 0..200 {
        let mut body = base.clone();
        body.extend_from_slice(&words(100 + tail, 20 + usize::try_from(tail % 13).unwrap()));
        let mut encoder = AdaptiveEncoder::new(KEY, traits("text/html", 384))
            .with_bases(vec![base.clone().into()])
            .hiding(SizeHiding::Based);
        let mut wire = Vec::new();
        encoder.push(&body, &mut wire).unwrap();
        let finished = encoder.finish(&mut wire).unwrap();
        assert_eq!(finished.base, Some(Base::Offered(0)));
        assert!(decode_with(finished.coding, &base, &wire) == body);
        *sizes.entry(wire.len()).or_default() += 1;
    }
    assert!(sizes.len() <= 8, "{sizes:?}");
}

#[test]
fn text_is_context_mixed_on_slow_links_if_the_peer_accepts_it_and_memory_is_free() {
    let coded = |content_type: &str, kbps: u64, memory: Option<&MemoryShare>, body: &[u8]| {
        let mut encoder = AdaptiveEncoder::new(KEY, traits(content_type, kbps)).with_mixing(memory.cloned());
        let mut wire = Vec::new();
        encoder.push(body, &mut wire).unwrap();
        let finished = encoder.finish(&mut wire).unwrap();
        assert!(decode(finished.coding, &wire) == body);
        (finished.coding, wire.len())
    };
    let memory = memory();
    for body in [page(60, 3), page(900, 3)] {
        let (mixed, size) = coded("text/html", 40, Some(&memory), &body);
        let (usual, usual_size) = coded("text/html", 40, None, &body);
        assert_eq!((mixed, usual), (Coding::Mix, Coding::Brotli));
        assert!(size < usual_size, "{size} {usual_size}");
        assert_eq!(coded("text/html", 384, Some(&memory), &body).0, Coding::Brotli);
        assert_eq!(
            coded("application/x-unheard-of", 40, Some(&memory), &body).0,
            Coding::Brotli
        );
    }
    assert_eq!(
        coded("text/html", 40, Some(&memory), b"short, short").0,
        Coding::Identity
    );
    assert_eq!(
        coded("text/html", 40, Some(&memory), &noise(50_000)).0,
        Coding::Identity
    );
    let mut others = Vec::new();
    while let Some(encoder) = BodyEncoder::mixed(KEY, None, &memory) {
        others.push(encoder);
    }
    assert!((4..8).contains(&others.len()), "{}", others.len());
    assert_eq!(
        coded("text/html", 40, Some(&memory), &page(900, 3)).0,
        Coding::Brotli
    );
    drop(others);
    assert_eq!(
        coded("text/html", 40, Some(&memory), &page(900, 3)).0,
        Coding::Mix
    );
}

#[test]
fn higher_processor_load_gets_lower_effort() {
    let at = |kbps, jobs| {
        let load = Load::of(jobs, 2);
        choose(
            BodyTraits {
                load,
                ..traits("text/css", kbps)
            },
            b"a {}",
        )
    };
    let brotli = |quality| Coder::Brotli { quality };
    for free in 0..=2 {
        assert_eq!(at(40, free), brotli(11), "{free} jobs on 2 cores do not wait");
    }
    assert_eq!(at(40, 8), brotli(10));
    assert_eq!(at(40, 40), brotli(5));
    assert_eq!(at(384, 40), brotli(5));
    assert_eq!(at(12_000, 40), Coder::Zstd { level: 3 });
    let unknown = |jobs| {
        choose(
            BodyTraits {
                load: Load::of(jobs, 2),
                ..BodyTraits::default()
            },
            b"a {}",
        )
    };
    assert_eq!([unknown(0), unknown(2), unknown(40)], [brotli(5); 3]);
    assert_eq!(unknown(200), Coder::Zstd { level: 3 });
    assert_eq!(Load::of(usize::MAX, 0).permille(), u32::MAX);
}

#[test]
fn an_earlier_encoding_is_reused_unless_a_base_is_smaller() {
    const OTHER: [u8; 32] = [4; 32];
    for length in [3_000, 100_000] {
        let body = words(1, length);
        let mut first = Vec::new();
        let mut encoder = AdaptiveEncoder::new(OTHER, traits("text/html", 40));
        encoder.push(&body, &mut first).unwrap();
        let finished = encoder.finish(&mut first).unwrap();
        assert_eq!(finished.coder, Coder::Brotli { quality: 11 });
        let (coded, hash) = CodedBody::of_windows(OTHER, finished.coding, &first).unwrap();
        assert_eq!(hash, finished.hash);

        let again = |bases: Vec<Bytes>| {
            let mut wire = Vec::new();
            let mut encoder = AdaptiveEncoder::new(KEY, traits("text/html", 12_000))
                .with_bases(bases)
                .with_coded(Some(coded.clone()));
            for part in body.chunks(1000) {
                encoder.push(part, &mut wire).unwrap();
            }
            (encoder.finish(&mut wire).unwrap(), wire)
        };
        for bases in [vec![], vec![words(2, length).into()]] {
            let (finished, wire) = again(bases);
            assert_eq!((finished.coding, finished.base), (Coding::Brotli, None));
            assert_eq!(wire.len(), first.len());
            assert!(decode(Coding::Brotli, &wire) == body);
        }
        let (finished, wire) = again(vec![body.clone().into()]);
        assert_eq!(
            (finished.coding, finished.base),
            (Coding::Zstd, Some(Base::Offered(0)))
        );
        assert!(wire.len() < first.len());
    }
}

/// A guess that stands beside a secret makes a coded body shorter by some bytes, which padding hides.
#[test]
fn bodies_with_secrets_have_stepped_sizes_without_a_base_too() {
    let memory = memory();
    let page = String::from_utf8(page(60, 3)).unwrap();
    for kbps in [40, 384, 5_000] {
        let mut sizes = std::collections::BTreeMap::<usize, u32>::new();
        for known in 0..=12 {
            for salt in 0..20 {
                let guess = &"k7Qz0pXw3vLd"[..known];
                let body = format!("{page}<p>token=k7Qz0pXw3vLd</p><p>{salt} token={guess}</p>");
                let mut encoder = AdaptiveEncoder::new(KEY, traits("text/html", kbps))
                    .with_mixing(Some(memory.clone()))
                    .hiding(SizeHiding::Coded);
                let mut wire = Vec::new();
                encoder.push(body.as_bytes(), &mut wire).unwrap();
                let finished = encoder.finish(&mut wire).unwrap();
                assert_eq!(finished.coding, Coding::Zstd);
                assert!(decode(finished.coding, &wire) == body.as_bytes());
                *sizes.entry(wire.len()).or_default() += 1;
            }
        }
        assert!(sizes.len() <= 4, "{kbps} kbit/s: {sizes:?}");
    }
}

/// The decoded lengths of the windows of a body.
fn window_lengths(coding: Coding, mut wire: &[u8]) -> Vec<usize> {
    let mut decoder = BodyDecoder::new(KEY, coding, BodyLimits::default());
    let mut lengths = Vec::new();
    while let BodyEvent::Window(window) = decoder.next(&mut wire).unwrap() {
        lengths.push(window.len());
    }
    lengths
}

#[test]
fn the_beginning_of_a_document_crosses_a_slow_link_first() {
    let text = page(20_000, 7);
    for (length, begins) in [(20_000, [4_096, 8_192, 7_712]), (200_000, [4_096, 8_192, 16_384])] {
        let coded = |content_type, kbps| {
            let mut encoder = AdaptiveEncoder::new(KEY, traits(content_type, kbps));
            let mut wire = Vec::new();
            encoder.push(&text[..length], &mut wire).unwrap();
            let coding = encoder.finish(&mut wire).unwrap().coding;
            (window_lengths(coding, &wire), wire.len())
        };
        let (document, size) = coded("text/html; charset=utf-8", 384);
        assert_eq!(document[..3], begins);
        let (plain, whole) = coded("text/plain", 384);
        assert_eq!(plain[0], MAX_WINDOW.min(length));
        assert!(size <= whole + whole / 50 + 64, "{size} {whole}");
        assert_eq!(coded("text/html", 20_000).0[0], MAX_WINDOW.min(length));
    }
}
