//! Packets between the end of their serialisation and the receiver.
use std::collections::VecDeque;

use longhaul_types::Timestamp;

use crate::Reordering;

/// A packet under way.
#[derive(Clone)]
pub(crate) struct Airborne<P> {
    pub(crate) packet: P,
    pub(crate) len: u64,
    pub(crate) entered: Timestamp,
    pub(crate) arrives: Timestamp,
    /// Breaks ties: packets that arrive together do so in the order of this.
    order: u64,
}

struct Stray<P> {
    airborne: Airborne<P>,
    /// `Flight::passed` at which the distance is used up.
    release_at: u64,
}

/// Packets under way, in the order of their arrival.
///
/// Both lanes are sorted by arrival: the lane in order because jitter keeps the order, the strays because each
/// takes the same extra time on top of what it would have had in order.
pub(crate) struct Flight<P> {
    in_order: VecDeque<Airborne<P>>,
    strays: VecDeque<Stray<P>>,
    /// The latest arrival in order so far.
    latest: Timestamp,
    /// Packets put in order so far.
    passed: u64,
    next_order: u64,
}

impl<P> Flight<P> {
    pub(crate) fn new() -> Self {
        Self {
            in_order: VecDeque::new(),
            strays: VecDeque::new(),
            latest: Timestamp::ZERO,
            passed: 0,
            next_order: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.in_order.len() + self.strays.len()
    }

    /// Puts a packet under way that would arrive at `arrives` if none were ahead of it.
    pub(crate) fn launch(&mut self, packet: P, len: u64, entered: Timestamp, arrives: Timestamp) {
        let airborne = self.board(packet, len, entered, arrives);
        let arrives = airborne.arrives;
        self.in_order.push_back(airborne);
        self.passed += 1;
        self.release_overtaken(arrives);
    }

    /// Puts a packet under way on the longer way.
    pub(crate) fn launch_detoured(
        &mut self,
        packet: P,
        len: u64,
        entered: Timestamp,
        arrives: Timestamp,
        reordering: &Reordering,
    ) {
        if reordering.max_distance == 0 {
            self.launch(packet, len, entered, arrives);
            return;
        }
        let mut airborne = self.board(packet, len, entered, arrives);
        airborne.arrives += reordering.extra_delay;
        self.strays.push_back(Stray {
            airborne,
            release_at: self.passed.saturating_add(reordering.max_distance),
        });
    }

    fn board(&mut self, packet: P, len: u64, entered: Timestamp, arrives: Timestamp) -> Airborne<P> {
        self.latest = self.latest.max(arrives);
        self.next_order += 1;
        Airborne {
            packet,
            len,
            entered,
            arrives: self.latest,
            order: self.next_order,
        }
    }

    /// Lets strays in behind the packet that arrives at `arrives` once it is the last that may overtake them.
    fn release_overtaken(&mut self, arrives: Timestamp) {
        // Strays ahead of it have arrived already and only wait for the receiver.
        let late = self
            .strays
            .partition_point(|stray| stray.airborne.arrives <= arrives);
        while self
            .strays
            .get(late)
            .is_some_and(|stray| stray.release_at <= self.passed)
        {
            let Some(mut stray) = self.strays.remove(late) else {
                return;
            };
            self.next_order += 1;
            stray.airborne.arrives = arrives;
            stray.airborne.order = self.next_order;
            self.in_order.push_back(stray.airborne);
        }
    }

    /// The arrival of the next packet in order and of the next stray.
    pub(crate) fn next_arrivals(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        (
            self.in_order.front().map(|first| first.arrives),
            self.strays.front().map(|first| first.airborne.arrives),
        )
    }

    /// The next packet that has arrived at `now`.
    pub(crate) fn land(&mut self, now: Timestamp) -> Option<Airborne<P>> {
        let in_order = self.in_order.front().map(|first| (first.arrives, first.order));
        let stray = self
            .strays
            .front()
            .map(|first| (first.airborne.arrives, first.airborne.order));
        match (in_order, stray) {
            (Some(first), other) if first.0 <= now && other.is_none_or(|other| first < other) => {
                self.in_order.pop_front()
            }
            (_, Some(first)) if first.0 <= now => self.strays.pop_front().map(|stray| stray.airborne),
            _ => None,
        }
    }
}
