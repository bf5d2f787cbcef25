//! Packets between the end of their serialisation and the receiver.
use std::collections::VecDeque;

use longhaul_types::Timestamp;

use crate::Reordering;

/// A packet in flight.
#[derive(Clone)]
pub(crate) struct Airborne<P> {
    pub(crate) packet: P,
    pub(crate) len: u64,
    pub(crate) entered: Timestamp,
    pub(crate) arrives: Timestamp,
    /// Decides between packets that arrive at the same time.
    order: u64,
}

struct Stray<P> {
    airborne: Airborne<P>,
    /// Value of `Flight::passed` at which the reordering distance is reached.
    release_at: u64,
}

/// Packets in flight, in the order of their arrival.
///
/// Both lists are sorted by arrival: the ordered list because jitter keeps the order, the list of detoured
/// packets because each has the same additional delay.
pub(crate) struct Flight<P> {
    in_order: VecDeque<Airborne<P>>,
    strays: VecDeque<Stray<P>>,
    /// Latest arrival in order so far.
    latest: Timestamp,
    /// Number of packets added in order so far.
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

    /// Adds a packet that would arrive at `arrives` if no other packet were ahead of it.
    pub(crate) fn launch(&mut self, packet: P, len: u64, entered: Timestamp, arrives: Timestamp) {
        let airborne = self.board(packet, len, entered, arrives);
        let arrives = airborne.arrives;
        self.in_order.push_back(airborne);
        self.passed += 1;
        self.release_overtaken(arrives);
    }

    /// Adds a packet that takes the longer path.
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

    /// Inserts detoured packets behind the packet that arrives at `arrives` if it is the last that may
    /// overtake them.
    fn release_overtaken(&mut self, arrives: Timestamp) {
        // Detoured packets ahead of it have already arrived and only wait for the receiver.
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

    /// Returns the arrival of the next packet in order and of the next detoured packet.
    pub(crate) fn next_arrivals(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        (
            self.in_order.front().map(|first| first.arrives),
            self.strays.front().map(|first| first.airborne.arrives),
        )
    }

    /// Returns the next packet that has arrived by `now`.
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
