//! Datagrams that wait to be sent (transport.md section 4.4): bounded in bytes and in time, with fair shares of the flows.
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use bytes::Bytes;
use longhaul_types::{Priority, Timestamp};

/// Maximum size of all datagrams that wait, with [`ENTRY`] for each.
const MAX_WAITING: usize = 256 * 1024;
/// Longest wait. A datagram that is older has usually been sent again by its program, or is worth nothing: without this
/// limit, the queue on a slow link would delay all datagrams by its length.
const MAX_AGE: Duration = Duration::from_secs(1);
/// Memory of a datagram besides its bytes.
const ENTRY: usize = 64;

/// A datagram to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Datagrams of one flow are sent in order; the flows of a class take turns.
    pub flow: u64,
    /// Class of the scheduler.
    pub class: Priority,
    /// The contents of the frame.
    pub bytes: Bytes,
}

/// Errors of sending a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// The peer receives no datagrams, or the handshake is not complete.
    #[error("the peer receives no datagrams")]
    Unsupported,
    /// The datagram does not fit a packet.
    #[error("the datagram does not fit a packet")]
    TooLarge,
    /// The connection is closed.
    #[error("the session is closed")]
    Closed,
}

/// The datagrams of one flow, oldest first.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
struct Flow {
    waiting: VecDeque<(Timestamp, Bytes)>,
    size: usize,
}

/// Datagrams of one class: a queue for each flow, and the flows in the order of their turns.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
struct Class {
    flows: BTreeMap<u64, Flow>,
    turns: VecDeque<u64>,
}

impl Class {
    /// Removes the oldest datagram of a flow, and the flow with its last one.
    fn take(&mut self, number: u64) -> Option<Bytes> {
        let flow = self.flows.get_mut(&number)?;
        let (_, bytes) = flow.waiting.pop_front()?;
        flow.size -= bytes.len() + ENTRY;
        if flow.waiting.is_empty() {
            self.flows.remove(&number);
            self.turns.retain(|turn| *turn != number);
        }
        Some(bytes)
    }
}

/// The datagrams that wait to be sent.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub struct DatagramQueue {
    classes: BTreeMap<Priority, Class>,
    size: usize,
    dropped: u64,
}

impl DatagramQueue {
    /// Adds a datagram. If the queue is then too large, the flow with most bytes loses its oldest ones.
    pub fn push(&mut self, now: Timestamp, datagram: Datagram) {
        let class = self.classes.entry(datagram.class).or_default();
        let flow = class.flows.entry(datagram.flow).or_insert_with(|| {
            class.turns.push_back(datagram.flow);
            Flow::default()
        });
        let size = datagram.bytes.len() + ENTRY;
        flow.waiting.push_back((now, datagram.bytes));
        flow.size += size;
        self.size += size;
        while self.size > MAX_WAITING {
            let flows = self.classes.iter().flat_map(|(class, of)| {
                let sizes = of.flows.iter();
                sizes.map(move |(number, flow)| (flow.size, *class, *number))
            });
            let Some((_, class, number)) = flows.max() else {
                return;
            };
            self.drop_oldest(class, number);
        }
    }

    /// Drops the datagrams that have waited too long.
    pub fn expire(&mut self, now: Timestamp) {
        let is_old = |flow: &Flow| {
            let oldest = flow.waiting.front();
            oldest.is_some_and(|(at, _)| now.saturating_since(*at) > MAX_AGE)
        };
        loop {
            let mut flows = self
                .classes
                .iter()
                .flat_map(|(class, of)| of.flows.iter().map(move |(number, flow)| (*class, *number, flow)));
            let Some((class, number, _)) = flows.find(|(.., flow)| is_old(flow)) else {
                return;
            };
            self.drop_oldest(class, number);
        }
    }

    /// Length of the datagram of a class that is sent next.
    pub fn next_len(&self, class: Priority) -> Option<usize> {
        let class = self.classes.get(&class)?;
        let (_, bytes) = class.flows.get(class.turns.front()?)?.waiting.front()?;
        Some(bytes.len())
    }

    /// Removes the datagram of a class that is sent next; the next flow has the turn.
    pub fn pop(&mut self, class: Priority) -> Option<Bytes> {
        let of = self.classes.get_mut(&class)?;
        let number = *of.turns.front()?;
        let bytes = of.take(number)?;
        if of.turns.front() == Some(&number) {
            of.turns.rotate_left(1);
        }
        self.size -= bytes.len() + ENTRY;
        if of.flows.is_empty() {
            self.classes.remove(&class);
        }
        Some(bytes)
    }

    /// Drops the datagram of a class that would be sent next.
    pub fn drop_next(&mut self, class: Priority) {
        self.dropped += u64::from(self.pop(class).is_some());
    }

    fn drop_oldest(&mut self, class: Priority, flow: u64) {
        let Some(of) = self.classes.get_mut(&class) else {
            return;
        };
        if let Some(bytes) = of.take(flow) {
            self.size -= bytes.len() + ENTRY;
            self.dropped += 1;
        }
        if of.flows.is_empty() {
            self.classes.remove(&class);
        }
    }

    /// Returns true if no datagram waits.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// Datagrams dropped because they waited too long, did not fit or were too many.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLASS: Priority = Priority::NORMAL;

    fn datagram(flow: u64, tag: u8, len: usize) -> Datagram {
        Datagram {
            flow,
            class: CLASS,
            bytes: vec![tag; len].into(),
        }
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn flows_take_turns_and_each_is_in_order() {
        let mut queue = DatagramQueue::default();
        for (flow, tag) in [(1, 1), (1, 2), (1, 3), (2, 4), (3, 5), (3, 6)] {
            queue.push(at(0), datagram(flow, tag, 1));
        }
        assert_eq!(queue.next_len(CLASS), Some(1));
        assert_eq!(queue.next_len(Priority::LAST), None);
        let order: Vec<u8> = std::iter::from_fn(|| queue.pop(CLASS))
            .map(|bytes| bytes[0])
            .collect();
        assert_eq!(order, [1, 4, 5, 2, 6, 3]);
        assert!(queue.is_empty());
        assert_eq!(queue.size, 0);
    }

    #[test]
    fn a_full_queue_drops_the_oldest_of_the_largest_flow() {
        let mut queue = DatagramQueue::default();
        queue.push(at(0), datagram(1, 1, 100));
        for tag in 0..=255 {
            queue.push(at(0), datagram(2, tag, 1200));
        }
        queue.push(at(0), datagram(3, 9, 1200));
        assert!(queue.size <= MAX_WAITING && queue.dropped() > 40);
        assert_eq!(
            queue.pop(CLASS).unwrap(),
            vec![1; 100],
            "the small flow lost nothing"
        );
        let oldest = usize::try_from(queue.dropped()).unwrap();
        assert_eq!(usize::from(queue.pop(CLASS).unwrap()[0]), oldest);
    }

    #[test]
    fn what_has_waited_for_too_long_is_dropped() {
        let mut queue = DatagramQueue::default();
        queue.push(at(0), datagram(1, 1, 10));
        queue.push(at(500), datagram(1, 2, 10));
        queue.push(at(500), datagram(2, 3, 10));
        queue.expire(at(1000));
        assert_eq!(queue.dropped(), 0);
        queue.expire(at(1001));
        assert_eq!(queue.dropped(), 1);
        assert_eq!(queue.pop(CLASS).unwrap()[0], 2);
        queue.expire(at(1501));
        assert!(queue.is_empty());
        assert_eq!((queue.dropped(), queue.size), (2, 0));
    }

    proptest! {
        /// Whatever is pushed, taken and dropped, the size is that of the datagrams that wait, and within the limit.
        #[test]
        fn the_size_is_that_of_the_waiting_datagrams(steps in prop::collection::vec((0_u64..4, 0_u8..8, 0_usize..2000, 0_u8..4), 1..400)) {
            let mut queue = DatagramQueue::default();
            for (number, (flow, class, len, what)) in steps.into_iter().enumerate() {
                let now = at(number as u64 * 5);
                match what {
                    0 => drop(queue.pop(Priority::new(class))),
                    1 => queue.expire(now),
                    _ => queue.push(now, Datagram { flow, class: Priority::new(class), bytes: vec![0; len].into() }),
                }
                let waiting = queue.classes.values().flat_map(|class| class.flows.values()).flat_map(|flow| &flow.waiting);
                prop_assert_eq!(waiting.map(|(_, bytes)| bytes.len() + ENTRY).sum::<usize>(), queue.size);
                prop_assert!(queue.size <= MAX_WAITING);
                for class in queue.classes.values() {
                    prop_assert_eq!(class.turns.len(), class.flows.len());
                }
            }
        }
    }
}
