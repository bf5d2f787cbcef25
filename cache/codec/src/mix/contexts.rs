//! Contexts of the model, computed after every byte.

use super::matcher::Past;
use super::syntax::{Syntax, SyntaxPosition};

/// Number of hashed contexts.
pub(super) const CONTEXTS: usize = 14;

pub(super) struct Contexts {
    pub(super) hashes: [u32; CONTEXTS],
    /// The last four bytes, the latest lowest.
    pub(super) recent: u32,
    before: u32,
    /// Summary of the syntax for the selection of weights, below 32.
    pub(super) class: u32,
    syntax: Syntax,
    shapes: u32,
    line_starts: [u32; 2],
}

fn hash2(a: u32, b: u32) -> u32 {
    let h = a.wrapping_mul(0x2c9f_4a35) ^ b.wrapping_mul(0x9e37_79b1).rotate_left(13);
    (h ^ h >> 16).wrapping_mul(0x85eb_ca6b)
}

fn hash3(a: u32, b: u32, c: u32) -> u32 {
    hash2(hash2(a, b), c)
}

fn shape(byte: u8) -> u32 {
    match byte {
        b'a'..=b'z' | 0x80.. => 1,
        b'A'..=b'Z' => 2,
        b'0'..=b'9' => 3,
        b' ' | b'\t' => 4,
        b'\n' | b'\r' => 5,
        b'<' | b'{' | b'(' | b'[' => 6,
        b'>' | b'}' | b')' | b']' => 7,
        b'"' | b'\'' | b'`' => 8,
        b'=' | b':' => 9,
        b';' | b',' => 10,
        b'/' => 11,
        b'-' | b'_' => 12,
        b'.' => 13,
        b'&' | b'%' | b'#' | b'?' => 14,
        _ => 15,
    }
}

impl Contexts {
    pub(super) fn new() -> Self {
        Self {
            hashes: [0; CONTEXTS],
            recent: 0,
            before: 0,
            class: 0,
            syntax: Syntax::new(),
            shapes: 0,
            line_starts: [0; 2],
        }
    }

    pub(super) fn update(&mut self, past: &Past, byte: u8, expected: Option<(u8, u32)>) {
        self.before = self.before << 8 | self.recent >> 24;
        self.recent = self.recent << 8 | u32::from(byte);
        self.syntax.update(byte);
        self.shapes = self.shapes << 4 | shape(byte);
        if byte == b'\n' {
            self.line_starts = [past.end(), self.line_starts[0]];
        }
        let s = &self.syntax;
        let above = past.at(self.line_starts[1].wrapping_add(s.column));
        let c = self.recent;
        let c1 = c & 0xff;
        let (open, outer) = s.open_tags();
        let code = s.is_code();
        let scope = if s.place == SyntaxPosition::Text && code {
            hash3(s.key, s.bracket(), u32::from(s.quote))
        } else if s.place == SyntaxPosition::Text {
            open
        } else {
            hash2(s.tag, s.attribute)
        };
        let place = s.place as u32 | u32::from(s.quote) << 3 | u32::from(code) << 2;
        let (expect, sure) = expected.map_or((0, 0), |(byte, length)| {
            (u32::from(byte) + 1, length.min(15).max(length.min(32) / 2))
        });
        let list = [
            c & 0xffff,
            c & 0xff_ffff,
            c,
            hash2(c, self.before & 0xffff),
            hash2(s.word, u32::from(s.gap)),
            hash3(s.word, s.word_before, c1),
            hash3(scope, s.token, place),
            hash3(scope, c & 0xffff, place),
            hash3(open, outer, s.word).wrapping_add(place),
            hash2(scope, s.word),
            hash3(expect, sure, c1),
            hash2(self.shapes, c1),
            c & 0x00ff_ff00,
            hash3(s.column, u32::from(above), c1),
        ];
        for ((hash, value), number) in self.hashes.iter_mut().zip(list).zip(1u32..) {
            *hash = hash2(value, number.wrapping_mul(0x6a09_e667));
        }
        self.class = (s.place as u32)
            | u32::from(s.quote != 0) << 2
            | u32::from(code) << 3
            | u32::from(s.word != 0) << 4;
    }
}
