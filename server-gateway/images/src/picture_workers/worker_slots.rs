//! Slots for workers: waiting is bounded, and dropping the future gives up the wait.
use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};

use tokio::{sync::oneshot, time::timeout};

use super::queue::{Capacity, Demand, NoRoom, Queue, Ticket};

/// The slots for workers, of devices `K`.
#[derive(Debug)]
pub(super) struct WorkerSlots<K: Copy + Ord>(Arc<Shared<K>>);

#[derive(Debug)]
struct Shared<K: Copy + Ord>(Mutex<State<K>>);

#[derive(Debug)]
struct State<K: Copy + Ord> {
    queue: Queue<K>,
    /// The waiting images, by ticket.
    waiting: BTreeMap<Ticket<K>, oneshot::Sender<WorkerSlot<K>>>,
}

/// Current use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Use {
    /// Images that wait.
    pub(super) waiting: usize,
    /// Images that are being transcoded.
    pub(super) working: usize,
    /// Memory of the images that are being transcoded, in bytes.
    pub(super) memory: u64,
}

/// Reasons for the lack of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SlotRefusal {
    /// The image may not wait.
    #[error(transparent)]
    Room(#[from] NoRoom),
    /// No slot became free in time.
    #[error("no picture worker became free in time")]
    Late,
}

/// A slot for one image, released on drop.
#[derive(Debug)]
pub(super) struct WorkerSlot<K: Copy + Ord> {
    shared: Arc<Shared<K>>,
    ticket: Ticket<K>,
}

impl<K: Copy + Ord> Drop for WorkerSlot<K> {
    fn drop(&mut self) {
        self.shared.lock().queue.end(self.ticket);
        Shared::assign(&self.shared);
    }
}

/// An image that waits until this is dropped.
struct Waiter<'a, K: Copy + Ord> {
    shared: &'a Arc<Shared<K>>,
    ticket: Ticket<K>,
}

impl<K: Copy + Ord> Drop for Waiter<'_, K> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.queue.cancel(self.ticket);
        let removed = state.waiting.remove(&self.ticket);
        drop(state);
        if removed.is_some() {
            // Others may have waited for the slot of this image.
            Shared::assign(self.shared);
        }
    }
}

impl<K: Copy + Ord> Shared<K> {
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.0.lock()
    }

    /// Assigns free slots to the next images.
    fn assign(this: &Arc<Self>) {
        loop {
            let mut state = this.lock();
            let Some(ticket) = state.queue.next() else { return };
            let sender = state.waiting.remove(&ticket);
            drop(state);
            let slot = WorkerSlot {
                shared: Arc::clone(this),
                ticket,
            };
            // If the waiter has just been dropped, dropping the slot returns it.
            let _gone = sender.map(|sender| sender.send(slot));
        }
    }
}

impl<K: Copy + Ord> WorkerSlots<K> {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self(Arc::new(Shared(Mutex::new(State {
            queue: Queue::new(capacity),
            waiting: BTreeMap::new(),
        }))))
    }

    /// Returns true if the demand could ever be met.
    pub(super) fn can(&self, demand: Demand) -> bool {
        self.0.lock().queue.can(demand)
    }

    /// Waits for a slot, at most `max_wait`. Cancel safe: dropping the future gives up the wait.
    pub(super) async fn enter(
        &self,
        device: K,
        demand: Demand,
        max_wait: Duration,
    ) -> Result<WorkerSlot<K>, SlotRefusal> {
        let (sender, receiver) = oneshot::channel();
        let ticket = {
            let mut state = self.0.lock();
            let ticket = state.queue.push(device, demand)?;
            state.waiting.insert(ticket, sender);
            ticket
        };
        let _waits = Waiter {
            shared: &self.0,
            ticket,
        };
        Shared::assign(&self.0);
        match timeout(max_wait, receiver).await {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) | Err(_) => Err(SlotRefusal::Late),
        }
    }

    pub(super) fn usage(&self) -> Use {
        let state = self.0.lock();
        Use {
            waiting: state.queue.waiting(),
            working: state.queue.working(),
            memory: state.queue.memory(),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::time::{Instant, advance};

    use super::*;

    const MAX_WAIT: Duration = Duration::from_secs(10);
    const SMALL: Demand = Demand {
        memory: 1,
        is_large: false,
    };
    const LARGE: Demand = Demand {
        memory: 70,
        is_large: true,
    };

    fn worker_slots() -> WorkerSlots<char> {
        WorkerSlots::new(Capacity {
            memory: 100,
            workers: 1,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn no_job_waits_longer_than_the_bound() {
        let worker_slots = worker_slots();
        let first = worker_slots.enter('a', LARGE, MAX_WAIT).await.unwrap();
        let begun = Instant::now();
        let second = worker_slots.enter('b', LARGE, MAX_WAIT).await;
        assert_eq!(second.err(), Some(SlotRefusal::Late));
        assert_eq!(begun.elapsed(), MAX_WAIT);
        // A waiter that timed out gets no slot.
        assert_eq!(
            worker_slots.usage(),
            Use {
                waiting: 0,
                working: 1,
                memory: 70
            }
        );
        drop(first);
        assert_eq!(worker_slots.usage(), Use::default());
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_picture_does_not_wait_for_another_devices_large_ones() {
        let worker_slots = worker_slots();
        let _working = worker_slots.enter('a', LARGE, MAX_WAIT).await.unwrap();
        let mut waiting = Box::pin(worker_slots.enter('a', LARGE, MAX_WAIT));
        assert!((&mut waiting).now_or_never().is_none());
        let begun = Instant::now();
        let small = worker_slots.enter('b', SMALL, MAX_WAIT).await;
        assert!(small.is_ok());
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_get_slots_when_others_finish_or_leave() {
        let worker_slots = worker_slots();
        let first = worker_slots.enter('a', LARGE, MAX_WAIT).await.unwrap();
        let mut second = Box::pin(worker_slots.enter('b', LARGE, MAX_WAIT));
        assert!((&mut second).now_or_never().is_none());
        let mut third = Box::pin(worker_slots.enter('c', LARGE, MAX_WAIT));
        assert!((&mut third).now_or_never().is_none());
        advance(MAX_WAIT / 2).await;
        assert_eq!(worker_slots.usage().waiting, 2);
        drop(second);
        assert_eq!(worker_slots.usage().waiting, 1);
        drop(first);
        let third = third.await.unwrap();
        assert_eq!(worker_slots.usage().working, 1);
        // A slot that was assigned to a dropped waiter is returned.
        let mut fourth = Box::pin(worker_slots.enter('d', LARGE, MAX_WAIT));
        assert!((&mut fourth).now_or_never().is_none());
        drop(third);
        assert_eq!(worker_slots.usage().working, 1, "it is the fourth's");
        drop(fourth);
        assert_eq!(worker_slots.usage(), Use::default());
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_that_can_never_run_are_refused_at_once() {
        let worker_slots = worker_slots();
        let huge = Demand {
            memory: 101,
            is_large: true,
        };
        let begun = Instant::now();
        assert_eq!(
            worker_slots.enter('a', huge, MAX_WAIT).await.err(),
            Some(SlotRefusal::Room(NoRoom::TooLarge))
        );
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
