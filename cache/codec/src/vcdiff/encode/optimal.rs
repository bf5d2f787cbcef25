//! Parser of least cost. VCDIFF without secondary compression has no entropy coder, so every choice has an
//! exact price in bytes, and dynamic programming over the target finds the cheapest sequence of instructions.
//!
//! The price of an address depends on the addresses before it. Each path to a position keeps its own near
//! cache. The same cache is that of the settled instructions, which is a good approximation.
use super::{
    candidates::{Candidate, Candidates},
    matches::{MIN_MATCH, Texts, index},
    near_cache::NearCache,
    wire::{Instruction, Instructions},
};
use crate::vcdiff::{cache::AddressCache, integer, table};

/// A match of at least this length is taken at once: a longer search could save only a byte or two.
const NICE: usize = 256;
/// Number of positions after which the best path is settled, to limit memory.
const STRETCH: usize = 4096;
/// Price of a position that no path reaches yet.
const UNREACHED: u32 = u32::MAX / 2;

/// Last instruction of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Start,
    Add,
    Run { size: u32 },
    Copy { address: u32, size: u32 },
}

/// Best path to a position, for one kind of last instruction.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    price: u32,
    step: Step,
    /// True if the step began where an ADD ended.
    behind_add: bool,
    /// Length of the ADD at the end of the path.
    added: u32,
    /// True if the last instruction shares the opcode of the previous one.
    paired: bool,
    near: NearCache,
}

const NOWHERE: Arrival = Arrival {
    price: UNREACHED,
    step: Step::Start,
    behind_add: false,
    added: 0,
    paired: false,
    near: NearCache::EMPTY,
};

/// Returns the instructions of least cost among the candidates.
pub(super) fn parse(texts: Texts<'_>) -> Instructions {
    let room = STRETCH.min(texts.target.len()) + NICE + 1;
    let mut parser = Parser {
        texts,
        candidates: Candidates::new(texts),
        cache: AddressCache::new(),
        instructions: Instructions::default(),
        closed: vec![NOWHERE; room],
        open: vec![NOWHERE; room],
    };
    let mut start = Arrival { price: 0, ..NOWHERE };
    let mut at = 0;
    while at < texts.target.len() {
        (at, start) = parser.stretch(at, start);
    }
    parser.instructions
}

struct Parser<'a> {
    texts: Texts<'a>,
    candidates: Candidates<'a>,
    cache: AddressCache,
    instructions: Instructions,
    /// Paths that end with a copy or a run, by the distance from the start of the stretch.
    closed: Vec<Arrival>,
    /// Paths that end with an ADD, which may grow.
    open: Vec<Arrival>,
}

/// Number of price indices: 1 to 5 are the bytes of an address; 0 is the same cache, whose addresses take one
/// byte and pair with fewer sizes.
const PRICES: usize = 6;

/// The longest match for each price of an address; index 0 is the same cache.
#[derive(Clone, Copy, Default)]
struct Offers([Candidate; PRICES]);

impl Offers {
    fn offer(&mut self, price: usize, candidate: Candidate) {
        if candidate.size > self.0[price].size {
            self.0[price] = candidate;
        }
    }

    /// The offers with the prices of their addresses, the cheapest first.
    fn ascending(&self) -> impl Iterator<Item = (u32, Candidate)> {
        (0..)
            .zip(self.0)
            .filter(|(_, candidate)| candidate.size > 0)
            .map(|(price, candidate)| (u32::max(price, 1), candidate))
    }

    /// The match that saves most, if it has at least `NICE` bytes.
    fn nice(&self) -> Option<Candidate> {
        let long = self
            .ascending()
            .filter(|(_, candidate)| candidate.size as usize >= NICE);
        long.max_by_key(|(price, candidate)| candidate.size - price)
            .map(|(_, candidate)| candidate)
    }
}

impl Parser<'_> {
    /// Parses from `base` to the next point at which the best path is settled. Returns that point and its
    /// arrival.
    fn stretch(&mut self, base: usize, start: Arrival) -> (usize, Arrival) {
        let length = STRETCH.min(self.texts.target.len() - base);
        self.closed[..=length + NICE].fill(NOWHERE);
        self.open[..=length + NICE].fill(NOWHERE);
        if start.added > 0 {
            self.open[0] = start;
        } else {
            self.closed[0] = start;
        }
        for at in 0..length {
            self.arrive(base, at);
            self.candidates.advance(base + at);
            let closed = self.closed[at];
            let open = self.open[at];
            let from = if closed.price <= open.price { closed } else { open };
            let centre = from.near.expected(index(base + at));
            self.candidates.find(base + at, centre);
            let offers = self.offers(base + at, &from.near);
            if let Some(nice) = offers.nice() {
                let mut start = self.settle(base, at, closed.price > open.price);
                let Candidate { address, size } = nice;
                self.decide(base + at, Instruction::Copy { address, size });
                start.near.remember(address, index(base + at));
                let start = Arrival {
                    price: 0,
                    added: 0,
                    paired: false,
                    step: Step::Start,
                    ..start
                };
                return (base + at + size as usize, start);
            }
            self.copies(at, from, &offers);
            // The other path is worth continuing where an opcode may be shared.
            if closed.price <= open.price && open.price <= closed.price + 1 && open.added <= 4 && !open.paired
            {
                let offers = self.offers(base + at, &open.near);
                self.copies(at, open, &offers);
            }
            self.run(base, at, from);
        }
        self.arrive(base, length);
        let behind_add = self.closed[length].price > self.open[length].price;
        let end = self.settle(base, length, behind_add);
        (
            base + length,
            Arrival {
                price: 0,
                step: Step::Start,
                ..end
            },
        )
    }

    /// Completes the paths to a position whose predecessors are all known.
    fn arrive(&mut self, base: usize, at: usize) {
        if at == 0 {
            return;
        }
        let closed = self.closed[at];
        if let Step::Copy { address, size } = closed.step {
            let from = at - size as usize;
            let mut near = self.before(from, closed.behind_add).near;
            near.remember(address, index(base + from));
            self.closed[at].near = near;
        } else if let Step::Run { size } = closed.step {
            self.closed[at].near = self.before(at - size as usize, closed.behind_add).near;
        }
        let (grown, begun) = (self.open[at - 1], self.closed[at - 1]);
        let added = grown.added + 1;
        // At these lengths the size moves out of the opcode or takes one more byte.
        let longer = u32::from(matches!(added, 18 | 0x80 | 0x4000 | 0x20_0000));
        let grown_price = grown.price + 1 + longer + u32::from(grown.paired);
        // A copy of 4 bytes and an ADD of one byte may share an opcode.
        let shares = !begun.paired && matches!(begun.step, Step::Copy { size: 4, .. });
        let begun_price = begun.price + if shares { 1 } else { 2 };
        self.open[at] = if begun_price <= grown_price {
            Arrival {
                price: begun_price,
                step: Step::Add,
                behind_add: false,
                added: 1,
                paired: shares,
                near: begun.near,
            }
        } else {
            Arrival {
                price: grown_price,
                step: Step::Add,
                behind_add: false,
                added,
                paired: false,
                near: grown.near,
            }
        };
    }

    fn before(&self, at: usize, behind_add: bool) -> &Arrival {
        if behind_add {
            &self.open[at]
        } else {
            &self.closed[at]
        }
    }

    /// Returns the copies at a position by the price of their addresses.
    fn offers(&self, at: usize, near: &NearCache) -> Offers {
        let mut offers = Offers::default();
        let here = self.texts.here(at);
        let mut offer = |candidate: Candidate| {
            if self.cache.is_same(candidate.address) {
                offers.offer(0, candidate);
            }
            offers.offer(near.price(candidate.address, here) as usize, candidate);
        };
        self.candidates.near(at, near, &mut offer);
        self.candidates.found().for_each(offer);
        offers
    }

    /// Extends a path by every useful size of every candidate copy.
    fn copies(&mut self, at: usize, from: Arrival, offers: &Offers) {
        let pairs = from.added > 0 && from.added <= 4 && !from.paired;
        let mut covered = index(MIN_MATCH) - 1;
        // The same cache's offer comes first, so that at an equal price the longer ones of the near cache
        // remain.
        for (price, candidate) in offers.ascending() {
            let most = candidate.size.min(index(NICE));
            let largest_pair = if self.cache.is_same(candidate.address) {
                4
            } else {
                6
            };
            for size in covered + 1..=most {
                let paired = pairs && size <= largest_pair;
                let written = if (table::MIN_COPY..=table::MAX_COPY).contains(&size) {
                    0
                } else {
                    integer::size(size)
                };
                let price = from.price + 1 + written + price - u32::from(paired);
                let to = &mut self.closed[at + size as usize];
                if price < to.price {
                    to.price = price;
                    to.step = Step::Copy {
                        address: candidate.address,
                        size,
                    };
                    to.behind_add = from.added > 0;
                    to.paired = paired;
                }
            }
            covered = covered.max(most);
        }
    }

    /// Extends a path by a run of one byte.
    fn run(&mut self, base: usize, at: usize, from: Arrival) {
        let rest = &self.texts.target[base + at..];
        let run = rest
            .iter()
            .take(NICE)
            .take_while(|byte| **byte == rest[0])
            .count();
        if run < MIN_MATCH {
            return;
        }
        let size = index(run);
        let price = from.price + 2 + integer::size(size);
        let to = &mut self.closed[at + run];
        if price < to.price {
            to.price = price;
            to.step = Step::Run { size };
            to.behind_add = from.added > 0;
            to.paired = false;
        }
    }

    /// Settles the path to a position; returns its arrival.
    fn settle(&mut self, base: usize, at: usize, behind_add: bool) -> Arrival {
        let end = *self.before(at, behind_add);
        let mut steps = Vec::new();
        let (mut place, mut arrival) = (at, end);
        while place > 0 {
            let instruction = match arrival.step {
                Step::Copy { address, size } => Instruction::Copy { address, size },
                Step::Run { size } => Instruction::Run(size),
                // An ADD may have begun before this stretch.
                Step::Add | Step::Start => Instruction::Add(arrival.added.min(index(place))),
            };
            let size = instruction.size() as usize;
            place -= size;
            steps.push((place, instruction));
            let behind_add = match instruction {
                Instruction::Add(_) => place == 0 && self.closed[0].price > self.open[0].price,
                Instruction::Run(_) | Instruction::Copy { .. } => arrival.behind_add,
            };
            arrival = *self.before(place, behind_add);
        }
        for (place, instruction) in steps.into_iter().rev() {
            self.decide(base + place, instruction);
        }
        end
    }

    fn decide(&mut self, at: usize, instruction: Instruction) {
        if let Instruction::Copy { address, .. } = instruction {
            // Addresses in the same cache were recorded when they entered it.
            if !self.cache.is_same(address) {
                self.candidates.used(at, address);
            }
            self.cache.remember(address);
        }
        self.instructions.push(instruction);
    }
}
