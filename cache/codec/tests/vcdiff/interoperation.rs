//! Interoperation with xdelta3 in both directions.
use longhaul_codec::vcdiff::{Checksum, DeltaEffort, Limits, decode, encode_with};

use crate::{pairs, xdelta::Xdelta};

/// Pairs of texts of many shapes: of the same length, from an empty text, to an empty text.
fn texts() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut texts: Vec<_> = pairs::generated(3, 4)
        .into_iter()
        .map(|pair| (pair.old, pair.new))
        .collect();
    let page = texts[0].0.clone();
    texts.extend([
        (page.clone(), page.clone()),
        (page.clone(), page[page.len() / 3..].to_vec()),
        (Vec::new(), page.clone()),
        (page.clone(), Vec::new()),
        (page.clone(), vec![b'a'; 70_000]),
        (b"abc".to_vec(), b"abcabcabcabcabcabcabcabc".to_vec()),
        (page, b"x".to_vec()),
    ]);
    texts
}

#[test]
fn xdelta3_decodes_our_deltas() {
    let xdelta = Xdelta::new();
    for (number, (old, new)) in texts().into_iter().enumerate() {
        for effort in [DeltaEffort::Fast, DeltaEffort::Best] {
            for checksum in [Checksum::None, Checksum::Adler32] {
                let delta = encode_with(&old, &new, effort, checksum);
                let decoded = xdelta
                    .decode(&old, &delta)
                    .unwrap_or_else(|said| panic!("text {number}: {said}"));
                assert!(
                    decoded == new,
                    "text {number}, {effort:?}: xdelta3 decodes another text"
                );
            }
        }
    }
}

#[test]
fn xdelta3_verifies_our_checksums() {
    let xdelta = Xdelta::new();
    let (old, new) = texts().swap_remove(0);
    let mut delta = encode_with(&old, &new, DeltaEffort::Fast, Checksum::Adler32);
    // A byte of the data section: literal bytes follow the header.
    let at = delta.len() / 4;
    delta[at] ^= 1;
    assert!(xdelta.decode(&old, &delta).is_err());
    assert!(decode(&old, &delta, Limits::default()).is_err());
}

#[test]
fn our_decoder_decodes_deltas_of_xdelta3() {
    let xdelta = Xdelta::new();
    // With checksum and file names (the default), without either, with an application header, and at several
    // levels.
    let options: [&[&str]; 5] = [
        &[],
        &["-n", "-A"],
        &["-Aa text of the application"],
        &["-9"],
        &["-1"],
    ];
    for (number, (old, new)) in texts().into_iter().enumerate() {
        for options in options {
            let delta = xdelta.encode(options, &old, &new);
            let decoded = decode(&old, &delta, Limits::default());
            assert!(
                decoded.as_ref() == Ok(&new),
                "text {number}, {options:?}: {:?}",
                decoded.err()
            );
        }
    }
}

#[test]
fn our_decoder_decodes_deltas_of_xdelta3_in_many_windows() {
    let xdelta = Xdelta::new();
    for (old, new) in texts() {
        // The smallest window that xdelta3 accepts.
        let delta = xdelta.encode(&["-W", "16384"], &old, &new);
        assert!(decode(&old, &delta, Limits::default()).as_ref() == Ok(&new));
    }
}

#[test]
fn windows_of_several_megabytes_go_both_ways() {
    let xdelta = Xdelta::new();
    let mut old = Vec::new();
    for pair in pairs::generated(5, 60) {
        old.extend_from_slice(&pair.old);
    }
    assert!(
        old.len() > 17 << 20,
        "{} bytes do not take three windows",
        old.len()
    );
    let mut new = old[500_000..].to_vec();
    new.extend_from_slice(&old[..400_000]);
    let delta = encode_with(&old, &new, DeltaEffort::Fast, Checksum::Adler32);
    assert!(xdelta.decode(&old, &delta).unwrap() == new);
    let delta = xdelta.encode(&[], &old, &new);
    assert!(decode(&old, &delta, Limits::default()).unwrap() == new);
}
