//! Bounded number of connections, with fair shares.
//!
//! Each accepted connection takes a permit until it ends, whether it carries requests, a tunnel or accelerated
//! TLS. A client that opens many silent connections must not exclude others. If all permits are taken, the
//! owner with most permits loses the connection that has waited longest without a complete request; if there
//! is none, a connection whose client has not read for a long time. Connections in use stay.
use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
    time::Duration,
};

use parking_lot::Mutex;

use tokio::time::Instant;

use crate::access::UserId;

/// Timeout of the head of a request, or of a ClientHello in a tunnel, from its first byte: peers are on this
/// machine or near, and send heads at once.
pub(super) const HEAD_TIME: Duration = Duration::from_secs(30);
/// Maximum time of any connection without a request. Browsers close idle connections after about this time;
/// plain HTTP/1.1 connections end sooner.
const IDLE_TIME: Duration = Duration::from_secs(300);
/// Time without reading after which a client counts as stuck, if a permit is needed. No program
/// nearby reads this slowly; a paused download is lost only if all permits are taken.
const STUCK_TIME: Duration = Duration::from_secs(30);

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

/// Owner of a connection, for fair shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// Not known yet.
    Unknown,
    /// A peer that is not served.
    Refused,
    /// A user of this machine.
    User(UserId),
    /// Another machine.
    Machine(IpAddr),
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

/// Guard of a request or other use of a connection.
#[derive(Debug)]
pub(crate) struct InUse(Arc<ConnectionSlot>);

#[derive(Debug)]
struct ConnectionSlot {
    evicted: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    owner: Owner,
    /// Number of requests and other uses in progress.
    uses: usize,
    /// True if bytes have arrived that are not a complete request yet. Meaningless while the connection is in
    /// use.
    begun: bool,
    /// Start of the incomplete request, or of the idle time.
    since: Instant,
    /// Meaning of arriving bytes while the connection is not in use.
    bytes: InputMeaning,
    /// Time since which the client has not read pending output.
    stuck_since: Option<Instant>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// Meaning of arriving bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputMeaning {
    /// A request begins.
    Request,
    /// No meaning: HTTP/2 frames arrive at any time.
    Nothing,
    /// A tunnel is in use from the first byte in either direction to its end.
    Tunnel,
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
            .filter(|(_, slot)| slot.state.lock().is_late(now))
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
            *counts.entry(slot.state.lock().owner).or_default() += 1;
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
                let state = slot.state.lock();
                let eviction_order = (state.owner == owner)
                    .then(|| state.eviction_order(now))
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
        self.slot.state.lock().owner = owner;
        let count = taken
            .slots
            .values()
            .filter(|slot| slot.state.lock().owner == owner)
            .count();
        count <= limit || taken.make_room_of(owner, Some(self.number))
    }

    /// Marks the beginning of a request or of another use.
    pub(crate) fn begin(&self) -> InUse {
        self.slot.state.lock().uses += 1;
        InUse(Arc::clone(&self.slot))
    }

    /// Starts the timeout for bytes that are not a request yet, such as a ClientHello.
    pub(super) fn expect_first_bytes(&self) {
        let mut state = self.slot.state.lock();
        (state.begun, state.since) = (true, Instant::now());
    }

    /// Marks that requests follow; `begun` if the first one has begun.
    pub(super) fn expect_requests(&self, multiplexed: bool, begun: bool) {
        let mut state = self.slot.state.lock();
        (state.begun, state.since) = (begun && !multiplexed, Instant::now());
        state.bytes = if multiplexed {
            InputMeaning::Nothing
        } else {
            InputMeaning::Request
        };
    }

    /// Marks the connection as a tunnel; `is_used` if the tunnel has carried bytes.
    pub(super) fn become_tunnel(&self, is_used: bool) {
        let mut state = self.slot.state.lock();
        (state.begun, state.since) = (false, Instant::now());
        state.bytes = InputMeaning::Tunnel;
        if is_used {
            state.handle_bytes();
        }
    }

    /// True if the connection must end.
    pub(super) fn is_evicted(&self) -> bool {
        self.slot.evicted.load(Ordering::Acquire)
    }

    /// Records that bytes have arrived.
    pub(super) fn record_input(&self) {
        self.slot.state.lock().handle_bytes();
    }

    /// Records whether the client reads the output.
    pub(super) fn record_output(&self, is_stuck: bool, waker: &Waker) {
        let mut state = self.slot.state.lock();
        if is_stuck {
            state.stuck_since.get_or_insert_with(Instant::now);
            state.writer = Some(waker.clone());
        } else {
            state.stuck_since = None;
            if state.bytes == InputMeaning::Tunnel {
                state.handle_bytes();
            }
        }
    }

    /// Registers the waker of a reader, which is woken when the connection is evicted.
    pub(super) fn wake_reader(&self, waker: &Waker) {
        let mut state = self.slot.state.lock();
        if !state.reader.as_ref().is_some_and(|known| known.will_wake(waker)) {
            state.reader = Some(waker.clone());
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limiter.taken.lock().slots.remove(&self.number);
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.uses = state.uses.saturating_sub(1);
        if state.uses == 0 {
            (state.begun, state.since) = (false, Instant::now());
        }
    }
}

impl ConnectionSlot {
    fn new() -> Self {
        Self {
            evicted: AtomicBool::new(false),
            state: Mutex::new(State {
                owner: Owner::Unknown,
                uses: 0,
                begun: false,
                since: Instant::now(),
                bytes: InputMeaning::Request,
                stuck_since: None,
                reader: None,
                writer: None,
            }),
        }
    }

    fn evict(&self) {
        self.evicted.store(true, Ordering::Release);
        let wakers = {
            let mut state = self.state.lock();
            [state.reader.take(), state.writer.take()]
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

impl State {
    /// Updates the state after bytes have arrived.
    fn handle_bytes(&mut self) {
        match self.bytes {
            InputMeaning::Request if self.uses == 0 && !self.begun => {
                (self.begun, self.since) = (true, Instant::now());
            }
            // A tunnel remains in use until the connection ends.
            InputMeaning::Tunnel if self.uses == 0 => self.uses = 1,
            InputMeaning::Request | InputMeaning::Tunnel | InputMeaning::Nothing => {}
        }
    }

    /// Returns the order of eviction, lowest first; `None` if the connection must stay.
    fn eviction_order(&self, now: Instant) -> Option<(u8, Instant)> {
        if self.uses == 0 {
            return Some((0, self.since));
        }
        let stuck = self.stuck_since.filter(|since| now - *since >= STUCK_TIME);
        stuck.map(|since| (1, since))
    }

    fn is_late(&self, now: Instant) -> bool {
        let time = if self.begun { HEAD_TIME } else { IDLE_TIME };
        self.uses == 0 && now - self.since >= time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
