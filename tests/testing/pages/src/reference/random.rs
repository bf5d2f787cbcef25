//! Seeded pseudo-random numbers: the same seed always gives the same page.

use super::numbers::{float, floor};

/// SplitMix generator of Steele, Lea and Flood (OOPSLA 2014). Implemented here so that it does not depend on
/// a crate's version.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
    evenness: f32,
}

/// Derives a seed from a seed and a label, so that every part of a page has its own sequence.
pub(crate) fn derive(seed: u64, label: &str, number: usize) -> u64 {
    let mut random = Random::new(seed ^ u64::try_from(number).unwrap_or(u64::MAX).rotate_left(32));
    for byte in label.bytes() {
        random.state ^= u64::from(byte);
        random.state = random.next();
    }
    random.next()
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            state: seed,
            evenness: 0.0,
        }
    }

    /// Weakens the preference of [`Random::pick_early`] for early items: no preference if `evenness` is 1.
    pub(crate) fn with_evenness(self, evenness: f32) -> Self {
        Self { evenness, ..self }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a number from 0 to `bound - 1`; 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % bound).unwrap_or_default()
    }

    /// Returns a number from `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Returns a number from 0 up to, but not including 1.
    pub(crate) fn unit(&mut self) -> f32 {
        let top = u16::try_from(self.next() >> 48).unwrap_or_default();
        f32::from(top) / 65_536.0
    }

    /// Returns a number from `low` to `high`.
    pub(crate) fn between(&mut self, low: f32, high: f32) -> f32 {
        low + self.unit() * (high - low)
    }

    pub(crate) fn chance(&mut self, probability: f32) -> bool {
        self.unit() < probability
    }

    /// Returns one of `items` with equal probability; the default value if the list is empty.
    pub(crate) fn pick<T: Copy + Default>(&mut self, items: &[T]) -> T {
        let at = self.below(items.len());
        items.get(at).copied().unwrap_or_default()
    }

    /// Returns one of `items`; earlier ones have a higher probability (about as words by Zipf's law).
    pub(crate) fn pick_early<T: Copy + Default>(&mut self, items: &[T]) -> T {
        if self.evenness > 0.0 && self.chance(self.evenness) {
            return self.pick(items);
        }
        let share = self.unit() * self.unit();
        items
            .get(floor(share * float(items.len())))
            .copied()
            .unwrap_or_default()
    }

    /// Shuffles `items`.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_matches_the_published_values() {
        // Known first outputs of SplitMix64 with seed 0.
        let mut random = Random::new(0);
        assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next(), 0x6e78_9e6a_a1b9_65f4);
        assert_ne!(derive(1, "a", 0), derive(1, "b", 0));
        assert_ne!(derive(1, "a", 0), derive(1, "a", 1));
    }
}
