//! Number of sites that have a string: estimated for every place of every text, exact for selected strings.
use std::collections::HashMap;

use crate::{material::Site, privacy::MASK};

/// Length of the shortest strings that are considered; the unit of coverage.
pub(crate) const GRAM: usize = 8;
/// The lengths that are tried, each only where the previous length is shared.
const LENGTHS: [usize; 27] = [
    GRAM, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384,
    448, 512, 640,
];

/// Counts of sites per string. Two strings may share a slot, so counts are estimates.
pub(crate) struct SiteCounts {
    /// The last site (upper half) and the number of sites so far.
    slots: Vec<u32>,
}

impl SiteCounts {
    fn new(log: u32) -> Self {
        Self {
            slots: vec![0; 1 << log],
        }
    }

    fn slot(&self, hash: u64) -> usize {
        usize::try_from(hash >> 20).unwrap_or(0) & (self.slots.len() - 1)
    }

    fn note(&mut self, hash: u64, site: usize) {
        let tag = u32::try_from(site + 1).unwrap_or(0) << 16;
        let slot = self.slot(hash);
        let held = self.slots[slot];
        if held & 0xffff_0000 != tag {
            self.slots[slot] = tag | (held & 0xffff).saturating_add(1).min(0xffff);
        }
    }

    fn count(&self, hash: u64) -> u32 {
        self.slots[self.slot(hash)] & 0xffff
    }

    /// Returns the estimated number of sites that have this string of [`GRAM`] bytes.
    pub(crate) fn of_gram(&self, gram: &[u8]) -> u32 {
        self.count(hash_of(gram))
    }
}

/// The length in bytes of the longest string at each place that enough sites have.
pub(crate) struct Longest {
    /// By site, text and place; 0 for none.
    pub(crate) lengths: Vec<Vec<Vec<u16>>>,
    pub(crate) grams: SiteCounts,
}

/// Finds the strings that at least `floor` sites have.
pub(crate) fn longest(sites: &[Site], floor: u32) -> Longest {
    let total: usize = sites.iter().flat_map(|site| &site.texts).map(Vec::len).sum();
    let log = (total.max(1 << 16) * 4).ilog2();
    let mut lengths: Vec<Vec<Vec<u16>>> = sites
        .iter()
        .map(|site| site.texts.iter().map(|text| vec![0; text.len()]).collect())
        .collect();
    let mut grams = None;
    let mut before = 0;
    for length in LENGTHS {
        let mut counts = SiteCounts::new(log);
        visit(sites, &lengths, before, length, |site, _, _, hash| {
            counts.note(hash, site)
        });
        let mut shared = Vec::new();
        visit(sites, &lengths, before, length, |site, text, place, hash| {
            if counts.count(hash) >= floor {
                shared.push((site, text, place));
            }
        });
        let level = u16::try_from(length).unwrap_or(u16::MAX);
        for (site, text, place) in &shared {
            lengths[*site][*text][*place] = level;
        }
        grams.get_or_insert(counts);
        before = level;
        if shared.is_empty() {
            break;
        }
    }
    Longest {
        lengths,
        grams: grams.unwrap_or_else(|| SiteCounts::new(1)),
    }
}

/// Visits all strings of `length` bytes whose place reached the length `before`.
fn visit(
    sites: &[Site],
    lengths: &[Vec<Vec<u16>>],
    before: u16,
    length: usize,
    mut each: impl FnMut(usize, usize, usize, u64),
) {
    for (site_at, site) in sites.iter().enumerate() {
        for (text_at, text) in site.texts.iter().enumerate() {
            let known = &lengths[site_at][text_at];
            let mut clean = 0;
            let mut rolling = Rolling::new(length);
            for (end, byte) in text.iter().enumerate() {
                clean = if *byte == MASK { 0 } else { clean + 1 };
                rolling.push(*byte, end.checked_sub(length).map(|old| text[old]));
                if clean >= length && known[end + 1 - length] == before {
                    each(site_at, text_at, end + 1 - length, rolling.hash());
                }
            }
        }
    }
}

/// Polynomial hash of the last bytes.
struct Rolling {
    value: u64,
    leaving: u64,
}

const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rolling {
    fn new(length: usize) -> Self {
        let leaving = (0..length).fold(1u64, |power, _| power.wrapping_mul(BASE));
        Self { value: 0, leaving }
    }

    fn push(&mut self, byte: u8, old: Option<u8>) {
        self.value = self.value.wrapping_mul(BASE).wrapping_add(u64::from(byte) + 1);
        if let Some(old) = old {
            self.value = self
                .value
                .wrapping_sub(self.leaving.wrapping_mul(u64::from(old) + 1));
        }
    }

    fn hash(&self) -> u64 {
        let mixed = (self.value ^ self.value >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 29).wrapping_mul(0x94d0_49bb_1331_11eb)
    }
}

/// The hash that [`visit`] computes for a string.
pub(crate) fn hash_of(string: &[u8]) -> u64 {
    let mut rolling = Rolling::new(string.len());
    for byte in string {
        rolling.push(*byte, None);
    }
    rolling.hash()
}

/// For each place of `text`: the length of a string from there that at least three sites have. It is the
/// longest one, except where a string begins with a gram of too many places. Strings shorter than [`GRAM`]
/// count as none.
pub(crate) fn on_three_sites(text: &[u8], sites: &[Site]) -> Vec<usize> {
    let mut places: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (place, gram) in text.windows(GRAM).enumerate() {
        let places = places.entry(gram).or_default();
        if places.len() < MAX_PLACES {
            places.push(place);
        }
    }
    let mut best = vec![[0usize; 3]; text.len()];
    let mut own = vec![0usize; text.len()];
    for site in sites {
        own.fill(0);
        for page in &site.texts {
            for (at, gram) in page.windows(GRAM).enumerate() {
                for place in places.get(gram).into_iter().flatten() {
                    // A match can be longer only if the byte after the longest match so far is equal, too.
                    let reach = own[*place];
                    if reach > 0 && page.get(at + reach) != text.get(place + reach) {
                        continue;
                    }
                    let same = text[*place..]
                        .iter()
                        .zip(&page[at..])
                        .take_while(|(a, b)| a == b)
                        .count();
                    own[*place] = reach.max(same);
                }
            }
        }
        for (kept, length) in best.iter_mut().zip(&own) {
            if *length > kept[0] {
                kept[0] = *length;
                kept.sort_unstable();
            }
        }
    }
    best.into_iter().map(|kept| kept[0]).collect()
}

/// Maximum number of places of a text per gram: runs of blanks begin at too many.
const MAX_PLACES: usize = 4;

/// For each fragment, true if at least three sites have it, exactly.
pub(crate) fn are_on_three_sites(fragments: &[Vec<u8>], sites: &[Site]) -> Vec<bool> {
    let mut open: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (index, fragment) in fragments.iter().enumerate() {
        if let Some(gram) = fragment.get(..GRAM) {
            open.entry(gram).or_default().push(index);
        }
    }
    let mut counts = vec![0u32; fragments.len()];
    let mut last = vec![usize::MAX; fragments.len()];
    for (site_at, site) in sites.iter().enumerate() {
        for page in &site.texts {
            for (at, gram) in page.windows(GRAM).enumerate() {
                for index in open.get(gram).into_iter().flatten() {
                    if last[*index] != site_at && page[at..].starts_with(&fragments[*index]) {
                        last[*index] = site_at;
                        counts[*index] += 1;
                    }
                }
            }
        }
        open.retain(|_, indices| {
            indices.retain(|index| counts[*index] < 3);
            !indices.is_empty()
        });
    }
    counts.into_iter().map(|count| count >= 3).collect()
}
