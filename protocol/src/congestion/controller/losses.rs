//! Reaction of the window to losses (congestion.md section 7).
use std::time::Duration;

use longhaul_types::Timestamp;

use super::Controller;
use crate::congestion::loss::LossClass;

/// Least queue of a shallow buffer, in packets.
const LEAST_BUFFER: f64 = 5.0;
/// Maximum loss ratio by which a trial reduces W: losses at the simultaneous start of many sessions do not
/// measure the share of one.
const MOST_TAKEN: f64 = 0.875;
/// Share of the target queueing delay below which losses do not come from a full buffer.
const QUEUELESS: f64 = 0.3;
/// Loss ratio above which a heavy round without a queue bounds W as a trial does.
const MUCH: f64 = 0.1;
/// W of a trial, as a share of the data that arrives.
const TRIAL_SHARE: f64 = 0.9;
/// Seconds for which a bound after losses holds before it rises.
const FIRM: f64 = 10.0;
/// Seconds for which an unconfirmed bound holds, and seconds after which every bound is discarded.
const BRIEF: f64 = 3.0;
const FORGOTTEN: f64 = 60.0;

/// Rise of the bounds in two seconds: queue (congestion.md section 7) and window (section 7.1).
const QUEUE_RISE: f64 = 1.3;
const WINDOW_RISE: f64 = 1.15;

/// Factor by which a bound set at `since` has risen.
fn relaxed(now: Timestamp, since: Timestamp, firm: f64, rise: f64) -> f64 {
    let past = now.saturating_since(since).as_secs_f64() - firm;
    rise.powf((past / 2.0).max(0.0))
}

/// Factor by which the bound of the queue set at `since` has risen.
pub(super) fn relaxed_queue(now: Timestamp, since: Timestamp) -> f64 {
    relaxed(now, since, FIRM, QUEUE_RISE)
}

/// Upper bound for W after losses.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossCap {
    /// In bytes.
    cap: f64,
    since: Timestamp,
    /// True if a trial has confirmed the bound.
    is_firm: bool,
}

fn is_forgotten(now: Timestamp, since: Timestamp) -> bool {
    now.saturating_since(since).as_secs_f64() > FORGOTTEN
}

impl Controller {
    /// Evaluates the losses of the last round; returns true if they were heavy.
    pub(super) fn on_loss(&mut self, now: Timestamp, q: f64, qh: f64, t: f64, e: f64) -> bool {
        self.queue_cap = self.queue_cap.filter(|(_, since)| !is_forgotten(now, *since));
        // A growing queue is a better signal than losses.
        self.loss_cap = self
            .loss_cap
            .filter(|cap| q <= QUEUELESS * qh && !is_forgotten(now, cap.since));
        match self.loss.judge(now, t, q, qh) {
            LossClass::Ordinary => return false,
            LossClass::TrialNeeded => self.try_less(now, t),
            LossClass::RandomLoss(before) => {
                if q < qh {
                    self.window = self.window.max(before);
                }
                return false;
            }
            LossClass::CongestionLoss(kept) => {
                self.loss_cap = Some(LossCap {
                    cap: kept,
                    since: now,
                    is_firm: true,
                });
                if q < qh {
                    self.window = self.window.max(kept);
                }
            }
            LossClass::Heavy { shallow } => {
                let before = self.window;
                let without_queue = q < QUEUELESS * qh;
                self.yield_to_loss(now, without_queue, t, e);
                let is_much = self.loss.last_ratio() > MUCH || self.loss_cap.is_some();
                if without_queue && is_much {
                    let cap = before * (1.0 - self.loss.last_ratio());
                    let is_firm = self.loss_cap.is_some_and(|cap| cap.is_firm);
                    self.loss_cap = Some(LossCap {
                        cap,
                        since: now,
                        is_firm,
                    });
                }
                // A queue of a few packets does not show a full buffer.
                let s = self.packet * t / self.window;
                if shallow && self.loss.largest_queue() > LEAST_BUFFER * s {
                    self.queue_cap = Some((0.6 * self.loss.largest_queue(), now));
                }
            }
        }
        true
    }

    /// Starts a trial: reduces W to slightly less than the data that arrives now. The link's own losses
    /// reduce that further.
    fn try_less(&mut self, now: Timestamp, t: f64) {
        let before = self.window;
        let lost = self.loss.last_ratio().max(self.loss.ratio()).min(MOST_TAKEN);
        let to = TRIAL_SHARE * (1.0 - lost) * before;
        self.window = to.max((2.0 * self.packet).min(before));
        self.hold = self.hold.max(now + Duration::from_secs_f64(t));
        self.drain(now, before, t);
        self.loss
            .begin_trial(self.cut.drained, before, self.window / before);
    }

    /// Reduces W after a heavy round, by at most half because r may be that of a waiting sender. Without a
    /// queue, the data in flight beyond the new window is lost, too, which is no reason for another cut.
    fn yield_to_loss(&mut self, now: Timestamp, without_queue: bool, t: f64, e: f64) {
        let to = (0.85 * self.rate.current * e)
            .max(0.5 * self.window)
            .max(2.0 * self.packet);
        let before = self.window;
        self.window = self.window.min(to);
        self.hold = self.hold.max(now + Duration::from_secs_f64(t));
        if without_queue {
            self.drain(now, before, t);
            self.loss.expect_until(self.cut.drained);
        }
    }

    /// Upper bound for W after losses.
    pub(super) fn most(&self, now: Timestamp) -> f64 {
        self.loss_cap.map_or(f64::INFINITY, |cap| {
            let firm = if cap.is_firm { FIRM } else { BRIEF };
            cap.cap * relaxed(now, cap.since, firm, WINDOW_RISE)
        })
    }
}
