//! Mixing of predictions with adaptive weights.
#![expect(
    clippy::cast_possible_truncation,
    reason = "fixed-point values are kept in range by construction"
)]

use super::logistic::STRETCH_MAX;

/// Sets of weights for `N` inputs; a context selects one set per bit. A weight of 1 is 2^14.
pub(super) struct Mixer<const N: usize> {
    sets: Vec<[i16; N]>,
    chosen: usize,
}

impl<const N: usize> Mixer<N> {
    pub(super) fn new(contexts: usize, weight: i16) -> Self {
        Self {
            sets: vec![[weight; N]; contexts],
            chosen: 0,
        }
    }

    /// Weighted sum in the stretched domain.
    // Not inlined: the separate function is vectorised, the inlined loop is not.
    #[inline(never)]
    pub(super) fn mix(&mut self, inputs: &[i16; N], context: usize) -> i32 {
        self.chosen = context;
        let weights = &self.sets[context];
        // At most 32 products fit into one sum of 32 bits.
        let half = if N > 32 { 32 } else { N };
        let (first, rest) = inputs.split_at(half);
        let (first_weights, rest_weights) = weights.split_at(half);
        let sum = i64::from(dot(first, first_weights)) + i64::from(dot(rest, rest_weights));
        ((sum >> 14) as i32).clamp(-STRETCH_MAX, STRETCH_MAX)
    }

    /// Moves the selected weights against the error, which is scaled by the learning rate.
    #[inline(never)]
    pub(super) fn update(&mut self, inputs: &[i16; N], error: i16) {
        let weights = &mut self.sets[self.chosen];
        for (weight, &input) in weights.iter_mut().zip(inputs) {
            let step = ((i32::from(input << 1) * i32::from(error)) >> 16) as i16;
            *weight = weight.saturating_add((step + 1) >> 1);
        }
    }
}

#[inline]
fn dot(inputs: &[i16], weights: &[i16]) -> i32 {
    inputs
        .iter()
        .zip(weights)
        .map(|(&input, &weight)| i32::from(input) * i32::from(weight))
        .sum()
}
