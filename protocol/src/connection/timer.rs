//! Timers of a connection: one table, whose minimum is the next timeout.
use longhaul_types::Timestamp;

/// Timer of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The pacer's bucket is above zero again (congestion.md section 9).
    Pace,
    /// Feedback is due at interval F (transport.md section 5.2).
    Feedback,
    /// The reorder delay of a gap has passed (section 5.2).
    Reorder,
    /// The tail of a stream is missing and no more packets arrived (section 5.3).
    Tail,
    /// Feedback is missing: probe, or the next probe of a stall (sections 5.3, 7.3).
    Probe,
    /// A backlogged peer is silent: PING (section 7.3).
    Watch,
    /// An idle agent keeps NAT mappings alive (section 7.3).
    Keepalive,
    /// PATH_CHALLENGE is repeated (section 7.1).
    Challenge,
    /// The challenge of a second path is not answered (section 7.7).
    PathProbe,
    /// The maximum silence of a session has passed (section 7.3).
    Silence,
    /// The closed connection stops answering late packets (section 7.4).
    Drain,
}

const COUNT: usize = 11;

/// Expiry of each timer.
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
    /// Stops `timer` and returns true if it has expired.
    pub(super) fn take_expired(&mut self, timer: Timer, now: Timestamp) -> bool {
        let expired = self.get(timer).is_some_and(|at| at <= now);
        if expired {
            self.set(timer, None);
        }
        expired
    }
}
