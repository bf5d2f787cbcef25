//! The state of one connection: its owner, its use, and the order in which connections are evicted.
use std::{
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
pub(super) const IDLE_TIME: Duration = Duration::from_secs(300);
/// Time without reading after which a client counts as stuck, if a permit is needed. No program
/// nearby reads this slowly; a paused download is lost only if all permits are taken.
pub(super) const STUCK_TIME: Duration = Duration::from_secs(30);

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

/// Guard of a request or other use of a connection.
#[derive(Debug)]
pub(crate) struct InUse(Arc<ConnectionSlot>);

/// The state of one connection that decides whether it may be evicted.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    evicted: AtomicBool,
    has_browser: AtomicBool,
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
    pub(super) fn new() -> Self {
        Self {
            evicted: AtomicBool::new(false),
            has_browser: AtomicBool::new(false),
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

    /// Ends the connection.
    pub(super) fn evict(&self) {
        self.evicted.store(true, Ordering::Release);
        let wakers = {
            let mut state = self.state.lock();
            [state.reader.take(), state.writer.take()]
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    pub(super) fn owner(&self) -> Owner {
        self.state.lock().owner
    }

    pub(super) fn set_owner(&self, owner: Owner) {
        self.state.lock().owner = owner;
    }

    /// True if the connection has exceeded its time limit.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.state.lock().is_late(now)
    }

    /// Returns the order of eviction, lowest first; `None` if the connection must stay.
    pub(super) fn eviction_order(&self, now: Instant) -> Option<(u8, Instant)> {
        self.state.lock().eviction_order(now)
    }

    /// Marks the beginning of a request or of another use.
    pub(super) fn begin(self: &Arc<Self>) -> InUse {
        self.state.lock().uses += 1;
        InUse(Arc::clone(self))
    }

    /// Starts the timeout for bytes that are not a request yet, such as a ClientHello.
    pub(super) fn expect_first_bytes(&self) {
        let mut state = self.state.lock();
        (state.begun, state.since) = (true, Instant::now());
    }

    /// Marks that requests follow; `begun` if the first one has begun.
    pub(super) fn expect_requests(&self, multiplexed: bool, begun: bool) {
        let mut state = self.state.lock();
        (state.begun, state.since) = (begun && !multiplexed, Instant::now());
        state.bytes = if multiplexed {
            InputMeaning::Nothing
        } else {
            InputMeaning::Request
        };
    }

    /// Marks the connection as a tunnel; `is_used` if the tunnel has carried bytes.
    pub(super) fn become_tunnel(&self, is_used: bool) {
        let mut state = self.state.lock();
        (state.begun, state.since) = (false, Instant::now());
        state.bytes = InputMeaning::Tunnel;
        if is_used {
            state.handle_bytes();
        }
    }

    /// True if the connection must end.
    pub(super) fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Acquire)
    }

    /// Records whether the last request was a browser's.
    pub(super) fn record_browser(&self, is_browser: bool) {
        self.has_browser.store(is_browser, Ordering::Relaxed);
    }

    /// True while a request of HTTP/1.1 is in progress.
    pub(super) fn is_answering(&self) -> bool {
        let state = self.state.lock();
        state.uses > 0 && state.bytes == InputMeaning::Request
    }

    /// True if the last request was a browser's.
    pub(super) fn has_browser(&self) -> bool {
        self.has_browser.load(Ordering::Relaxed)
    }

    /// Records that bytes have arrived.
    pub(super) fn record_input(&self) {
        self.state.lock().handle_bytes();
    }

    /// Records whether the client reads the output.
    pub(super) fn record_output(&self, is_stuck: bool, waker: &Waker) {
        let mut state = self.state.lock();
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
        let mut state = self.state.lock();
        if !state.reader.as_ref().is_some_and(|known| known.will_wake(waker)) {
            state.reader = Some(waker.clone());
        }
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
