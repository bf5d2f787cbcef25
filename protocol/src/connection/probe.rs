//! Probes and stalls: what happens when nothing is heard (transport.md 5.3, 7.3).
use std::time::Duration;

use longhaul_types::Timestamp;

/// Probes before a silent connection counts as stalled (transport.md 5.3).
const PROBES_BEFORE_STALL: u32 = 3;
/// The least interval of probes (5.3).
const MIN_INTERVAL: Duration = Duration::from_millis(250);
/// Probes of a stall: once a second for a minute, then growing by 1.5 up to 15 s (7.3).
const STALL_INTERVAL: Duration = Duration::from_secs(1);
const STALL_EAGER: Duration = Duration::from_secs(60);
const STALL_LONGEST: Duration = Duration::from_secs(15);

/// What the end of a probe interval means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alarm {
    /// Send a probe.
    Probe,
    /// Send one, and tell the user that the connection is stalled.
    Stall,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Prober {
    /// A probe is to go with the next packet, whatever credit and pacing say.
    pub(super) due: bool,
    /// Since when the connection is stalled.
    pub(super) stalled_since: Option<Timestamp>,
    /// The packet that carried the last probe.
    pub(super) last: Option<u64>,
    sent: u32,
    interval: Duration,
    /// Something authentic came since the first probe.
    heard: bool,
    /// The last packet that asks for feedback, or progress.
    from: Timestamp,
    next: Option<Timestamp>,
}

impl Prober {
    fn restart(&mut self, now: Timestamp) {
        self.from = now;
        self.next = None;
    }

    /// A packet that asks for feedback was sent. While probes are unanswered that does not put off the next one.
    pub(super) fn on_sent(&mut self, now: Timestamp) {
        if self.sent == 0 && self.stalled_since.is_none() {
            self.restart(now);
        }
    }

    /// Feedback told something new: the path works.
    pub(super) fn on_progress(&mut self, now: Timestamp) {
        self.sent = 0;
        self.last = None;
        self.heard = false;
        self.restart(now);
    }

    /// An authentic packet came; whether it ends a stall. Mere feedback does not restart the timer: a sender whose
    /// packets are all lost while the other direction works would never probe (credit-law.md 3, SENDER).
    pub(super) fn on_heard(&mut self, now: Timestamp) -> bool {
        self.heard = true;
        if self.stalled_since.take().is_none() {
            return false;
        }
        self.sent = 0;
        self.restart(now);
        true
    }

    /// When the next probe is due, if something is awaited; `timeout` is the probe timeout of 5.3.
    pub(super) fn deadline(&self, timeout: Duration) -> Timestamp {
        self.next.unwrap_or(self.from + timeout)
    }

    /// The deadline has passed.
    pub(super) fn on_deadline(&mut self, now: Timestamp, srtt: Duration) -> Alarm {
        self.due = true;
        if let Some(since) = self.stalled_since {
            self.interval = if now.saturating_since(since) < STALL_EAGER {
                STALL_INTERVAL
            } else {
                (self.interval * 3 / 2).min(STALL_LONGEST)
            };
            self.next = Some(now + self.interval);
            return Alarm::Probe;
        }
        if self.sent >= PROBES_BEFORE_STALL && !self.heard {
            self.stalled_since = Some(now);
            self.interval = STALL_INTERVAL;
            self.next = Some(now + self.interval);
            return Alarm::Stall;
        }
        if self.sent == 0 {
            self.heard = false;
        }
        self.sent += 1;
        // While the peer is heard without progress, probing slows down to once a second but never stops.
        let slow = if self.sent > PROBES_BEFORE_STALL {
            STALL_INTERVAL
        } else {
            MIN_INTERVAL
        };
        self.next = Some(now + srtt.max(slow));
        if self.sent > PROBES_BEFORE_STALL {
            self.heard = false;
        }
        Alarm::Probe
    }

    /// Whether probes have gone unanswered for so long that they should be small.
    pub(super) const fn is_thin(&self) -> bool {
        self.stalled_since.is_some() || self.sent > PROBES_BEFORE_STALL
    }

    /// Start over at once: the network changed.
    pub(super) fn hurry(&mut self, now: Timestamp) {
        self.next = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_probes_then_a_stall_of_bounded_intervals() {
        let mut prober = Prober::default();
        let srtt = Duration::from_millis(600);
        let mut now = Timestamp::ZERO;
        prober.on_sent(now);
        let mut alarms = Vec::new();
        let mut probes = 0;
        while now < Timestamp::ZERO + Duration::from_secs(600) {
            now = prober.deadline(Duration::from_secs(2));
            alarms.push(prober.on_deadline(now, srtt));
            probes += 1;
        }
        assert_eq!(
            alarms[..4],
            [Alarm::Probe, Alarm::Probe, Alarm::Probe, Alarm::Stall]
        );
        assert!((95..115).contains(&probes), "{probes}");
        assert!(prober.on_heard(now));
        assert_eq!(prober.deadline(srtt), now + srtt);
    }

    #[test]
    fn a_peer_that_is_heard_without_progress_is_probed_but_not_stalled() {
        let mut prober = Prober::default();
        let mut now = Timestamp::ZERO;
        prober.on_sent(now);
        for _ in 0..50 {
            now = prober.deadline(Duration::from_secs(1));
            assert_eq!(prober.on_deadline(now, Duration::from_millis(100)), Alarm::Probe);
            assert!(!prober.on_heard(now + Duration::from_millis(50)));
        }
    }
}
