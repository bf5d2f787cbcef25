//! Probes and stalls (transport.md sections 5.3, 7.3).
use std::time::Duration;

use longhaul_types::Timestamp;

/// Number of probes at the first interval of section 5.3; later probes are sent every `LATER_INTERVAL`.
const EAGER_PROBES: u32 = 3;
/// Interval of the later, small probes (section 5.3). After an outage, the first probe arrives within this
/// interval plus half a round-trip time, so that data arrives within one round-trip time and 1 s.
const LATER_INTERVAL: Duration = Duration::from_millis(750);
/// Least interval of the first probes (section 5.3).
const MIN_INTERVAL: Duration = Duration::from_millis(250);
/// Number of the first intervals that follow the round-trip time below `MIN_INTERVAL`: two probes in a row are lost on
/// lossy links, more on broken ones.
const QUICK_INTERVALS: u32 = 2;
/// Least interval then: less is within the jitter of a radio.
const LEAST_QUICK_INTERVAL: Duration = Duration::from_millis(50);
/// Time after which unanswered probes show that the peer does not receive them, although packets arrive. A queue that fills
/// suddenly can delay answers by less than this time.
pub(super) const LATEST_ANSWER: Duration = Duration::from_millis(300);
/// A stall is a silence of 2.5 SRTT plus this time (section 7.3). With the one-way delay of the last packet,
/// the user learns of the stall within 3 SRTT + 1 s.
const STALL_SILENCE: Duration = Duration::from_millis(800);
/// Largest SRTT of the stall rule, so that a stall is detected behind a full buffer, too.
const LONGEST_SRTT: Duration = Duration::from_secs(4);
/// Intervals of probes during a stall: once a second for a minute, then growing by a factor of 1.5 up to 15 s
/// (section 7.3).
const STALL_INTERVAL: Duration = Duration::from_secs(1);
const STALL_EAGER: Duration = Duration::from_secs(60);
const STALL_LONGEST: Duration = Duration::from_secs(15);

/// Action at the end of a probe interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeAction {
    /// Send a probe.
    Probe,
    /// Send a probe and report a stall to the user.
    Stall,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Prober {
    /// True if the next packet is a probe, which is exempt from credit and pacing.
    pub(super) due: bool,
    /// Start of the current stall.
    pub(super) stalled_since: Option<Timestamp>,
    /// True if the probe finds out which packets are outstanding after a stall; it is short.
    pub(super) resuming: bool,
    /// Number of the packet with the last probe.
    pub(super) last: Option<u64>,
    sent: u32,
    /// Time of the first probe since the last progress.
    first: Option<Timestamp>,
    /// True if probes stay unanswered although packets arrive.
    is_unheard: bool,
    interval: Duration,
    /// Time of the first probe since the last packet of the peer.
    unanswered: Option<Timestamp>,
    /// Probes since the last packet of the peer.
    in_silence: u32,
    /// Time of the last eliciting packet or of the last progress.
    from: Timestamp,
    /// Time since which an answer is expected: the last progress, or the first eliciting packet when nothing
    /// was outstanding.
    expecting: Timestamp,
    next: Option<Timestamp>,
}

impl Prober {
    /// Records an eliciting packet. While probes are unanswered, the packet does not postpone the next probe.
    pub(super) fn on_sent(&mut self, now: Timestamp, was_awaiting: bool) {
        if self.sent == 0 && self.stalled_since.is_none() {
            self.from = now;
            self.next = None;
            if !was_awaiting {
                self.expecting = now;
            }
        }
    }

    /// Records feedback with new information, which shows that the path works.
    pub(super) fn on_progress(&mut self, now: Timestamp) {
        self.forget_probes();
        self.last = None;
        self.end_silence();
        self.from = now;
        self.expecting = now;
        self.next = None;
    }

    const fn end_silence(&mut self) {
        self.unanswered = None;
        self.in_silence = 0;
    }

    const fn forget_probes(&mut self) {
        self.sent = 0;
        self.first = None;
        self.is_unheard = false;
    }

    /// Records an authenticated packet; returns true if the packet ends a stall. Feedback without new
    /// information does not restart the timer: otherwise a sender whose packets are all lost while the
    /// reverse direction works would never probe (transport.md section 5.3).
    pub(super) fn on_received(&mut self, now: Timestamp) -> bool {
        self.end_silence();
        if self.stalled_since.take().is_none() {
            return false;
        }
        self.forget_probes();
        self.from = now;
        self.expecting = now;
        self.next = None;
        self.resuming = true;
        true
    }

    /// Records a PING to a backlogged peer that is silent since `last_received`. The PING counts as the first probe,
    /// and its answer is due within `timeout`.
    pub(super) fn on_watch_ping(
        &mut self,
        now: Timestamp,
        last_received: Timestamp,
        srtt: Duration,
        timeout: Duration,
    ) {
        if self.sent > 0 || self.stalled_since.is_some() {
            return;
        }
        self.sent = 1;
        self.first = Some(now);
        self.unanswered = Some(now);
        self.in_silence = 1;
        self.expecting = last_received;
        let answer = now + timeout;
        self.next = Some(
            self.stalls_at(last_received, srtt)
                .map_or(answer, |stall| stall.min(answer)),
        );
    }

    /// Time of the next probe if packets are outstanding: `last` after the last eliciting packet or `any`
    /// after the last progress, whichever is earlier (section 5.3).
    pub(super) fn deadline(&self, last: Duration, any: Duration) -> Timestamp {
        let first = (self.from + last).min(self.expecting + any);
        self.next.unwrap_or(first)
    }

    /// Time at which the silence since `last_received` becomes a stall if the probes stay unanswered.
    fn stalls_at(&self, last_received: Timestamp, srtt: Duration) -> Option<Timestamp> {
        let srtt = srtt.min(LONGEST_SRTT);
        let silence = last_received.max(self.expecting) + srtt * 5 / 2 + STALL_SILENCE;
        Some(silence.max(self.unanswered? + srtt))
    }

    /// Handles an expired deadline. The last packet of the peer arrived at `last_received`; further probes follow at
    /// `interval` or less often, the first ones also at `answer`, the time in which answers arrive.
    pub(super) fn on_deadline(
        &mut self,
        now: Timestamp,
        last_received: Timestamp,
        srtt: Duration,
        interval: Duration,
        answer: Duration,
    ) -> ProbeAction {
        self.due = true;
        if let Some(since) = self.stalled_since {
            self.interval = if now.saturating_since(since) < STALL_EAGER {
                STALL_INTERVAL
            } else {
                (self.interval * 3 / 2).min(STALL_LONGEST)
            };
            self.next = Some(now + self.interval);
            return ProbeAction::Probe;
        }
        if self.stalls_at(last_received, srtt).is_some_and(|at| at <= now) {
            self.stalled_since = Some(now);
            self.interval = STALL_INTERVAL;
            self.next = Some(now + self.interval);
            return ProbeAction::Stall;
        }
        self.sent += 1;
        self.unanswered.get_or_insert(now);
        self.in_silence += 1;
        let first = *self.first.get_or_insert(now);
        self.is_unheard = self.sent > 2 && now.saturating_since(first) >= LATEST_ANSWER;
        // If packets arrive without progress, probing slows down but never stops.
        let usual = interval.max(MIN_INTERVAL);
        let wait = if self.sent > EAGER_PROBES {
            LATER_INTERVAL
        } else if self.sent > QUICK_INTERVALS {
            usual
        } else {
            usual.min(answer.max(LEAST_QUICK_INTERVAL))
        };
        let probe = now + wait;
        self.next = Some(
            self.stalls_at(last_received, srtt)
                .map_or(probe, |stall| stall.min(probe)),
        );
        ProbeAction::Probe
    }

    /// Records a probe in packet `number`.
    pub(super) fn on_probe_sent(&mut self, number: Option<u64>) {
        self.due = false;
        self.resuming = false;
        self.last = number;
    }

    /// Returns true if probes are to be small because several are unanswered.
    pub(super) const fn is_thin(&self) -> bool {
        self.stalled_since.is_some() || self.sent > EAGER_PROBES
    }

    /// Returns true if nothing arrived since the last but one probe was sent, or probes are unanswered for some time
    /// although packets arrive: then only the other direction works, and the peer probes, too.
    pub(super) const fn is_unanswered(&self) -> bool {
        self.stalled_since.is_some() || self.in_silence > 1 || self.is_unheard
    }

    /// Returns true if nothing arrived since the first probe was sent.
    pub(super) const fn is_doubtful(&self) -> bool {
        self.sent > 0 && self.unanswered.is_some()
    }

    /// Makes the next probe due at once after a network change.
    pub(super) fn hurry(&mut self, now: Timestamp) {
        self.next = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_silence_come_probes_and_then_a_stall_with_bounded_intervals() {
        let mut prober = Prober::default();
        let srtt = Duration::from_millis(600);
        let timeout = Duration::from_millis(1500);
        let mut now = Timestamp::ZERO;
        prober.on_sent(now, false);
        let mut stalled = None;
        let mut probes = 0;
        while now < Timestamp::ZERO + Duration::from_secs(600) {
            now = prober.deadline(timeout, timeout);
            if prober.on_deadline(now, Timestamp::ZERO, srtt, srtt, srtt) == ProbeAction::Stall {
                assert_eq!(stalled, None);
                stalled = Some((now, probes));
            }
            probes += 1;
        }
        // 2.5 SRTT + 0.8 s, with probes at 1.5 s and 2.1 s.
        let (at, before) = stalled.expect("a stall");
        assert_eq!((at, before), (Timestamp::ZERO + Duration::from_millis(2300), 2));
        assert!((95..115).contains(&probes), "{probes}");
        assert!(prober.on_received(now));
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
            prober.on_deadline(asked, Timestamp::ZERO, srtt, srtt, srtt),
            ProbeAction::Probe
        );
        let next = prober.deadline(late, late);
        assert_eq!(next, asked + srtt);
        assert_eq!(
            prober.on_deadline(next, Timestamp::ZERO, srtt, srtt, srtt),
            ProbeAction::Stall
        );
    }

    #[test]
    fn the_first_probes_follow_the_round_trip_time() {
        let mut prober = Prober::default();
        let (srtt, answer) = (Duration::from_millis(62), Duration::from_millis(90));
        prober.on_sent(Timestamp::ZERO, false);
        let mut now = prober.deadline(answer, answer);
        let mut waits = Vec::new();
        for _ in 0..4 {
            prober.on_deadline(now, now, srtt, srtt, answer);
            let next = prober.deadline(answer, answer);
            waits.push(next - now);
            now = next;
        }
        assert_eq!(waits, [answer, answer, MIN_INTERVAL, LATER_INTERVAL]);
    }

    #[test]
    fn later_packets_do_not_postpone_the_probe_deadline() {
        let mut prober = Prober::default();
        let (last, any) = (Duration::from_millis(300), Duration::from_millis(500));
        for at in [0_u64, 200, 400] {
            prober.on_sent(Timestamp::ZERO + Duration::from_millis(at), at > 0);
        }
        assert_eq!(prober.deadline(last, any), Timestamp::ZERO + any);
    }

    #[test]
    fn packets_without_progress_cause_probes_but_no_stall() {
        let mut prober = Prober::default();
        let (second, srtt) = (Duration::from_secs(1), Duration::from_millis(100));
        let mut now = Timestamp::ZERO;
        let mut last_received = now;
        prober.on_sent(now, false);
        for _ in 0..50 {
            now = prober.deadline(second, second);
            assert_eq!(
                prober.on_deadline(now, last_received, srtt, srtt, srtt),
                ProbeAction::Probe
            );
            last_received = now + Duration::from_millis(50);
            assert!(!prober.on_received(last_received));
        }
    }

    /// A queue that fills in a moment delays the answers, but packets arrive.
    #[test]
    fn a_path_on_which_packets_arrive_is_silent_only_after_some_time() {
        let mut prober = Prober::default();
        let (srtt, answer) = (Duration::from_micros(300), Duration::from_millis(30));
        prober.on_sent(Timestamp::ZERO, false);
        let first = prober.deadline(answer, answer);
        let mut now = first;
        while now < first + LATEST_ANSWER {
            prober.on_deadline(now, now, srtt, srtt, answer);
            assert!(!prober.is_unanswered(), "{:?} after the first probe", now - first);
            prober.on_received(now + Duration::from_millis(1));
            now = prober.deadline(answer, answer);
        }
        prober.on_deadline(now, now, srtt, srtt, answer);
        assert!(prober.is_unanswered());
        prober.on_progress(now);
        assert!(!prober.is_unanswered());
        // Without any packet two probes suffice.
        prober.on_sent(now, false);
        for silent in [false, true] {
            now = prober.deadline(answer, answer);
            prober.on_deadline(now, first, srtt, srtt, answer);
            assert_eq!(prober.is_unanswered(), silent);
        }
    }
}
