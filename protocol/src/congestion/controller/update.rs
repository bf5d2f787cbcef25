//! Updates of the window (congestion.md section 6).
use longhaul_types::Timestamp;

use super::{Controller, Phase};

/// Quantities of one update (congestion.md section 1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Update {
    pub(super) now: Timestamp,
    /// q: queueing delay.
    pub(super) queue: f64,
    /// Qh: target queueing delay.
    pub(super) target: f64,
    /// E: control loop without the queue.
    pub(super) control_loop: f64,
    /// T: one round.
    pub(super) round: f64,
    /// f: share of the round since the last update.
    pub(super) share: f64,
    /// cv: variability of the delivery rate.
    pub(super) variability: f64,
}

impl Controller {
    /// Updates the window if enough time has passed since the last update.
    pub(super) fn update_if_due(&mut self, now: Timestamp) {
        let parameters = &self.parameters.update;
        let interval = (self.path.rtt / parameters.most_in_rtt).max(parameters.interval_least);
        let passed = now.saturating_since(self.window.updated_at).as_secs_f64();
        if passed >= interval {
            self.window.updated_at = now;
            let longest = (parameters.longest_intervals * interval)
                .max(parameters.longest_packets * self.packet_time().as_secs_f64());
            self.update(now, passed.min(longest));
        }
    }

    /// Updates the window, `passed` seconds after the last update.
    fn update(&mut self, now: Timestamp, passed: f64) {
        let queue = self.path.delay.queue();
        let control_loop = self.path.control_loop();
        let round = control_loop + queue;
        let update = Update {
            now,
            queue,
            target: self.target(now, queue),
            control_loop,
            round,
            share: (passed / round).min(1.0),
            variability: self.path.rate.variability(),
        };
        if queue > self.parameters.rate.sample_queue {
            self.path.rate.sample_variability(now, self.path.rtt);
        }
        let is_heavy = self.on_losses(&update);
        match self.window.phase {
            Phase::SlowStart => self.slow_start(&update, is_heavy),
            Phase::CongestionAvoidance if self.refutes_estimate(&update, is_heavy) => self.retreat(&update),
            Phase::CongestionAvoidance => self.avoid_congestion(&update),
        }
    }

    fn avoid_congestion(&mut self, update: &Update) {
        self.follow_late_feedback();
        self.cuts.observe(&self.parameters.cut, update);
        if self.should_cut(update) {
            self.cut(update);
        } else if self.may_grow(update) {
            self.grow(update);
        }
        self.apply_floor(update);
    }

    /// Adjusts W to a change of u at once; otherwise the end of an upload would leave a queue.
    fn follow_late_feedback(&mut self) {
        let late = self.path.loop_delay.excess();
        let rate = (self.path.rate.max() - self.path.rate_error()).max(0.0);
        let change = (late - std::mem::replace(&mut self.window.late_feedback, late)) * rate;
        let least = self.least_window().min(self.window.bytes);
        self.window.bytes = (self.window.bytes + change).max(least);
    }

    /// FLOOR of section 6.
    fn apply_floor(&mut self, update: &Update) {
        let parameters = &self.parameters.update;
        let is_quiet = self
            .path
            .loss
            .since_heavy(update.now)
            .is_none_or(|since| since > parameters.floor_loss_rounds * update.round);
        let applies = self.cuts.reduced_the_queue()
            && update.queue < parameters.floor_queue * update.target
            && is_quiet
            && self.sender.is_backlogged();
        if applies {
            let floor = self.path.rate.max() * update.control_loop - self.path.late_bytes_error();
            let bound = self.window_bound(update.now);
            self.window.bytes = self.window.bytes.max(floor.min(bound));
        }
    }

    /// Upper bound for W after losses, in bytes.
    pub(super) fn window_bound(&self, now: Timestamp) -> f64 {
        self.bounds.window(&self.parameters.loss_bound, now)
    }

    /// Least W in bytes.
    pub(super) fn least_window(&self) -> f64 {
        self.parameters.update.least_packets * self.path.full_packet
    }
}
