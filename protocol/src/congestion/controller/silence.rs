//! Stalls and idle times (congestion.md section 8).
use std::time::Duration;

use longhaul_types::Timestamp;

use super::{Controller, ramp::Ramp};

impl Controller {
    /// Adjusts the window to a silence that this packet ended. `was_waiting`: the sender only waited for
    /// feedback.
    pub(super) fn after_silence(&mut self, now: Timestamp, was_waiting: bool) {
        let Some(last) = self.sender.arrived_at else {
            return;
        };
        let silence = now.saturating_since(last).as_secs_f64();
        if self.sender.is_backlogged() {
            if !was_waiting && silence > self.stall_time() {
                self.after_stall(now);
            }
        } else if silence > self.idle_time() {
            self.after_idle();
        }
    }

    /// Silence of a backlogged sender that is a stall, in seconds.
    fn stall_time(&self) -> f64 {
        let parameters = &self.parameters.silence;
        let interval = self.feedback_interval().as_secs_f64();
        let round = self.path.rtt + self.path.delay.queue();
        (parameters.stall_rounds * round + interval).max(parameters.stall_least)
    }

    /// Silence of a sender without data that is an idle time, in seconds.
    fn idle_time(&self) -> f64 {
        let parameters = &self.parameters.silence;
        (parameters.idle_rtts * self.path.rtt).max(parameters.idle_least)
    }

    fn after_stall(&mut self, now: Timestamp) {
        let target = self.target(now, 0.0);
        let least = self.parameters.silence.stall_packets * self.path.full_packet;
        let window = self.path.rate.max() * (self.path.empty_loop() + target);
        self.window.bytes = self.window.bytes.min(window.max(least));
        self.forget_recent();
        let resumed = now + Duration::from_secs_f64(self.path.rtt);
        self.window.hold = resumed;
        self.window.hold_at_most_until(resumed);
        self.sender.resumed_at = Some(now);
        self.sender.backlog_since = Some(now);
    }

    /// A steady link is filled again at once, an unsteady link more cautiously.
    fn after_idle(&mut self) {
        let parameters = &self.parameters.silence;
        let packet = self.path.full_packet;
        let steadiness = 1.0 - parameters.idle_variability * self.path.rate.variability();
        let share = steadiness.clamp(parameters.idle_least_share, 1.0);
        let window = share * self.path.rate.capacity * self.path.empty_loop()
            + parameters.idle_standing_packets * packet;
        let least = parameters.idle_packets * packet;
        self.window.bytes = self.window.bytes.min(window.max(least));
        self.forget_recent();
        self.sender.resumed_at = None;
    }

    /// Discards what a silence has falsified.
    fn forget_recent(&mut self) {
        self.path.delay.forget_recent();
        self.forget_late_feedback();
        self.ramp = Ramp::default();
    }
}
