//! Greedy selection of fragments: repeatedly the fragment that covers most, in sites and bytes, of the
//! uncovered text.
use std::{
    collections::{BinaryHeap, HashMap, HashSet},
    ops::Range,
};

use crate::{
    material::Site,
    shared::{GRAM, Longest, SiteCounts, hash_of},
};

/// Cost of a fragment in addition to its bytes: the matches that refer to it are not free.
const OVERHEAD: usize = 6;

/// Returns the selected fragments, best first, together at most `size` bytes.
pub(crate) fn choose<'a>(sites: &'a [Site], longest: &Longest, size: usize) -> Vec<&'a [u8]> {
    let grams = &longest.grams;
    let mut covered = HashSet::new();
    let mut queue: BinaryHeap<Candidate<'a>> = candidates(sites, longest)
        .into_iter()
        .filter_map(|text| Candidate::new(text, grams, &covered))
        .collect();
    let mut chosen = Vec::new();
    let mut left = size;
    while let Some(best) = queue.pop() {
        // Fragments covered in the meantime reduce the worth. Worths only fall, so the first with an
        // unchanged worth is the best.
        let Some(now) = Candidate::new(best.text, grams, &covered) else {
            continue;
        };
        if queue.peek().is_some_and(|next| next.worth > now.worth) {
            queue.push(now);
            continue;
        }
        if now.text.len() > left {
            if left < GRAM * 2 {
                break;
            }
            continue;
        }
        left -= now.text.len();
        covered.extend(now.text.windows(GRAM).map(hash_of));
        chosen.push(now.text);
    }
    chosen
}

/// A fragment that may be selected next.
struct Candidate<'a> {
    text: &'a [u8],
    /// Product of sites and covered bytes, per byte of the fragment.
    worth: u64,
}

impl<'a> Candidate<'a> {
    /// Returns the part of `text` that covers something; `None` if all of it is already covered.
    fn new(text: &'a [u8], grams: &SiteCounts, covered: &HashSet<u64>) -> Option<Self> {
        let mut bounds: Option<Range<usize>> = None;
        let mut sum = 0u64;
        for (place, gram) in text.windows(GRAM).enumerate() {
            if !covered.contains(&hash_of(gram)) {
                sum += u64::from(grams.of_gram(gram));
                let start = bounds.as_ref().map_or(place, |bounds| bounds.start);
                bounds = Some(start..place + GRAM);
            }
        }
        let text = &text[bounds?];
        let worth = sum * 1000 / u64::try_from(text.len() + OVERHEAD).unwrap_or(u64::MAX);
        Some(Self { text, worth })
    }
}

impl Ord for Candidate<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.worth
            .cmp(&other.worth)
            .then_with(|| other.text.cmp(self.text))
    }
}

impl PartialOrd for Candidate<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate<'_> {}

/// Returns the longest strings that enough sites have, each once, without those inside another.
fn candidates<'a>(sites: &'a [Site], longest: &Longest) -> Vec<&'a [u8]> {
    let mut found: HashMap<u64, &'a [u8]> = HashMap::new();
    for (site, lengths) in sites.iter().zip(&longest.lengths) {
        for (text, lengths) in site.texts.iter().zip(lengths) {
            let mut reached = 0;
            for (start, length) in lengths.iter().enumerate() {
                let end = start + usize::from(*length);
                if *length > 0 && end > reached {
                    reached = end;
                    let string = &text[start..end];
                    found.entry(hash_of(string)).or_insert(string);
                }
            }
        }
    }
    found.into_values().collect()
}
