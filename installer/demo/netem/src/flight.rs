//! Packets between the end of their serialisation and the receiver.
use std::collections::VecDeque;

use longhaul_types::Timestamp;

use crate::Reordering;

/// A packet in flight.
#[derive(Clone)]
pub(crate) struct InFlight<P> {
    pub(crate) packet: P,
    pub(crate) len: u64,
    pub(crate) entered: Timestamp,
    pub(crate) arrives: Timestamp,
    /// Decides between packets that arrive at the same time.
    order: u64,
}

struct Detoured<P> {
    in_flight: InFlight<P>,
    /// Value of `Flight::passed` at which the reordering distance is reached.
    release_at: u64,
}

/// Packets in flight, in the order of their arrival.
///
/// Both lists are sorted by arrival: the ordered list because jitter keeps the order, the list of detoured
/// packets because each has the same additional delay.
pub(crate) struct Flight<P> {
    in_order: VecDeque<InFlight<P>>,
    detoured: VecDeque<Detoured<P>>,
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
            detoured: VecDeque::new(),
            latest: Timestamp::ZERO,
            passed: 0,
            next_order: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.in_order.len() + self.detoured.len()
    }

    /// Adds a packet that would arrive at `arrives` if no other packet were ahead of it.
    pub(crate) fn add(&mut self, packet: P, len: u64, entered: Timestamp, arrives: Timestamp) {
        let in_flight = self.schedule(packet, len, entered, arrives);
        let arrives = in_flight.arrives;
        self.in_order.push_back(in_flight);
        self.passed += 1;
        self.release_overtaken(arrives);
    }

    /// Adds a packet that takes the longer path.
    pub(crate) fn add_detoured(
        &mut self,
        packet: P,
        len: u64,
        entered: Timestamp,
        arrives: Timestamp,
        reordering: &Reordering,
    ) {
        if reordering.max_distance == 0 {
            self.add(packet, len, entered, arrives);
            return;
        }
        let mut in_flight = self.schedule(packet, len, entered, arrives);
        in_flight.arrives += reordering.extra_delay;
        self.detoured.push_back(Detoured {
            in_flight,
            release_at: self.passed.saturating_add(reordering.max_distance),
        });
    }

    fn schedule(&mut self, packet: P, len: u64, entered: Timestamp, arrives: Timestamp) -> InFlight<P> {
        self.latest = self.latest.max(arrives);
        self.next_order += 1;
        InFlight {
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
            .detoured
            .partition_point(|detoured| detoured.in_flight.arrives <= arrives);
        while self
            .detoured
            .get(late)
            .is_some_and(|detoured| detoured.release_at <= self.passed)
        {
            let Some(mut detoured) = self.detoured.remove(late) else {
                return;
            };
            self.next_order += 1;
            detoured.in_flight.arrives = arrives;
            detoured.in_flight.order = self.next_order;
            self.in_order.push_back(detoured.in_flight);
        }
    }

    /// Returns the arrival of the next packet in order and of the next detoured packet.
    pub(crate) fn next_arrivals(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        (
            self.in_order.front().map(|first| first.arrives),
            self.detoured.front().map(|first| first.in_flight.arrives),
        )
    }

    /// Returns the next packet that has arrived by `now`.
    pub(crate) fn pop_arrived(&mut self, now: Timestamp) -> Option<InFlight<P>> {
        let in_order = self.in_order.front().map(|first| (first.arrives, first.order));
        let detoured = self
            .detoured
            .front()
            .map(|first| (first.in_flight.arrives, first.in_flight.order));
        match (in_order, detoured) {
            (Some(first), other) if first.0 <= now && other.is_none_or(|other| first < other) => {
                self.in_order.pop_front()
            }
            (_, Some(first)) if first.0 <= now => {
                self.detoured.pop_front().map(|detoured| detoured.in_flight)
            }
            _ => None,
        }
    }
}
