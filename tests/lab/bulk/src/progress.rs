//! Progress of a download at the client.
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use tokio::sync::watch;

/// Arrivals closer than this to the last recorded one are added to it: a download of two minutes stays below
/// 120,000 entries.
const GRAIN: Duration = Duration::from_millis(1);
/// Maximum number of recorded arrivals; later ones are added to the last. Three minutes of the finest grain.
const MAX_ARRIVALS: usize = 180_000;

/// Number of bytes received by a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time at which the application received them.
    pub at: Instant,
    /// Total number of bytes, including these.
    pub total: u64,
}

#[derive(Debug, Default)]
struct Log {
    asked: Option<Instant>,
    ended: Option<Instant>,
    first: Option<Instant>,
    last: Option<Arrival>,
    arrivals: Vec<Arrival>,
}

/// Progress of one download, written by the client and read by the measurement. Clones refer to the same
/// download.
#[derive(Clone, Debug)]
pub struct Progress {
    log: Arc<Mutex<Log>>,
    stop: watch::Sender<bool>,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            log: Arc::default(),
            stop: watch::Sender::new(false),
        }
    }
}

impl Progress {
    /// Creates the progress of a download that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the download; received bytes remain recorded.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits for [`Progress::stop`].
    pub(crate) async fn stopped(&self) {
        // This object holds a sender, so the channel does not close.
        let mut stop = self.stop.subscribe();
        let _closed = stop.wait_for(|stop| *stop).await;
    }

    fn with<T>(&self, use_log: impl FnOnce(&mut Log) -> T) -> T {
        // A writer that panicked leaves a log that is complete up to then.
        use_log(&mut self.log.lock())
    }

    pub(crate) fn ask(&self) {
        self.with(|log| log.asked = Some(Instant::now()));
    }

    pub(crate) fn end(&self) {
        self.with(|log| log.ended = Some(Instant::now()));
    }

    /// Records that `total` bytes have arrived by `at`.
    pub(crate) fn arrive(&self, at: Instant, total: u64) {
        self.with(|log| {
            log.first.get_or_insert(at);
            log.last = Some(Arrival { at, total });
            let full = log.arrivals.len() >= MAX_ARRIVALS;
            match log.arrivals.last_mut() {
                Some(noted) if full || at.saturating_duration_since(noted.at) < GRAIN => noted.total = total,
                _ => log.arrivals.push(Arrival { at, total }),
            }
        });
    }

    /// Time at which the request was passed to the transport.
    pub fn asked(&self) -> Option<Instant> {
        self.with(|log| log.asked)
    }

    /// Time of the first bytes.
    pub fn first_byte(&self) -> Option<Instant> {
        self.with(|log| log.first)
    }

    /// Returns the last arrival so far.
    pub fn last(&self) -> Option<Arrival> {
        self.with(|log| log.last)
    }

    /// Time at which the download ended, by its end, an error or [`Progress::stop`].
    pub fn ended(&self) -> Option<Instant> {
        self.with(|log| log.ended)
    }

    /// Returns the number of bytes received by `at`.
    pub fn received_by(&self, at: Instant) -> u64 {
        self.with(|log| {
            let after = log.arrivals.partition_point(|arrival| arrival.at <= at);
            let before = after.checked_sub(1).and_then(|index| log.arrivals.get(index));
            before.map_or(0, |arrival| arrival.total)
        })
    }

    /// Returns the number of bytes received between two times.
    pub fn received_between(&self, from: Instant, to: Instant) -> u64 {
        self.received_by(to).saturating_sub(self.received_by(from))
    }

    /// Returns the longest completed time without an arrival that began between two times.
    pub fn longest_pause(&self, from: Instant, to: Instant) -> Option<Duration> {
        self.with(|log| {
            let first = log.arrivals.partition_point(|arrival| arrival.at < from);
            // The pause may have begun with the previous arrival.
            let pairs = log.arrivals.get(first.saturating_sub(1)..)?.windows(2);
            pairs
                .take_while(|pair| pair[0].at < to)
                .map(|pair| pair[1].at - pair[0].at)
                .max()
        })
    }

    /// Returns the time of the first arrival at or after `at`.
    pub fn next_arrival(&self, at: Instant) -> Option<Instant> {
        self.with(|log| {
            let index = log.arrivals.partition_point(|arrival| arrival.at < at);
            log.arrivals.get(index).map(|arrival| arrival.at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_found_by_time() {
        let progress = Progress::new();
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        progress.arrive(at(10), 100);
        progress.arrive(at(10), 150);
        progress.arrive(at(30), 400);
        assert_eq!(progress.first_byte(), Some(at(10)));
        assert_eq!(progress.received_by(at(9)), 0);
        assert_eq!(progress.received_by(at(10)), 150);
        assert_eq!(progress.received_between(at(10), at(40)), 250);
        assert_eq!(progress.next_arrival(at(11)), Some(at(30)));
        assert_eq!(progress.next_arrival(at(31)), None);
        let pause = |from, to| progress.longest_pause(at(from), at(to));
        assert_eq!(pause(12, 20), Some(Duration::from_millis(20)));
        assert_eq!(pause(30, 40), Some(Duration::from_millis(20)));
        assert_eq!(pause(31, 40), None);
        assert_eq!(progress.last().map(|arrival| arrival.total), Some(400));
    }

    #[test]
    fn a_log_is_bounded() {
        let progress = Progress::new();
        let start = Instant::now();
        for (index, total) in (0..u64::try_from(MAX_ARRIVALS).unwrap_or(0) + 1000).enumerate() {
            let millis = u64::try_from(index).unwrap_or(u64::MAX) * 2;
            progress.arrive(start + Duration::from_millis(millis), total);
        }
        assert_eq!(progress.with(|log| log.arrivals.len()), MAX_ARRIVALS);
    }
}
