//! The order in which the bodies of a connection are handed to the library.
//!
//! The library has no priorities: what it has is sent in turn, and cannot be overtaken. So it gets 16 KiB at a time, from
//! the most urgent class (docs/protocol/session.md section 2) the body with the least left, and the next ones only when
//! these are written.
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use longhaul_types::Priority;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Pieces that the library has and has not written. With one, the connection would pause between two pieces.
const AT_ONCE: usize = 2;

/// Position of a piece among those that wait; the least is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    class: u8,
    left: u64,
    /// Pieces of the same class and length in the order of their arrival.
    number: u64,
}

/// The turns of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    queue: Arc<Mutex<Queue>>,
    numbers: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Queue {
    used: usize,
    waiting: BTreeMap<Rank, oneshot::Sender<Turn>>,
}

/// Permission to hand over one piece; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    queue: Arc<Mutex<Queue>>,
}

/// A place among those that wait.
struct Waiting<'a> {
    turns: &'a Turns,
    rank: Rank,
}

impl Turns {
    /// Waits for the turn of a body of this class with so many bytes left.
    pub(super) async fn next(&self, class: Priority, left: u64) -> Turn {
        let rank = Rank {
            class: class.number(),
            left,
            number: self.numbers.fetch_add(1, Relaxed),
        };
        let (sender, receiver) = oneshot::channel();
        self.queue.lock().waiting.insert(rank, sender);
        // If this future is dropped, its place is given up.
        let _waiting = Waiting { turns: self, rank };
        grant(&self.queue);
        match receiver.await {
            Ok(turn) => turn,
            // Unreachable: a sender leaves the queue only with a turn, or with its future.
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns true if a body waits for its turn.
    pub(super) fn has_waiting(&self) -> bool {
        !self.queue.lock().waiting.is_empty()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.turns.queue.lock().waiting.remove(&self.rank);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.queue.lock().used -= 1;
        grant(&self.queue);
    }
}

/// Gives the free turns to those that are next.
fn grant(queue: &Arc<Mutex<Queue>>) {
    loop {
        let next = {
            let mut locked = queue.lock();
            if locked.used >= AT_ONCE {
                return;
            }
            let Some((_, next)) = locked.waiting.pop_first() else {
                return;
            };
            locked.used += 1;
            next
        };
        // A receiver that has gone returns the turn, whose end grants it to the next.
        drop(next.send(Turn {
            queue: Arc::clone(queue),
        }));
    }
}

#[cfg(test)]
mod tests {
    use longhaul_session::class;
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn the_most_urgent_class_is_next_and_in_it_the_shortest_body() {
        let turns = Turns::default();
        let (first, second) = (turns.next(class::BULK, 9).await, turns.next(class::BULK, 9).await);
        let order = Arc::new(Mutex::new(Vec::new()));
        for (class, left) in [
            (class::BULK, 1),
            (class::OBJECT, 500),
            (class::PAGE, 900),
            (class::OBJECT, 20),
            (class::OBJECT, 500),
        ] {
            let (turns, order) = (turns.clone(), Arc::clone(&order));
            tokio::spawn(async move {
                let turn = turns.next(class, left).await;
                order.lock().push((class.number(), left));
                drop(turn);
            });
            yield_now().await;
        }
        assert!(order.lock().is_empty() && turns.has_waiting());
        drop(first);
        while turns.has_waiting() {
            yield_now().await;
        }
        drop(second);
        assert_eq!(*order.lock(), [(1, 900), (3, 20), (3, 500), (3, 500), (5, 1)]);
        assert_eq!(turns.queue.lock().used, 0);
    }

    #[tokio::test]
    async fn a_body_that_ends_while_it_waits_keeps_no_turn() {
        let turns = Turns::default();
        let held = [turns.next(class::PAGE, 1).await, turns.next(class::PAGE, 1).await];
        let waiting = tokio::spawn({
            let turns = turns.clone();
            async move { drop(turns.next(class::PAGE, 1).await) }
        });
        yield_now().await;
        assert!(turns.has_waiting());
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert!(!turns.has_waiting());
        drop(held);
        let _both = [turns.next(class::BULK, 1).await, turns.next(class::BULK, 1).await];
    }
}
