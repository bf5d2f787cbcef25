//! Candidate copies at a position of the target: addresses with the lengths of their matches.
use super::{
    matches::{Chains, Index, MIN_MATCH, Texts, index},
    near_cache::NearCache,
};

/// Number of source positions that are compared on each side of the expected position. Positions are found by
/// a hash of their first 4, 8 or 24 bytes.
const AROUND_4: usize = 24;
const AROUND_8: usize = 32;
const AROUND_24: usize = 16;
/// Number of positions that are compared at the start of the source, where addresses take few bytes.
const FIRST: usize = 8;
/// Number of positions that are compared after each address of the near cache.
const AFTER_NEAR: usize = 16;
/// Number of earlier target positions that are compared, the latest first.
const CHAIN_4: usize = 32;
const CHAIN_8: usize = 48;
/// Number of addresses of earlier copies that are compared.
const USED: usize = 32;
/// Addresses and distances below this take at most two bytes.
const TWO_BYTES: u32 = 1 << 14;

/// Longest match that is not worth a copy.
const SHORT: usize = MIN_MATCH - 1;

/// A possible copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) address: u32,
    pub(super) size: u32,
}

/// Search for candidate copies.
pub(super) struct Candidates<'a> {
    texts: Texts<'a>,
    source_4: Index<4>,
    source_8: Index<8>,
    source_24: Index<24>,
    target_4: Chains<4>,
    target_8: Chains<8>,
    /// Addresses of earlier copies: the same cache (RFC 3284 section 5.1) may contain them, so that they take
    /// one byte.
    used: Chains<4>,
    /// Number of target positions that are in the chains, from the start.
    passed: usize,
    found: Vec<Candidate>,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(texts: Texts<'a>) -> Self {
        Self {
            texts,
            source_4: Index::new(texts.source),
            source_8: Index::new(texts.source),
            source_24: Index::new(texts.source),
            target_4: Chains::new(texts.target.len()),
            target_8: Chains::new(texts.target.len()),
            used: Chains::new(texts.target.len() / 16),
            passed: 0,
            found: Vec::new(),
        }
    }

    /// Adds the target positions before `at` to the chains.
    pub(super) fn advance(&mut self, at: usize) {
        for place in self.passed..at {
            let (bytes, address) = (&self.texts.target[place..], self.texts.here(place));
            self.target_4.insert(bytes, address);
            self.target_8.insert(bytes, address);
        }
        self.passed = self.passed.max(at);
    }

    /// Records a copy from `address` at `at`.
    pub(super) fn used(&mut self, at: usize, address: u32) {
        self.used.insert(&self.texts.target[at..], address);
    }

    /// Returns the match at an address and updates `longest`, if the match is longer than `longest`.
    fn longer(&self, address: u32, at: usize, longest: &mut usize) -> Option<Candidate> {
        let size = self.texts.common_beyond(address, at, *longest)?;
        *longest = size;
        Some(Candidate {
            address,
            size: index(size),
        })
    }

    /// Finds the copies at `at` that do not depend on the near cache. Source positions near `expected`, where
    /// the text of the last copy continues, are compared first.
    pub(super) fn find(&mut self, at: usize, expected: u32) {
        let bytes = &self.texts.target[at..];
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let mut longest = SHORT;
        let all = self.source_4.places(bytes);
        for (places, most) in [
            (self.source_24.places(bytes), AROUND_24),
            (self.source_8.places(bytes), AROUND_8),
            (all, AROUND_4),
        ] {
            let (before, after) = places.split_at(places.partition_point(|place| *place < expected));
            for place in after.iter().take(most) {
                found.extend(self.longer(*place, at, &mut longest));
            }
            for place in before.iter().rev().take(most) {
                found.extend(self.longer(*place, at, &mut longest));
            }
        }
        let mut longest = SHORT;
        for place in all.iter().take(FIRST).take_while(|place| **place < TWO_BYTES) {
            found.extend(self.longer(*place, at, &mut longest));
        }
        // The latest position first: its distance takes the fewest bytes.
        let mut longest = SHORT;
        let here = self.texts.here(at);
        let latest = self.target_4.places(bytes).take(CHAIN_4);
        for address in latest.take_while(|address| here - address < TWO_BYTES) {
            found.extend(self.longer(address, at, &mut longest));
        }
        for address in self.target_8.places(bytes).take(CHAIN_8) {
            found.extend(self.longer(address, at, &mut longest));
        }
        for address in self.used.places(bytes).take(USED) {
            found.extend(self.longer(address, at, &mut { SHORT }));
        }
        self.found = found;
    }

    pub(super) fn found(&self) -> impl Iterator<Item = Candidate> {
        self.found.iter().copied()
    }

    /// Offers the copies at `at` whose addresses are short because of the near cache.
    pub(super) fn near(&self, at: usize, near: &NearCache, offer: &mut impl FnMut(Candidate)) {
        let here = self.texts.here(at);
        let border = self.texts.border();
        let bytes = &self.texts.target[at..];
        let (long, all) = (self.source_8.places(bytes), self.source_4.places(bytes));
        for (address, place) in near.addresses.into_iter().zip(near.places) {
            let onward = address + (index(at) - place);
            let crosses = address < border && onward >= border;
            if onward < here && !crosses {
                self.longer(onward, at, &mut { SHORT })
                    .into_iter()
                    .for_each(&mut *offer);
            }
            for places in [long, all] {
                let mut longest = SHORT;
                let first = places.partition_point(|place| *place < address);
                let close = places[first..].iter().take(AFTER_NEAR);
                for place in close.take_while(|place| **place - address < TWO_BYTES) {
                    self.longer(*place, at, &mut longest)
                        .into_iter()
                        .for_each(&mut *offer);
                }
            }
        }
    }
}
