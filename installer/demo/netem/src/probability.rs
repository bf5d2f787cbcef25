//! Configured probabilities.

/// A probability: a number from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Probability(f64);

/// A number that is not a probability.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{0} is not a probability; give a number from 0 to 1")]
pub struct ProbabilityError(pub f64);

impl Probability {
    /// Probability 0.
    pub const ZERO: Self = Self(0.0);
    /// Probability 1.
    pub const ONE: Self = Self(1.0);

    /// Creates a probability.
    ///
    /// # Errors
    /// `value` is below 0, above 1 or not a number.
    pub fn new(value: f64) -> Result<Self, ProbabilityError> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(ProbabilityError(value))
        }
    }

    /// Creates a probability of `share` in a thousand; more than 1000 counts as 1000.
    pub const fn per_mille(share: u16) -> Self {
        if share >= 1000 {
            return Self::ONE;
        }
        Self(share as f64 / 1000.0)
    }

    /// The number from 0 to 1.
    pub const fn value(self) -> f64 {
        self.0
    }
}
