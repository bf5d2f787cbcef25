//! The hash table of contexts: buckets of bit histories, one per nibble.
#![expect(clippy::cast_possible_truncation, reason = "the casts take parts of a hash")]

use super::history;

/// One nibble in one context: a check byte and the 15 nodes of the tree of its four bits.
pub(super) type Bucket = [u8; 16];

/// A cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([Bucket; 4]);

/// Location of a bucket.
#[derive(Clone, Copy, Default)]
pub(super) struct SlotPosition {
    line: u32,
    way: u8,
}

/// All buckets of one model.
pub(super) struct Slots {
    lines: Vec<Line>,
    shift: u32,
}

impl Slots {
    /// Returns a table of `2^bits` bytes.
    pub(super) fn new(bits: u32) -> Self {
        let line_bits = bits - 6;
        Self {
            lines: vec![Line([[0; 16]; 4]); 1 << line_bits],
            shift: 32 - line_bits,
        }
    }

    /// Reads a byte of the cache line that contains the hash's bucket, so that the processor loads the line
    /// before it is needed.
    #[inline]
    pub(super) fn touch(&self, hash: u32) -> u8 {
        self.lines[(hash >> self.shift) as usize].0[0][0]
    }

    /// Returns the bucket of a hash. If there is none, returns an empty bucket and the place of the bucket with
    /// the fewest observations, which it replaces.
    #[inline]
    pub(super) fn find(&self, hash: u32) -> (SlotPosition, Bucket) {
        let number = hash >> self.shift;
        let line = &self.lines[number as usize].0;
        let check = (hash as u8).wrapping_mul(0x9d) ^ (hash >> 8) as u8;
        let place = |way| SlotPosition { line: number, way };
        for (way, bucket) in (0..).zip(line) {
            if bucket[0] == check {
                return (place(way), *bucket);
            }
        }
        let mut worst = 0;
        let mut least = u8::MAX;
        for (way, bucket) in (0..).zip(line) {
            // The root node observes the first bit of every nibble in this context.
            let total = history::total(bucket[1]);
            if total < least {
                least = total;
                worst = way;
            }
        }
        let mut fresh = [0; 16];
        fresh[0] = check;
        (place(worst), fresh)
    }

    /// Writes a bucket back.
    #[inline]
    pub(super) fn put(&mut self, place: SlotPosition, bucket: Bucket) {
        self.lines[place.line as usize].0[usize::from(place.way & 3)] = bucket;
    }
}
