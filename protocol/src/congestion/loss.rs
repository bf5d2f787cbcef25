//! Classification of losses: congestion, or the link's own loss (congestion.md section 7).
use std::time::Duration;

use longhaul_types::Timestamp;

use super::{
    loss_count::{EpisodeTracker, LossCount},
    parameters::{CongestionParameters, LossBoundParameters, LossParameters, TrialParameters},
    trial::{Trial, TrialResult},
};

/// Loss class of the last round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LossClass {
    /// No more than the link's own losses.
    Ordinary,
    /// Significantly more than the link's own losses.
    Heavy {
        /// True if the losses exceed twice the baseline while the queue is nearly full: the buffer is
        /// shallow.
        shallow: bool,
    },
    /// Heavy unless it is the link's own loss ratio; a trial decides which.
    TrialNeeded,
    /// The losses of a heavy round ended before the reduction of W could have an effect: they had another cause.
    /// Contains W before the reduction, in bytes.
    Passed(f64),
    /// The trial changed nothing: the loss is the link's own. Contains W before the trial, in bytes.
    RandomLoss(f64),
    /// The trial reduced the losses: congestion. Contains W before the trial, less the share that was lost,
    /// in bytes.
    CongestionLoss(f64),
}

/// Loss ratio that is believed to be the link's own.
#[derive(Clone, Copy, Debug)]
struct BelievedRatio {
    ratio: f64,
    until: Timestamp,
    /// Time in seconds for which the next confirmation is believed.
    next_for: f64,
}

/// The packets behind a heavy round that were sent before the sender knew of the reduction.
#[derive(Clone, Copy, Debug)]
struct Review {
    until: Timestamp,
    /// W before the reduction in bytes.
    window: f64,
    /// The heavy round, and the baseline loss ratio before it.
    round: LossCount,
    baseline: f64,
    heavy_before: Option<Timestamp>,
    after: LossCount,
}

impl Review {
    /// Returns true if the losses have ended. A lasting cause would have lost some of these packets.
    fn has_passed(&self, parameters: &LossParameters) -> bool {
        self.after.packets * self.round.ratio() >= parameters.review_losses
            && !self.after.is_beyond(parameters, self.baseline, 1.0)
    }
}

/// Counts losses and classifies them once per round.
#[derive(Clone, Debug)]
pub(super) struct LossMeter {
    parameters: &'static LossParameters,
    bounds: &'static LossBoundParameters,
    trials: &'static TrialParameters,
    round: LossCount,
    round_since: Timestamp,
    baseline: LossCount,
    /// Packets and losses that this round has added to the baseline.
    round_baseline: LossCount,
    episodes: EpisodeTracker,
    halved_at: Timestamp,
    largest_queue: f64,
    heavy_at: Option<Timestamp>,
    /// Losses before this time belong to packets sent before the sender knew of the last heavy round.
    known_until: Timestamp,
    /// Losses before this time belong to data in flight beyond a reduced W.
    drained: Timestamp,
    /// True until the first packet behind the unmeasured ones, which shows the losses directly before it.
    awaits_measured: bool,
    believed: BelievedRatio,
    trial: Option<Trial>,
    review: Option<Review>,
    /// Loss ratio of the last evaluated round.
    last_ratio: f64,
}

impl LossMeter {
    pub(super) fn new(parameters: &'static CongestionParameters) -> Self {
        Self {
            parameters: &parameters.loss,
            bounds: &parameters.loss_bound,
            trials: &parameters.trial,
            round: LossCount::default(),
            round_since: Timestamp::ZERO,
            baseline: LossCount::default(),
            round_baseline: LossCount::default(),
            episodes: EpisodeTracker::new(&parameters.loss),
            halved_at: Timestamp::ZERO,
            largest_queue: 0.0,
            heavy_at: None,
            known_until: Timestamp::ZERO,
            drained: Timestamp::ZERO,
            awaits_measured: false,
            believed: BelievedRatio {
                ratio: parameters.trial.believed,
                until: Timestamp::ZERO,
                next_for: parameters.trial.believed_for,
            },
            trial: None,
            review: None,
            last_ratio: 0.0,
        }
    }

    /// Records that the base of the queueing delays has risen by `rise` seconds. The largest q, which belongs to a full
    /// buffer, is a one-way delay above the base like q: without this change, the same full buffer would look like a
    /// buffer with free space, and its losses like those of the link.
    pub(super) fn on_base_rise(&mut self, rise: f64) {
        self.largest_queue = (self.largest_queue - rise).max(0.0);
    }

    /// Counts packets that arrived while the queueing delay was `queue`.
    pub(super) fn on_packets(&mut self, now: Timestamp, received: f64, lost: f64, queue: f64) {
        let losses = self.episodes.on_packets(received, lost);
        if let Some(trial) = &mut self.trial {
            trial.on_packets(now, received, lost);
            return;
        }
        if let Some(review) = &mut self.review {
            review.after.add(losses);
        }
        if now < self.known_until.max(self.drained) {
            return;
        }
        if std::mem::take(&mut self.awaits_measured) {
            return;
        }
        self.round.add(losses);
        self.largest_queue = self.largest_queue.max(queue);
        if queue <= self.parameters.full_queue * self.largest_queue {
            self.baseline.add(losses);
            self.round_baseline.add(losses);
        }
    }

    /// Ignores losses until `until`, because their cause is known and handled: data in flight beyond a reduced W.
    pub(super) fn expect_until(&mut self, until: Timestamp) {
        self.drained = self.drained.max(until);
    }

    /// Ignores losses of packets that were sent before the estimate of an unknown link had its effect, at `until`. The
    /// first packet behind them shows the last ones.
    pub(super) fn expect_unmeasured_until(&mut self, until: Timestamp) {
        self.expect_until(until);
        self.awaits_measured = true;
    }

    /// Records that no data in flight exceeds the reduced W any more.
    pub(super) fn on_drained(&mut self, now: Timestamp) {
        self.drained = self.drained.min(now);
        if let Some(trial) = &mut self.trial {
            trial.on_drained(now);
        }
    }

    /// Classifies the losses of a round of `duration` seconds once it is over. `queue` is q, `target` Qh.
    pub(super) fn classify(&mut self, now: Timestamp, duration: f64, queue: f64, target: f64) -> LossClass {
        self.age(now);
        if let Some(trial) = self.trial {
            return self.evaluate_trial(now, &trial);
        }
        if let Some(review) = self.review.take_if(|review| now >= review.until)
            && review.has_passed(self.parameters)
        {
            self.baseline.add(review.round);
            self.heavy_at = review.heavy_before;
            return LossClass::Passed(review.window);
        }
        if now.saturating_since(self.round_since).as_secs_f64() < duration {
            return LossClass::Ordinary;
        }
        self.round_since = now;
        let round = std::mem::take(&mut self.round);
        let round_baseline = std::mem::take(&mut self.round_baseline);
        self.last_ratio = round.ratio();
        self.episodes.on_round(&round);
        let is_known = self.baseline.packets > self.parameters.baseline_packets;
        if !is_known && queue < self.parameters.unknown_queue * target {
            return LossClass::Ordinary;
        }
        let measured = if is_known {
            self.baseline.lost / self.baseline.packets
        } else {
            0.0
        };
        let baseline = measured.min(self.believed.ratio);
        let dispersion = self.baseline.dispersion(self.parameters);
        let is_heavy = round.is_beyond(self.parameters, baseline, dispersion);
        let is_explained = !round.is_beyond(self.parameters, measured, dispersion);
        let is_doubtful = is_known
            && self
                .baseline
                .is_beyond(self.parameters, self.believed.ratio, dispersion);
        if is_heavy && is_explained || !is_heavy && is_doubtful {
            self.heavy_at = Some(now);
            return LossClass::TrialNeeded;
        }
        if !is_heavy {
            return LossClass::Ordinary;
        }
        let heavy_before = self.heavy_at.replace(now);
        let known_for = self.parameters.known_rounds * duration.min(self.parameters.known_round_longest);
        self.known_until = now + Duration::from_secs_f64(known_for);
        // A heavy round does not count for the baseline.
        self.baseline.subtract(round_baseline);
        let shallow = self.is_shallow(round, baseline, queue);
        // A full buffer is a better explanation.
        self.review = (!shallow).then(|| Review {
            until: Timestamp::MAX,
            window: 0.0,
            round,
            baseline,
            heavy_before,
            after: LossCount::default(),
        });
        LossClass::Heavy { shallow }
    }

    /// Returns true if a heavy round shows a shallow buffer: the queue is nearly full, and the losses exceed the
    /// `baseline` by far.
    fn is_shallow(&self, round: LossCount, baseline: f64, queue: f64) -> bool {
        let bounds = self.bounds;
        queue > self.parameters.full_queue * self.largest_queue
            && round.lost > (bounds.shallow_baselines * baseline + bounds.shallow_share) * round.packets
    }

    fn age(&mut self, now: Timestamp) {
        let parameters = self.parameters;
        if now.saturating_since(self.halved_at).as_secs_f64() > parameters.baseline_halving {
            self.halved_at = now;
            self.largest_queue *= parameters.largest_queue_decay;
            if self.baseline.packets > parameters.baseline_kept * parameters.baseline_packets {
                self.baseline.halve();
            }
        }
        if now > self.believed.until {
            self.believed.ratio = self.trials.believed;
        }
    }

    /// Sets the time until which packets of the `window` before a heavy round arrive.
    pub(super) fn review_until(&mut self, until: Timestamp, window: f64) {
        if let Some(review) = &mut self.review {
            review.until = until;
            review.window = window;
        }
    }

    /// Starts a trial after W was reduced from `window` to its `share`; packets from `from` on count.
    pub(super) fn begin_trial(&mut self, from: Timestamp, window: f64, share: f64) {
        self.trial = Some(Trial::new(self.parameters, from, &self.baseline, window, share));
    }

    fn evaluate_trial(&mut self, now: Timestamp, trial: &Trial) -> LossClass {
        self.heavy_at = Some(now);
        let Some(result) = trial.result(self.trials) else {
            return LossClass::Ordinary;
        };
        self.trial = None;
        self.round_since = now;
        match result {
            TrialResult::RandomLoss { ratio, window } => {
                self.believed.ratio = ratio;
                self.believed.until = now + Duration::from_secs_f64(self.believed.next_for);
                self.believed.next_for =
                    (self.trials.believed_factor * self.believed.next_for).min(self.trials.believed_longest);
                LossClass::RandomLoss(window)
            }
            TrialResult::CongestionLoss {
                packets,
                lost,
                window,
            } => {
                self.believed.next_for = self.trials.believed_for;
                self.baseline = LossCount::of(packets, lost);
                LossClass::CongestionLoss(window)
            }
        }
    }

    /// Returns true during a trial, in which W does not grow.
    pub(super) const fn on_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// Time in seconds since the last heavy losses or the last trial; `None` if there were none.
    pub(super) fn since_heavy(&self, now: Timestamp) -> Option<f64> {
        self.heavy_at.map(|at| now.saturating_since(at).as_secs_f64())
    }

    /// Loss ratio of the last evaluated round.
    pub(super) const fn last_ratio(&self) -> f64 {
        self.last_ratio
    }

    /// Baseline loss ratio.
    pub(super) fn baseline_ratio(&self) -> f64 {
        self.baseline.ratio()
    }

    /// Returns true if the baseline is known and small. With more loss, late feedback cannot be distinguished
    /// from a sender that waits for the detection of a lost packet.
    pub(super) fn is_quiet(&self) -> bool {
        self.baseline.packets > self.parameters.baseline_packets
            && self.baseline.lost < self.trials.believed * self.baseline.packets
    }

    /// Largest q of the last minutes in seconds.
    pub(super) const fn largest_queue(&self) -> f64 {
        self.largest_queue
    }
}

#[cfg(test)]
mod tests;
