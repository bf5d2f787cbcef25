//! Probes and stalls: what happens when nothing is heard (transport.md 5.3, 7.3).
use std::time::Duration;

use longhaul_types::Timestamp;

/// Probes that are sent at the interval of 5.3, whatever is heard; those after them come less often.
const EAGER_PROBES: u32 = 3;
/// The interval of the probes after them (5.3): they are small. A round trip and a second after a path is back data arrives, after
/// half a round trip more than this.
const HEARD_INTERVAL: Duration = Duration::from_millis(750);
/// The least interval of probes (5.3).
const MIN_INTERVAL: Duration = Duration::from_millis(250);
/// A silence of 2.5 SRTT and this much is a stall (7.3): with the way of what was still heard, a user is told within 3 SRTT + 1 s.
const STALL_SILENCE: Duration = Duration::from_millis(800);
/// The longest SRTT that counts there: behind somebody's full buffer, a stall must show all the same.
const LONGEST_SRTT: Duration = Duration::from_secs(4);
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
    /// That probe finds out what is left after a stall: it is to be short.
    pub(super) resuming: bool,
    /// The packet that carried the last probe.
    pub(super) last: Option<u64>,
    sent: u32,
    interval: Duration,
    /// The first probe since the peer was last heard.
    unanswered: Option<Timestamp>,
    /// The last packet that asks for feedback, or progress.
    from: Timestamp,
    /// Since when an answer is expected: progress, or the first packet that asked when nothing was on the way.
    expecting: Timestamp,
    next: Option<Timestamp>,
}

impl Prober {
    /// A packet that asks for feedback was sent. While probes are unanswered that does not put off the next one.
    pub(super) fn on_sent(&mut self, now: Timestamp, was_awaiting: bool) {
        if self.sent == 0 && self.stalled_since.is_none() {
            self.from = now;
            self.next = None;
            if !was_awaiting {
                self.expecting = now;
            }
        }
    }

    /// Feedback told something new: the path works.
    pub(super) fn on_progress(&mut self, now: Timestamp) {
        self.sent = 0;
        self.last = None;
        self.unanswered = None;
        self.from = now;
        self.expecting = now;
        self.next = None;
    }

    /// An authentic packet came; whether it ends a stall. Mere feedback does not restart the timer: a sender whose
    /// packets are all lost while the other direction works would never probe (credit-law.md 3, SENDER).
    pub(super) fn on_heard(&mut self, now: Timestamp) -> bool {
        self.unanswered = None;
        if self.stalled_since.take().is_none() {
            return false;
        }
        self.sent = 0;
        self.from = now;
        self.expecting = now;
        self.next = None;
        self.resuming = true;
        true
    }

    /// The peer has more to send, is silent since `heard` and was asked (PING): that is the first probe, which is answered
    /// within `timeout`.
    pub(super) fn on_asked(&mut self, now: Timestamp, heard: Timestamp, srtt: Duration, timeout: Duration) {
        if self.sent > 0 || self.stalled_since.is_some() {
            return;
        }
        self.sent = 1;
        self.unanswered = Some(now);
        self.expecting = heard;
        let answer = now + timeout;
        self.next = Some(
            self.stalls_at(heard, srtt)
                .map_or(answer, |stall| stall.min(answer)),
        );
    }

    /// When the next probe is due, if something is awaited: `last` after the last packet that asks for feedback, `any` after
    /// progress (5.3).
    pub(super) fn deadline(&self, last: Duration, any: Duration) -> Timestamp {
        let first = (self.from + last).min(self.expecting + any);
        self.next.unwrap_or(first)
    }

    /// When the silence since `heard` is a stall, if the probes stay unanswered.
    fn stalls_at(&self, heard: Timestamp, srtt: Duration) -> Option<Timestamp> {
        let srtt = srtt.min(LONGEST_SRTT);
        let silence = heard.max(self.expecting) + srtt * 5 / 2 + STALL_SILENCE;
        Some(silence.max(self.unanswered? + srtt))
    }

    /// The deadline has passed; the peer was last heard at `heard`, and further probes come every `interval` or less often.
    pub(super) fn on_deadline(
        &mut self,
        now: Timestamp,
        heard: Timestamp,
        srtt: Duration,
        interval: Duration,
    ) -> Alarm {
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
        if self.stalls_at(heard, srtt).is_some_and(|at| at <= now) {
            self.stalled_since = Some(now);
            self.interval = STALL_INTERVAL;
            self.next = Some(now + self.interval);
            return Alarm::Stall;
        }
        self.sent += 1;
        self.unanswered.get_or_insert(now);
        // While the peer is heard without progress, probing slows down but never stops.
        let wait = if self.sent > EAGER_PROBES {
            HEARD_INTERVAL
        } else {
            interval.max(MIN_INTERVAL)
        };
        let probe = now + wait;
        self.next = Some(
            self.stalls_at(heard, srtt)
                .map_or(probe, |stall| stall.min(probe)),
        );
        Alarm::Probe
    }

    /// A probe was sent with packet `number`.
    pub(super) fn on_probe_sent(&mut self, number: Option<u64>) {
        self.due = false;
        self.resuming = false;
        self.last = number;
    }

    /// Whether probes have gone unanswered for so long that they should be small.
    pub(super) const fn is_thin(&self) -> bool {
        self.stalled_since.is_some() || self.sent > EAGER_PROBES
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
    fn silence_is_probed_then_a_stall_of_bounded_intervals() {
        let mut prober = Prober::default();
        let srtt = Duration::from_millis(600);
        let timeout = Duration::from_millis(1500);
        let mut now = Timestamp::ZERO;
        prober.on_sent(now, false);
        let mut stalled = None;
        let mut probes = 0;
        while now < Timestamp::ZERO + Duration::from_secs(600) {
            now = prober.deadline(timeout, timeout);
            if prober.on_deadline(now, Timestamp::ZERO, srtt, srtt) == Alarm::Stall {
                assert_eq!(stalled, None);
                stalled = Some((now, probes));
            }
            probes += 1;
        }
        // 2.5 SRTT + 0.8 s, with probes at 1.5 s and 2.1 s.
        let (at, before) = stalled.expect("a stall");
        assert_eq!((at, before), (Timestamp::ZERO + Duration::from_millis(2300), 2));
        assert!((95..115).contains(&probes), "{probes}");
        assert!(prober.on_heard(now));
        assert_eq!(prober.deadline(srtt, srtt), now + srtt);
    }

    #[test]
    fn a_stall_waits_for_the_answer_to_one_probe() {
        let mut prober = Prober::default();
        let srtt = Duration::from_millis(100);
        let late = Duration::from_secs(5);
        prober.on_sent(Timestamp::ZERO, false);
        let asked = prober.deadline(late, late);
        assert_eq!(
            prober.on_deadline(asked, Timestamp::ZERO, srtt, srtt),
            Alarm::Probe
        );
        let next = prober.deadline(late, late);
        assert_eq!(next, asked + srtt);
        assert_eq!(
            prober.on_deadline(next, Timestamp::ZERO, srtt, srtt),
            Alarm::Stall
        );
    }

    #[test]
    fn packets_that_follow_do_not_put_off_the_answer_that_is_due() {
        let mut prober = Prober::default();
        let (last, any) = (Duration::from_millis(300), Duration::from_millis(500));
        for at in [0_u64, 200, 400] {
            prober.on_sent(Timestamp::ZERO + Duration::from_millis(at), at > 0);
        }
        assert_eq!(prober.deadline(last, any), Timestamp::ZERO + any);
    }

    #[test]
    fn a_peer_that_is_heard_without_progress_is_probed_but_not_stalled() {
        let mut prober = Prober::default();
        let (second, srtt) = (Duration::from_secs(1), Duration::from_millis(100));
        let mut now = Timestamp::ZERO;
        let mut heard = now;
        prober.on_sent(now, false);
        for _ in 0..50 {
            now = prober.deadline(second, second);
            assert_eq!(prober.on_deadline(now, heard, srtt, srtt), Alarm::Probe);
            heard = now + Duration::from_millis(50);
            assert!(!prober.on_heard(heard));
        }
    }
}
