//! Whether a body is coded with a base, with which one, and how hard.
use bytes::Bytes;
use longhaul_types::{BitRate, ByteCount};

use crate::{
    coding::Coder,
    compress::{After, Compressor},
    window::base_tail,
};

/// A base that serves, and the coder that makes the most of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Based {
    /// Its place among those that were offered.
    pub(super) base: usize,
    pub(super) coder: Coder,
}

/// A level of Zstandard with a base: what it makes of a body that level 3 codes to 1,000 bytes, and nanoseconds for each
/// byte of base and body. Medians over editions of four sites' pages of 50 KB to 1.2 MB.
struct Effort {
    level: u8,
    coded: u64,
    time: u64,
}

const EFFORTS: [Effort; 4] = [
    effort(3, 1000, 2),
    effort(9, 730, 15),
    effort(15, 650, 170),
    effort(19, 630, 400),
];

/// Level at which bases are tried: a millisecond for the largest.
const TRIAL: u8 = 3;
/// A base must save this share of what the body costs without one: naming and reading it costs something, too.
const WORTH: (usize, usize) = (1, 16);
/// Where the length of a body is not known it is taken to be this many times what has come.
const LIKELY_LENGTH: u64 = 4;

const fn effort(level: u8, coded: u64, time: u64) -> Effort {
    Effort { level, coded, time }
}

/// The base among `bases` with which a body that begins with `first` becomes smallest, if it pays.
pub(super) fn choose_base(
    bases: &[Bytes],
    first: &[u8],
    length: Option<ByteCount>,
    link: Option<BitRate>,
) -> Option<Based> {
    let without = trial(first, &[])?;
    let sizes = bases
        .iter()
        .enumerate()
        .filter_map(|(place, base)| Some((trial(first, base_tail(base))?, place)));
    let (size, base) = sizes.min()?;
    if size + without * WORTH.0 / WORTH.1 >= without {
        return None;
    }
    let came = first.len() as u64;
    let length = length.map_or(came * LIKELY_LENGTH, |length| length.bytes().max(came));
    let coded = (size as u64).saturating_mul(length) / came.max(1);
    let touched = length + base_tail(&bases[base]).len() as u64;
    let level = level(link, touched, coded);
    Some(Based {
        base,
        coder: Coder::Zstd { level },
    })
}

/// The level with which the last byte is across soonest.
fn level(link: Option<BitRate>, touched: u64, coded: u64) -> u8 {
    let rate = link.unwrap_or(USUAL_LINK).as_bps().max(1);
    let nanoseconds = |effort: &Effort| {
        let bits = u128::from(coded) * u128::from(effort.coded) * 8 / 1000;
        u128::from(touched) * u128::from(effort.time) + bits * 1_000_000_000 / u128::from(rate)
    };
    EFFORTS
        .iter()
        .min_by_key(|effort| nanoseconds(effort))
        .map_or(TRIAL, |effort| effort.level)
}

/// Where nothing is known of the link: most hops are faster, and then little is lost.
const USUAL_LINK: BitRate = BitRate::kbps(1000);

fn trial(first: &[u8], base: &[u8]) -> Option<usize> {
    let coder = Coder::Zstd { level: TRIAL };
    let length = Some(ByteCount::new(first.len() as u64));
    let mut out = Vec::new();
    let mut compressor = Compressor::new(coder, length, base).ok()?;
    compressor.code(first, After::End, &mut out).ok()?;
    Some(out.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(seed: u32, count: u32) -> Bytes {
        (0..count)
            .flat_map(|n| format!("{:x} ", (1000 * seed + n).wrapping_mul(2_654_435_761) >> 7).into_bytes())
            .collect()
    }

    #[test]
    fn the_nearest_base_is_taken_and_a_useless_one_is_not() {
        let body = [words(1, 300), words(2, 40)].concat();
        let (near, nearer, other) = (words(1, 200), words(1, 300), words(9, 300));
        let link = Some(BitRate::kbps(384));
        let chosen = choose_base(&[other.clone(), near, nearer], &body, None, link).unwrap();
        assert_eq!(chosen.base, 2);
        assert_eq!(choose_base(&[other], &body, None, link), None);
        assert_eq!(choose_base(&[], &body, None, link), None);
        assert_eq!(choose_base(&[words(1, 9)], &[], None, link), None);
    }

    #[test]
    fn effort_follows_the_link_and_the_size() {
        let (page, script) = ((1_485_000, 5_400), (10_000, 1_000));
        let at = |kbps, (touched, coded)| level(Some(BitRate::kbps(kbps)), touched, coded);
        assert_eq!(at(40, page), 9, "half a second of computing saves 0.1 s");
        assert_eq!(at(40, script), 19);
        assert_eq!(at(10_000, page), 3);
        assert_eq!(at(1_000_000, script), 3);
    }
}
