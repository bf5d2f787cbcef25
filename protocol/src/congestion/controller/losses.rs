//! Reaction of the window to losses (congestion.md section 7).
use std::time::Duration;

use longhaul_types::Timestamp;

use super::{Controller, update::Update};
use crate::congestion::loss::LossClass;

impl Controller {
    /// Evaluates the losses of the last round; returns true if they were heavy.
    pub(super) fn on_losses(&mut self, update: &Update) -> bool {
        let Update {
            now, queue, target, ..
        } = *update;
        let is_short = queue <= self.parameters.loss.queueless * target;
        self.bounds.expire(&self.parameters.loss_bound, now, is_short);
        match self.path.loss.classify(now, update.round, queue, target) {
            LossClass::Ordinary => return false,
            LossClass::Passed(before) => {
                self.bounds.withdraw();
                self.restore_window(update, before);
                return false;
            }
            LossClass::TrialNeeded => self.begin_trial(now, update.round),
            LossClass::RandomLoss(before) => {
                self.restore_window(update, before);
                return false;
            }
            LossClass::CongestionLoss(kept) => {
                self.bounds.confirm_window(now, kept);
                self.restore_window(update, kept);
            }
            LossClass::Heavy { shallow } => {
                self.on_heavy_losses(update);
                if shallow {
                    self.on_shallow_buffer(update);
                }
            }
        }
        true
    }

    /// Increases W to `window` after a trial, unless the queue exceeds its target.
    fn restore_window(&mut self, update: &Update, window: f64) {
        if update.queue < update.target {
            self.window.bytes = self.window.bytes.max(window);
        }
    }

    /// Starts a trial: reduces W to slightly less than the data that arrives now. The link's own losses
    /// reduce that further.
    fn begin_trial(&mut self, now: Timestamp, round: f64) {
        let before = self.window.bytes;
        let parameters = &self.parameters.trial;
        let loss = &self.path.loss;
        let lost = loss
            .last_ratio()
            .max(loss.baseline_ratio())
            .min(parameters.loss_most);
        let reduced = parameters.window_share * (1.0 - lost) * before;
        self.window.bytes = reduced.max(self.least_window().min(before));
        self.window.hold_until(now + Duration::from_secs_f64(round));
        self.drain(now, before, round);
        self.path
            .loss
            .begin_trial(self.window.drained, before, self.window.bytes / before);
    }

    /// Reduces W after a heavy round, by at most half because r may be that of a waiting sender. Without a
    /// queue, the data in flight beyond the new window is lost, too, which is no reason for another cut.
    fn on_heavy_losses(&mut self, update: &Update) {
        let now = update.now;
        let parameters = &self.parameters.loss;
        let before = self.window.bytes;
        self.bounds.keep();
        self.path
            .loss
            .review_until(now + Duration::from_secs_f64(update.control_loop), before);
        let reduced = (parameters.rate_share * self.path.rate.current * update.control_loop)
            .max(parameters.window_share * before)
            .max(self.least_window());
        self.window.bytes = before.min(reduced);
        self.window
            .hold_until(now + Duration::from_secs_f64(update.round));
        if update.queue >= parameters.queueless * update.target {
            return;
        }
        self.drain(now, before, update.round);
        self.path.loss.expect_until(self.window.drained);
        let ratio = self.path.loss.last_ratio();
        if ratio > self.parameters.loss_bound.loss_ratio || self.bounds.has_window() {
            let arrived = (before * (1.0 - ratio)).max(self.window.bytes);
            self.bounds
                .bound_window(&self.parameters.loss_bound, now, arrived);
        }
    }

    /// Bounds the target queueing delay, unless the largest queue was only a few packets, or so short that a
    /// variable delay explains it.
    fn on_shallow_buffer(&mut self, update: &Update) {
        let parameters = &self.parameters.loss_bound;
        let largest = self.path.loss.largest_queue();
        let packets = parameters.shallow_packets * self.packet_time_in(update.round);
        if largest > packets.max(parameters.shallow_target * update.target) {
            self.bounds
                .bound_queue(update.now, parameters.shallow_queue * largest);
        }
    }
}
