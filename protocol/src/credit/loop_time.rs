//! What the control loop takes beyond that of an empty link: feedback waits behind what is uploaded (credit.md 3.1).
use std::{collections::VecDeque, time::Duration};

use longhaul_types::Timestamp;

/// More is an outage's doing, not an upload's.
const LONGEST: f64 = 20.0;
/// The smallest sample of this time and of this share of the loop counts: a lost feedback makes one too large, and so do times in
/// which a radio link does not send, of a second or two.
const RECENT: f64 = 3.0;
const RECENT_SHARE: f64 = 0.3;
/// So much more than the smallest loop is no upload's doing.
const TOLERANCE: f64 = 1.0 / 3.0;
/// Limits that are kept: one for each feedback of a round.
const MAX_LIMITS: usize = 1024;
/// Samples of the smallest that are kept.
const MAX_CANDIDATES: usize = 64;

/// Times from a feedback to the first packet that only it allowed.
#[derive(Clone, Debug, Default)]
pub(super) struct LoopMeter {
    /// Bytes that the sender counts up to the newest packet; what is missing is taken for full packets.
    counted: f64,
    /// When feedback went, and up to which count it lets the sender go; ascending.
    limits: VecDeque<(Timestamp, f64)>,
    /// Loops of late without the packets' queue, ascending in time and value.
    smallest: VecDeque<(Timestamp, f64)>,
    /// The smallest of this path.
    least: Option<f64>,
    /// u in seconds.
    late: f64,
}

impl LoopMeter {
    /// Feedback goes that lets the sender have `credit` bytes outstanding.
    pub(super) fn on_feedback(&mut self, now: Timestamp, credit: f64) {
        let limit = self.counted + credit;
        let is_more = self.limits.back().is_none_or(|(_, last)| *last < limit);
        if !is_more || self.limits.len() == MAX_LIMITS {
            return;
        }
        self.limits.push_back((now, limit));
    }

    /// The newest packet came, by `bytes` after the one before; the sender has had more to send since `busy`. If the packet tells
    /// how long the loop took: that.
    pub(super) fn on_newest(&mut self, now: Timestamp, bytes: f64, busy: Option<Timestamp>) -> Option<f64> {
        self.counted += bytes;
        let mut is_first = false;
        while self
            .limits
            .front()
            .is_some_and(|(_, limit)| *limit < self.counted)
        {
            self.limits.pop_front();
            is_first = true;
        }
        let (sent, _) = self.limits.front().filter(|_| is_first)?;
        (busy? <= *sent).then(|| now.saturating_since(*sent).as_secs_f64())
    }

    /// Takes a loop without the packet's queue, while feedback goes at `interval`. Where the link `is_full`, it is not u that keeps
    /// it from that: u does not rise.
    pub(super) fn take(&mut self, now: Timestamp, rest: f64, interval: f64, is_full: bool) {
        while self.smallest.back().is_some_and(|(_, value)| *value >= rest) {
            self.smallest.pop_back();
        }
        if self.smallest.len() == MAX_CANDIDATES {
            self.smallest.pop_back();
        }
        self.smallest.push_back((now, rest));
        let window = Duration::from_secs_f64((RECENT_SHARE * rest).clamp(RECENT, LONGEST));
        while self.smallest.len() > 1
            && self
                .smallest
                .front()
                .is_some_and(|(at, _)| now.saturating_since(*at) > window)
        {
            self.smallest.pop_front();
        }
        let smallest = self.smallest.front().map_or(rest, |(_, value)| *value);
        let least = self.least.map_or(rest, |least| least.min(rest));
        self.least = Some(least);
        let late = (smallest - least - interval.max(TOLERANCE * least)).clamp(0.0, LONGEST);
        self.late = if is_full { late.min(self.late) } else { late };
    }

    /// u in seconds.
    pub(super) const fn excess(&self) -> f64 {
        self.late
    }

    /// The sender was silent: what it waited for says nothing about the loop.
    pub(super) fn forget(&mut self) {
        self.limits.clear();
        self.smallest.clear();
        self.late = 0.0;
    }

    /// The clocks or the path are not what they were.
    pub(super) fn restart(&mut self) {
        self.forget();
        self.least = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loop of an empty link in seconds, and how often feedback goes.
    const EMPTY: f64 = 0.3;
    const INTERVAL: f64 = 0.1;
    const ALLOWED: f64 = 5000.0;

    fn at(seconds: f64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs_f64(seconds)
    }

    /// Each feedback allows as much as comes in its interval, and that comes `late` after an empty loop.
    fn run(meter: &mut LoopMeter, from: f64, late: f64, turns: u32, busy: Option<Timestamp>, is_full: bool) {
        let credit = (EMPTY + late) / INTERVAL * ALLOWED;
        for turn in 0..turns {
            let now = at(from + f64::from(turn) * INTERVAL);
            for _ in 0..4 {
                if let Some(time) = meter.on_newest(now, ALLOWED / 4.0, busy) {
                    meter.take(now, time, INTERVAL, is_full);
                }
            }
            meter.on_feedback(now, credit);
        }
    }

    #[test]
    fn late_feedback_is_measured_and_forgotten() {
        let mut meter = LoopMeter::default();
        let busy = Some(at(0.0));
        run(&mut meter, 1.0, 0.0, 50, busy, false);
        assert!(meter.excess() < 1e-9, "{}", meter.excess());
        run(&mut meter, 6.0, 2.0, 100, busy, false);
        assert!((meter.excess() - 2.0).abs() < 0.21, "{}", meter.excess());
        run(&mut meter, 16.0, 0.0, 50, busy, false);
        assert!(meter.excess() < 1e-9, "{}", meter.excess());
        run(&mut meter, 21.0, 2.0, 100, busy, false);
        assert!(meter.excess() > 1.0);
        meter.forget();
        assert!(meter.excess() < 1e-9);
    }

    #[test]
    fn what_was_always_there_is_not_late() {
        let mut meter = LoopMeter::default();
        run(&mut meter, 1.0, 2.0, 100, Some(at(0.0)), false);
        assert!(meter.excess() < 1e-9, "{}", meter.excess());
    }

    #[test]
    fn a_full_link_needs_no_more_and_a_sender_without_data_tells_nothing() {
        let mut meter = LoopMeter::default();
        run(&mut meter, 1.0, 0.0, 50, Some(at(0.0)), true);
        run(&mut meter, 6.0, 2.0, 100, Some(at(0.0)), true);
        assert!(meter.excess() < 1e-9, "{}", meter.excess());
        let mut meter = LoopMeter::default();
        run(&mut meter, 1.0, 0.0, 50, None, false);
        run(&mut meter, 6.0, 2.0, 100, None, false);
        assert!(meter.excess() < 1e-9, "{}", meter.excess());
    }
}
