//! One pace for all connections of a client, if its link is known (`clientless.link`).
//!
//! A browser opens six connections, and the initial windows of six connections fill the queue of a slow link for seconds, whatever
//! congestion control each of them uses. So all of them together write no faster than the link: a piece at a time, the most
//! urgent class (docs/protocol/session.md section 2) first, in it the body with the least left.
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use longhaul_session::class;
use longhaul_types::{BitRate, LinkProfile, Priority};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::network::ClientNetwork;

/// Part of the link's rate that is used: acknowledgements of uploads and retransmissions need some, too.
const USED: f64 = 0.97;
/// Content of a full packet, and what its headers take in addition (IPv4, TCP with time stamps).
const PACKET: usize = 1448;
const HEADERS: f64 = 52.0;
/// Time of a piece: shorter ones cost processor time, longer ones cannot be overtaken for longer.
const PIECE_TIME: f64 = 0.02;
/// Maximum size of a piece: one read of a body.
const MAX_PIECE: usize = 16 * 1024;
/// Delay that is made up for: a busy machine wakes a task late, and the link must not stand still for it. The queue may grow by
/// as much.
const LATE: Duration = Duration::from_millis(200);
/// Links above this rate have no pace: their queues are short, and the pieces would be too many.
const FASTEST: u64 = 50_000_000;
/// One turn of so many goes to who has waited for longest, so that nobody waits for ever.
const PATIENCE: u64 = 8;

/// The pace of one client.
#[derive(Debug)]
pub(super) struct Pace {
    piece: usize,
    /// Time in which the link carries a piece.
    time: Duration,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// When the link has carried what was permitted.
    free: Instant,
    waiting: BTreeSet<Rank>,
    number: u64,
    turns: u64,
}

/// Position among those that wait; the least is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    class: u8,
    left: u64,
    number: u64,
}

/// How urgent is what a connection writes now.
#[derive(Debug)]
pub(super) struct Urgency {
    class: AtomicU8,
    left: AtomicU64,
}

impl Default for Urgency {
    fn default() -> Self {
        Self {
            class: AtomicU8::new(class::OBJECT.number()),
            left: AtomicU64::new(u64::MAX),
        }
    }
}

impl Urgency {
    /// Sets the class, and the bytes that are left.
    pub(super) fn set(&self, class: Priority, left: u64) {
        self.class.store(class.number(), Relaxed);
        self.left.store(left, Relaxed);
    }

    /// Counts bytes that are no longer left.
    pub(super) fn written(&self, bytes: usize) {
        let left = self.left.load(Relaxed);
        self.left.store(left.saturating_sub(bytes as u64), Relaxed);
    }
}

/// A place among those that wait, until dropped.
struct Waiting<'a> {
    pace: &'a Pace,
    rank: Rank,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.pace.state.lock().waiting.remove(&self.rank);
        self.pace.changed.notify_waiters();
    }
}

impl Pace {
    /// The pace of a link; `None` for a fast one.
    fn of(rate: BitRate) -> Option<Arc<Self>> {
        if rate.as_bps() > FASTEST || rate.as_bps() == 0 {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "below 50 Mbit/s")]
        let bytes = rate.as_bps() as f64 / f64::from(u8::BITS) * USED;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and bounded next"
        )]
        let piece = ((bytes * PIECE_TIME) as usize).clamp(PACKET, MAX_PIECE);
        #[expect(clippy::cast_precision_loss, reason = "at most 16 KiB")]
        let size = piece as f64;
        let packets = (size / 1448.0).ceil();
        Some(Arc::new(Self {
            piece,
            time: Duration::from_secs_f64((size + packets * HEADERS) / bytes),
            state: Mutex::new(State {
                free: Instant::now(),
                waiting: BTreeSet::new(),
                number: 0,
                turns: 0,
            }),
            changed: Notify::new(),
        }))
    }

    /// Waits until a piece may be written; returns its size.
    pub(super) async fn turn(self: Arc<Self>, urgency: Arc<Urgency>) -> usize {
        let rank = {
            let mut state = self.state.lock();
            state.number += 1;
            let rank = Rank {
                class: urgency.class.load(Relaxed),
                left: urgency.left.load(Relaxed),
                number: state.number,
            };
            state.waiting.insert(rank);
            rank
        };
        let _waiting = Waiting { pace: &self, rank };
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From now on a change is noticed.
            changed.as_mut().enable();
            match self.take(rank, Instant::now()) {
                Taken::Now => return self.piece,
                Taken::At(free) => tokio::select! {
                    () = sleep_until(free) => {}
                    () = changed => {}
                },
                Taken::Behind => changed.await,
            }
        }
    }

    /// Gives back what was permitted and not needed.
    pub(super) fn give_back(&self, unused: usize) {
        if unused == 0 {
            return;
        }
        // Both are at most 16 KiB.
        let part = u32::try_from(unused).unwrap_or(0);
        let whole = u32::try_from(self.piece).unwrap_or(u32::MAX);
        let time = self.time * part / whole;
        let mut state = self.state.lock();
        state.free = state.free.checked_sub(time).unwrap_or(state.free);
        drop(state);
        self.changed.notify_waiters();
    }

    fn take(&self, rank: Rank, now: Instant) -> Taken {
        let mut state = self.state.lock();
        if state.next() != Some(rank) {
            return Taken::Behind;
        }
        if now < state.free {
            return Taken::At(state.free);
        }
        let earliest = now.checked_sub(LATE).unwrap_or(now);
        state.free = state.free.max(earliest) + self.time;
        state.turns += 1;
        Taken::Now
    }
}

/// Result of asking for a turn.
enum Taken {
    Now,
    /// This one is next, at this time.
    At(Instant),
    /// Another one is next.
    Behind,
}

impl State {
    fn next(&self) -> Option<Rank> {
        if self.turns % PATIENCE == PATIENCE - 1 {
            return self.waiting.iter().min_by_key(|rank| rank.number).copied();
        }
        self.waiting.first().copied()
    }
}

/// The paces of the networks that have connections.
#[derive(Debug, Default)]
pub(super) struct Paces(Mutex<BTreeMap<ClientNetwork, Arc<Pace>>>);

impl Paces {
    /// The pace of a client; `None` if its link is fast or unknown.
    pub(super) fn of(&self, client: IpAddr, link: Option<LinkProfile>) -> Option<Arc<Pace>> {
        let rate = link?.down;
        let mut paces = self.0.lock();
        // Connections hold the paces of their clients.
        paces.retain(|_, pace| Arc::strong_count(pace) > 1);
        let client = ClientNetwork::of(client);
        if let Some(pace) = paces.get(&client) {
            return Some(Arc::clone(pace));
        }
        let pace = Pace::of(rate)?;
        paces.insert(client, Arc::clone(&pace));
        Some(pace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paces(link: &str) -> Option<Arc<Pace>> {
        let paces = Paces::default();
        paces.of(IpAddr::from([192, 0, 2, 1]), Some(link.parse().unwrap()))
    }

    fn urgency(class: Priority, left: u64) -> Arc<Urgency> {
        let urgency = Urgency::default();
        urgency.set(class, left);
        Arc::new(urgency)
    }

    #[test]
    fn connections_of_one_client_share_a_pace_and_fast_links_have_none() {
        let all = Paces::default();
        let link = Some("gprs-3+1".parse().unwrap());
        let of = |text: &str| all.of(text.parse().unwrap(), link);
        let one = of("192.0.2.1").unwrap();
        assert!(Arc::ptr_eq(&one, &of("192.0.2.1").unwrap()));
        assert!(!Arc::ptr_eq(&one, &of("192.0.2.2").unwrap()));
        let six = of("2001:db8::1").unwrap();
        assert!(Arc::ptr_eq(&six, &of("2001:db8::2").unwrap()));
        assert!(all.of("192.0.2.1".parse().unwrap(), None).is_none());
        drop((one, six));
        drop(of("192.0.2.9"));
        assert_eq!(all.0.lock().len(), 1);
        assert!(paces("lan-fast").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn all_connections_together_keep_the_rate_of_the_link() {
        for link in ["gprs-3+1", "umts-384", "lte"] {
            let Some(pace) = paces(link) else { continue };
            let start = Instant::now();
            let mut tasks = tokio::task::JoinSet::new();
            for _ in 0..6 {
                let pace = Arc::clone(&pace);
                tasks.spawn(async move {
                    let mut bytes = 0;
                    for _ in 0..50 {
                        bytes += Arc::clone(&pace).turn(Arc::default()).await;
                    }
                    bytes
                });
            }
            let bytes: usize = tasks.join_all().await.into_iter().sum();
            let profile: LinkProfile = link.parse().unwrap();
            #[expect(clippy::cast_precision_loss, reason = "a test")]
            let used = bytes as f64 * 8.0 / start.elapsed().as_secs_f64() / profile.down.as_bps() as f64;
            assert!((0.90..0.96).contains(&used), "{link}: {used}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_given_back_costs_no_time() {
        let pace = paces("gprs-3+1").unwrap();
        let start = Instant::now();
        for _ in 0..100 {
            let permitted = Arc::clone(&pace).turn(Arc::default()).await;
            pace.give_back(permitted - permitted / 10);
        }
        let elapsed = start.elapsed();
        assert!(elapsed > pace.time * 8 && elapsed < pace.time * 12, "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_most_urgent_and_shortest_is_next_and_nobody_waits_for_ever() {
        let pace = paces("gprs-3+1").unwrap();
        let _first = Arc::clone(&pace).turn(Arc::default()).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = tokio::task::JoinSet::new();
        let mut wait = |class: Priority, left: u64| {
            let (pace, order) = (Arc::clone(&pace), Arc::clone(&order));
            tasks.spawn(async move {
                pace.turn(urgency(class, left)).await;
                order.lock().push((class.number(), left));
            });
        };
        for (class, left) in [
            (class::BULK, 1),
            (class::OBJECT, 500),
            (class::PAGE, 900),
            (class::OBJECT, 20),
        ] {
            wait(class, left);
        }
        for left in 100..104 {
            wait(class::PAGE, left);
        }
        tasks.join_all().await;
        let page = class::PAGE.number();
        let expected = [
            (page, 100),
            (page, 101),
            (page, 102),
            (page, 103),
            (page, 900),
            (class::OBJECT.number(), 20),
            // The eighth turn.
            (class::BULK.number(), 1),
            (class::OBJECT.number(), 500),
        ];
        assert_eq!(*order.lock(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_its_place_does_not_hold_up_others() {
        let pace = paces("gprs-3+1").unwrap();
        let _first = Arc::clone(&pace).turn(Arc::default()).await;
        let gone = tokio::spawn(Arc::clone(&pace).turn(urgency(class::PAGE, 1)));
        tokio::task::yield_now().await;
        gone.abort();
        let _second = Arc::clone(&pace).turn(urgency(class::BULK, 1)).await;
        assert!(pace.state.lock().waiting.is_empty());
    }
}
