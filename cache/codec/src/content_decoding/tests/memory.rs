//! The memory of decoders is charged to a device.
use longhaul_types::PublicKey;

use super::*;
use crate::memory_shares::MemoryShares;

fn zstd_with_window(data: &[u8], log: u32) -> Vec<u8> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(log).unwrap();
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// Decodes in pieces, in the share of a device.
fn decode_in(
    shares: &MemoryShares,
    coding: OriginCoding,
    coded: &[u8],
) -> Result<Vec<u8>, ContentDecodingError> {
    let share = shares.of(PublicKey::from_bytes([1; 32]));
    let limits = ContentDecodingLimits {
        free_output: ByteCount::mib(64),
        ..ContentDecodingLimits::default()
    };
    let mut decoder = ContentDecoder::new(&[coding], limits, Some(&share))?;
    let mut out = Vec::new();
    for piece in coded.chunks(1000) {
        let mut rest = piece;
        loop {
            let step = decoder.push(rest, &mut out)?;
            rest = &rest[step.consumed..];
            if !step.more {
                break;
            }
        }
    }
    decoder.finish().map(|_| out)
}

#[test]
fn a_window_is_charged_when_it_is_taken_and_given_back_at_the_end() {
    let zeros = vec![0; 20 << 20];
    for (coding, coded, window) in [
        (OriginCoding::Brotli, br(&zeros), 16),
        (OriginCoding::Zstd, zstd_with_window(&zeros, 23), 8),
    ] {
        assert!(coded.len() < 10_000, "{coding}");
        // A device gets half of what is free; a growing window is copied.
        let plenty = MemoryShares::new(ByteCount::mib(4 * window + 2));
        assert_eq!(
            decode_in(&plenty, coding, &coded).map(|out| out == zeros),
            Ok(true),
            "{coding}"
        );
        let scarce = MemoryShares::new(ByteCount::mib(window));
        let refused = decode_in(&scarce, coding, &coded);
        assert_eq!(refused, Err(ContentDecodingError::NoMemory), "{coding}");
        assert_eq!(
            (plenty.used(), scarce.used()),
            (ByteCount::new(0), ByteCount::new(0))
        );
    }
}

#[test]
fn a_short_body_takes_little_memory_whatever_its_window() {
    let body = b"a line of a page, and another one. ".repeat(1000);
    let shares = MemoryShares::new(ByteCount::mib(1));
    assert_eq!(
        decode_in(&shares, OriginCoding::Brotli, &br(&body)).as_deref(),
        Ok(&body[..])
    );
    let coded = zstd::bulk::compress(&body, 19).unwrap();
    assert_eq!(
        decode_in(&shares, OriginCoding::Zstd, &coded).as_deref(),
        Ok(&body[..])
    );
}

#[test]
fn whatever_the_share_a_body_is_whole_or_refused() {
    let body: Vec<u8> = (0..60_000_u32)
        .flat_map(|n| (n * n / 7 % 251).to_string().into_bytes())
        .collect();
    for coding in ALL {
        let coded = apply(coding, &body);
        let mut outcomes = [0; 2];
        for kib in (0..4000).step_by(37) {
            match decode_in(&MemoryShares::new(ByteCount::new(kib * 1024)), coding, &coded) {
                Ok(out) => {
                    assert!(out == body, "{coding} in {kib} KiB");
                    outcomes[0] += 1;
                }
                Err(error) => {
                    assert_eq!(error, ContentDecodingError::NoMemory, "{coding} in {kib} KiB");
                    outcomes[1] += 1;
                }
            }
        }
        assert!(outcomes.iter().all(|count| *count > 0), "{coding}: {outcomes:?}");
    }
}
