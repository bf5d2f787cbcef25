//! Slots that several owners share fairly: waiting requests are served round robin by owner, and first come,
//! first served within an owner.
use std::{
    collections::{BTreeMap, VecDeque},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep, sleep_until},
};

/// Numbers of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Slots of all owners together.
    pub total: usize,
    /// Maximum number of slots of one owner.
    pub per_owner: usize,
    /// Slots that each owner always has, even beyond `total`.
    pub reserved: usize,
    /// Maximum number of waiting requests of one owner.
    pub waiting: usize,
}

/// Fair scheduler of slots.
#[derive(Debug)]
pub struct FairShares<K: Ord + Copy> {
    shares: Shares,
    state: Mutex<State<K>>,
}

/// No slot is available: too many requests of the owner already wait, or this request waited too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no slot is available")]
pub struct SlotUnavailable;

/// A slot, released on drop.
#[derive(Debug)]
pub struct Slot<K: Ord + Copy> {
    shares: Arc<FairShares<K>>,
    id: u64,
}

#[derive(Debug)]
struct State<K: Ord + Copy> {
    next: u64,
    /// Number of counted slots.
    used: usize,
    owners: BTreeMap<K, OwnerState<K>>,
    /// Owners with waiting requests, in the order in which they are served.
    turns: VecDeque<K>,
    /// By id, which is the order of age.
    taken: BTreeMap<u64, Taken<K>>,
}

#[derive(Debug)]
struct OwnerState<K: Ord + Copy> {
    used: usize,
    waiting: VecDeque<Waiting<K>>,
}

#[derive(Debug)]
struct Waiting<K: Ord + Copy> {
    id: u64,
    granted: oneshot::Sender<Slot<K>>,
}

#[derive(Debug)]
struct Taken<K: Ord + Copy> {
    owner: K,
    since: Instant,
    /// The slot of `LongLivedSlots::slots` that is counted instead.
    moved: Option<Slot<K>>,
}

impl<K: Ord + Copy> State<K> {
    fn owner(&mut self, owner: K) -> &mut OwnerState<K> {
        self.owners.entry(owner).or_insert_with(|| OwnerState {
            used: 0,
            waiting: VecDeque::new(),
        })
    }

    fn has_room(&self, owner: K, shares: &Shares) -> bool {
        let own = self.owners.get(&owner).map_or(0, |state| state.used);
        own < shares.per_owner && (self.used < shares.total || own < shares.reserved)
    }

    fn count(&mut self, owner: K) {
        self.used += 1;
        self.owner(owner).used += 1;
    }

    fn uncount(&mut self, owner: K) {
        self.used = self.used.saturating_sub(1);
        let state = self.owner(owner);
        state.used = state.used.saturating_sub(1);
        if state.used == 0 && state.waiting.is_empty() {
            self.owners.remove(&owner);
        }
    }
}

impl<K: Ord + Copy> FairShares<K> {
    /// Creates a scheduler with all slots free.
    pub fn new(shares: Shares) -> Arc<Self> {
        Arc::new(Self {
            shares,
            state: Mutex::new(State {
                next: 0,
                used: 0,
                owners: BTreeMap::new(),
                turns: VecDeque::new(),
                taken: BTreeMap::new(),
            }),
        })
    }

    /// Returns a slot if one is free now and no other request of this owner waits.
    pub fn try_acquire(self: &Arc<Self>, owner: K) -> Option<Slot<K>> {
        let mut state = self.state();
        let is_first = state
            .owners
            .get(&owner)
            .is_none_or(|found| found.waiting.is_empty());
        let has_room = state.has_room(owner, &self.shares);
        (is_first && has_room).then(|| self.take(&mut state, owner))
    }

    /// Waits for a slot. Dropping the future removes the request from the queue.
    ///
    /// # Errors
    /// `SlotUnavailable` if the maximum number of this owner's requests already waits.
    pub async fn acquire(self: &Arc<Self>, owner: K) -> Result<Slot<K>, SlotUnavailable> {
        if let Some(slot) = self.try_acquire(owner) {
            return Ok(slot);
        }
        let (granted, slot) = oneshot::channel();
        let queued = self.queue(owner, granted)?;
        // A slot may have been released between the check and the entry into the queue.
        self.serve();
        let slot = slot.await.map_err(|_| SlotUnavailable);
        drop(queued);
        slot
    }

    /// Waits for a slot, for at most `limit`. Meanwhile slots older than `long_lived.age` move to
    /// `long_lived.slots`.
    ///
    /// # Errors
    /// `SlotUnavailable` if the maximum number of this owner's requests already waits, or the time limit is over.
    pub async fn acquire_within(
        self: &Arc<Self>,
        owner: K,
        limit: Duration,
        long_lived: Option<&LongLivedSlots<K>>,
    ) -> Result<Slot<K>, SlotUnavailable> {
        let mut slot = pin!(self.acquire(owner));
        let mut over = pin!(sleep(limit));
        loop {
            tokio::select! {
                biased;
                slot = &mut slot => return slot,
                () = &mut over => return Err(SlotUnavailable),
                () = self.oldest_ages(long_lived) => self.move_long_lived(long_lived),
            }
        }
    }

    /// Returns true if a waiting request would get a slot if this owner released one.
    pub fn is_wanted_from(&self, owner: K) -> bool {
        let state = self.state();
        let is_full = state.used >= self.shares.total && !state.turns.is_empty();
        is_full
            || state
                .owners
                .get(&owner)
                .is_some_and(|found| !found.waiting.is_empty())
    }

    /// Returns true if the owner has its maximum number of slots.
    pub fn is_full_for(&self, owner: K) -> bool {
        let state = self.state();
        state
            .owners
            .get(&owner)
            .is_some_and(|found| found.used >= self.shares.per_owner)
    }

    fn take(self: &Arc<Self>, state: &mut State<K>, owner: K) -> Slot<K> {
        let id = state.next;
        state.next += 1;
        state.count(owner);
        let taken = Taken {
            owner,
            since: Instant::now(),
            moved: None,
        };
        state.taken.insert(id, taken);
        Slot {
            shares: Arc::clone(self),
            id,
        }
    }

    fn queue(
        self: &Arc<Self>,
        owner: K,
        granted: oneshot::Sender<Slot<K>>,
    ) -> Result<Queued<'_, K>, SlotUnavailable> {
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        let limit = self.shares.waiting;
        let found = state.owner(owner);
        if found.waiting.len() >= limit {
            return Err(SlotUnavailable);
        }
        let is_first = found.waiting.is_empty();
        found.waiting.push_back(Waiting { id, granted });
        if is_first {
            state.turns.push_back(owner);
        }
        Ok(Queued {
            shares: self,
            owner,
            id,
        })
    }

    /// Gives free slots to waiting requests.
    fn serve(self: &Arc<Self>) {
        // Sent without the lock: a slot whose receiver is gone is dropped at once, and the drop takes the
        // lock.
        while let Some((granted, slot)) = self.next() {
            let _gone = granted.send(slot);
        }
    }

    fn next(self: &Arc<Self>) -> Option<(oneshot::Sender<Slot<K>>, Slot<K>)> {
        let mut guard = self.state();
        let state = &mut *guard;
        for _ in 0..state.turns.len() {
            let owner = state.turns.pop_front()?;
            if !state.has_room(owner, &self.shares) {
                state.turns.push_back(owner);
                continue;
            }
            let found = state.owner(owner);
            let Some(waiting) = found.waiting.pop_front() else {
                continue;
            };
            if !found.waiting.is_empty() {
                state.turns.push_back(owner);
            }
            let slot = self.take(state, owner);
            return Some((waiting.granted, slot));
        }
        None
    }

    /// Returns when the oldest slot counted here is old enough to move.
    async fn oldest_ages(&self, long_lived: Option<&LongLivedSlots<K>>) {
        let Some(long_lived) = long_lived else {
            return std::future::pending().await;
        };
        let oldest = {
            let state = self.state();
            let counted = state.taken.values().filter(|taken| taken.moved.is_none());
            counted.map(|taken| taken.since).min()
        };
        match oldest {
            Some(since) => sleep_until(since + long_lived.age).await,
            None => std::future::pending().await,
        }
    }

    /// Moves all slots that are old enough.
    fn move_long_lived(self: &Arc<Self>, long_lived: Option<&LongLivedSlots<K>>) {
        let Some(long_lived) = long_lived else { return };
        let now = Instant::now();
        let old: Vec<u64> = {
            let state = self.state();
            let taken = state.taken.iter();
            let old = taken.filter(|(_, taken)| taken.moved.is_none() && taken.since + long_lived.age <= now);
            old.map(|(id, _)| *id).collect()
        };
        for id in old {
            self.move_one(id, long_lived);
        }
        self.serve();
    }

    fn move_one(self: &Arc<Self>, id: u64, long_lived: &LongLivedSlots<K>) {
        let mut state = self.state();
        let Some(taken) = state.taken.get_mut(&id).filter(|taken| taken.moved.is_none()) else {
            return;
        };
        let owner = taken.owner;
        match long_lived.slots.try_acquire(owner) {
            Some(slot) => {
                taken.moved = Some(slot);
                state.uncount(owner);
            }
            // Retried after another `age`.
            None => taken.since = Instant::now(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        // The guarded state is consistent between any two statements that can panic.
        self.state.lock()
    }
}

/// Rule for slots of long-lived requests.
#[derive(Clone, Debug)]
pub struct LongLivedSlots<K: Ord + Copy> {
    /// Age from which a slot moves.
    pub age: Duration,
    /// The scheduler that counts moved slots.
    pub slots: Arc<FairShares<K>>,
}

impl<K: Ord + Copy> Slot<K> {
    /// Moves this slot at once, without regard to its age.
    pub fn mark_long_lived(&self, long_lived: &LongLivedSlots<K>) {
        self.shares.move_one(self.id, long_lived);
        self.shares.serve();
    }

    /// Counts this slot for another owner from now on.
    pub fn transfer(&self, owner: K) {
        let mut state = self.shares.state();
        let Some(taken) = state.taken.get_mut(&self.id) else {
            return;
        };
        let before = std::mem::replace(&mut taken.owner, owner);
        match &taken.moved {
            Some(moved) => moved.transfer(owner),
            None if before != owner => {
                state.uncount(before);
                state.count(owner);
                drop(state);
                self.shares.serve();
            }
            None => {}
        }
    }
}

impl<K: Ord + Copy> Drop for Slot<K> {
    fn drop(&mut self) {
        let taken = {
            let mut state = self.shares.state();
            let taken = state.taken.remove(&self.id);
            if let Some(taken) = taken.as_ref().filter(|taken| taken.moved.is_none()) {
                state.uncount(taken.owner);
            }
            taken
        };
        // Releases the moved slot, if any.
        drop(taken);
        self.shares.serve();
    }
}

/// A waiting request, which leaves the queue on drop.
struct Queued<'a, K: Ord + Copy> {
    shares: &'a FairShares<K>,
    owner: K,
    id: u64,
}

impl<K: Ord + Copy> Drop for Queued<'_, K> {
    fn drop(&mut self) {
        let mut guard = self.shares.state();
        let state = &mut *guard;
        let Some(found) = state.owners.get_mut(&self.owner) else {
            return;
        };
        found.waiting.retain(|waiting| waiting.id != self.id);
        if found.waiting.is_empty() {
            if found.used == 0 {
                state.owners.remove(&self.owner);
            }
            state.turns.retain(|owner| *owner != self.owner);
        }
    }
}

#[cfg(test)]
#[path = "shares_tests.rs"]
mod tests;
