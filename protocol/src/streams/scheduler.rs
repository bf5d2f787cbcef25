//! Scheduler of the streams (transport.md section 4.2): 8 strict classes; in a class retransmissions precede
//! new data, streams of known length are sent shortest-remaining-first, streams of unknown length in
//! round-robin order.
use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use longhaul_types::{Priority, StreamId, Timestamp};

/// Packets that a stream sends in its turn (transport.md section 4.2).
const QUANTUM: u8 = 4;
/// Time behind more urgent classes after which a class may send (transport.md section 4.2).
const PATIENCE: Duration = Duration::from_secs(10);
/// Packets of more urgent classes after which such a class sends one packet: 2 %.
const PASSED: u8 = 49;

/// Pending output of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Lost bytes wait for retransmission.
    pub retransmission: bool,
    /// New bytes or a FIN can be sent.
    pub new: bool,
    /// Bytes left to send, if the length is known.
    pub remaining: Option<u64>,
}

#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
struct Class {
    retransmissions: BTreeSet<StreamId>,
    /// Streams of known length, shortest remainder first.
    sized: BTreeSet<(u64, StreamId)>,
    /// Streams of unknown length; the first one has the turn.
    turns: VecDeque<StreamId>,
    /// Packets left in the current turn.
    quantum: u8,
    /// True if the streams of known length have the turn, which they share as one.
    sized_turn: bool,
    /// Time since which the class has waited behind more urgent classes.
    waiting: Option<Timestamp>,
    /// Packets of other classes since the class last sent, counted after `PATIENCE`.
    passed: u8,
}

impl Class {
    fn next(&self) -> Option<StreamId> {
        let sized = self.sized.first().map(|(_, id)| *id);
        let turn = self.turns.front().copied();
        let new = if self.sized_turn {
            sized.or(turn)
        } else {
            turn.or(sized)
        };
        self.retransmissions.first().copied().or(new)
    }
}

/// Queues of the scheduler. The streams report every change of their demand; [`Scheduler::next`] is called
/// when a packet is built, never earlier.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub struct Scheduler {
    classes: [Class; Priority::COUNT as usize],
    /// Class that has waited too long and sends the next packet.
    due: Option<Priority>,
}

impl Scheduler {
    fn class(&mut self, priority: Priority) -> &mut Class {
        // `Priority` is below COUNT by construction.
        &mut self.classes[usize::from(priority.number())]
    }

    /// Replaces the demand of a stream; `before` is the last reported demand.
    pub fn update(&mut self, id: StreamId, priority: Priority, before: Demand, now: Demand) {
        if before == now {
            return;
        }
        let class = self.class(priority);
        if before.retransmission && !now.retransmission {
            class.retransmissions.remove(&id);
        } else if now.retransmission {
            class.retransmissions.insert(id);
        }
        if before.new
            && let Some(remaining) = before.remaining
        {
            class.sized.remove(&(remaining, id));
        }
        let queued = before.new && before.remaining.is_none();
        let queues = now.new && now.remaining.is_none();
        if queued && !queues {
            if class.turns.front() == Some(&id) {
                class.quantum = QUANTUM;
            }
            class.turns.retain(|other| *other != id);
        } else if queues && !queued {
            class.turns.push_back(id);
        }
        if now.new
            && let Some(remaining) = now.remaining
        {
            class.sized.insert((remaining, id));
        }
    }

    /// The stream that sends next.
    pub fn next(&self) -> Option<StreamId> {
        let due = self
            .due
            .and_then(|due| self.classes.get(usize::from(due.number())));
        due.and_then(Class::next)
            .or_else(|| self.classes.iter().find_map(Class::next))
    }

    /// The stream that sends next among the classes up to `last`, without the class that has waited too long.
    pub fn next_up_to(&self, last: Priority) -> Option<StreamId> {
        self.classes
            .iter()
            .take(usize::from(last.number()) + 1)
            .find_map(Class::next)
    }

    /// Records a packet with new data of a class, which shortens the current turn.
    pub fn charge(&mut self, priority: Priority, now: Timestamp) {
        self.pass(priority, now);
        let class = self.class(priority);
        class.quantum = class.quantum.saturating_sub(1);
        if class.quantum > 0 {
            return;
        }
        class.quantum = QUANTUM;
        if class.sized_turn {
            class.sized_turn = false;
        } else {
            class.turns.rotate_left(usize::from(!class.turns.is_empty()));
            class.sized_turn = !class.sized.is_empty();
        }
    }

    /// Counts a packet of this class for the waiting classes.
    fn pass(&mut self, sent: Priority, now: Timestamp) {
        self.due = None;
        let mut is_behind = false;
        for (number, class) in (0..).zip(&mut self.classes) {
            let is_waiting = class.next().is_some();
            if number == sent.number() {
                class.passed = 0;
            }
            if !is_waiting || !is_behind {
                (class.waiting, class.passed) = (None, 0);
            } else if number != sent.number()
                && now.saturating_since(*class.waiting.get_or_insert(now)) >= PATIENCE
            {
                class.passed = (class.passed + 1).min(PASSED);
                if class.passed == PASSED && self.due.is_none() {
                    self.due = Some(Priority::new(number));
                }
            }
            is_behind |= is_waiting;
        }
    }

    /// Returns true if no stream has demand.
    pub fn is_empty(&self) -> bool {
        self.next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn new(remaining: Option<u64>) -> Demand {
        Demand {
            new: true,
            remaining,
            ..Demand::default()
        }
    }

    #[test]
    fn shortest_remaining_goes_first_and_classes_are_strict() {
        let mut s = Scheduler::default();
        let none = Demand::default();
        s.update(StreamId(1), Priority::NORMAL, none, new(Some(500)));
        s.update(StreamId(3), Priority::NORMAL, none, new(Some(100)));
        s.update(StreamId(5), Priority::new(5), none, new(Some(1)));
        assert_eq!(s.next(), Some(StreamId(3)));
        s.update(StreamId(7), Priority::CONTROL, none, new(None));
        assert_eq!(s.next(), Some(StreamId(7)));
        assert_eq!(s.next_up_to(Priority::CONTROL), Some(StreamId(7)));
        s.update(StreamId(7), Priority::CONTROL, new(None), none);
        let lost = Demand {
            retransmission: true,
            ..new(Some(500))
        };
        s.update(StreamId(1), Priority::NORMAL, new(Some(500)), lost);
        assert_eq!(s.next(), Some(StreamId(1)));
    }

    #[test]
    fn a_class_that_waits_for_ten_seconds_gets_a_fiftieth() {
        let mut s = Scheduler::default();
        let classes = [1, 2, 5].map(Priority::new);
        for (id, class) in (0..).zip(classes) {
            s.update(StreamId(id), class, Demand::default(), new(None));
        }
        let mut sent = |from: u64, packets: u64| {
            let mut counts = [0; 3];
            for packet in 0..packets {
                let id = s.next().expect("demand").0;
                let place = usize::try_from(id).expect("one of three");
                s.charge(classes[place], Timestamp::from_nanos(from + packet * 10_000_000));
                counts[place] += 1;
            }
            counts
        };
        // A packet takes 10 ms.
        assert_eq!(sent(0, 1000), [1000, 0, 0]);
        // Both are due at the same time, and one of them is first.
        assert_eq!(sent(10_000_000_000, 501), [481, 10, 10]);
        s.update(StreamId(0), classes[0], new(None), Demand::default());
        let now = Timestamp::from_nanos(15_000_000_000);
        let turn = s.next().expect("demand").0;
        s.charge(classes[usize::try_from(turn).expect("one of three")], now);
        // The class that is now the most urgent has not waited; the last class continues to wait.
        for _ in 0..40 {
            assert_eq!(s.next(), Some(StreamId(1)));
            s.charge(classes[1], now);
        }
    }

    #[test]
    fn a_stream_sends_four_packets_per_turn() {
        let mut s = Scheduler::default();
        for id in [1, 3] {
            s.update(StreamId(id), Priority::NORMAL, Demand::default(), new(None));
        }
        s.charge(Priority::NORMAL, Timestamp::ZERO); // the first quantum starts empty
        let order: Vec<u64> = (0..12)
            .map(|_| {
                let id = s.next().expect("demand");
                s.charge(Priority::NORMAL, Timestamp::ZERO);
                id.0
            })
            .collect();
        assert_eq!(order, [3, 3, 3, 3, 1, 1, 1, 1, 3, 3, 3, 3]);
    }

    #[test]
    fn sized_streams_take_turns_with_the_others() {
        let mut s = Scheduler::default();
        s.update(StreamId(1), Priority::NORMAL, Demand::default(), new(None));
        s.update(
            StreamId(3),
            Priority::NORMAL,
            Demand::default(),
            new(Some(1 << 40)),
        );
        let mut served = BTreeMap::new();
        for _ in 0..80 {
            *served.entry(s.next().expect("demand")).or_insert(0) += 1;
            s.charge(Priority::NORMAL, Timestamp::ZERO);
        }
        assert!(served.values().all(|&n| n >= 30), "{served:?}");
    }

    proptest! {
        /// Compares the scheduler with a naive table of demands: the selected stream has demand in the most
        /// urgent class with demand, lost data first, and no shorter stream of known length waits.
        #[test]
        fn the_scheduler_chooses_as_specified(ops in prop::collection::vec((0u64..12, 0u8..8, any::<bool>(), any::<bool>(), prop::option::of(0u64..50)), 1..120)) {
            let mut s = Scheduler::default();
            let mut table: BTreeMap<StreamId, (Priority, Demand)> = BTreeMap::new();
            for (id, class, retransmission, has_new, remaining) in ops {
                let id = StreamId(id);
                let (priority, before) = table.get(&id).copied().unwrap_or_else(|| (Priority::new(class), Demand::default()));
                let now = Demand { retransmission, new: has_new, remaining };
                s.update(id, priority, before, now);
                table.insert(id, (priority, now));
                let active: Vec<_> = table.iter().filter(|(_, (_, d))| d.new || d.retransmission).collect();
                let best = active.iter().map(|(_, (p, _))| *p).min();
                match s.next() {
                    None => prop_assert!(active.is_empty()),
                    Some(chosen) => {
                        let (priority, demand) = table[&chosen];
                        prop_assert_eq!(Some(priority), best);
                        let peers: Vec<_> = active.iter().filter(|(_, (p, _))| *p == priority).collect();
                        if peers.iter().any(|(_, (_, d))| d.retransmission) {
                            prop_assert!(demand.retransmission);
                        } else if let Some(mine) = demand.remaining {
                            prop_assert!(peers.iter().all(|(_, (_, d))| !d.new || d.remaining.is_none_or(|r| mine <= r)));
                        }
                        s.charge(priority, Timestamp::ZERO);
                    }
                }
            }
        }
    }
}
