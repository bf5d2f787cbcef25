//! The timers of a connection: one table, the next timeout is its minimum.
use longhaul_types::Timestamp;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The pacer's bucket is above zero again (credit.md 7).
    Pace,
    /// Feedback is due at interval F (transport.md 5.2).
    Feedback,
    /// A gap has waited for the reorder delay (5.2).
    Reorder,
    /// The tail of a stream is missing and nothing more came (5.3).
    Tail,
    /// What asks for feedback got none: probe, or the next probe of a stall (5.3, 7.3).
    Probe,
    /// The peer has more to send but is not heard (7.3): ask.
    Watch,
    /// An idle agent keeps NAT mappings alive (7.3).
    Keepalive,
    /// PATH_CHALLENGE goes out again (7.1).
    Challenge,
    /// Nothing was heard for as long as a session is kept (7.3).
    Silence,
    /// The closed connection answers late packets no more (7.4).
    Drain,
}

const COUNT: usize = 10;

/// When each timer runs out.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers([Option<Timestamp>; COUNT]);

impl Timers {
    pub(super) const fn set(&mut self, timer: Timer, at: Option<Timestamp>) {
        self.0[timer as usize] = at;
    }
    pub(super) fn get(&self, timer: Timer) -> Option<Timestamp> {
        self.0[timer as usize]
    }
    pub(super) fn clear(&mut self) {
        self.0 = [None; COUNT];
    }
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.0.iter().flatten().min().copied()
    }
    /// Whether `timer` has run out; it is stopped then.
    pub(super) fn take_expired(&mut self, timer: Timer, now: Timestamp) -> bool {
        let expired = self.get(timer).is_some_and(|at| at <= now);
        if expired {
            self.set(timer, None);
        }
        expired
    }
}
