//! Ramp: fast growth of the window while the queue stays empty and the delivery rate follows (congestion.md
//! section 6).
use longhaul_types::Timestamp;

use super::{Controller, update::Update};

/// State of the ramp.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ramp {
    /// Time since which the queue is nearly empty.
    low_since: Option<Timestamp>,
    /// Current round of fast growth, or the completed round whose effect on r is awaited.
    round: Option<RampRound>,
}

/// A round of fast growth and its effect: r follows W one loop later.
#[derive(Clone, Copy, Debug)]
struct RampRound {
    /// Start of the round; `window` and `rate` are W and r at that time.
    started: Timestamp,
    window: f64,
    rate: f64,
    /// End of the round, while r is expected to follow.
    completed: Option<CompletedRound>,
}

#[derive(Clone, Copy, Debug)]
struct CompletedRound {
    at: Timestamp,
    /// Relative growth of W in the round.
    growth: f64,
}

impl Controller {
    /// Returns true if the link is not full and W is what limits the rate.
    pub(super) fn may_ramp(&self, update: &Update) -> bool {
        let parameters = &self.parameters.ramp;
        let late = self.path.loop_delay.excess();
        let is_late = late > self.parameters.late_feedback.ramp_share * update.control_loop;
        let pause = parameters
            .loss_pause
            .max(parameters.loss_pause_rtts * self.path.rtt);
        let is_crowded = self
            .path
            .loss
            .since_heavy(update.now)
            .is_some_and(|since| since < pause);
        let short_queue = (parameters.queue_packets * self.packet_time_in(update.round))
            .max(parameters.queue_least)
            .max(parameters.queue_rtt_share * self.path.rtt);
        !is_late && !is_crowded && update.queue < (parameters.queue_share * update.target).min(short_queue)
    }

    /// Relative growth of W in a round, if the ramp runs.
    pub(super) fn ramp_gain(&mut self, update: &Update) -> Option<f64> {
        let parameters = &self.parameters.ramp;
        let since = *self.ramp.low_since.get_or_insert(update.now);
        let low_for = update.now.saturating_since(since).as_secs_f64() / self.path.rtt;
        let further = low_for - parameters.after_rtts;
        let runs = further > 0.0 && self.rate_follows(update.now, update.round);
        runs.then(|| (parameters.gain * (1.0 + further)).min(parameters.most))
    }

    /// Returns true if the ramp may run: for one round, and again as soon as r has risen by a share of the
    /// relative growth of W in it.
    fn rate_follows(&mut self, now: Timestamp, round: f64) -> bool {
        let begin = RampRound {
            started: now,
            window: self.window.bytes,
            rate: self.path.rate.current,
            completed: None,
        };
        let current = *self.ramp.round.get_or_insert(begin);
        let Some(CompletedRound { at, growth }) = current.completed else {
            if now.saturating_since(current.started).as_secs_f64() < round {
                return true;
            }
            let growth = (self.window.bytes - current.window) / current.window;
            self.ramp.round = Some(RampRound {
                completed: Some(CompletedRound { at: now, growth }),
                ..current
            });
            return false;
        };
        if self.path.rate.current >= (1.0 + self.parameters.ramp.response * growth) * current.rate {
            self.ramp.round = Some(begin);
            return true;
        }
        if now.saturating_since(at).as_secs_f64() > round {
            self.ramp = Ramp {
                low_since: Some(now),
                round: None,
            };
        }
        false
    }
}
