//! Growth of the window (GROW of congestion.md section 6).
use super::{Controller, ramp::Ramp, update::Update};

impl Controller {
    pub(super) fn may_grow(&self, update: &Update) -> bool {
        update.queue <= update.target
            && !self.window.is_held(update.now)
            && self.sender.is_backlogged()
            && !self.path.loss.on_trial()
    }

    /// Increases W, by more while the ramp runs.
    pub(super) fn grow(&mut self, update: &Update) {
        let before = self.window.bytes;
        let mut increment = self.ordinary_increment(update);
        if self.may_ramp(update) {
            if let Some(gain) = self.ramp_gain(update) {
                increment = increment.max(update.share * self.window.bytes * gain);
            }
        } else {
            self.ramp = Ramp::default();
        }
        let bound = self.use_bound(update).min(self.window_bound(update.now));
        self.window.bytes = (before + increment).min(bound.max(before));
    }

    /// Increment in proportion to sqrt(W), which makes the shares of several senders converge.
    fn ordinary_increment(&self, update: &Update) -> f64 {
        let parameters = &self.parameters.growth;
        let packets = self.window.bytes / self.path.full_packet;
        let increment = update.share
            * parameters.packets
            * self.path.full_packet
            * packets.sqrt()
            * (1.0 + parameters.variability * update.variability);
        if packets >= parameters.few_packets {
            return increment;
        }
        // One more packet is much queue here and shows only a round later: grow more slowly near the target.
        let free = parameters.near_target_slope * (update.target - update.queue) / update.target;
        increment * free.clamp(parameters.near_target_least, 1.0)
    }

    /// Upper bound for W in bytes: a sender that does not use its window must not collect it.
    fn use_bound(&self, update: &Update) -> f64 {
        let parameters = &self.parameters.growth;
        let late = self.path.loop_delay.excess();
        let time = parameters.bound_loops * (update.control_loop + update.target) - late;
        self.path.rate.max() * time - self.path.late_bytes_error()
            + parameters.bound_packets * self.path.full_packet
    }
}
