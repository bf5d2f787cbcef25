//! Which stream sends next (transport.md 4.2): 8 strict classes, retransmissions before new data of their class, inside
//! a class the shortest remaining stream first where lengths are known, else in turn.
use std::collections::{BTreeSet, VecDeque};

use longhaul_types::StreamId;

/// Packets that a stream sends before the next one in its class has its turn (transport.md 4.2).
const QUANTUM: u8 = 4;

/// A class of the scheduler: 0 goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// Number of classes.
    pub const COUNT: u8 = 8;
    /// Control messages.
    pub const CONTROL: Self = Self(0);
    /// The class of a stream about which nothing is known.
    pub const NORMAL: Self = Self(3);
    /// The last class: prefetching.
    pub const LAST: Self = Self(7);
    /// The class `number`, at most 7.
    pub const fn new(number: u8) -> Self {
        if number < Self::COUNT {
            Self(number)
        } else {
            Self::LAST
        }
    }
    /// The number of the class.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// What a stream has to send, as the scheduler sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Lost bytes are to be sent again.
    pub retransmission: bool,
    /// New bytes (or a FIN) may go.
    pub new: bool,
    /// Bytes left until the end, if known.
    pub remaining: Option<u64>,
}

#[derive(Debug, Default)]
struct Class {
    retransmissions: BTreeSet<StreamId>,
    /// Streams of known length, shortest remainder first.
    sized: BTreeSet<(u64, StreamId)>,
    /// Streams of unknown length, the front one has the turn.
    turns: VecDeque<StreamId>,
    /// Packets left of the present turn.
    quantum: u8,
    /// Whether the sized streams have the turn; they take it together, as one.
    sized_turn: bool,
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

/// The scheduler's queues. The streams tell their demand whenever it changes; [`Scheduler::next`] is asked when a packet
/// is built, never earlier.
#[derive(Debug, Default)]
pub struct Scheduler {
    classes: [Class; Priority::COUNT as usize],
}

impl Scheduler {
    fn class(&mut self, priority: Priority) -> &mut Class {
        // `Priority` is below COUNT by construction.
        &mut self.classes[usize::from(priority.0)]
    }

    /// Replaces the demand of a stream: `before` is what was told last time.
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
        self.classes.iter().find_map(Class::next)
    }

    /// The stream that sends next and whose class is `before` or a more urgent one.
    pub fn next_up_to(&self, last: Priority) -> Option<StreamId> {
        self.classes
            .iter()
            .take(usize::from(last.0) + 1)
            .find_map(Class::next)
    }

    /// A packet was filled from new data of a stream: its turn shortens.
    pub fn charge(&mut self, priority: Priority) {
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

    /// Whether nothing is to be sent.
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
    fn turns_last_four_packets() {
        let mut s = Scheduler::default();
        for id in [1, 3] {
            s.update(StreamId(id), Priority::NORMAL, Demand::default(), new(None));
        }
        s.charge(Priority::NORMAL); // the first quantum starts empty
        let order: Vec<u64> = (0..12)
            .map(|_| {
                let id = s.next().expect("demand");
                s.charge(Priority::NORMAL);
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
            s.charge(Priority::NORMAL);
        }
        assert!(served.values().all(|&n| n >= 30), "{served:?}");
    }

    proptest! {
        /// Against a naive table of demands: whoever is chosen has demand, in the most urgent class that has any, lost
        /// data first, and never a longer one of known length while a shorter one waits.
        #[test]
        fn chooses_as_the_table_says(ops in prop::collection::vec((0u64..12, 0u8..8, any::<bool>(), any::<bool>(), prop::option::of(0u64..50)), 1..120)) {
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
                        s.charge(priority);
                    }
                }
            }
        }
    }
}
