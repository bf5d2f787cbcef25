//! The match model: predicts the byte that followed an earlier occurrence of the last bytes.
#![expect(
    clippy::cast_possible_truncation,
    reason = "fixed-point values are kept in range by construction"
)]

use super::counter::Counter;
use super::logistic::stretch;

/// Ring buffer of the previous bytes.
pub(super) struct Past {
    ring: Vec<u8>,
    mask: u32,
    length: u32,
}

impl Past {
    /// Returns a ring of `2^bits` bytes.
    pub(super) fn new(bits: u32) -> Self {
        Self {
            ring: vec![0; 1 << bits],
            mask: (1 << bits) - 1,
            length: 0,
        }
    }

    /// The byte at a position, modulo 2^32.
    #[inline]
    pub(super) fn at(&self, position: u32) -> u8 {
        self.ring[(position & self.mask) as usize]
    }

    /// Position of the next byte.
    #[inline]
    pub(super) fn end(&self) -> u32 {
        self.length
    }

    #[inline]
    pub(super) fn push(&mut self, byte: u8) {
        let at = self.length & self.mask;
        self.ring[at as usize] = byte;
        self.length = self.length.wrapping_add(1);
    }
}

/// Longest verified match.
const MAX_LENGTH: u32 = 400;

/// A match is abandoned if more than this many of its last eight predictions were wrong.
const MAX_MISSES: u32 = 4;

const LENGTHS: usize = 24;

/// Follows one earlier occurrence.
pub(super) struct Matcher {
    heads: Vec<u32>,
    shift: u32,
    /// Minimum match length.
    least: u32,
    pointer: u32,
    length: u32,
    /// Bit mask of the wrong predictions among the last eight bytes.
    misses: u32,
    expected: u32,
    /// True if the expected byte agrees with the bits so far.
    live: bool,
    counters: Vec<Counter>,
    at: usize,
}

fn bucket(length: u32) -> u32 {
    match length {
        0..=15 => length,
        16..=23 => 16,
        24..=31 => 17,
        32..=47 => 18,
        48..=63 => 19,
        64..=127 => 20,
        128..=255 => 21,
        256..=399 => 22,
        _ => 23,
    }
}

impl Matcher {
    pub(super) fn new(bits: u32, least: u32) -> Self {
        Self {
            heads: vec![0; 1 << bits],
            shift: 32 - bits,
            least,
            pointer: 0,
            length: 0,
            misses: 0,
            expected: 0,
            live: false,
            counters: (0..LENGTHS * 64)
                .map(|index| {
                    let length = index as u32 >> 6;
                    let misses = (index as u32 & 63) >> 3;
                    let wrong = 65_536 / (4 + length * 4) * (1 + misses);
                    Counter::new((65_535 - wrong.min(32_768)) as u16, 0)
                })
                .collect(),
            at: 0,
        }
    }

    /// Predicted next byte, with the length of the match.
    #[inline]
    pub(super) fn expectation(&self) -> Option<(u8, u32)> {
        (self.pointer != 0).then_some((self.expected as u8, self.length))
    }

    /// 0 without a prediction of the next bit, else a measure of confidence up to 15.
    #[inline]
    pub(super) fn confidence(&self) -> u32 {
        if !self.live {
            0
        } else if self.misses != 0 {
            1 + (bucket(self.length) / 6).min(3)
        } else {
            5 + (bucket(self.length) * 10 / 23)
        }
    }

    /// Inputs for the mixer.
    #[inline]
    pub(super) fn inputs(&mut self, depth: u32) -> (i16, i16) {
        if !self.live {
            return (0, 0);
        }
        let missed = self.misses.count_ones().min(3) * 2 + (self.misses & 1);
        self.at = (bucket(self.length) as usize) << 6 | (missed as usize) << 3 | depth as usize;
        let p = self.counters[self.at].p12();
        let sure = stretch(p);
        let linear = (p as i16 - 2048).max(0);
        if self.expected >> (7 - depth) & 1 != 0 {
            (sure, linear)
        } else {
            (-sure, -linear)
        }
    }

    #[inline]
    pub(super) fn update_bit(&mut self, bit: u32, depth: u32) {
        if self.live {
            let right = u32::from(self.expected >> (7 - depth) & 1 == bit);
            self.counters[self.at].update(right, 1000);
            self.live = right != 0;
        }
    }

    /// Advances after `byte`, which is already in `past`.
    pub(super) fn update_byte(&mut self, past: &Past, byte: u8) {
        if self.pointer != 0 {
            if self.expected == u32::from(byte) {
                self.length = (self.length + 1).min(MAX_LENGTH);
                self.misses = self.misses << 1 & 255;
            } else {
                self.length = 0;
                self.misses = (self.misses << 1 | 1) & 255;
            }
            self.pointer = self.pointer.wrapping_add(1);
            if self.misses.count_ones() > MAX_MISSES {
                self.pointer = 0;
            }
        }
        let head = (hash(past, self.least) >> self.shift) as usize;
        if self.pointer == 0 || self.length < self.least {
            let candidate = self.heads[head];
            if candidate != 0 && candidate != self.pointer {
                let length = agreement(past, candidate);
                if length >= self.least && length > self.length {
                    self.pointer = candidate;
                    self.length = length;
                    self.misses = 0;
                }
            }
        }
        self.heads[head] = past.end();
        self.live = self.pointer != 0;
        if self.live {
            self.expected = u32::from(past.at(self.pointer));
        }
    }
}

/// Number of bytes before `candidate` that equal those before the end.
fn agreement(past: &Past, candidate: u32) -> u32 {
    let end = past.end();
    let mut length = 0;
    let most = MAX_LENGTH
        .min(candidate)
        .min(past.mask.saturating_sub(end.wrapping_sub(candidate)));
    while length < most
        && past.at(candidate.wrapping_sub(length + 1)) == past.at(end.wrapping_sub(length + 1))
    {
        length += 1;
    }
    length
}

/// Hash of the last bytes.
fn hash(past: &Past, bytes: u32) -> u32 {
    let end = past.end();
    let step = |hash: u32, back: u32| {
        (hash ^ u32::from(past.at(end.wrapping_sub(back))))
            .wrapping_mul(0x2c9f_4a35)
            .rotate_left(7)
    };
    (1..=bytes).fold(0, step).wrapping_mul(0x9e37_79b1)
}
