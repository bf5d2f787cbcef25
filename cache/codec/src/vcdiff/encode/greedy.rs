//! Greedy parser over hash tables, with lazy matching by one position.
use super::{
    candidates::Candidate,
    matches::{Latest, MIN_MATCH, Texts, index},
    wire::{Instruction, Instructions},
};
use crate::vcdiff::cache::AddressCache;

/// A match of at least this length is not compared with that of the next position.
const LAZY: u32 = 64;
/// Number of last places of a long copy that are stored for later matches.
const TAIL: usize = 16;

/// Returns the instructions of the greedy parse.
pub(super) fn parse(texts: Texts<'_>) -> Instructions {
    let mut parser = Parser {
        texts,
        source_4: Latest::new(texts.source.len()),
        source_8: Latest::new(texts.source.len()),
        source_24: Latest::new(texts.source.len()),
        target_4: Latest::new(texts.target.len()),
        target_8: Latest::new(texts.target.len()),
        cache: AddressCache::new(),
        diagonals: [(0, 0); 2],
    };
    // From the end, so that the first of equal places remains: its address is the shortest.
    for place in (0..texts.source.len()).rev() {
        let bytes = &texts.source[place..];
        parser.source_4.insert(bytes, index(place));
        parser.source_8.insert(bytes, index(place));
        parser.source_24.insert(bytes, index(place));
    }
    parser.parse()
}

struct Parser<'a> {
    texts: Texts<'a>,
    source_4: Latest<4>,
    source_8: Latest<8>,
    source_24: Latest<24>,
    target_4: Latest<4>,
    target_8: Latest<8>,
    cache: AddressCache,
    /// Addresses of the last copies and their places in the target: text often continues there.
    diagonals: [(u32, u32); 2],
}

impl Parser<'_> {
    fn parse(mut self) -> Instructions {
        let mut instructions = Instructions::default();
        let target = self.texts.target;
        let (mut at, mut added) = (0, 0);
        let mut next = None;
        while at < target.len() {
            let found = next.take().or_else(|| self.best(at));
            self.pass(at);
            let Some(found) = found else {
                at += 1;
                added += 1;
                continue;
            };
            if found.0.size < LAZY && at + 1 < target.len() {
                next = self.best(at + 1).filter(|later| later.1 > found.1);
                if next.is_some() {
                    at += 1;
                    added += 1;
                    continue;
                }
            }
            let Candidate {
                mut address,
                mut size,
            } = found.0;
            let back = self.backwards(address, at, added);
            address -= back;
            size += back;
            let place = index(at) - back;
            instructions.push(Instruction::Add(added - back));
            instructions.push(Instruction::Copy { address, size });
            self.cache.remember(address);
            if self.onward(0, place) != Some(address) {
                self.diagonals[1] = self.diagonals[0];
            }
            self.diagonals[0] = (address, place);
            let end = at + found.0.size as usize;
            for place in at + 1..end {
                if place < at + TAIL || place + TAIL > end {
                    self.pass(place);
                }
            }
            at = end;
            added = 0;
        }
        instructions.push(Instruction::Add(added));
        instructions
    }

    /// Stores a place of the target as a source of copies.
    fn pass(&mut self, at: usize) {
        let (bytes, address) = (&self.texts.target[at..], self.texts.here(at));
        self.target_4.insert(bytes, address);
        self.target_8.insert(bytes, address);
    }

    /// The address at which the text of an earlier copy continues.
    fn onward(&self, diagonal: usize, at: u32) -> Option<u32> {
        let (address, place) = self.diagonals[diagonal];
        let border = self.texts.border();
        let onward = address + (at - place);
        ((address < border) == (onward < border)).then_some(onward)
    }

    /// Returns the copy that saves most at `at`, with the saved bytes.
    fn best(&self, at: usize) -> Option<(Candidate, u32)> {
        let bytes = &self.texts.target[at..];
        let here = self.texts.here(at);
        let addresses = [
            self.onward(0, index(at)),
            self.onward(1, index(at)),
            self.source_24.place(bytes),
            self.source_8.place(bytes),
            self.target_8.place(bytes),
            self.source_4.place(bytes),
            self.target_4.place(bytes),
        ];
        let mut best: Option<(Candidate, u32)> = None;
        for address in addresses.into_iter().flatten().filter(|address| *address < here) {
            let size = index(self.texts.common(address, at));
            if size < index(MIN_MATCH) || best.is_some_and(|(other, _)| other.address == address) {
                continue;
            }
            // An opcode, and often a further one for the ADD that the copy interrupts.
            let price = 2 + self.cache.code(address, here).size() + u32::from(size > 18);
            if let Some(saved) = size.checked_sub(price).filter(|saved| *saved > 0)
                && best.is_none_or(|(_, other)| saved > other)
            {
                best = Some((Candidate { address, size }, saved));
            }
            if size > 4 * LAZY {
                break;
            }
        }
        best
    }

    /// Number of equal bytes before the match, up to `most`.
    fn backwards(&self, address: u32, at: usize, most: u32) -> u32 {
        let (text, end) = match (address as usize).checked_sub(self.texts.source.len()) {
            None => (self.texts.source, address as usize),
            Some(earlier) => (self.texts.target, earlier),
        };
        let pairs = text[..end].iter().rev().zip(self.texts.target[..at].iter().rev());
        index(pairs.take(most as usize).take_while(|(a, b)| a == b).count())
    }
}
