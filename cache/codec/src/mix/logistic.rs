//! The logistic domain: `stretch(p) = ln(p / (1 - p))` and its inverse `squash`, in fixed point.
//!
//! Probabilities have 16 bits; stretched values have a unit of 1/256 of the natural logarithm. Integer
//! arithmetic at compile time computes both tables, so they are equal in every build.
#![expect(
    clippy::cast_possible_truncation,
    reason = "table entries are computed in wider types and fit by construction"
)]

/// Largest magnitude of a stretched probability in the coder: `ln(65535) * 256`, truncated.
pub(super) const STRETCH_MAX: i32 = 2839;

/// Largest magnitude of a mixer input: the sum of 32 products with 16-bit weights fits into 32 bits.
pub(super) const INPUT_MAX: i32 = 2047;

const SQUASH_LEN: usize = 2 * STRETCH_MAX as usize + 1;

/// `e^(-1/256)` with 62 fraction bits, from its power series.
const fn decay() -> u64 {
    let mut sum: i128 = 0;
    let mut term: i128 = 1 << 62;
    let mut k: i128 = 1;
    while term != 0 {
        sum += term;
        term = -term / (256 * k);
        k += 1;
    }
    sum as u64
}

const fn squash_table() -> [u16; SQUASH_LEN] {
    let mut table = [0; SQUASH_LEN];
    let ratio = decay() as u128;
    // e^(-x/256), 62 fraction bits, from x = 0 upward.
    let mut power: u128 = 1 << 62;
    let mut x = 0;
    while x <= STRETCH_MAX as usize {
        let one: u128 = 1 << 62;
        let p = (one << 16) / (one + power);
        let p = if p > 65_535 { 65_535 } else { p };
        table[STRETCH_MAX as usize + x] = p as u16;
        table[STRETCH_MAX as usize - x] = (65_536 - p) as u16;
        power = (power * ratio) >> 62;
        x += 1;
    }
    table
}

const fn stretch_table() -> [i16; 4096] {
    let mut table = [0; 4096];
    let mut x = -INPUT_MAX;
    let mut p = 0;
    while p < 4096 {
        // The middle of the 16 probabilities that share this entry.
        while x < INPUT_MAX && (SQUASH[(x + STRETCH_MAX) as usize] as usize) < 16 * p + 8 {
            x += 1;
        }
        table[p] = x as i16;
        p += 1;
    }
    table
}

static SQUASH: [u16; SQUASH_LEN] = squash_table();
static STRETCH: [i16; 4096] = stretch_table();

/// Probability, 1 to 65,535 of 65,536, of a stretched value; values outside the domain are clamped.
#[inline]
pub(super) fn squash(x: i32) -> u16 {
    SQUASH[(x.clamp(-STRETCH_MAX, STRETCH_MAX) + STRETCH_MAX) as usize]
}

/// Stretched value, within [`INPUT_MAX`], of a probability of 12 bits; upper bits are ignored.
#[inline]
pub(super) fn stretch(p: u32) -> i16 {
    STRETCH[(p & 4095) as usize]
}
