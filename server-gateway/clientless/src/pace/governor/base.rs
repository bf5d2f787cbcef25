//! The shortest round trip of a link: what its queue is counted from.
use std::time::Duration;

/// Time for which the shortest round trip counts, and after half of which a queue is emptied to measure it again.
pub(super) const BASE_TIME: Duration = Duration::from_secs(60);

/// The shortest round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Base {
    pub(super) least: Option<f64>,
    /// When it was last measured.
    at: Duration,
    /// The shortest one since `since`, which is the next `least` once that has become old.
    next: Option<f64>,
    since: Duration,
}

impl Base {
    /// This round trip is the shortest one from now on.
    pub(super) const fn replaced(now: Duration, least: Option<f64>) -> Self {
        Self {
            least,
            at: now,
            next: None,
            since: now,
        }
    }

    /// Takes a round trip, with and without the time in which the link carried its packet. That time is uncertain, so that it
    /// does not make the shortest one shorter.
    pub(super) fn sample(&mut self, now: Duration, round_trip: f64, without: f64) {
        if self.since + BASE_TIME < now {
            self.least = self.next;
            self.next = None;
            self.since = now;
        }
        let least = self.least.map_or(round_trip, |least| least.min(round_trip));
        let without = without.max(least);
        self.next = Some(self.next.map_or(without, |next| next.min(without)));
        if without <= least * 1.1 + 0.005 {
            self.at = now;
        }
        self.least = Some(least);
    }

    pub(super) fn is_old(&self, now: Duration) -> bool {
        self.at + BASE_TIME / 2 < now
    }
}
