//! Cuts of the window (CUT of congestion.md section 6).
use std::time::Duration;

use longhaul_types::Timestamp;

use super::{Controller, PacketSample, update::Update};
use crate::congestion::{CutParameters, byte_rate::LEAST_RATE};

/// The last cut and the series of cuts without effect to which it belongs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CutSeries {
    /// Time of the last cut.
    at: Timestamp,
    /// qcut: queueing delay at the last cut.
    queue: f64,
    /// Smallest queueing delay since the cut.
    least_since: f64,
    /// Number of successive cuts that did not reduce the queue.
    unreduced: u32,
    /// W at the first cut of the series.
    first_window: f64,
}

impl CutSeries {
    /// Records the queue of an update.
    pub(super) fn observe(&mut self, parameters: &CutParameters, update: &Update) {
        self.least_since = self.least_since.min(update.queue);
        if update.queue < parameters.series_end * update.target {
            self.unreduced = 0;
        }
    }

    /// Returns true if the last cut reduced the queue.
    pub(super) const fn reduced_the_queue(&self) -> bool {
        self.unreduced == 0
    }

    /// Least W in bytes: a sender that cuts again and again without effect is not the one that fills the queue.
    fn least_window(&self, parameters: &CutParameters) -> f64 {
        if f64::from(self.unreduced) >= parameters.series_cuts {
            parameters.series_least * self.first_window
        } else {
            0.0
        }
    }

    /// Counts a further cut from the window `window`.
    fn count(&mut self, parameters: &CutParameters, window: f64, target: f64) {
        let low = (parameters.unreduced_target * target).max(parameters.unreduced_cut * self.queue);
        if self.queue > 0.0 && self.least_since > low {
            self.unreduced += 1;
            if self.unreduced == 1 {
                self.first_window = window;
            }
        } else {
            self.unreduced = 0;
        }
    }
}

impl Controller {
    pub(super) fn should_cut(&self, update: &Update) -> bool {
        update.queue > update.target
            && (!self.window.is_held(update.now) || self.queue_grew_since_cut(update))
    }

    /// Returns true if the queue grew although the last cut has taken effect.
    fn queue_grew_since_cut(&self, update: &Update) -> bool {
        let parameters = &self.parameters.cut;
        let since_cut = update.now.saturating_since(self.cuts.at).as_secs_f64();
        update.queue > parameters.again_queue * self.cuts.queue
            && since_cut > parameters.again_rtts * self.path.rtt
            && update.now > self.window.drained
            && self.cuts.queue > 0.0
    }

    /// Reduces W so that a share of the target queue remains.
    pub(super) fn cut(&mut self, update: &Update) {
        let parameters = &self.parameters.cut;
        let kept = (parameters.kept_queue + update.variability).min(parameters.kept_queue_most);
        let aim = update.control_loop + kept * update.target;
        let by_rate = self.path.rate.current * aim - self.path.late_bytes_error();
        let reduced = parameters.factor * (self.window.bytes * aim / update.round).min(by_rate);
        let least = self.least_window().max(self.cuts.least_window(parameters));
        self.cuts.count(parameters, self.window.bytes, update.target);
        let before = self.window.bytes;
        self.window.bytes = before.min(reduced.max(least));
        let effect = update.control_loop + parameters.hold_queues * update.queue;
        self.window.hold = update.now + Duration::from_secs_f64(effect);
        self.drain(update.now, before, update.control_loop);
        self.cuts.at = update.now;
        self.cuts.queue = update.queue;
        self.cuts.least_since = update.queue;
    }

    /// Sets `drained` after a reduction of W from `before`: data in flight beyond the new window leaves first, one
    /// `round` later. Until then queue and losses belong to the previous window.
    pub(super) fn drain(&mut self, now: Timestamp, before: f64, round: f64) {
        let rate = self.path.rate.max().max(LEAST_RATE);
        let excess = (before - self.window.bytes).max(0.0) / rate;
        let duration = (round + excess).min(self.parameters.cut.drain_longest);
        let drained = now + Duration::from_secs_f64(duration);
        self.window.drained = drained;
        self.window.reduced_at_sender = now + Duration::from_secs_f64(self.path.control_loop());
        if excess > round {
            self.path.loss.expect_until(drained);
        }
    }

    /// Ends the drain at a packet that was sent under the reduced W, unless the sender was backlogged before: it had
    /// nothing more to send, so no data was in flight beyond W.
    pub(super) fn observe_drain(&mut self, sample: &PacketSample) {
        let now = sample.now;
        let known = self.window.reduced_at_sender;
        let may_have_used = self.sender.backlog_since.is_some_and(|since| since < known);
        if now > self.window.drained || may_have_used {
            return;
        }
        let queued = self.path.delay.above_base(now, sample.stamp, sample.size);
        if now >= known + Duration::from_secs_f64(queued) {
            self.window.drained = now;
            self.path.loss.on_drained(now);
        }
    }
}
