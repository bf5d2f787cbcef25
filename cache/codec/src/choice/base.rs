//! Decides whether a body is coded with a base, with which base, and with which effort.
use bytes::Bytes;
use longhaul_types::{BitRate, ByteCount, ContentHash};

use crate::{
    coding::{After, Coder},
    compress::Compressor,
    dictionary::{self, Fit, Media},
    window::base_tail,
};

/// The base of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// An offered body, by its index.
    Offered(usize),
    /// A dictionary, by its content hash.
    BuiltInDictionary(ContentHash),
}

/// A possible base.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) base: Base,
    pub(super) bytes: Bytes,
    pub(super) likeness: Likeness,
}

/// The part of a long body that a base resembles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Likeness {
    /// The whole body.
    Whole,
    /// The beginning of the body; later windows find the same text in the windows before them.
    Beginning,
}

/// The base with the smallest trial result, and the best coder for it.
#[derive(Clone, Debug)]
pub(super) struct Based {
    pub(super) base: Base,
    pub(super) bytes: Bytes,
    pub(super) coder: Coder,
    pub(super) decision: BaseDecision,
    likeness: Likeness,
}

/// Result of the comparison of a base with no base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BaseDecision {
    /// The base is better with any coder.
    Better,
    /// The first window, coded with the link's coder without base, decides.
    Undecided,
}

/// Returns the dictionaries of a set that may serve for a text of this type that begins with `first`.
pub(super) fn built_in_candidates(
    set: u32,
    content_type: Option<&str>,
    first: &[u8],
    link: Option<BitRate>,
) -> Vec<Candidate> {
    let Some(media) = content_type
        .and_then(Media::of)
        .filter(|_| first.len() >= SMALLEST)
    else {
        return Vec::new();
    };
    dictionary::fitting(set, media, first)
        .filter_map(|dictionary| {
            let (below, likeness) = match dictionary.fit {
                Fit::Any => (FRAGMENTS_BELOW, Likeness::Beginning),
                Fit::Naming(_) => (LIBRARIES_BELOW, Likeness::Whole),
            };
            if link.is_some_and(|link| link >= below) {
                return None;
            }
            Some(Candidate {
                base: Base::BuiltInDictionary(dictionary.hash),
                bytes: dictionary.contents()?,
                likeness,
            })
        })
        .collect()
}

/// Dictionaries save nothing for shorter texts.
const SMALLEST: usize = 256;
/// From this rate on, transferring the kilobyte that fragments save takes less time than the trial.
const FRAGMENTS_BELOW: BitRate = BitRate::kbps(4_000);
/// As `FRAGMENTS_BELOW`, for libraries, which save ten times as much.
const LIBRARIES_BELOW: BitRate = BitRate::kbps(40_000);

/// A coder with a base: its output for a body that Zstandard 3 codes to 1,000 bytes, and nanoseconds per byte
/// of the body (decision 15). The values lie between the medians over editions and over sister pages of five
/// sites.
struct EffortPolicy {
    coder: Coder,
    coded: u64,
    time: u64,
}

const EFFORTS: [EffortPolicy; 6] = [
    effort(Coder::Zstd { level: 3 }, 1000, 3),
    effort(Coder::Zstd { level: 9 }, 860, 6),
    effort(Coder::Brotli { quality: 5 }, 825, 13),
    effort(Coder::Brotli { quality: 9 }, 810, 29),
    effort(Coder::Brotli { quality: 10 }, 760, 158),
    effort(Coder::Brotli { quality: 11 }, 735, 400),
];
/// Nanoseconds per byte of the base, which every coder only reads.
const BASE_TIME: u64 = 3;

/// Zstandard level of the trials: a millisecond for the largest base.
const TRIAL: u8 = 3;
/// Minimum saving of a base, as a fraction of the size without base: naming and reading a base has a cost.
const WORTH: (usize, usize) = (1, 16);
/// Assumed ratio of a body's unknown length to the bytes that have arrived.
const LIKELY_LENGTH: u64 = 4;

const fn effort(coder: Coder, coded: u64, time: u64) -> EffortPolicy {
    EffortPolicy { coder, coded, time }
}

/// Returns the base among `candidates` with which `first`, the start of the body, becomes smallest, if it may
/// pay.
pub(super) fn choose_base(
    candidates: &[Candidate],
    first: &[u8],
    length: Option<ByteCount>,
    link: Option<BitRate>,
) -> Option<Based> {
    let without = trial(first, &[])?;
    let sizes = candidates
        .iter()
        .filter_map(|candidate| Some((trial(first, base_tail(&candidate.bytes))?, candidate)));
    let (size, chosen) = sizes.min_by_key(|(size, _)| *size)?;
    if size + without * WORTH.0 / WORTH.1 >= without {
        return None;
    }
    let came = first.len() as u64;
    let length = likely_length(first.len(), length);
    let coded = (size as u64).saturating_mul(length) / came.max(1);
    let base = base_tail(&chosen.bytes).len() as u64;
    Some(Based {
        base: chosen.base,
        bytes: chosen.bytes.clone(),
        coder: soonest(link, base, length, coded),
        decision: if size <= without / CLEAR_SIZE_DIVISOR {
            BaseDecision::Better
        } else {
            BaseDecision::Undecided
        },
        likeness: chosen.likeness,
    })
}

/// True if the base is better than none: the first `came` bytes became `with` and `without` bytes.
pub(super) fn pays(
    based: &Based,
    with: usize,
    without: usize,
    came: usize,
    length: Option<ByteCount>,
) -> bool {
    let later = likely_length(came, length) - came as u64;
    let lost = match (based.likeness, based.coder) {
        (Likeness::Whole, _) | (Likeness::Beginning, Coder::Brotli { .. }) => 0,
        (Likeness::Beginning, Coder::Identity | Coder::Zstd { .. }) => {
            without as u64 * later / (came.max(1) as u64 * LATER_LOSS)
        }
    };
    (with + NAMING) as u64 + lost < without as u64
}

fn likely_length(came: usize, length: Option<ByteCount>) -> u64 {
    let came = came as u64;
    length.map_or(came * LIKELY_LENGTH, |length| length.bytes().max(came))
}

/// A base is used without a further trial if Zstandard 3 codes to at most this part of the size without it;
/// Brotli's best is two thirds.
const CLEAR_SIZE_DIVISOR: usize = 2;
/// Divisor: after the part that fragments help with, Zstandard needs this share more than Brotli: 2 to 7 % at
/// their best.
const LATER_LOSS: u64 = 25;
/// Bytes that name a base.
const NAMING: usize = 8;

/// Returns the coder with which the last byte arrives soonest.
fn soonest(link: Option<BitRate>, base: u64, body: u64, coded: u64) -> Coder {
    let rate = link.unwrap_or(USUAL_LINK).as_bps().max(1);
    let nanoseconds = |effort: &EffortPolicy| {
        let bits = u128::from(coded) * u128::from(effort.coded) * 8 / 1000;
        let time = u128::from(base) * u128::from(BASE_TIME) + u128::from(body) * u128::from(effort.time);
        time + bits * 1_000_000_000 / u128::from(rate)
    };
    EFFORTS
        .iter()
        .min_by_key(|effort| nanoseconds(effort))
        .map_or(Coder::Zstd { level: TRIAL }, |effort| effort.coder)
}

/// Rate of an unknown link: most hops are faster, and then little is lost.
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
    fn the_most_similar_base_is_chosen_and_a_useless_base_is_rejected() {
        let body = [words(1, 300), words(2, 40)].concat();
        let (near, nearer, other) = (words(1, 200), words(1, 300), words(9, 300));
        let link = Some(BitRate::kbps(384));
        let chosen = |bases: &[&Bytes], body: &[u8]| {
            let candidates: Vec<_> = bases.iter().enumerate().map(offered).collect();
            choose_base(&candidates, body, None, link).map(|based| based.base)
        };
        assert_eq!(chosen(&[&other, &near, &nearer], &body), Some(Base::Offered(2)));
        assert_eq!(chosen(&[&other], &body), None);
        assert_eq!(chosen(&[], &body), None);
        assert_eq!(chosen(&[&words(1, 9)], &[]), None);
    }

    fn offered((place, bytes): (usize, &&Bytes)) -> Candidate {
        Candidate {
            base: Base::Offered(place),
            bytes: Bytes::clone(bytes),
            likeness: Likeness::Whole,
        }
    }

    #[test]
    fn a_base_of_the_beginning_must_save_more_for_a_longer_body() {
        let mut based = choose_base(&[offered((0, &&words(1, 300)))], &words(1, 300), None, None).unwrap();
        assert_eq!(based.decision, BaseDecision::Better);
        let pays =
            |based: &Based, length: u64| pays(based, 9_500, 10_000, 32_768, Some(ByteCount::new(length)));
        assert!(pays(&based, 1_000_000));
        based.likeness = Likeness::Beginning;
        assert!(pays(&based, 40_000));
        assert!(!pays(&based, 100_000));
    }

    #[test]
    fn dictionaries_are_offered_only_on_slow_links_and_for_known_types() {
        let first = [b"/*! jQuery v3.5.1 */".as_slice(), &[b' '; 300]].concat();
        let count = |set, content_type, kbps| {
            built_in_candidates(set, Some(content_type), &first, Some(BitRate::kbps(kbps))).len()
        };
        assert_eq!(count(1, "text/javascript", 40), 1);
        assert_eq!(count(1, "text/css; charset=utf-8", 40), 1);
        assert_eq!(count(1, "text/html", 40), 0);
        assert_eq!(count(1, "text/javascript", 10_000), 1);
        assert_eq!(count(1, "text/css", 10_000), 0);
        assert_eq!(count(1, "text/javascript", 100_000), 0);
        assert_eq!(count(0, "text/javascript", 40), 0, "the peer has none");
    }

    #[test]
    fn effort_follows_the_link_and_the_size() {
        let (page, script) = ((742_000, 5_400), (5_000, 1_000));
        let at = |kbps, (body, coded)| soonest(Some(BitRate::kbps(kbps)), body, body, coded);
        let (zstd, brotli) = (|level| Coder::Zstd { level }, |quality| Coder::Brotli { quality });
        assert_eq!(at(40, page), brotli(9), "0.1 s of computing would save 0.05 s");
        assert_eq!(at(40, script), brotli(11));
        assert_eq!(at(384, script), brotli(10));
        assert_eq!(at(10_000, page), zstd(3));
        assert_eq!(at(1_000_000, script), zstd(3));
    }
}
