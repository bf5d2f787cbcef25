//! One pace for all connections of a client.
//!
//! A browser opens six connections, and the initial windows of six connections fill the queue of a slow link for seconds, whatever
//! congestion control each of them uses. So all of them together write no faster than the link: a piece at a time, the most
//! urgent class (docs/protocol/session.md section 2) first, in it the body with the least left (`turns`). How fast that is,
//! `governor` decides, from what `meter` measures ([`longhaul_tcp_info`]), or the name of the link (`clientless.link`). `clients` keeps the
//! paces of clients.
mod clients;
mod governor;
mod limit;
mod meter;
#[cfg(test)]
mod tests;
mod turns;

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use longhaul_tcp_info::{TcpInfo, tcp_info};
use longhaul_types::BitRate;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use tracing::debug;

pub(super) use self::{clients::Paces, meter::Link, turns::Urgency};
use self::{
    governor::{Governor, Reading},
    limit::{Limit, PACKET},
    meter::Meter,
    turns::{Rank, Turns},
};

/// Part of a named link's rate that is used: acknowledgements of uploads and retransmissions need some, too.
const USED: f64 = 0.97;
/// Delay that is made up for: a busy machine wakes a task late, and the link must not stand still for it. The queue may grow by
/// as much.
const LATE: Duration = Duration::from_millis(200);
/// Named links above this rate have no pace: their queues are short, and the pieces would be too many.
const FASTEST: u64 = 50_000_000;
/// Round trips without an acknowledgement, and the least time, after which what a connection has outstanding no longer takes up
/// the room of others.
const STUCK_ROUND_TRIPS: u32 = 4;
const LEAST_STUCK: Duration = Duration::from_secs(2);
/// Time after which it is no longer known when something was acknowledged: the client may have sent other packets since.
const PAUSE: Duration = Duration::from_millis(500);

/// The pace of one client.
#[derive(Debug)]
pub(super) struct Pace {
    /// Times of the governor are since then.
    start: Instant,
    /// True if everything may be written at once.
    is_free: AtomicBool,
    /// When the connections are to be looked at next, in microseconds since `start`; never, if nothing is measured.
    next_look: AtomicU64,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    control: Control,
    /// When the link has carried what was permitted.
    free: Instant,
    turns: Turns,
    connections: Vec<(Weak<Link>, Meter)>,
    /// When the connections were looked at.
    looked: Duration,
    /// Bytes that are written and not acknowledged.
    outstanding: u64,
    /// Bytes that are permitted and not written yet.
    permitted: u64,
}

/// What decides about the rate.
#[derive(Debug)]
enum Control {
    /// The name of the link.
    Fixed(Limit),
    /// Measurements.
    Governed(Box<Governor>),
}

/// A place among those that wait, until dropped.
struct Waiting<'a> {
    pace: &'a Pace,
    rank: Rank,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.pace.state.lock().turns.leave(self.rank);
        self.pace.changed.notify_waiters();
    }
}

/// Result of asking for a turn.
enum Taken {
    /// So many bytes may be written.
    Now(usize),
    /// This one is next, and asks again at this time.
    At(Instant),
    /// Another one is next.
    Behind,
    /// The client takes nothing of the connection, which asks again at this time, and is in nobody's way until then.
    Stuck(Instant),
}

impl Pace {
    /// The pace of a link, which is named or measured; `None` for one that is named as a fast one, or neither.
    fn of(named: Option<BitRate>, is_measured: bool) -> Option<Arc<Self>> {
        let named = named.map(BitRate::as_bps).filter(|rate| *rate > 0);
        #[expect(clippy::cast_precision_loss, reason = "below 50 Mbit/s")]
        let control = match named {
            Some(rate) if rate > FASTEST => return None,
            Some(rate) => Control::Fixed(Limit::of_rate(rate as f64 / f64::from(u8::BITS) * USED)),
            None if is_measured => Control::Governed(Box::new(Governor::new())),
            None => return None,
        };
        let is_measured = matches!(control, Control::Governed(_));
        let now = Instant::now();
        Some(Arc::new(Self {
            start: now,
            is_free: AtomicBool::new(false),
            next_look: AtomicU64::new(if is_measured { 0 } else { u64::MAX }),
            state: Mutex::new(State {
                control,
                free: now,
                turns: Turns::default(),
                connections: Vec::new(),
                looked: Duration::ZERO,
                outstanding: 0,
                permitted: 0,
            }),
            changed: Notify::new(),
        }))
    }

    /// Adds a connection, of which the kernel knows this.
    fn add(&self, link: &Arc<Link>, info: &TcpInfo) {
        let now = self.start.elapsed();
        let mut state = self.state.lock();
        if let Control::Governed(governor) = &mut state.control {
            if let Some(round_trip) = info.shortest_round_trip {
                governor.handshake(now, round_trip);
            }
            let meter = Meter::new(now, link.written(), info);
            state.connections.push((Arc::downgrade(link), meter));
            self.decided(&state, now);
        }
    }

    /// Returns true if everything may be written at once.
    pub(super) fn is_free(&self) -> bool {
        self.is_free.load(Relaxed)
    }

    /// Looks at the connections if it is time to.
    pub(super) fn look(&self) {
        let now = self.start.elapsed();
        if micros(now) >= self.next_look.load(Relaxed) {
            let mut state = self.state.lock();
            state.look(now, Instant::now());
            self.decided(&state, now);
        }
    }

    /// Notes what the governor has decided.
    fn decided(&self, state: &State, now: Duration) {
        let Control::Governed(governor) = &state.control else {
            return;
        };
        self.next_look.store(micros(now + governor.interval()), Relaxed);
        let is_free = governor.limit().is_free();
        if self.is_free.swap(is_free, Relaxed) != is_free {
            debug!(limit = ?governor.limit(), "the pace of a client has changed");
            self.changed.notify_waiters();
        }
    }

    /// When the connections are looked at next; never, if nothing is measured.
    fn next_look(&self) -> Option<Instant> {
        let next = self.next_look.load(Relaxed);
        (next != u64::MAX).then(|| self.start + Duration::from_micros(next))
    }

    /// Waits until a piece may be written; returns its size.
    pub(super) async fn turn(self: Arc<Self>, urgency: Arc<Urgency>) -> usize {
        loop {
            let rank = self.state.lock().turns.enter(&urgency);
            let waiting = Waiting { pace: &self, rank };
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                // From now on a change is noticed.
                changed.as_mut().enable();
                self.look();
                match self.take(rank, &urgency, Instant::now()) {
                    Taken::Now(piece) => return piece,
                    Taken::At(at) => tokio::select! {
                        () = sleep_until(at) => {}
                        () = changed => {}
                    },
                    Taken::Behind => changed.await,
                    Taken::Stuck(at) => {
                        drop(waiting);
                        sleep_until(at).await;
                        break;
                    }
                }
            }
        }
    }

    fn take(&self, rank: Rank, urgency: &Urgency, now: Instant) -> Taken {
        let mut state = self.state.lock();
        let limit = state.control.limit();
        let next_look = self.next_look();
        if !limit.is_free() {
            if let Some(at) = next_look.filter(|_| urgency.is_stuck()) {
                return Taken::Stuck(at.max(now));
            }
            if !state.turns.is_next(rank) {
                return Taken::Behind;
            }
            if now < state.free {
                return Taken::At(next_look.map_or(state.free, |at| at.min(state.free)));
            }
            if let Some(at) = next_look.filter(|_| !state.has_room(limit)) {
                return Taken::At(at);
            }
        }
        let piece = limit.piece();
        let earliest = now.checked_sub(LATE).unwrap_or(now);
        state.free = state.free.max(earliest) + limit.time(piece);
        state.permitted += piece as u64;
        state.turns.taken();
        Taken::Now(piece)
    }

    /// Counts bytes of a turn that were written.
    pub(super) fn written(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.permitted = state.permitted.saturating_sub(bytes as u64);
        state.outstanding += bytes as u64;
    }

    /// Gives back what was permitted and not needed.
    pub(super) fn give_back(&self, unused: usize) {
        if unused == 0 {
            return;
        }
        let mut state = self.state.lock();
        state.permitted = state.permitted.saturating_sub(unused as u64);
        let time = state.control.limit().time(unused);
        state.free = state.free.checked_sub(time).unwrap_or(state.free);
        drop(state);
        self.changed.notify_waiters();
    }
}

impl State {
    /// Returns true if a packet may be outstanding besides those that are. One may always be.
    fn has_room(&self, limit: Limit) -> bool {
        let bytes = self.outstanding + self.permitted;
        bytes == 0 || limit.has_room(bytes + PACKET as u64)
    }

    /// Asks the kernel about the connections that have something outstanding, and lets the governor decide.
    fn look(&mut self, now: Duration, instant: Instant) {
        let is_held_back = self.is_held_back(instant);
        let Control::Governed(governor) = &mut self.control else {
            return;
        };
        let patience = (governor.last_round_trip() * STUCK_ROUND_TRIPS).max(LEAST_STUCK);
        let is_after_pause = now.saturating_sub(self.looked) > PAUSE;
        self.looked = now;
        let mut reading = Reading {
            is_held_back,
            is_after_pause,
            ..Reading::default()
        };
        self.connections.retain_mut(|(link, meter)| {
            let Some(link) = link.upgrade() else {
                return false;
            };
            let written = link.written();
            if meter.outstanding(written) == 0 {
                meter.idle(now);
            } else if let Ok(info) = tcp_info(&*link.tcp()) {
                let arrived = meter.update(now, written, &info);
                if !is_after_pause {
                    reading.add(&arrived);
                }
            }
            let is_stuck = now.saturating_sub(meter.progress()) > patience;
            link.urgency.set_stuck(is_stuck);
            if !is_stuck {
                reading.outstanding += meter.outstanding(written);
            }
            true
        });
        self.outstanding = reading.outstanding;
        governor.read(now, &reading);
    }

    /// Returns true if somebody waits, not only for its turn.
    fn is_held_back(&self, now: Instant) -> bool {
        !self.turns.is_empty() && (self.free > now || !self.has_room(self.control.limit()))
    }
}

impl Control {
    fn limit(&self) -> Limit {
        match self {
            Self::Fixed(limit) => *limit,
            Self::Governed(governor) => governor.limit(),
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX - 1)
}
