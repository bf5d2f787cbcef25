//! The COVER trainer of Zstandard, applied to the shared parts of the texts.
use std::io;

use crate::{
    material::Site,
    shared::{GRAM, Longest, on_three_sites},
};

/// Returns the fragments that COVER selects, best first: at most `size` bytes before removal of strings that
/// are not on three sites.
pub(crate) fn choose(sites: &[Site], longest: &Longest, size: usize) -> io::Result<Vec<Vec<u8>>> {
    let samples: Vec<Vec<u8>> = sites
        .iter()
        .zip(&longest.lengths)
        .map(|(site, lengths)| {
            let mut shared = Vec::new();
            for (text, lengths) in site.texts.iter().zip(lengths) {
                let mut reached = 0;
                for (start, length) in lengths.iter().enumerate() {
                    let end = start + usize::from(*length);
                    if end > reached && *length > 0 {
                        shared.extend_from_slice(&text[start.max(reached)..end]);
                        reached = end;
                    }
                }
            }
            shared
        })
        .filter(|sample| sample.len() >= GRAM)
        .collect();
    let trained = zstd::dict::from_samples(&samples, size)?;
    Ok(pieces(&trained, sites))
}

/// Returns the parts of `dictionary` that three sites have, the last one (COVER's best) first. COVER joins
/// strings and writes tables before them; strings that no site has are removed.
pub(crate) fn pieces(dictionary: &[u8], sites: &[Site]) -> Vec<Vec<u8>> {
    let lengths = on_three_sites(dictionary, sites);
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < dictionary.len() {
        let length = lengths[at];
        if length >= GRAM {
            pieces.push(dictionary[at..at + length].to_vec());
        }
        at += length.max(1);
    }
    pieces.reverse();
    pieces
}
