//! Slow start (congestion.md section 2).
use super::{Controller, Phase, update::Update};

impl Controller {
    /// Doubles W every round, or ends slow start when the queue grows or losses are heavy.
    pub(super) fn slow_start(&mut self, update: &Update, is_heavy: bool) {
        let parameters = &self.parameters.start;
        let least_rate = self.least_window() / update.control_loop;
        let rate = self.path.rate.max().max(least_rate);
        if update.queue > parameters.end_queue * update.target || is_heavy {
            let before = self.window.bytes;
            let window = rate * (update.control_loop + parameters.kept_queue * update.target);
            self.window.bytes = window.max(self.least_window());
            self.window.phase = Phase::CongestionAvoidance;
            self.path.rate.capacity = rate;
            self.drain(update.now, before, update.round);
        } else if self.sender.is_backlogged() {
            self.window.bytes += update.share * self.window.bytes;
        }
    }
}
