//! Adaptive probability maps (secondary symbol estimation).
use super::logistic::{STRETCH_MAX, squash};

/// Half the number of cells of a context. Cells are 256 apart and span the stretched domain.
const HALF: i32 = 12;
const STEPS: usize = 2 * HALF as usize + 1;
const _: () = assert!(STRETCH_MAX < HALF * 256);

/// Binary logarithm of the divisor of the error by which a cell moves.
const RATE: u32 = 6;

/// Corrects a probability by the bits observed before in the same context.
pub(super) struct Apm {
    cells: Vec<[u16; STEPS]>,
    shift: u32,
    at: (usize, usize),
}

impl Apm {
    /// Returns a map of `2^bits` contexts.
    pub(super) fn new(bits: u32) -> Self {
        let mut row = [0; STEPS];
        for (step, cell) in (-HALF..).zip(&mut row) {
            *cell = squash(step * 256);
        }
        Self {
            cells: vec![row; 1 << bits],
            shift: 32 - bits,
            at: (0, 0),
        }
    }

    /// Returns the corrected probability, of 65,536, for a stretched one; `context` is any number that
    /// identifies the context.
    #[inline]
    pub(super) fn refine(&mut self, stretched: i32, context: u32) -> u32 {
        let row = (context.wrapping_mul(0x9e37_79b1) >> self.shift) as usize;
        let position = (stretched + HALF * 256) as u32;
        let (low, weight) = ((position >> 8) as usize, position & 255);
        self.at = (row, low + usize::from(weight >= 128));
        let row = &self.cells[row];
        (u32::from(row[low]) * (256 - weight) + u32::from(row[low + 1]) * weight) >> 8
    }

    /// Learns the coded bit.
    #[inline]
    pub(super) fn update(&mut self, bit: u32) {
        let cell = &mut self.cells[self.at.0][self.at.1];
        if bit != 0 {
            *cell += (u16::MAX - *cell) >> RATE;
        } else {
            *cell -= *cell >> RATE;
        }
    }
}
