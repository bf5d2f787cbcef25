mod damaged;
mod memory;

use std::io::Write as _;

use flate2::{Compression, GzBuilder, write};
use proptest::prelude::*;

use super::*;

const ALL: [OriginCoding; 5] = [
    OriginCoding::Brotli,
    OriginCoding::Deflate,
    OriginCoding::Gzip,
    OriginCoding::Identity,
    OriginCoding::Zstd,
];

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = write::GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = write::ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn raw_deflate(data: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = write::DeflateEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn br(data: &[u8]) -> Vec<u8> {
    let window = mbrotli::Window::standard(24).unwrap();
    let config = mbrotli::EncoderConfig::default()
        .with_quality(mbrotli::Quality::Q4)
        .with_window(window);
    mbrotli::Compressor::new(config).unwrap().compress(data).unwrap()
}

fn apply(coding: OriginCoding, data: &[u8]) -> Vec<u8> {
    match coding {
        OriginCoding::Brotli => br(data),
        OriginCoding::Deflate => zlib(data),
        OriginCoding::Gzip => gzip(data),
        OriginCoding::Identity => data.to_vec(),
        OriginCoding::Zstd => zstd::bulk::compress(data, 3).unwrap(),
    }
}

/// Decodes `coded` in pieces of `size` bytes.
fn decode_split(
    codings: &[OriginCoding],
    coded: &[u8],
    size: usize,
) -> Result<Vec<u8>, ContentDecodingError> {
    let mut content_decoder = ContentDecoder::new(codings, ContentDecodingLimits::default(), None)?;
    let mut out = Vec::new();
    for chunk in coded.chunks(size) {
        let mut rest = chunk;
        loop {
            let before = out.len();
            let step = content_decoder.push(rest, &mut out)?;
            assert!(out.len() - before <= ContentDecoder::MAX_STEP);
            rest = &rest[step.consumed..];
            if !step.more {
                break;
            }
        }
        assert!(rest.is_empty());
    }
    content_decoder.finish()?;
    Ok(out)
}

fn page(length: usize) -> Vec<u8> {
    (0..length / 10)
        .flat_map(|i| format!("<p>{:06}\n", i * 7919 % 99_991).into_bytes())
        .collect()
}

#[test]
fn each_coding_is_decoded_however_the_input_is_split() {
    let body = page(300_000);
    for coding in ALL {
        let coded = apply(coding, &body);
        for size in [1, 7, 4096, coded.len()] {
            assert!(
                decode_split(&[coding], &coded, size).unwrap() == body,
                "{coding} {size}"
            );
        }
    }
}

#[test]
fn deflate_is_zlib_or_raw() {
    for level in [0, 1, 9] {
        for body in [page(100_000), b"x".to_vec(), Vec::new()] {
            let raw = raw_deflate(&body, level);
            assert_eq!(decode_split(&[OriginCoding::Deflate], &raw, 1), Ok(body.clone()));
            assert_eq!(
                decode_split(&[OriginCoding::Deflate], &raw, usize::MAX),
                Ok(body.clone())
            );
        }
    }
    assert_eq!(
        decode_split(&[OriginCoding::Deflate], &zlib(b""), 1),
        Ok(Vec::new())
    );
}

#[test]
fn gzip_members_follow_each_other() {
    let coded = [gzip(b"one "), gzip(b""), gzip(b"two")].concat();
    for size in [1, 5, 1000] {
        assert_eq!(
            decode_split(&[OriginCoding::Gzip], &coded, size).unwrap(),
            b"one two"
        );
    }
    // Zero padding and other garbage after the last member.
    for junk in [&[0; 512][..], b"<!-- cached -->", b"\x1fx"] {
        let padded = [coded.as_slice(), junk].concat();
        assert_eq!(
            decode_split(&[OriginCoding::Gzip], &padded, 3).unwrap(),
            b"one two"
        );
    }
}

#[test]
fn gzip_header_fields_are_skipped() {
    let mut encoder = GzBuilder::new()
        .filename("a.html")
        .comment("made by hand")
        .extra(vec![1, 2, 3, 4, 5])
        .mtime(12)
        .write(Vec::new(), Compression::best());
    encoder.write_all(b"body").unwrap();
    let coded = encoder.finish().unwrap();
    for size in [1, 1000] {
        assert_eq!(
            decode_split(&[OriginCoding::Gzip], &coded, size).unwrap(),
            b"body"
        );
    }
    // FHCRC and an empty FEXTRA, which the builder does not write.
    let mut plain = gzip(b"body");
    plain[3] = 0x06;
    let with_crc = [&plain[..10], &[0, 0], &[0xaa, 0xbb], &plain[10..]].concat();
    assert_eq!(
        decode_split(&[OriginCoding::Gzip], &with_crc, 1).unwrap(),
        b"body"
    );
}

/// Written by hand after RFC 1952, RFC 7932 and RFC 8878: a fixed Huffman block and two uncompressed ones.
#[test]
fn golden_vectors() {
    let gz = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b\x4c\x4a\x06\x00\xc2\x41\x24\x35\x03\x00\x00\x00";
    assert_eq!(
        decode_content(&[OriginCoding::Gzip], gz, ContentDecodingLimits::default()).unwrap(),
        b"abc"
    );
    let br = b"\x0b\x01\x80abc\x03";
    assert_eq!(
        decode_content(&[OriginCoding::Brotli], br, ContentDecodingLimits::default()).unwrap(),
        b"abc"
    );
    let zst = b"\x28\xb5\x2f\xfd\x20\x03\x19\x00\x00abc";
    assert_eq!(
        decode_content(&[OriginCoding::Zstd], zst, ContentDecodingLimits::default()).unwrap(),
        b"abc"
    );
}

#[test]
fn zstd_frames_follow_each_other_and_windows_are_bounded() {
    let coded = [
        apply(OriginCoding::Zstd, b"one "),
        apply(OriginCoding::Zstd, b"two"),
    ]
    .concat();
    assert_eq!(
        decode_split(&[OriginCoding::Zstd], &coded, 1).unwrap(),
        b"one two"
    );
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(24).unwrap();
    encoder.write_all(&page(200_000)).unwrap();
    let coded = encoder.finish().unwrap();
    assert_eq!(
        decode_split(&[OriginCoding::Zstd], &coded, 1000),
        Err(ContentDecodingError::Corrupt(OriginCoding::Zstd))
    );
}

#[test]
fn empty_inputs_change_nothing() {
    for coding in ALL {
        let coded = apply(coding, &page(50_000));
        let mut content_decoder =
            ContentDecoder::new(&[coding], ContentDecodingLimits::default(), None).unwrap();
        let mut out = Vec::new();
        let (head, tail) = coded.split_at(coded.len() / 2);
        for part in [head, tail] {
            let step = content_decoder.push(part, &mut out).unwrap();
            assert_eq!((step.consumed, step.more), (part.len(), false));
            for _ in 0..100 {
                assert_eq!(
                    content_decoder.push(&[], &mut out),
                    Ok(Step {
                        consumed: 0,
                        more: false
                    })
                );
            }
        }
        assert_eq!(content_decoder.finish(), Ok(ContentEnd::Whole));
        assert!(out == page(50_000));
    }
}

#[test]
fn several_codings_are_decoded_in_reverse_order() {
    let body = page(150_000);
    let stack = [OriginCoding::Brotli, OriginCoding::Gzip, OriginCoding::Zstd];
    let coded = stack
        .iter()
        .fold(body.clone(), |data, coding| apply(*coding, &data));
    for size in [1, 997, coded.len()] {
        assert!(decode_split(&stack, &coded, size).unwrap() == body);
    }
    assert_eq!(
        ContentDecoder::new(&[OriginCoding::Gzip; 4], ContentDecodingLimits::default(), None).err(),
        Some(ContentDecodingError::TooManyCodings(4))
    );
    assert_eq!(decode_split(&[], b"plain", 2).unwrap(), b"plain");
}

#[test]
fn an_empty_body_is_empty_in_any_coding() {
    for coding in ALL {
        assert_eq!(
            decode_content(&[coding, coding], b"", ContentDecodingLimits::default()),
            Ok(Vec::new())
        );
    }
}

#[test]
fn coding_names_ignore_case() {
    assert_eq!("X-GZip".parse(), Ok(OriginCoding::Gzip));
    assert_eq!("BR".parse(), Ok(OriginCoding::Brotli));
    assert_eq!(
        "sdch".parse::<OriginCoding>(),
        Err(UnsupportedCoding("sdch".to_owned()))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bodies_survive(
        body in prop::collection::vec(any::<u8>(), 0..20_000),
        codings in prop::collection::vec(prop::sample::select(ALL.to_vec()), 0..=MAX_CODINGS),
        size in 1_usize..3_000,
    ) {
        let coded = codings.iter().fold(body.clone(), |data, coding| apply(*coding, &data));
        prop_assert!(decode_split(&codings, &coded, size).unwrap() == body);
    }

    #[test]
    fn arbitrary_input_never_panics(
        input in prop::collection::vec(any::<u8>(), 0..2_000),
        coding in prop::sample::select(ALL.to_vec()),
    ) {
        let _ = decode_content(&[coding], &input, ContentDecodingLimits::default());
    }
}
