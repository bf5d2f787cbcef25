//! The seeded random streams of a link.
use std::time::Duration;

use longhaul_types::Timestamp;
use rand_chacha::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};

use crate::Probability;

/// One stream of random numbers.
pub(crate) struct Stream(ChaCha12Rng);

impl Stream {
    /// Returns true with this probability. A probability of zero draws nothing.
    pub(crate) fn happens(&mut self, probability: Probability) -> bool {
        if probability == Probability::ZERO {
            return false;
        }
        // 53 bits represent all evenly spaced values of an f64 in [0, 1).
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64 exactly")]
        let draw = (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        draw < probability.value()
    }

    /// Returns a number from 0 to `bound - 1`, 0 if `bound` is 0 (Lemire's multiply-shift; its bias is below
    /// 2^-32 here).
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.0.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(u64::MAX)
    }

    /// Returns a uniform time from 0 to `max`. A `max` of zero draws nothing.
    pub(crate) fn up_to(&mut self, max: Duration) -> Duration {
        if max.is_zero() {
            return Duration::ZERO;
        }
        let nanos = (Timestamp::ZERO + max).as_nanos();
        Duration::from_nanos(self.below(nanos.saturating_add(1)))
    }
}

/// One stream for each impairment, so that enabling one does not shift the draws of the others.
pub(crate) struct Streams {
    pub(crate) loss: Stream,
    pub(crate) jitter: Stream,
    pub(crate) reordering: Stream,
    pub(crate) duplication: Stream,
    pub(crate) corruption: Stream,
    pub(crate) arq: Stream,
}

impl Streams {
    /// Creates the streams of link number `link` with this seed.
    pub(crate) fn new(seed: u64, link: u64) -> Self {
        const PER_LINK: u64 = 16;
        let stream = |number: u64| {
            let mut rng = ChaCha12Rng::seed_from_u64(seed);
            rng.set_stream(link * PER_LINK + number);
            Stream(rng)
        };
        Self {
            loss: stream(0),
            jitter: stream(1),
            reordering: stream(2),
            duplication: stream(3),
            corruption: stream(4),
            arq: stream(5),
        }
    }
}
