//! Comparison of a link with UDP after a session has returned (docs/protocol/transport.md section 8.3): a network may pass
//! probes over UDP and drop a part of everything else.
use std::time::Duration;

use longhaul_protocol::connection::ConnectionStats;
use tokio::time::Instant;

/// Length of an interval that is measured.
const INTERVAL: Duration = Duration::from_secs(5);
/// Time after a change of the path that is not measured: packets of both paths arrive.
const SETTLING: Duration = Duration::from_secs(1);
/// Part of the link's rate that UDP has to reach, and loss up to which a lower rate has other reasons than the path:
/// for example an origin that sends slowly.
const LEAST_SHARE: (u64, u64) = (7, 10);
const MOST_LOST: (u64, u64) = (5, 100);

/// What has arrived since the session was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Bytes with the headers of IP and UDP.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Packets that count as lost.
    pub lost: u64,
}

impl Arrived {
    /// What the counters of a session contain.
    pub const fn of(stats: &ConnectionStats) -> Self {
        Self {
            bytes: stats.bytes_received,
            packets: stats.packets_received,
            lost: stats.packets_missing,
        }
    }

    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            packets: self.packets.saturating_sub(earlier.packets),
            lost: self.lost.saturating_sub(earlier.lost),
        }
    }
}

/// What arrives while the user waits for data, on one path after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goodput {
    /// Start of the interval, and what had arrived by then; `None` while the user waits for nothing.
    from: Option<(Instant, Arrived)>,
    /// End of the time that is not measured.
    settled: Option<Instant>,
    /// Bytes in the last complete interval on the path in use, and on the path before.
    newest: Option<Arrived>,
    before: Option<Arrived>,
}

impl Goodput {
    pub(crate) const fn new() -> Self {
        Self {
            from: None,
            settled: None,
            newest: None,
            before: None,
        }
    }

    /// The session has changed its path.
    pub(crate) fn on_change(&mut self, now: Instant) {
        self.before = self.newest.take();
        self.from = None;
        self.settled = Some(now + SETTLING);
    }

    /// Measures; to be called whenever something has arrived.
    pub(crate) fn observe(&mut self, now: Instant, arrived: Arrived, is_awaited: bool) {
        if !is_awaited || self.settled.is_some_and(|settled| now < settled) {
            self.from = None;
            return;
        }
        let (since, earlier) = *self.from.get_or_insert((now, arrived));
        if now.saturating_duration_since(since) >= INTERVAL {
            // A pause between two calls lengthens the interval: less arrived in each 5 s.
            let time = now.saturating_duration_since(since).as_millis().max(1);
            let scaled = |value: u64| {
                let value = u128::from(value) * INTERVAL.as_millis() / time;
                u64::try_from(value).unwrap_or(u64::MAX)
            };
            let of = arrived.since(earlier);
            self.newest = Some(Arrived {
                bytes: scaled(of.bytes),
                ..of
            });
            self.from = Some((now, arrived));
        }
    }

    /// Returns true if the path in use carries less than the one before, and loses packets.
    pub(crate) fn is_worse(&self) -> bool {
        let (Some(now), Some(before)) = (self.newest, self.before) else {
            return false;
        };
        let is_slow = now.bytes * LEAST_SHARE.1 < before.bytes * LEAST_SHARE.0;
        let is_lossy = now.lost * MOST_LOST.1 > (now.packets + now.lost) * MOST_LOST.0;
        is_slow && is_lossy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds of 1 MB/s on a link, then `rate` bytes a second over UDP with this many lost packets of a thousand.
    fn after_a_return(rate: u64, lost: u64) -> Goodput {
        let mut now = Instant::now();
        let (mut goodput, mut arrived) = (Goodput::new(), Arrived::default());
        for (rate, lost, seconds) in [(1_000_000, 0, 10), (rate, lost, 7)] {
            goodput.on_change(now);
            for _ in 0..seconds * 10 {
                now += Duration::from_millis(100);
                arrived.bytes += rate / 10;
                arrived.packets += 1000 - lost;
                arrived.lost += lost;
                goodput.observe(now, arrived, true);
            }
        }
        goodput
    }

    #[test]
    fn only_a_path_that_is_slower_and_loses_packets_is_worse() {
        assert!(after_a_return(600_000, 60).is_worse());
        assert!(!after_a_return(800_000, 60).is_worse());
        assert!(!after_a_return(600_000, 40).is_worse(), "the origin is slow");
    }

    #[test]
    fn intervals_without_a_waiting_user_say_nothing() {
        let mut now = Instant::now();
        let mut goodput = Goodput::new();
        for is_awaited in [true, false, true, false] {
            for _ in 0..40 {
                now += Duration::from_millis(100);
                goodput.observe(now, Arrived::default(), is_awaited);
            }
        }
        assert_eq!(goodput.newest, None);
    }
}
