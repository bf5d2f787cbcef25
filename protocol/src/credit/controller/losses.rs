//! What losses do to the window (credit.md 7).
use std::time::Duration;

use longhaul_types::Timestamp;

use super::Controller;
use crate::credit::loss::Verdict;

/// A buffer holds more packets.
const LEAST_BUFFER: f64 = 5.0;
/// Losses take at most this share of W in one cut: what is lost of many sessions' starts is no measure of one's share.
const MOST_TAKEN: f64 = 0.875;
/// Losses at a smaller share of the target queue are not those of a full buffer.
const QUEUELESS: f64 = 0.3;
/// A round that loses a larger share, without a queue, tells W as a trial does.
const MUCH: f64 = 0.1;
/// A trial's window, of what arrives now.
const TRIAL_SHARE: f64 = 0.9;
/// A bound that losses taught holds for so long, rises, and is forgotten; in seconds.
const FIRM: f64 = 10.0;
/// One that no trial has confirmed holds for so long.
const BRIEF: f64 = 3.0;
const FORGOTTEN: f64 = 60.0;

/// By what the bounds rise in two seconds: that of the queue, that of W.
const QUEUE_RISE: f64 = 1.3;
const WINDOW_RISE: f64 = 1.15;

/// How much a bound that was learnt at `since` has risen.
fn relaxed(now: Timestamp, since: Timestamp, firm: f64, rise: f64) -> f64 {
    let past = now.saturating_since(since).as_secs_f64() - firm;
    rise.powf((past / 2.0).max(0.0))
}

/// How much the bound of the queue that was learnt at `since` has risen.
pub(super) fn relaxed_queue(now: Timestamp, since: Timestamp) -> f64 {
    relaxed(now, since, FIRM, QUEUE_RISE)
}

/// Bound on W that losses taught.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossCap {
    /// In bytes.
    cap: f64,
    since: Timestamp,
    /// Whether a trial has told it.
    is_firm: bool,
}

fn is_forgotten(now: Timestamp, since: Timestamp) -> bool {
    now.saturating_since(since).as_secs_f64() > FORGOTTEN
}

impl Controller {
    /// LOSS; whether the last round's was heavy.
    pub(super) fn on_loss(&mut self, now: Timestamp, q: f64, qh: f64, t: f64, e: f64) -> bool {
        self.queue_cap = self.queue_cap.filter(|(_, since)| !is_forgotten(now, *since));
        // Where a queue grows it tells more than losses.
        self.loss_cap = self
            .loss_cap
            .filter(|cap| q <= QUEUELESS * qh && !is_forgotten(now, cap.since));
        match self.loss.judge(now, t, q, qh) {
            Verdict::Ordinary => return false,
            Verdict::Doubtful => self.try_less(now, t),
            Verdict::Innocent(before) => {
                if q < qh {
                    self.window = self.window.max(before);
                }
                return false;
            }
            Verdict::Guilty(kept) => {
                self.loss_cap = Some(LossCap {
                    cap: kept,
                    since: now,
                    is_firm: true,
                });
                if q < qh {
                    self.window = self.window.max(kept);
                }
            }
            Verdict::Heavy { shallow } => {
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
                // A queue of a few packets is no buffer's end.
                let s = self.packet * t / self.window;
                if shallow && self.loss.largest_queue() > LEAST_BUFFER * s {
                    self.queue_cap = Some((0.6 * self.loss.largest_queue(), now));
                }
            }
        }
        true
    }

    /// A window for a little less than what arrives now: what the link loses anyway it loses of that, too.
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

    /// At most by half: r may be that of a sender who waits. Without a queue what was on the way beyond the new window is lost, too:
    /// that is no reason for another cut.
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

    /// The bound on W that losses taught.
    pub(super) fn most(&self, now: Timestamp) -> f64 {
        self.loss_cap.map_or(f64::INFINITY, |cap| {
            let firm = if cap.is_firm { FIRM } else { BRIEF };
            cap.cap * relaxed(now, cap.since, firm, WINDOW_RISE)
        })
    }
}
