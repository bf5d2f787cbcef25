//! Bounded places for connections.
//!
//! Each accepted connection takes a place until it ends, whatever becomes of it: requests, a tunnel, accelerated TLS. A
//! client that opens many and says nothing must not keep others out, so a full house makes room: of the client that has
//! most places, the connection that has waited longest without a complete request goes; if there is none, one whose client
//! has taken nothing of an answer for long. Connections in use stay.
use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
    time::Duration,
};

use tokio::time::Instant;

use super::UserId;

/// How long the head of a request, or the begin of TLS in a tunnel, may take from its first byte on: peers are on this
/// machine or near, and write heads at once.
pub(super) const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long a connection of any kind may be without a request. Browsers give theirs up after about as long; plain
/// HTTP/1.1 ends sooner.
const IDLE_TIME: Duration = Duration::from_secs(300);
/// After so long without taking a byte of its answer a client counts as stuck, if room is needed. Nobody reads that slowly
/// from a program nearby; who pauses a download loses it only in a full house.
const STUCK_TIME: Duration = Duration::from_secs(30);

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceLimits {
    /// In all.
    pub(crate) total: usize,
    /// Of one client.
    pub(crate) per_owner: usize,
    /// Of all who are not served, while they are told so.
    pub(crate) refused: usize,
}

/// Whose connection it is, for fair shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// Not known yet.
    Unknown,
    /// Nobody's who is served.
    Refused,
    /// A user's of this machine.
    User(UserId),
    /// Another machine's.
    Machine(IpAddr),
}

/// All places of a port.
#[derive(Debug)]
pub(crate) struct Places {
    limits: PlaceLimits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    slots: BTreeMap<u64, Arc<Slot>>,
}

/// One connection's place; dropped, it is free.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    slot: Arc<Slot>,
}

/// A request under way, or another use of a connection, for as long as it lives.
#[derive(Debug)]
pub(crate) struct InUse(Arc<Slot>);

#[derive(Debug)]
struct Slot {
    evicted: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    owner: Owner,
    /// Requests and other uses under way.
    uses: usize,
    /// Whether something has begun that is no request yet. Meaningless while in use.
    begun: bool,
    /// Since when that, or since when nothing.
    since: Instant,
    /// What bytes mean while it is not in use.
    bytes: Meaning,
    /// Since when the client has taken nothing of what is to be written.
    stuck_since: Option<Instant>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// What it means that bytes come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// A request begins.
    Request,
    /// Nothing: frames of HTTP/2 come at any time.
    Nothing,
    /// A tunnel is in use, from the first byte in either direction to its end.
    Tunnel,
}

impl Places {
    pub(crate) fn new(limits: PlaceLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            taken: Mutex::default(),
        })
    }

    /// Takes a place, if need be that of another connection; `None` if all are in use.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Place> {
        let mut taken = lock(&self.taken);
        if taken.slots.len() >= self.limits.total && !taken.make_room() {
            return None;
        }
        let slot = Arc::new(Slot::new());
        let number = taken.next;
        taken.next += 1;
        taken.slots.insert(number, Arc::clone(&slot));
        Some(Place {
            places: Arc::clone(self),
            number,
            slot,
        })
    }

    /// Ends the connections that have taken too long to say something.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let mut taken = lock(&self.taken);
        let late: Vec<u64> = taken
            .slots
            .iter()
            .filter(|(_, slot)| lock(&slot.state).is_late(now))
            .map(|(number, _)| *number)
            .collect();
        for number in late {
            taken.evict(number);
        }
    }
}

impl Taken {
    /// Makes room at the cost of the owner with most places who has one to spare.
    fn make_room(&mut self) -> bool {
        let mut counts = BTreeMap::<Owner, usize>::new();
        for slot in self.slots.values() {
            *counts.entry(lock(&slot.state).owner).or_default() += 1;
        }
        let mut owners: Vec<(usize, Owner)> =
            counts.into_iter().map(|(owner, count)| (count, owner)).collect();
        owners.sort_unstable();
        owners
            .into_iter()
            .rev()
            .any(|(_, owner)| self.make_room_of(owner, None))
    }

    /// Ends the owner's connection that can best be done without, but not `kept`; whether there was one.
    fn make_room_of(&mut self, owner: Owner, kept: Option<u64>) -> bool {
        let now = Instant::now();
        let spare = self
            .slots
            .iter()
            .filter(|(number, _)| Some(**number) != kept)
            .filter_map(|(number, slot)| {
                let state = lock(&slot.state);
                let worth = (state.owner == owner).then(|| state.worth(now)).flatten()?;
                Some((worth, *number))
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

impl Place {
    /// Says whose it is; `false` if those already have as many as they may, all in use.
    pub(crate) fn belongs_to(&self, owner: Owner) -> bool {
        let limits = self.places.limits;
        let limit = if owner == Owner::Refused {
            limits.refused
        } else {
            limits.per_owner
        };
        let mut taken = lock(&self.places.taken);
        lock(&self.slot.state).owner = owner;
        let count = taken
            .slots
            .values()
            .filter(|slot| lock(&slot.state).owner == owner)
            .count();
        count <= limit || taken.make_room_of(owner, Some(self.number))
    }

    /// A request begins, or another use that may last.
    pub(crate) fn begin(&self) -> InUse {
        lock(&self.slot.state).uses += 1;
        InUse(Arc::clone(&self.slot))
    }

    /// From now on the client is waited for: it has to say something that is no request yet.
    pub(super) fn expect(&self) {
        let mut state = lock(&self.slot.state);
        (state.begun, state.since) = (true, Instant::now());
    }

    /// From now on there are requests, of which the first may have `begun`.
    pub(super) fn expect_requests(&self, multiplexed: bool, begun: bool) {
        let mut state = lock(&self.slot.state);
        (state.begun, state.since) = (begun && !multiplexed, Instant::now());
        state.bytes = if multiplexed {
            Meaning::Nothing
        } else {
            Meaning::Request
        };
    }

    /// From now on it is a tunnel; whether it has carried something already.
    pub(super) fn becomes_tunnel(&self, is_used: bool) {
        let mut state = lock(&self.slot.state);
        (state.begun, state.since) = (false, Instant::now());
        state.bytes = Meaning::Tunnel;
        if is_used {
            state.moved();
        }
    }

    /// Whether the connection has to end.
    pub(super) fn is_evicted(&self) -> bool {
        self.slot.evicted.load(Ordering::Acquire)
    }

    /// Notes that bytes have come.
    pub(super) fn came(&self) {
        lock(&self.slot.state).moved();
    }

    /// Notes whether the client takes what is written.
    pub(super) fn went(&self, is_stuck: bool, waker: &Waker) {
        let mut state = lock(&self.slot.state);
        if is_stuck {
            state.stuck_since.get_or_insert_with(Instant::now);
            state.writer = Some(waker.clone());
        } else {
            state.stuck_since = None;
            if state.bytes == Meaning::Tunnel {
                state.moved();
            }
        }
    }

    /// Has a reader told when the connection has to end.
    pub(super) fn wake_reader(&self, waker: &Waker) {
        let mut state = lock(&self.slot.state);
        if !state.reader.as_ref().is_some_and(|known| known.will_wake(waker)) {
            state.reader = Some(waker.clone());
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.places.taken).slots.remove(&self.number);
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.uses = state.uses.saturating_sub(1);
        if state.uses == 0 {
            (state.begun, state.since) = (false, Instant::now());
        }
    }
}

impl Slot {
    fn new() -> Self {
        Self {
            evicted: AtomicBool::new(false),
            state: Mutex::new(State {
                owner: Owner::Unknown,
                uses: 0,
                begun: false,
                since: Instant::now(),
                bytes: Meaning::Request,
                stuck_since: None,
                reader: None,
                writer: None,
            }),
        }
    }

    fn evict(&self) {
        self.evicted.store(true, Ordering::Release);
        let wakers = {
            let mut state = lock(&self.state);
            [state.reader.take(), state.writer.take()]
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

impl State {
    /// Bytes have come.
    fn moved(&mut self) {
        match self.bytes {
            Meaning::Request if self.uses == 0 && !self.begun => {
                (self.begun, self.since) = (true, Instant::now());
            }
            // Nothing ends this use but the connection's end.
            Meaning::Tunnel if self.uses == 0 => self.uses = 1,
            Meaning::Request | Meaning::Tunnel | Meaning::Nothing => {}
        }
    }

    /// What goes first if room is needed: the least. `None` for what stays.
    fn worth(&self, now: Instant) -> Option<(u8, Instant)> {
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

/// What these locks guard is whole between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PlaceLimits = PlaceLimits {
        total: 6,
        per_owner: 4,
        refused: 1,
    };

    fn place(places: &Arc<Places>, user: u32) -> Place {
        let place = places.take().unwrap();
        assert!(place.belongs_to(Owner::User(UserId::new(user))));
        place
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_makes_room_and_who_is_served_stays() {
        let places = Places::new(LIMITS);
        let mut silent = Vec::new();
        for _ in 0..4 {
            silent.push(place(&places, 1));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let served = silent[0].begin();
        let fifth = place(&places, 1);
        assert!(!silent[0].is_evicted(), "in use");
        assert!(silent[1].is_evicted(), "the longest of all others");
        assert!(!fifth.is_evicted() && !silent[2].is_evicted());
        // It waits anew, behind the others.
        drop(served);
        tokio::time::advance(Duration::from_millis(1)).await;
        let _sixth = place(&places, 1);
        assert!(silent[2].is_evicted() && !silent[0].is_evicted());
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_house_takes_from_who_has_most() {
        let places = Places::new(LIMITS);
        let few: Vec<Place> = (0..2).map(|_| place(&places, 1)).collect();
        tokio::time::advance(Duration::from_millis(1)).await;
        let many: Vec<Place> = (0..4).map(|_| place(&places, 2)).collect();
        let new = place(&places, 3);
        assert!(few.iter().all(|place| !place.is_evicted()));
        assert_eq!(many.iter().filter(|place| place.is_evicted()).count(), 1);
        // All in use: nobody new, until one ends.
        let in_use: Vec<InUse> = few.iter().chain(&many).chain([&new]).map(Place::begin).collect();
        assert!(places.take().is_none());
        drop(new);
        assert!(places.take().is_some());
        drop(in_use);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_are_not_served_share_few_places() {
        let places = Places::new(LIMITS);
        let (first, second) = (places.take().unwrap(), places.take().unwrap());
        let _told = first.begin();
        assert!(first.belongs_to(Owner::Refused));
        assert!(!second.belongs_to(Owner::Refused));
    }

    #[tokio::test(start_paused = true)]
    async fn half_requests_end_soon_and_idle_connections_later() {
        let places = Places::new(LIMITS);
        let (idle, half, h2, served) = (
            place(&places, 1),
            place(&places, 1),
            place(&places, 1),
            place(&places, 1),
        );
        half.came();
        h2.expect_requests(true, true);
        h2.came();
        let _served = served.begin();
        tokio::time::advance(HEAD_TIME / 2).await;
        // Byte after byte is not faster.
        half.came();
        tokio::time::advance(HEAD_TIME / 2).await;
        places.sweep();
        assert!(half.is_evicted() && !idle.is_evicted() && !h2.is_evicted());
        tokio::time::advance(IDLE_TIME).await;
        places.sweep();
        assert!(idle.is_evicted() && h2.is_evicted() && !served.is_evicted());
    }

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_counts_from_its_first_byte() {
        let places = Places::new(LIMITS);
        let (quiet, used, served) = (place(&places, 1), place(&places, 1), place(&places, 1));
        for tunnel in [&quiet, &used, &served] {
            tunnel.becomes_tunnel(false);
        }
        used.came();
        served.went(false, Waker::noop());
        tokio::time::advance(IDLE_TIME).await;
        places.sweep();
        assert!(quiet.is_evicted() && !used.is_evicted() && !served.is_evicted());
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_goes_only_if_there_is_no_other_way() {
        let places = Places::new(LIMITS);
        let all: Vec<Place> = (0..4).map(|_| place(&places, 1)).collect();
        let _in_use: Vec<InUse> = all.iter().map(Place::begin).collect();
        all[2].went(true, Waker::noop());
        let new = places.take().unwrap();
        assert!(!new.belongs_to(Owner::User(UserId::new(1))), "not yet stuck");
        tokio::time::advance(STUCK_TIME).await;
        places.sweep();
        assert!(!all[2].is_evicted());
        let owner = Owner::User(UserId::new(1));
        assert!(new.belongs_to(owner) && all[2].is_evicted());
    }
}
