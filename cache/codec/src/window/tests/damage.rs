//! Changed, swapped, truncated and malformed windows, and resumption after them.
use bytes::Bytes;
use longhaul_types::{ByteCount, ContentHash, varint};

use super::{CODERS, KEY, brotli, decode, drain, encode, text};
use crate::{Coder, Coding, window::*};

#[test]
fn a_changed_byte_is_never_delivered() {
    for coder in CODERS {
        let body = text(2 * MAX_WINDOW + 500);
        let wire = encode(coder, &body);
        for at in (0..wire.len()).step_by(97).chain(wire.len() - 40..wire.len()) {
            for bit in [1, 0x80] {
                let mut bad = wire.clone();
                bad[at] ^= bit;
                let (out, result) = decode(coder.coding(), &bad);
                assert!(body.starts_with(&out), "{coder:?} byte {at}");
                match result {
                    Ok(_) => assert!(out == body),
                    Err(DecodeError::WindowMismatch { offset }) => assert_eq!(offset, out.len() as u64),
                    Err(_) => {}
                }
            }
        }
    }
}

#[test]
fn the_rest_resumes_from_the_offset_of_a_mismatch() {
    let body = text(3 * MAX_WINDOW);
    let wire = encode(Coder::Brotli { quality: 5 }, &body);
    let mut bad = wire.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 4;
    let mut decoder = BodyDecoder::new(KEY, Coding::Brotli, BodyLimits::default());
    let mut out = Vec::new();
    let error = drain(&mut decoder, &bad, &mut out).unwrap_err();
    let offset = decoder.offset();
    assert_eq!(error, DecodeError::WindowMismatch { offset });
    assert_eq!(offset, MAX_WINDOW as u64);
    assert_eq!(decoder.finish(), Err(error));
    assert_eq!(decoder.next(&mut wire.as_slice()), Err(error));

    let key = [8; 32];
    let mut decoder = decoder.resume(key, Coding::Zstd);
    let mut encoder = BodyEncoder::resume(key, Coder::Zstd { level: 3 }, None, &body[..MAX_WINDOW]).unwrap();
    let mut rest = Vec::new();
    encoder.push(&body[MAX_WINDOW..], &mut rest).unwrap();
    let hash = encoder.finish(&mut rest).unwrap();
    assert_eq!(drain(&mut decoder, &rest, &mut out), Ok(Some(hash)));
    assert!(out == body);
    assert_eq!(hash, ContentHash::of(&body));
}

#[test]
fn a_mismatch_in_the_last_window_can_be_resumed_too() {
    let mut wire = encode(Coder::Identity, b"abcdef");
    *wire.last_mut().unwrap() ^= 1;
    let mut decoder = BodyDecoder::new(KEY, Coding::Identity, BodyLimits::default());
    let mut out = Vec::new();
    assert_eq!(
        drain(&mut decoder, &wire, &mut out),
        Err(DecodeError::WindowMismatch { offset: 0 })
    );
    let mut decoder = decoder.resume(KEY, Coding::Identity);
    let hash = drain(&mut decoder, &encode(Coder::Identity, b"abcdef"), &mut out);
    assert_eq!(hash, Ok(Some(ContentHash::of(b"abcdef"))));
    assert_eq!(out, b"abcdef");
}

#[test]
fn swapped_and_repeated_windows_fail() {
    // Equal lengths and contents: only the offset distinguishes the windows.
    let body = [
        vec![b'a'; MAX_WINDOW],
        vec![b'b'; MAX_WINDOW],
        vec![b'a'; MAX_WINDOW],
    ]
    .concat();
    let wire = encode(Coder::Identity, &body);
    let size = 9 + MAX_WINDOW;
    let windows: Vec<&[u8]> = wire.chunks(size).collect();
    assert_eq!(windows.len(), 4);
    for (order, good) in [
        ([1, 0, 2, 3], 0),
        ([0, 0, 2, 3], 1),
        ([2, 1, 0, 3], 0),
        ([0, 1, 1, 3], 2),
    ] {
        let shuffled = order.map(|index| windows[index]).concat();
        let (out, result) = decode(Coding::Identity, &shuffled);
        let offset = good * MAX_WINDOW as u64;
        assert_eq!(result, Err(DecodeError::WindowMismatch { offset }));
        assert_eq!(out.len() as u64, offset);
    }
    let dropped = [windows[0], windows[1], windows[3]].concat();
    assert_eq!(
        decode(Coding::Identity, &dropped).1,
        Err(DecodeError::ContentMismatch)
    );
    let other_key = BodyDecoder::new([9; 32], Coding::Identity, BodyLimits::default());
    let mut other_key = other_key;
    assert_eq!(
        drain(&mut other_key, &wire, &mut Vec::new()),
        Err(DecodeError::WindowMismatch { offset: 0 })
    );
}

#[test]
fn every_truncation_is_an_error() {
    for coder in CODERS {
        let body = text(MAX_WINDOW + 300);
        let wire = encode(coder, &body);
        for length in (0..wire.len()).step_by(53).chain([wire.len() - 1]) {
            let (out, result) = decode(coder.coding(), &wire[..length]);
            let offset = out.len() as u64;
            assert_eq!(result, Err(DecodeError::Truncated { offset }));
            assert!(body.starts_with(&out));
        }
    }
}

#[test]
fn malformed_headers_are_refused_before_anything_is_allocated() {
    let header = |size: u64, coded: u64| {
        let mut wire = Vec::new();
        varint::encode(size, &mut wire);
        varint::encode(coded, &mut wire);
        wire
    };
    let malformed = Err(DecodeError::Malformed { offset: 0 });
    for wire in [
        vec![0],
        vec![0x40, 0x02],
        header(2 * (MAX_WINDOW as u64 + 1), 1),
        header((1 << 62) - 1, 1),
        header(2, 0),
        header(2, MAX_CODED_WINDOW as u64 + 1),
        header(2, 1 << 40),
        vec![2, 0x40, 0x02],
    ] {
        assert_eq!(decode(Coding::Zstd, &wire).1, malformed, "{wire:x?}");
    }
}

#[test]
fn a_body_above_the_limit_is_refused() {
    let wire = encode(Coder::Zstd { level: 3 }, &vec![0; 10 * MAX_WINDOW]);
    let limits = BodyLimits {
        max_body: ByteCount::kib(64),
    };
    let mut decoder = BodyDecoder::new(KEY, Coding::Zstd, limits);
    let mut out = Vec::new();
    assert_eq!(
        drain(&mut decoder, &wire, &mut out),
        Err(DecodeError::TooLarge(ByteCount::kib(64)))
    );
    assert_eq!(out.len(), 2 * MAX_WINDOW);
}

/// A window must not be decoded beyond its declared length.
#[test]
fn a_window_that_inflates_beyond_its_length_is_a_mismatch() {
    let bomb = zstd::bulk::compress(&vec![0; 1 << 20], 19).unwrap();
    let brotli = brotli(18, &vec![0; 1 << 20]);
    for (coding, coded) in [(Coding::Zstd, bomb), (Coding::Brotli, brotli)] {
        let mut wire = Vec::new();
        varint::encode(size_field(1000, WindowPosition::Inner), &mut wire);
        varint::encode(coded.len() as u64, &mut wire);
        wire.extend_from_slice(&window_hash(&KEY, 0, &[0; 1000]));
        wire.extend_from_slice(&coded);
        assert_eq!(
            decode(coding, &wire).1,
            Err(DecodeError::WindowMismatch { offset: 0 })
        );
    }
}

#[test]
fn unused_coded_bytes_are_a_mismatch() {
    for coder in [Coder::Zstd { level: 3 }, Coder::Brotli { quality: 5 }] {
        let mut compressor = crate::compress::Compressor::new(coder, None, &[]).unwrap();
        let mut coded = Vec::new();
        compressor
            .code(b"abc", crate::coding::After::End, &mut coded)
            .unwrap();
        coded.push(0);
        let mut wire = Vec::new();
        varint::encode(size_field(3, WindowPosition::Last), &mut wire);
        varint::encode(coded.len() as u64, &mut wire);
        wire.extend_from_slice(ContentHash::of(b"abc").as_bytes());
        wire.extend_from_slice(&coded);
        let (out, result) = decode(coder.coding(), &wire);
        assert_eq!(
            (out.len(), result),
            (0, Err(DecodeError::WindowMismatch { offset: 0 }))
        );
    }
}

/// A coder window above the protocol's limit would let a peer allocate memory.
#[test]
fn large_coder_windows_are_refused() {
    let coded = brotli(22, b"abc");
    let mut wire = Vec::new();
    varint::encode(size_field(3, WindowPosition::Last), &mut wire);
    varint::encode(coded.len() as u64, &mut wire);
    wire.extend_from_slice(ContentHash::of(b"abc").as_bytes());
    wire.extend_from_slice(&coded);
    assert_eq!(
        decode(Coding::Brotli, &wire).1,
        Err(DecodeError::WindowMismatch { offset: 0 })
    );
}

#[test]
fn bytes_after_the_last_window_are_rejected() {
    let mut wire = encode(Coder::Brotli { quality: 5 }, b"abc");
    wire.extend_from_slice(b"next");
    let mut rest = wire.as_slice();
    let mut decoder = BodyDecoder::new(KEY, Coding::Brotli, BodyLimits::default());
    assert_eq!(
        decoder.next(&mut rest),
        Ok(BodyEvent::Window(Bytes::from_static(b"abc")))
    );
    let end = Ok(BodyEvent::End(ContentHash::of(b"abc")));
    assert_eq!(decoder.next(&mut rest), end);
    assert_eq!(decoder.next(&mut rest), end);
    assert_eq!(rest, b"next");
}
