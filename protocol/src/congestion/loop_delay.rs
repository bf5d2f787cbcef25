//! Delay of the control loop beyond that of an empty link: feedback waits behind uploaded data (congestion.md
//! section 3.1).
use std::{collections::VecDeque, time::Duration};

use longhaul_types::Timestamp;

use super::parameters::LateFeedbackParameters;

/// Maximum number of kept limits: one for each feedback of a round.
const MAX_LIMITS: usize = 1024;
/// Maximum number of candidates for the smallest sample.
const MAX_CANDIDATES: usize = 64;

/// Measures the time from each feedback to the first packet that only this feedback permitted.
#[derive(Clone, Debug)]
pub(super) struct LoopDelayMeter {
    parameters: &'static LateFeedbackParameters,
    /// Bytes that the sender counts up to the newest packet; missing packets count as full packets.
    counted: f64,
    /// Sending time of each feedback and the byte count that it permits; ascending.
    limits: VecDeque<(Timestamp, f64)>,
    /// Recent loop times without the packets' queueing delay, ascending in time and value.
    smallest: VecDeque<(Timestamp, f64)>,
    /// Smallest loop time of this path.
    least: Option<f64>,
    /// u in seconds.
    late: f64,
}

impl LoopDelayMeter {
    pub(super) const fn new(parameters: &'static LateFeedbackParameters) -> Self {
        Self {
            parameters,
            counted: 0.0,
            limits: VecDeque::new(),
            smallest: VecDeque::new(),
            least: None,
            late: 0.0,
        }
    }

    /// Records a feedback that permits `credit` outstanding bytes.
    pub(super) fn on_feedback(&mut self, now: Timestamp, credit: f64) {
        let limit = self.counted + credit;
        let is_more = self.limits.back().is_none_or(|(_, last)| *last < limit);
        if !is_more || self.limits.len() == MAX_LIMITS {
            return;
        }
        self.limits.push_back((now, limit));
    }

    /// Records the newest packet, `bytes` after the previous one; the sender has a backlog since `backlog_since`.
    /// Returns the loop time in seconds if the packet gives a sample.
    pub(super) fn on_newest(
        &mut self,
        now: Timestamp,
        bytes: f64,
        backlog_since: Option<Timestamp>,
    ) -> Option<f64> {
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
        (backlog_since? <= *sent).then(|| now.saturating_since(*sent).as_secs_f64())
    }

    /// Processes a loop time without the packet's queueing delay; `interval` is the feedback interval. If the
    /// link `is_full`, u does not rise, because late feedback is not what limits the rate.
    pub(super) fn on_sample(&mut self, now: Timestamp, without_queue: f64, interval: f64, is_full: bool) {
        while self
            .smallest
            .back()
            .is_some_and(|(_, value)| *value >= without_queue)
        {
            self.smallest.pop_back();
        }
        if self.smallest.len() == MAX_CANDIDATES {
            self.smallest.pop_back();
        }
        self.smallest.push_back((now, without_queue));
        let parameters = self.parameters;
        let window = (parameters.window_share * without_queue).clamp(parameters.window, parameters.longest);
        let window = Duration::from_secs_f64(window);
        while self.smallest.len() > 1
            && self
                .smallest
                .front()
                .is_some_and(|(at, _)| now.saturating_since(*at) > window)
        {
            self.smallest.pop_front();
        }
        let smallest = self.smallest.front().map_or(without_queue, |(_, value)| *value);
        let least = self.least.map_or(without_queue, |least| least.min(without_queue));
        self.least = Some(least);
        let late =
            (smallest - least - interval.max(parameters.tolerance * least)).clamp(0.0, parameters.longest);
        self.late = if is_full { late.min(self.late) } else { late };
    }

    /// u in seconds.
    pub(super) const fn excess(&self) -> f64 {
        self.late
    }

    /// Discards recent samples after a silence of the sender, which says nothing about the loop.
    pub(super) fn forget(&mut self) {
        self.limits.clear();
        self.smallest.clear();
        self.late = 0.0;
    }

    /// Discards all samples after a change of clock or path.
    pub(super) fn restart(&mut self) {
        self.forget();
        self.least = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loop of an empty link and feedback interval, both in seconds.
    const EMPTY: f64 = 0.3;
    const INTERVAL: f64 = 0.1;
    const ALLOWED: f64 = 5000.0;

    fn at(seconds: f64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs_f64(seconds)
    }

    /// Each feedback permits the bytes that arrive in one interval; they arrive `late` seconds after an empty
    /// loop.
    fn run(
        meter: &mut LoopDelayMeter,
        from: f64,
        late: f64,
        turns: u32,
        busy: Option<Timestamp>,
        is_full: bool,
    ) {
        let credit = (EMPTY + late) / INTERVAL * ALLOWED;
        for turn in 0..turns {
            let now = at(from + f64::from(turn) * INTERVAL);
            for _ in 0..4 {
                if let Some(time) = meter.on_newest(now, ALLOWED / 4.0, busy) {
                    meter.on_sample(now, time, INTERVAL, is_full);
                }
            }
            meter.on_feedback(now, credit);
        }
    }

    #[test]
    fn late_feedback_is_measured_and_expires() {
        let mut meter = LoopDelayMeter::new(&LateFeedbackParameters::STANDARD);
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
    fn a_constant_feedback_delay_is_not_late() {
        let mut meter = LoopDelayMeter::new(&LateFeedbackParameters::STANDARD);
        run(&mut meter, 1.0, 2.0, 100, Some(at(0.0)), false);
        assert!(meter.excess() < 1e-9, "{}", meter.excess());
    }

    #[test]
    fn no_excess_on_a_full_link_or_without_data() {
        let mut meter = LoopDelayMeter::new(&LateFeedbackParameters::STANDARD);
        run(&mut meter, 1.0, 0.0, 50, Some(at(0.0)), true);
        run(&mut meter, 6.0, 2.0, 100, Some(at(0.0)), true);
        assert!(meter.excess() < 1e-9, "{}", meter.excess());
        let mut meter = LoopDelayMeter::new(&LateFeedbackParameters::STANDARD);
        run(&mut meter, 1.0, 0.0, 50, None, false);
        run(&mut meter, 6.0, 2.0, 100, None, false);
        assert!(meter.excess() < 1e-9, "{}", meter.excess());
    }
}
