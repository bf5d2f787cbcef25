//! Bit histories: the bits observed in one context, in a byte.
//!
//! A history is exact up to four bits. A longer one keeps the counts of zeros and ones, within limits, and
//! the last bit. A bit against the trend reduces the count of the other bit, because old observations predict
//! less.
#![expect(
    clippy::cast_possible_truncation,
    reason = "table entries are computed in wider types and fit by construction"
)]

/// Maximum count of one bit if the other bit was observed 0, 1, 2, ... times.
const LIMITS: [u8; 8] = [44, 26, 13, 8, 6, 5, 4, 4];

/// A history, unpacked: exact histories have `length` and `bits`; others have `length` 5 and the last bit in
/// `bits`.
#[derive(Clone, Copy)]
struct History {
    zeros: u8,
    ones: u8,
    length: u8,
    bits: u8,
}

impl History {
    const EMPTY: Self = Self {
        zeros: 0,
        ones: 0,
        length: 0,
        bits: 0,
    };

    const fn equals(self, other: Self) -> bool {
        self.zeros == other.zeros
            && self.ones == other.ones
            && self.length == other.length
            && self.bits == other.bits
    }

    const fn then(self, bit: u8) -> Self {
        let (mut same, mut other) = if bit == 0 {
            (self.zeros, self.ones)
        } else {
            (self.ones, self.zeros)
        };
        same += 1;
        let exact = self.length < 4;
        if !exact {
            if other > 2 {
                other = 8 - other.leading_zeros() as u8;
            }
            if other < 8 && same > LIMITS[other as usize] {
                same = LIMITS[other as usize];
            }
            if same < 8 && other > LIMITS[same as usize] {
                other = LIMITS[same as usize];
            }
        }
        let (zeros, ones) = if bit == 0 { (same, other) } else { (other, same) };
        Self {
            zeros,
            ones,
            length: if exact { self.length + 1 } else { 5 },
            bits: if exact {
                self.bits << 1 | bit
            } else if zeros == 0 || ones == 0 {
                0
            } else {
                bit
            },
        }
    }
}

struct Tables {
    next: [[u8; 2]; 256],
    probability: [u16; 256],
    total: [u8; 256],
    count: usize,
}

/// Numbers all histories in the order in which they are first reached, shortest first, zero before one.
const fn tables() -> Tables {
    let mut found = [History::EMPTY; 256];
    let mut tables = Tables {
        next: [[0; 2]; 256],
        probability: [0; 256],
        total: [0; 256],
        count: 1,
    };
    let mut at = 0;
    while at < tables.count {
        let history = found[at];
        let mut bit = 0;
        while bit < 2 {
            let next = history.then(bit as u8);
            let mut number = 0;
            while number < tables.count && !found[number].equals(next) {
                number += 1;
            }
            if number == tables.count {
                found[number] = next;
                tables.count += 1;
            }
            tables.next[at][bit] = number as u8;
            bit += 1;
        }
        let (zeros, ones) = (history.zeros as u32, history.ones as u32);
        tables.probability[at] = ((65_536 * (5 * ones + 2)) / (5 * (zeros + ones) + 4)) as u16;
        tables.total[at] = history.zeros + history.ones;
        at += 1;
    }
    tables
}

static TABLES: Tables = tables();

/// The history after one more bit.
#[inline]
pub(super) fn next(history: u8, bit: u32) -> u8 {
    TABLES.next[history as usize][(bit & 1) as usize]
}

/// Number of bits that the history counts: the information lost by replacing it.
#[inline]
pub(super) fn total(history: u8) -> u8 {
    TABLES.total[history as usize]
}

/// Initial probability of a one, of 65,536, after this history.
pub(super) fn first_guess(history: u8) -> u16 {
    TABLES.probability[history as usize]
}
