//! Bounded number of connections, with fair shares.
//!
//! Each accepted connection takes a permit until it ends, whether it carries requests, a tunnel or accelerated
//! TLS. A client that opens many silent connections must not exclude others. If all permits are taken, the
//! owner with most permits loses the connection that has waited longest without a complete request; if there
//! is none, a connection whose client has not read for a long time. Connections in use stay.
use std::{collections::BTreeMap, sync::Arc, task::Waker};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::connection_slot::{ConnectionSlot, InUse, Owner};

/// Limits of the number of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// All connections.
    pub(crate) total: usize,
    /// Connections of one owner.
    pub(crate) per_owner: usize,
    /// Connections that are being refused.
    pub(crate) refused: usize,
}

/// All permits of a port.
#[derive(Debug)]
pub(crate) struct ConnectionLimiter {
    limits: ConnectionLimits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    slots: BTreeMap<u64, Arc<ConnectionSlot>>,
}

/// The permit of one connection; dropping it frees the permit.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    limiter: Arc<ConnectionLimiter>,
    number: u64,
    slot: Arc<ConnectionSlot>,
}

impl ConnectionLimiter {
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            taken: Mutex::default(),
        })
    }

    /// Takes a permit, if necessary by evicting another connection; returns `None` if all connections are in
    /// use.
    pub(crate) fn take(self: &Arc<Self>) -> Option<ConnectionPermit> {
        let mut taken = self.taken.lock();
        if taken.slots.len() >= self.limits.total && !taken.make_room() {
            return None;
        }
        let slot = Arc::new(ConnectionSlot::new());
        let number = taken.next;
        taken.next += 1;
        taken.slots.insert(number, Arc::clone(&slot));
        Some(ConnectionPermit {
            limiter: Arc::clone(self),
            number,
            slot,
        })
    }

    /// Evicts the connections that exceeded their time limits.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let mut taken = self.taken.lock();
        let late: Vec<u64> = taken
            .slots
            .iter()
            .filter(|(_, slot)| slot.is_late(now))
            .map(|(number, _)| *number)
            .collect();
        for number in late {
            taken.evict(number);
        }
    }
}

impl Taken {
    /// Evicts a connection of the owner with most permits who has one that may be evicted.
    fn make_room(&mut self) -> bool {
        let mut counts = BTreeMap::<Owner, usize>::new();
        for slot in self.slots.values() {
            *counts.entry(slot.owner()).or_default() += 1;
        }
        let mut owners: Vec<(usize, Owner)> =
            counts.into_iter().map(|(owner, count)| (count, owner)).collect();
        owners.sort_unstable();
        owners
            .into_iter()
            .rev()
            .any(|(_, owner)| self.make_room_of(owner, None))
    }

    /// Evicts the owner's least valuable connection except `kept`; returns true if there was one.
    fn make_room_of(&mut self, owner: Owner, kept: Option<u64>) -> bool {
        let now = Instant::now();
        let spare = self
            .slots
            .iter()
            .filter(|(number, _)| Some(**number) != kept)
            .filter_map(|(number, slot)| {
                let eviction_order = (slot.owner() == owner)
                    .then(|| slot.eviction_order(now))
                    .flatten()?;
                Some((eviction_order, *number))
            })
            .min();
        let Some((_, number)) = spare else {
            return false;
        };
        self.evict(number);
        true
    }

    fn evict(&mut self, number: u64) {
        if let Some(slot) = self.slots.remove(&number) {
            slot.evict();
        }
    }
}

impl ConnectionPermit {
    /// Sets the owner; returns `false` if the owner has reached its limit and all its connections are in use.
    pub(crate) fn set_owner(&self, owner: Owner) -> bool {
        let limits = self.limiter.limits;
        let limit = if owner == Owner::Refused {
            limits.refused
        } else {
            limits.per_owner
        };
        let mut taken = self.limiter.taken.lock();
        self.slot.set_owner(owner);
        let count = taken.slots.values().filter(|slot| slot.owner() == owner).count();
        count <= limit || taken.make_room_of(owner, Some(self.number))
    }

    /// Marks the beginning of a request or of another use.
    pub(crate) fn begin(&self) -> InUse {
        self.slot.begin()
    }

    /// Starts the timeout for bytes that are not a request yet, such as a ClientHello.
    pub(super) fn expect_first_bytes(&self) {
        self.slot.expect_first_bytes();
    }

    /// Marks that requests follow; `begun` if the first one has begun.
    pub(super) fn expect_requests(&self, multiplexed: bool, begun: bool) {
        self.slot.expect_requests(multiplexed, begun);
    }

    /// Marks the connection as a tunnel; `is_used` if the tunnel has carried bytes.
    pub(super) fn become_tunnel(&self, is_used: bool) {
        self.slot.become_tunnel(is_used);
    }

    /// True if the connection must end.
    pub(super) fn is_evicted(&self) -> bool {
        self.slot.is_evicted()
    }

    /// Records whether the last request was a browser's.
    pub(super) fn record_browser(&self, is_browser: bool) {
        self.slot.record_browser(is_browser);
    }

    /// True while a request of HTTP/1.1 is in progress.
    pub(super) fn is_answering(&self) -> bool {
        self.slot.is_answering()
    }

    /// True if the last request was a browser's.
    pub(super) fn has_browser(&self) -> bool {
        self.slot.has_browser()
    }

    /// Records that bytes have arrived.
    pub(super) fn record_input(&self) {
        self.slot.record_input();
    }

    /// Records whether the client reads the output.
    pub(super) fn record_output(&self, is_stuck: bool, waker: &Waker) {
        self.slot.record_output(is_stuck, waker);
    }

    /// Registers the waker of a reader, which is woken when the connection is evicted.
    pub(super) fn wake_reader(&self, waker: &Waker) {
        self.slot.wake_reader(waker);
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limiter.taken.lock().slots.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        access::UserId,
        connection::connection_slot::{HEAD_TIME, IDLE_TIME, STUCK_TIME},
    };

    const LIMITS: ConnectionLimits = ConnectionLimits {
        total: 6,
        per_owner: 4,
        refused: 1,
    };

    fn permit(limiter: &Arc<ConnectionLimiter>, user: u32) -> ConnectionPermit {
        let permit = limiter.take().unwrap();
        assert!(permit.set_owner(Owner::User(UserId::new(user))));
        permit
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_limit_the_longest_idle_connection_is_evicted() {
        let limiter = ConnectionLimiter::new(LIMITS);
        let mut silent = Vec::new();
        for _ in 0..4 {
            silent.push(permit(&limiter, 1));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let served = silent[0].begin();
        let fifth = permit(&limiter, 1);
        assert!(!silent[0].is_evicted(), "in use");
        assert!(silent[1].is_evicted(), "the longest of all others");
        assert!(!fifth.is_evicted() && !silent[2].is_evicted());
        // The connection is idle again, with a newer idle time than the others.
        drop(served);
        tokio::time::advance(Duration::from_millis(1)).await;
        let _sixth = permit(&limiter, 1);
        assert!(silent[2].is_evicted() && !silent[0].is_evicted());
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_total_limit_the_owner_with_most_connections_loses_one() {
        let limiter = ConnectionLimiter::new(LIMITS);
        let few: Vec<ConnectionPermit> = (0..2).map(|_| permit(&limiter, 1)).collect();
        tokio::time::advance(Duration::from_millis(1)).await;
        let many: Vec<ConnectionPermit> = (0..4).map(|_| permit(&limiter, 2)).collect();
        let new = permit(&limiter, 3);
        assert!(few.iter().all(|permit| !permit.is_evicted()));
        assert_eq!(many.iter().filter(|permit| permit.is_evicted()).count(), 1);
        // All connections are in use: no new one until one ends.
        let in_use: Vec<InUse> = few
            .iter()
            .chain(&many)
            .chain([&new])
            .map(ConnectionPermit::begin)
            .collect();
        assert!(limiter.take().is_none());
        drop(new);
        assert!(limiter.take().is_some());
        drop(in_use);
    }

    #[tokio::test(start_paused = true)]
    async fn refused_clients_share_few_connections() {
        let limiter = ConnectionLimiter::new(LIMITS);
        let (first, second) = (limiter.take().unwrap(), limiter.take().unwrap());
        let _told = first.begin();
        assert!(first.set_owner(Owner::Refused));
        assert!(!second.set_owner(Owner::Refused));
    }

    #[tokio::test(start_paused = true)]
    async fn incomplete_requests_time_out_before_idle_connections() {
        let limiter = ConnectionLimiter::new(LIMITS);
        let (idle, half, h2, served) = (
            permit(&limiter, 1),
            permit(&limiter, 1),
            permit(&limiter, 1),
            permit(&limiter, 1),
        );
        half.record_input();
        h2.expect_requests(true, true);
        h2.record_input();
        let _served = served.begin();
        tokio::time::advance(HEAD_TIME / 2).await;
        // Further bytes do not extend the timeout.
        half.record_input();
        tokio::time::advance(HEAD_TIME / 2).await;
        limiter.sweep();
        assert!(half.is_evicted() && !idle.is_evicted() && !h2.is_evicted());
        tokio::time::advance(IDLE_TIME).await;
        limiter.sweep();
        assert!(idle.is_evicted() && h2.is_evicted() && !served.is_evicted());
    }

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_counts_from_its_first_byte() {
        let limiter = ConnectionLimiter::new(LIMITS);
        let (quiet, used, served) = (permit(&limiter, 1), permit(&limiter, 1), permit(&limiter, 1));
        for tunnel in [&quiet, &used, &served] {
            tunnel.become_tunnel(false);
        }
        used.record_input();
        served.record_output(false, Waker::noop());
        tokio::time::advance(IDLE_TIME).await;
        limiter.sweep();
        assert!(quiet.is_evicted() && !used.is_evicted() && !served.is_evicted());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stuck_connection_is_evicted_only_as_the_last_resort() {
        let limiter = ConnectionLimiter::new(LIMITS);
        let all: Vec<ConnectionPermit> = (0..4).map(|_| permit(&limiter, 1)).collect();
        let _in_use: Vec<InUse> = all.iter().map(ConnectionPermit::begin).collect();
        all[2].record_output(true, Waker::noop());
        let new = limiter.take().unwrap();
        assert!(!new.set_owner(Owner::User(UserId::new(1))), "not yet stuck");
        tokio::time::advance(STUCK_TIME).await;
        limiter.sweep();
        assert!(!all[2].is_evicted());
        let owner = Owner::User(UserId::new(1));
        assert!(new.set_owner(owner) && all[2].is_evicted());
    }
}
