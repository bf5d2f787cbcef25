//! Adaptive probabilities.
#![expect(
    clippy::cast_possible_truncation,
    reason = "fixed-point values are kept in range by construction"
)]

const COUNT_BITS: u32 = 10;
const COUNT_MASK: u32 = (1 << COUNT_BITS) - 1;

const fn reciprocals() -> [u32; 1024] {
    let mut table = [0; 1024];
    let mut n = 0;
    while n < 1024 {
        table[n] = (65_536 * 2 / (2 * n + 3)) as u32;
        n += 1;
    }
    table
}

/// `65536 / (n + 1.5)`: weight of the n-th observation.
static RECIPROCALS: [u32; 1024] = reciprocals();

/// A probability of 22 bits and the number of its observations, up to a limit; early observations weigh more.
#[derive(Clone, Copy)]
pub(super) struct Counter(u32);

impl Counter {
    /// A probability, of 65,536, as if observed `count` times.
    pub(super) const fn new(probability: u16, count: u32) -> Self {
        Self((probability as u32) << 16 | count)
    }

    /// Probability of a one, 12 bits.
    #[inline]
    pub(super) const fn p12(self) -> u32 {
        self.0 >> 20
    }

    /// Moves the probability towards the coded bit.
    #[inline]
    pub(super) fn update(&mut self, bit: u32, limit: u32) {
        let count = self.0 & COUNT_MASK;
        let p = i64::from(self.0 >> COUNT_BITS);
        let target = i64::from(bit * ((1 << 22) - 1));
        let moved = p + (((target - p) * i64::from(RECIPROCALS[count as usize])) >> 16);
        let count = count + u32::from(count < limit);
        self.0 = (moved as u32) << COUNT_BITS | count;
    }
}
