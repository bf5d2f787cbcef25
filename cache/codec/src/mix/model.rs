//! The predictor: contexts, their histories, the mixers and the probability maps.
#![expect(
    clippy::cast_possible_truncation,
    reason = "fixed-point values are kept in range by construction"
)]

use super::apm::Apm;
use super::contexts::{CONTEXTS, Contexts};
use super::counter::Counter;
use super::history;
use super::logistic::{squash, stretch};
use super::matcher::{Matcher, Past};
use super::mixer::Mixer;
use super::slots::{Bucket, SlotPosition, Slots};
use super::table::TableSize;

/// Hashed contexts and the two direct ones (orders 0 and 1).
const HISTORIES: usize = CONTEXTS + 2;
/// One input per history, two per matcher, one constant; rounded up to a multiple of 8 for vector
/// instructions.
const INPUTS: usize = (HISTORIES + 5).next_multiple_of(8);
/// Sets of mixers; each selects its weights by another context.
const SETS: usize = 5;
const SET_SIZES: [usize; SETS] = [16 * 8, 256, 256, 32 * 8, 8 * 16];
/// Inputs of the last mixer, which mixes the results of the sets.
const OUTPUTS: usize = 8;

/// Initial weight: about four inputs' worth in total, of 2^14.
const FIRST_WEIGHT: i16 = 4000;
/// Learning rate of the weights, in sixteenths: initial value, decrement per 4,096 bytes, and minimum.
const RATES: (i32, i32, i32) = (96, 12, 48);
const RATE_STEP: u32 = 12;
/// Learning rate of the last mixer, in sixteenths of the other mixers' unit.
const LAST_RATE: i32 = 24;
/// Observations after which the counter of a history adapts no more slowly.
const COUNTER_LIMIT: u32 = 255;

/// Minimum match lengths of the two matchers.
const LONG: u32 = 16;
const SHORT: u32 = 6;

/// Binary logarithm of the contexts of each adaptive probability map: small enough for both maps to stay in a
/// core's cache.
const MAP_BITS: u32 = 10;

/// Predicts the next bit of a text and learns the coded bits.
pub(super) struct Model {
    slots: Slots,
    past: Past,
    long: Matcher,
    short: Matcher,
    contexts: Contexts,
    order0: [u8; 256],
    order1: Vec<[u8; 256]>,
    buckets: [Bucket; CONTEXTS],
    places: [SlotPosition; CONTEXTS],
    states: [u8; HISTORIES],
    counters: Vec<[Counter; 256]>,
    inputs: [i16; INPUTS],
    mixers: [Mixer<INPUTS>; SETS],
    outputs: [i16; OUTPUTS],
    mixed: [u16; SETS],
    last: Mixer<OUTPUTS>,
    last_mixed: u16,
    maps: [Apm; 2],
    /// The bits of the current byte after a leading one.
    partial: u32,
    depth: u32,
    /// Node in the nibble's tree.
    node: usize,
    p: u16,
    seen: u32,
}

impl Model {
    pub(super) fn new(table: TableSize) -> Self {
        let past_bits = table.past_bits();
        let mut first = [Counter::new(0, 0); 256];
        for (state, counter) in (0..=255).zip(&mut first) {
            *counter = Counter::new(history::first_guess(state), 0);
        }
        let mut model = Self {
            slots: Slots::new(table.bits()),
            past: Past::new(past_bits),
            long: Matcher::new(table.head_bits(), LONG),
            short: Matcher::new(table.head_bits(), SHORT),
            contexts: Contexts::new(),
            order0: [0; 256],
            order1: vec![[0; 256]; 256],
            buckets: [[0; 16]; CONTEXTS],
            places: [SlotPosition::default(); CONTEXTS],
            states: [0; HISTORIES],
            counters: vec![first; HISTORIES],
            inputs: [0; INPUTS],
            mixers: SET_SIZES.map(|size| Mixer::new(size, FIRST_WEIGHT)),
            outputs: [0; OUTPUTS],
            mixed: [0; SETS],
            last: Mixer::new(256, (1 << 14) / SETS as i16),
            last_mixed: 0,
            maps: [Apm::new(MAP_BITS), Apm::new(MAP_BITS)],
            partial: 1,
            depth: 0,
            node: 1,
            p: 0,
            seen: 0,
        };
        model.contexts.update(&model.past, 0, None);
        model.load();
        model.predict();
        model
    }

    /// Probability of a one, of 65,536; never 0.
    #[inline]
    pub(super) fn p(&self) -> u16 {
        self.p
    }

    /// Finds the buckets of the next nibble.
    fn load(&mut self) {
        let salt = if self.depth == 0 {
            0
        } else {
            self.partial.wrapping_mul(0x3d4d_51cb)
        };
        let hashes = self.contexts.hashes.map(|context| {
            let mixed = (context ^ salt).wrapping_mul(0x9e37_79b1);
            (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca6b)
        });
        // Touches all cache lines before the first access, so that their loads overlap.
        let touched = hashes.map(|hash| self.slots.touch(hash));
        std::hint::black_box(touched);
        for ((bucket, place), hash) in self.buckets.iter_mut().zip(&mut self.places).zip(hashes) {
            (*place, *bucket) = self.slots.find(hash);
        }
        self.node = 1;
    }

    fn store(&mut self) {
        for (&bucket, &place) in self.buckets.iter().zip(&self.places) {
            self.slots.put(place, bucket);
        }
    }

    fn predict(&mut self) {
        let partial = self.partial as usize & 255;
        let previous = (self.contexts.recent & 255) as usize;
        self.gather(partial, previous);
        let hits = self.states[..6].iter().filter(|&&state| state != 0).count();
        let depth = self.depth as usize;
        let selected = [
            (self.long.confidence() as usize) << 3 | depth,
            partial,
            previous,
            (self.contexts.class as usize & 31) << 3 | depth,
            hits << 4 | self.short.confidence() as usize,
        ];
        let sets = self.mixers.iter_mut().zip(selected);
        for ((mixer, context), (output, mixed)) in sets.zip(self.outputs.iter_mut().zip(&mut self.mixed)) {
            let stretched = mixer.mix(&self.inputs, context);
            *output = stretched as i16;
            *mixed = squash(stretched);
        }
        let stretched = self.last.mix(&self.outputs, partial);
        self.last_mixed = squash(stretched);
        let near = self.partial | (self.contexts.recent & 0xff) << 8;
        let far = self.partial.wrapping_mul(0x3d4d_51cb) ^ (self.contexts.recent & 0x00ff_ffff);
        let refined = self.maps[0].refine(stretched, near) + self.maps[1].refine(stretched, far);
        self.p = ((2 * u32::from(self.last_mixed) + refined) >> 2).clamp(1, 65_535) as u16;
    }

    /// Fills the mixers' inputs.
    fn gather(&mut self, partial: usize, previous: usize) {
        let node = self.node & 15;
        for (state, bucket) in self.states.iter_mut().zip(&self.buckets) {
            *state = bucket[node];
        }
        self.states[CONTEXTS] = self.order0[partial];
        self.states[CONTEXTS + 1] = self.order1[previous][partial];
        for ((input, &state), counters) in self.inputs.iter_mut().zip(&self.states).zip(&self.counters) {
            // A history without observations predicts nothing.
            *input = if state == 0 {
                0
            } else {
                stretch(counters[usize::from(state)].p12())
            };
        }
        let base = HISTORIES;
        (self.inputs[base], self.inputs[base + 1]) = self.long.inputs(self.depth);
        (self.inputs[base + 2], self.inputs[base + 3]) = self.short.inputs(self.depth);
        self.inputs[base + 4] = 256;
    }

    /// Learns the coded bit.
    pub(super) fn update(&mut self, bit: u32) {
        for (counters, &state) in self.counters.iter_mut().zip(&self.states) {
            counters[usize::from(state)].update(bit, COUNTER_LIMIT);
        }
        let node = self.node & 15;
        for (bucket, &state) in self.buckets.iter_mut().zip(&self.states) {
            bucket[node] = history::next(state, bit);
        }
        let partial = self.partial as usize & 255;
        let previous = (self.contexts.recent & 255) as usize;
        self.order0[partial] = history::next(self.states[CONTEXTS], bit);
        self.order1[previous][partial] = history::next(self.states[CONTEXTS + 1], bit);
        self.long.update_bit(bit, self.depth);
        self.short.update_bit(bit, self.depth);
        self.learn(bit);
        self.partial = self.partial << 1 | bit;
        self.depth += 1;
        self.node = self.node << 1 | bit as usize;
        if self.depth == 8 {
            self.end_byte();
        } else if self.depth == 4 {
            self.store();
            self.load();
        }
        self.predict();
    }

    /// Adapts the weights and maps.
    fn learn(&mut self, bit: u32) {
        let target = (bit << 16) as i32;
        let (most, step, least) = RATES;
        let rate = (most - (self.seen >> RATE_STEP).min(7) as i32 * step).max(least);
        let error = |p: u16, rate: i32| (((target - i32::from(p)) * rate) >> 8).clamp(-32_768, 32_767) as i16;
        for (mixer, &p) in self.mixers.iter_mut().zip(&self.mixed) {
            mixer.update(&self.inputs, error(p, rate));
        }
        self.last.update(&self.outputs, error(self.last_mixed, LAST_RATE));
        for map in &mut self.maps {
            map.update(bit);
        }
    }

    fn end_byte(&mut self) {
        self.store();
        let byte = (self.partial & 255) as u8;
        self.past.push(byte);
        self.seen = self.seen.saturating_add(1);
        self.long.update_byte(&self.past, byte);
        self.short.update_byte(&self.past, byte);
        let expected = self.long.expectation().or_else(|| self.short.expectation());
        self.contexts.update(&self.past, byte, expected);
        self.partial = 1;
        self.depth = 0;
        self.load();
    }

    /// Learns known bytes, which are not coded.
    pub(super) fn train(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            for depth in (0..8).rev() {
                self.update(u32::from(byte >> depth & 1));
            }
        }
    }
}
