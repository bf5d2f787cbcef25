//! Probabilities as configured.

/// A probability: a number from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Probability(f64);

/// A number that is no probability.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{0} is not a probability; give a number from 0 to 1")]
pub struct ProbabilityError(pub f64);

impl Probability {
    /// Never.
    pub const ZERO: Self = Self(0.0);
    /// Always.
    pub const ONE: Self = Self(1.0);

    /// The probability `value`.
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

    /// `share` in a thousand; more than 1000 is always.
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
