//! Repeatable random numbers (SplitMix64), and bodies made of them.

#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `least` to `most`, both inclusive.
    pub(crate) const fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// Returns true with a probability of `share` in a thousand.
    pub(crate) const fn happens(&mut self, share: u64) -> bool {
        self.next() % 1000 < share
    }

    /// A number from `least` up, with equal probability for each power of two.
    pub(crate) const fn scaled(&mut self, least: u64, doublings: u64) -> u64 {
        let scale = least << self.between(0, doublings - 1);
        scale + self.next() % scale
    }
}

/// `len` bytes that are unique to `key`.
pub(crate) fn body(key: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(key);
    let mut bytes: Vec<u8> = (0..len.div_ceil(8))
        .flat_map(|_| random.next().to_le_bytes())
        .collect();
    bytes.truncate(len);
    bytes
}
