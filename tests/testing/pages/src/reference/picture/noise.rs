//! Fractal noise: the texture of clouds, rock, water and skin.
use std::sync::LazyLock;

use crate::reference::{
    numbers::{float, floor},
    random::Random,
};

/// Points of the table in each direction; a power of two, so that indices wrap.
const SIZE: usize = 256;
/// Number of summed octaves.
const OCTAVES: usize = 6;
/// Ratio of an octave's amplitude to the previous one: about the decrease in the spectra of photographs.
const ROUGHNESS: f32 = 0.55;

/// One period of the noise. Computed once: photographs have millions of pixels with several samples each.
static TABLE: LazyLock<Vec<f32>> = LazyLock::new(|| {
    let mut table = vec![0.0; SIZE * SIZE];
    let mut random = Random::new(0x006e_6f69_7365);
    let mut amplitude = 0.45;
    for octave in 0..OCTAVES {
        // The coarsest octave has four cells per period.
        let cells = 4 << octave;
        let lattice: Vec<f32> = (0..cells * cells).map(|_| random.unit()).collect();
        for (at, value) in table.iter_mut().enumerate() {
            let place = |index: usize| float(index * cells) / float(SIZE);
            *value += amplitude * smooth(&lattice, cells, place(at % SIZE), place(at / SIZE));
        }
        amplitude *= ROUGHNESS;
    }
    table
});

/// Returns a value from 0 to 1 (mostly 0.3 to 0.7) at a position; the noise repeats with every integer.
pub(super) fn sample(x: f32, y: f32) -> f32 {
    let (x, y) = ((x - x.floor()) * float(SIZE), (y - y.floor()) * float(SIZE));
    linear(&TABLE, SIZE, x, y)
}

fn smooth(lattice: &[f32], cells: usize, x: f32, y: f32) -> f32 {
    let ease = |t: f32| t * t * (3.0 - 2.0 * t);
    let (left, top) = (x.floor(), y.floor());
    linear(lattice, cells, left + ease(x - left), top + ease(y - top))
}

/// Linear interpolation in a square table that repeats.
fn linear(table: &[f32], size: usize, x: f32, y: f32) -> f32 {
    let (left, top) = (floor(x), floor(y));
    let (u, v) = (x - float(left), y - float(top));
    let at = |column: usize, row: usize| {
        let index = (row & (size - 1)) * size + (column & (size - 1));
        table.get(index).copied().unwrap_or_default()
    };
    let upper = at(left, top) * (1.0 - u) + at(left + 1, top) * u;
    let lower = at(left, top + 1) * (1.0 - u) + at(left + 1, top + 1) * u;
    upper * (1.0 - v) + lower * v
}
