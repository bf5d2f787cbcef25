//! Truncated, damaged and malicious data.
use super::*;

/// Decodes what there is; returns it with what its end says.
fn decode_part(codings: &[OriginCoding], coded: &[u8]) -> (Vec<u8>, ContentEnd) {
    let mut content_decoder = ContentDecoder::new(codings, ContentDecodingLimits::default(), None).unwrap();
    let (mut rest, mut out) = (coded, Vec::new());
    loop {
        let step = content_decoder.push(rest, &mut out).unwrap();
        rest = &rest[step.consumed..];
        if !step.more {
            return (out, content_decoder.finish().unwrap());
        }
    }
}

#[test]
fn what_precedes_a_missing_end_is_decoded() {
    let body = page(5_000);
    for coding in [
        OriginCoding::Brotli,
        OriginCoding::Deflate,
        OriginCoding::Gzip,
        OriginCoding::Zstd,
    ] {
        let coded = apply(coding, &body);
        for length in 1..coded.len() {
            let (part, end) = decode_part(&[coding], &coded[..length]);
            assert!(body.starts_with(&part), "{coding} {length}");
            assert_eq!(end, ContentEnd::Doubtful, "{coding} {length}");
        }
        assert_eq!(decode_part(&[coding], &coded), (body.clone(), ContentEnd::Whole));
        assert_eq!(decode_part(&[coding], &[]), (Vec::new(), ContentEnd::Whole));
    }
    let gzipped = gzip(&body);
    assert_eq!(
        decode_part(&[OriginCoding::Gzip], &gzipped[..gzipped.len() - 8]).0,
        body
    );
    let twice = gzip(&gzipped);
    let stack = [OriginCoding::Gzip, OriginCoding::Gzip];
    let (part, end) = decode_part(&stack, &twice[..twice.len() / 2]);
    assert!(body.starts_with(&part));
    assert_eq!(end, ContentEnd::Doubtful);
}

/// A match that begins before the first byte: there is nothing that it could repeat.
#[test]
fn a_distance_beyond_the_beginning_is_corrupt() {
    // RFC 1951 section 3.2.6: the last block, fixed codes, the literal `a`, three bytes from 100 bytes before, the end.
    let bits = "1 10 10010001 0000001 01101 11000 0000000".replace(' ', "");
    let bytes: Vec<u8> = bits
        .as_bytes()
        .chunks(8)
        .map(|bits| {
            let bits = bits.iter().rev();
            bits.fold(0, |byte, bit| byte << 1 | u8::from(*bit == b'1'))
        })
        .collect();
    let mut decoder =
        ContentDecoder::new(&[OriginCoding::Deflate], ContentDecodingLimits::default(), None).unwrap();
    let mut out = Vec::new();
    let decoded = decoder.push(&bytes, &mut out);
    assert!(decoded.is_err(), "{out:?}");
}

#[test]
fn a_wrong_checksum_of_gzip_is_doubtful() {
    let body = page(1000);
    for from_end in [2, 6] {
        let mut bad_sum = gzip(&body);
        let at = bad_sum.len() - from_end;
        bad_sum[at] ^= 1;
        assert_eq!(
            decode_part(&[OriginCoding::Gzip], &bad_sum),
            (body.clone(), ContentEnd::Doubtful)
        );
    }
}

#[test]
fn corrupt_data_is_an_error_for_all_later_calls() {
    for (coding, data) in [
        (OriginCoding::Gzip, b"<html>not coded at all</html>".to_vec()),
        (OriginCoding::Zstd, b"<html>not coded at all</html>".to_vec()),
        (OriginCoding::Deflate, vec![0xff; 40]),
        (OriginCoding::Brotli, vec![0xff; 40]),
    ] {
        let mut content_decoder =
            ContentDecoder::new(&[coding], ContentDecodingLimits::default(), None).unwrap();
        let mut out = Vec::new();
        let error = Err(ContentDecodingError::Corrupt(coding));
        assert_eq!(content_decoder.push(&data, &mut out), error.clone(), "{coding}");
        assert_eq!(content_decoder.push(b"", &mut out), error);
        assert_eq!(
            content_decoder.finish(),
            Err(ContentDecodingError::Corrupt(coding))
        );
    }
}

#[test]
fn decompression_bombs_are_stopped_at_the_limit() {
    let zeros = vec![0; 40 << 20];
    let limits = ContentDecodingLimits {
        free_output: ByteCount::mib(1),
        ..ContentDecodingLimits::default()
    };
    for coding in [
        OriginCoding::Brotli,
        OriginCoding::Deflate,
        OriginCoding::Gzip,
        OriginCoding::Zstd,
    ] {
        let coded = apply(coding, &zeros);
        let mut content_decoder = ContentDecoder::new(&[coding], limits, None).unwrap();
        let (mut rest, mut out, mut total) = (coded.as_slice(), Vec::new(), 0);
        let error = loop {
            match content_decoder.push(rest, &mut out) {
                Ok(step) => rest = &rest[step.consumed..],
                Err(error) => break error,
            }
            assert!(out.len() <= ContentDecoder::MAX_STEP);
            total += out.len() as u64;
            out.clear();
        };
        assert!(matches!(error, ContentDecodingError::TooLarge(_)), "{coding}");
        assert!(total <= (200 * coded.len() as u64).max(1 << 20));
    }
    // A nested bomb: the small result of the inner coding does not hide that of the outer coding.
    let nested = gzip(&gzip(&zeros));
    let stack = [OriginCoding::Gzip, OriginCoding::Gzip];
    assert!(matches!(
        decode_content(&stack, &nested, limits),
        Err(ContentDecodingError::TooLarge(_))
    ));
}

#[test]
fn bytes_after_the_end_are_ignored() {
    for coding in [OriginCoding::Brotli, OriginCoding::Deflate, OriginCoding::Gzip] {
        let coded = [apply(coding, b"abc"), b"<!-- junk -->".to_vec()].concat();
        for size in [1, 1000] {
            assert_eq!(decode_split(&[coding], &coded, size).unwrap(), b"abc");
        }
    }
}

/// Changed bytes in otherwise valid data reach deeper into the decoders than noise does.
#[test]
fn damaged_data_never_panics() {
    let body = page(3_000);
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % below
    };
    for coding in [
        OriginCoding::Brotli,
        OriginCoding::Deflate,
        OriginCoding::Gzip,
        OriginCoding::Zstd,
    ] {
        let coded = apply(coding, &body);
        for _ in 0..DAMAGES {
            let mut bad = coded.clone();
            for _ in 0..=random(3) {
                let at = random(bad.len());
                bad[at] ^= 1 << random(8);
            }
            let _ = decode_content(&[coding], &bad, ContentDecodingLimits::default());
        }
    }
}

const DAMAGES: usize = 1_000;
