//! Random numbers of the tests, independent of those of the link and of the endpoints.
use std::time::Duration;

use rand_chacha::ChaCha12Rng;
use rand_core::{Rng as _, SeedableRng as _};

/// A random number generator with a seed.
pub(crate) struct Random(ChaCha12Rng);

impl Random {
    /// Equal seeds give equal numbers; `purpose` separates the generators of one seed.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        rng.set_stream(0x5349_4d00 + purpose);
        Self(rng)
    }

    /// A number from 0 to `bound - 1`, or 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.0.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// A time below `bound`.
    pub(crate) fn time(&mut self, bound: Duration) -> Duration {
        let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.below(nanos))
    }

    /// A priority class.
    pub(crate) fn class(&mut self) -> u8 {
        u8::try_from(self.below(8)).unwrap_or(0)
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// 32 bytes, for a key or the seed of an endpoint.
    pub(crate) fn key(&mut self) -> [u8; 32] {
        let mut key = [0; 32];
        self.fill(&mut key);
        key
    }
}
