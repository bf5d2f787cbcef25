//! Slots for workers: waiting is bounded, and dropping the future gives up the wait.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};

use super::queue::{Capacity, Demand, NoRoom, Queue, Ticket};

/// The slots for workers, of devices `K`.
#[derive(Debug)]
pub(super) struct Places<K: Copy + Ord>(Arc<Shared<K>>);

#[derive(Debug)]
struct Shared<K: Copy + Ord>(Mutex<State<K>>);

#[derive(Debug)]
struct State<K: Copy + Ord> {
    queue: Queue<K>,
    /// The waiting images, by ticket.
    waiting: BTreeMap<Ticket<K>, oneshot::Sender<Place<K>>>,
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
pub(super) enum NoPlace {
    /// The image may not wait.
    #[error(transparent)]
    Room(#[from] NoRoom),
    /// No slot became free in time.
    #[error("no picture worker became free in time")]
    Late,
}

/// A slot for one image, released on drop.
#[derive(Debug)]
pub(super) struct Place<K: Copy + Ord> {
    shared: Arc<Shared<K>>,
    ticket: Ticket<K>,
}

impl<K: Copy + Ord> Drop for Place<K> {
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
        // No code can panic while the guarded state is inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Assigns free slots to the next images.
    fn assign(this: &Arc<Self>) {
        loop {
            let mut state = this.lock();
            let Some(ticket) = state.queue.next() else { return };
            let sender = state.waiting.remove(&ticket);
            drop(state);
            let place = Place {
                shared: Arc::clone(this),
                ticket,
            };
            // If the waiter has just been dropped, dropping the slot returns it.
            let _gone = sender.map(|sender| sender.send(place));
        }
    }
}

impl<K: Copy + Ord> Places<K> {
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

    /// Waits for a slot, at most `patience`. Cancel safe: dropping the future gives up the wait.
    pub(super) async fn enter(
        &self,
        device: K,
        demand: Demand,
        patience: Duration,
    ) -> Result<Place<K>, NoPlace> {
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
        match timeout(patience, receiver).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(NoPlace::Late),
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

    const PATIENCE: Duration = Duration::from_secs(10);
    const SMALL: Demand = Demand {
        memory: 1,
        is_large: false,
    };
    const LARGE: Demand = Demand {
        memory: 70,
        is_large: true,
    };

    fn places() -> Places<char> {
        Places::new(Capacity {
            memory: 100,
            workers: 1,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn no_job_waits_longer_than_the_bound() {
        let places = places();
        let first = places.enter('a', LARGE, PATIENCE).await.unwrap();
        let begun = Instant::now();
        let second = places.enter('b', LARGE, PATIENCE).await;
        assert_eq!(second.err(), Some(NoPlace::Late));
        assert_eq!(begun.elapsed(), PATIENCE);
        // A waiter that timed out gets no slot.
        assert_eq!(
            places.usage(),
            Use {
                waiting: 0,
                working: 1,
                memory: 70
            }
        );
        drop(first);
        assert_eq!(places.usage(), Use::default());
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_picture_does_not_wait_for_another_devices_large_ones() {
        let places = places();
        let _working = places.enter('a', LARGE, PATIENCE).await.unwrap();
        let mut waiting = Box::pin(places.enter('a', LARGE, PATIENCE));
        assert!((&mut waiting).now_or_never().is_none());
        let begun = Instant::now();
        let small = places.enter('b', SMALL, PATIENCE).await;
        assert!(small.is_ok());
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_get_slots_when_others_finish_or_leave() {
        let places = places();
        let first = places.enter('a', LARGE, PATIENCE).await.unwrap();
        let mut second = Box::pin(places.enter('b', LARGE, PATIENCE));
        assert!((&mut second).now_or_never().is_none());
        let mut third = Box::pin(places.enter('c', LARGE, PATIENCE));
        assert!((&mut third).now_or_never().is_none());
        advance(PATIENCE / 2).await;
        assert_eq!(places.usage().waiting, 2);
        drop(second);
        assert_eq!(places.usage().waiting, 1);
        drop(first);
        let third = third.await.unwrap();
        assert_eq!(places.usage().working, 1);
        // A slot that was assigned to a dropped waiter is returned.
        let mut fourth = Box::pin(places.enter('d', LARGE, PATIENCE));
        assert!((&mut fourth).now_or_never().is_none());
        drop(third);
        assert_eq!(places.usage().working, 1, "it is the fourth's");
        drop(fourth);
        assert_eq!(places.usage(), Use::default());
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_that_can_never_run_are_refused_at_once() {
        let places = places();
        let huge = Demand {
            memory: 101,
            is_large: true,
        };
        let begun = Instant::now();
        assert_eq!(
            places.enter('a', huge, PATIENCE).await.err(),
            Some(NoPlace::Room(NoRoom::TooLarge))
        );
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
