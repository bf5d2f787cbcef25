//! Trial of the cause of losses: a reduction of W whose effect on the losses is measured (congestion.md section
//! 7.1).
use longhaul_types::Timestamp;

use super::{
    loss_count::LossCount,
    parameters::{LossParameters, TrialParameters},
};

/// A trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    /// Packets from this time on were sent with the smaller window.
    from: Timestamp,
    /// Baseline loss ratio before the trial.
    ratio: f64,
    /// W before the trial in bytes, and the share of W that is left.
    window: f64,
    share: f64,
    /// Index of dispersion of the losses before the trial.
    dispersion: f64,
    packets: f64,
    lost: f64,
}

/// Result of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TrialResult {
    /// The reduction changed nothing: the link has this loss ratio.
    RandomLoss {
        /// The larger of the ratios before and during the trial.
        ratio: f64,
        /// W before the trial in bytes.
        window: f64,
    },
    /// The reduction reduced the losses: the sender caused them.
    CongestionLoss {
        /// Packets and losses of the trial.
        packets: f64,
        lost: f64,
        /// W before the trial, less the share that was lost, in bytes.
        window: f64,
    },
}

impl Trial {
    /// Starts a trial after W was reduced from `window` to its `share`; packets from `from` on count.
    /// `baseline` contains the losses before.
    pub(super) fn new(
        parameters: &LossParameters,
        from: Timestamp,
        baseline: &LossCount,
        window: f64,
        share: f64,
    ) -> Self {
        Self {
            from,
            ratio: baseline.ratio(),
            window,
            share,
            dispersion: baseline.dispersion(parameters),
            packets: 0.0,
            lost: 0.0,
        }
    }

    /// Records that packets from `now` on were sent with the smaller window.
    pub(super) fn on_drained(&mut self, now: Timestamp) {
        self.from = self.from.min(now);
    }

    pub(super) fn on_packets(&mut self, now: Timestamp, received: f64, lost: f64) {
        if now >= self.from {
            self.packets += received + lost;
            self.lost += lost;
        }
    }

    /// The result, once the trial has counted enough packets.
    pub(super) fn result(&self, parameters: &TrialParameters) -> Option<TrialResult> {
        // Losses in episodes vary more than independent ones.
        let losses = parameters.losses * self.dispersion.min(parameters.dispersion_most);
        let is_over = self.packets >= parameters.packets && self.packets * self.ratio >= losses;
        if !is_over {
            return None;
        }
        let link_ratio = self.link_ratio(parameters);
        Some(
            match link_ratio.filter(|ratio| *ratio < parameters.believed_most) {
                Some(ratio) => TrialResult::RandomLoss {
                    ratio,
                    window: self.window,
                },
                None => TrialResult::CongestionLoss {
                    packets: self.packets,
                    lost: self.lost,
                    window: self.window * (1.0 - self.ratio).max(self.share),
                },
            },
        )
    }

    /// Loss ratio of the link if the losses are its own. Congestion would lose `congestion` of the remaining
    /// load; the threshold is between this ratio and the ratio before the trial.
    fn link_ratio(&self, parameters: &TrialParameters) -> Option<f64> {
        let ratio = self.lost / self.packets;
        let congestion = (1.0 - (1.0 - self.ratio) / self.share).max(0.0);
        let is_unchanged = ratio > parameters.threshold * (self.ratio + congestion);
        is_unchanged.then_some(ratio.max(self.ratio))
    }
}
