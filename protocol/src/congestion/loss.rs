//! Classification of losses: congestion, or the link's own loss (congestion.md section 7).
use std::time::Duration;

use longhaul_types::Timestamp;

/// Number of packets after which the baseline loss ratio is known.
const BASELINE_PACKETS: f64 = 60.0;
/// Interval in seconds at which the counts of the baseline are halved.
const BASELINE_HALVING: f64 = 10.0;

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
    /// The trial changed nothing: the loss is the link's own. Contains W before the trial, in bytes.
    RandomLoss(f64),
    /// The trial reduced the losses: congestion. Contains W before the trial, less the share that was lost,
    /// in bytes.
    CongestionLoss(f64),
}

/// Loss ratio that is believed to be the link's own without a trial.
const QUIET: f64 = 0.05;
/// Loss ratio that is never believed to be the link's own.
const MOST_BELIEVED: f64 = 1.0 / 3.0;
/// Least packets of a trial, and least losses that it would have at the baseline ratio.
const TRIAL_PACKETS: f64 = 60.0;
const TRIAL_LOSSES: f64 = 10.0;
/// Initial and maximum time in seconds for which a trial's result is believed; each confirmation doubles the
/// time.
const BELIEVED_FOR: (f64, f64) = (30.0, 300.0);

/// Returns true if `lost` of `packets` significantly exceed the losses of a link with the loss ratio
/// `baseline`.
fn is_beyond(baseline: f64, packets: f64, lost: f64) -> bool {
    let expected = baseline * packets;
    lost >= 3.0 && lost > expected + 3.0 * expected.sqrt() + 0.02 * packets
}

/// A trial: a reduction of W whose effect on the losses is measured (congestion.md section 7.1).
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// Packets from this time on were sent with the smaller window.
    from: Timestamp,
    /// Baseline loss ratio before the trial.
    ratio: f64,
    /// W before the trial, and the share of W that is left.
    window: f64,
    share: f64,
    packets: f64,
    lost: f64,
}

impl Trial {
    /// Returns true if the trial has counted enough packets.
    fn is_over(&self) -> bool {
        self.packets >= TRIAL_PACKETS && self.packets * self.ratio >= TRIAL_LOSSES
    }

    /// Loss ratio of the link if the losses are its own. If they were congestion, the remaining load would
    /// lose `ours`; the threshold is the middle of `ours` and the ratio before the trial.
    fn innocent(&self) -> Option<f64> {
        let ratio = self.lost / self.packets;
        let ours = (1.0 - (1.0 - self.ratio) / self.share).max(0.0);
        (ratio > 0.5 * (self.ratio + ours)).then_some(ratio.max(self.ratio))
    }
}

#[derive(Clone, Debug)]
pub(super) struct LossMeter {
    packets: f64,
    lost: f64,
    round_since: Timestamp,
    base_packets: f64,
    base_lost: f64,
    /// Packets and losses that this round has added to the baseline.
    round_base: (f64, f64),
    halved_at: Timestamp,
    largest_queue: f64,
    pub(super) heavy_at: Option<Timestamp>,
    /// Losses before this time belong to packets sent before the sender knew of the last heavy round.
    known_until: Timestamp,
    /// Largest believed baseline, the time until which it is believed, and the duration that the next
    /// confirmation has.
    believed: f64,
    believed_until: Timestamp,
    believed_for: f64,
    trial: Option<Trial>,
    /// Loss ratio of the last evaluated round.
    last_ratio: f64,
}

impl Default for LossMeter {
    fn default() -> Self {
        Self {
            packets: 0.0,
            lost: 0.0,
            round_since: Timestamp::ZERO,
            base_packets: 0.0,
            base_lost: 0.0,
            round_base: (0.0, 0.0),
            halved_at: Timestamp::ZERO,
            largest_queue: 0.0,
            heavy_at: None,
            known_until: Timestamp::ZERO,
            believed: QUIET,
            believed_until: Timestamp::ZERO,
            believed_for: BELIEVED_FOR.0,
            trial: None,
            last_ratio: 0.0,
        }
    }
}

impl LossMeter {
    pub(super) fn on_packets(&mut self, now: Timestamp, received: f64, lost: f64, queue: f64) {
        if let Some(trial) = &mut self.trial {
            if now >= trial.from {
                trial.packets += received + lost;
                trial.lost += lost;
            }
            return;
        }
        if now < self.known_until {
            return;
        }
        self.packets += received + lost;
        self.lost += lost;
        self.largest_queue = self.largest_queue.max(queue);
        if queue <= 0.7 * self.largest_queue {
            self.base_packets += received + lost;
            self.base_lost += lost;
            self.round_base.0 += received + lost;
            self.round_base.1 += lost;
        }
    }

    /// Ignores losses until `until`, because their cause is known and handled.
    pub(super) fn expect_until(&mut self, until: Timestamp) {
        self.known_until = self.known_until.max(until);
    }

    /// Classifies the losses of a round of `round` seconds once it is over.
    pub(super) fn judge(&mut self, now: Timestamp, round: f64, queue: f64, target: f64) -> LossClass {
        self.age(now);
        if let Some(trial) = self.trial {
            return self.end_trial(now, &trial);
        }
        if now.saturating_since(self.round_since).as_secs_f64() < round {
            return LossClass::Ordinary;
        }
        self.round_since = now;
        let (packets, lost) = (std::mem::take(&mut self.packets), std::mem::take(&mut self.lost));
        let (base_packets, base_lost) = std::mem::take(&mut self.round_base);
        self.last_ratio = lost / packets.max(1.0);
        let known = self.base_packets > BASELINE_PACKETS;
        if !known && queue < 0.5 * target {
            return LossClass::Ordinary;
        }
        let measured = if known {
            self.base_lost / self.base_packets
        } else {
            0.0
        };
        let baseline = measured.min(self.believed);
        let is_heavy = is_beyond(baseline, packets, lost);
        let is_explained = !is_beyond(measured, packets, lost);
        let is_doubtful = known && is_beyond(self.believed, self.base_packets, self.base_lost);
        if is_heavy && is_explained || !is_heavy && is_doubtful {
            self.heavy_at = Some(now);
            return LossClass::TrialNeeded;
        }
        if !is_heavy {
            return LossClass::Ordinary;
        }
        self.heavy_at = Some(now);
        self.known_until = now + Duration::from_secs_f64(1.1 * round.min(60.0));
        // A heavy round does not count for the baseline.
        self.base_packets = (self.base_packets - base_packets).max(0.0);
        self.base_lost = (self.base_lost - base_lost).max(0.0);
        let shallow = queue > 0.7 * self.largest_queue && lost > (2.0 * baseline + 0.02) * packets;
        LossClass::Heavy { shallow }
    }

    /// Loss ratio of the last evaluated round.
    pub(super) const fn last_ratio(&self) -> f64 {
        self.last_ratio
    }

    /// Baseline loss ratio.
    pub(super) fn ratio(&self) -> f64 {
        self.base_lost / self.base_packets.max(1.0)
    }

    fn age(&mut self, now: Timestamp) {
        if now.saturating_since(self.halved_at).as_secs_f64() > BASELINE_HALVING {
            self.halved_at = now;
            self.largest_queue *= 0.9;
            if self.base_packets > 2.0 * BASELINE_PACKETS {
                self.base_packets /= 2.0;
                self.base_lost /= 2.0;
            }
        }
        if now > self.believed_until {
            self.believed = QUIET;
        }
    }

    /// Starts a trial after W was reduced from `window` to its `share`; packets from `from` on count.
    pub(super) fn begin_trial(&mut self, from: Timestamp, window: f64, share: f64) {
        self.trial = Some(Trial {
            from,
            ratio: self.ratio(),
            window,
            share,
            packets: 0.0,
            lost: 0.0,
        });
    }

    /// Returns true during a trial, in which W does not grow.
    pub(super) const fn on_trial(&self) -> bool {
        self.trial.is_some()
    }

    fn end_trial(&mut self, now: Timestamp, trial: &Trial) -> LossClass {
        self.heavy_at = Some(now);
        if !trial.is_over() {
            return LossClass::Ordinary;
        }
        self.trial = None;
        self.round_since = now;
        if let Some(ratio) = trial.innocent().filter(|ratio| *ratio < MOST_BELIEVED) {
            self.believed = ratio;
            self.believed_until = now + Duration::from_secs_f64(self.believed_for);
            self.believed_for = (2.0 * self.believed_for).min(BELIEVED_FOR.1);
            return LossClass::RandomLoss(trial.window);
        }
        self.believed_for = BELIEVED_FOR.0;
        self.base_packets = trial.packets;
        self.base_lost = trial.lost;
        LossClass::CongestionLoss(trial.window * (1.0 - trial.ratio).max(trial.share))
    }

    /// Returns true if the baseline is known and small. With more loss, late feedback cannot be distinguished
    /// from a sender that waits for the detection of a lost packet.
    pub(super) fn is_quiet(&self) -> bool {
        self.base_packets > BASELINE_PACKETS && self.base_lost < QUIET * self.base_packets
    }

    pub(super) const fn largest_queue(&self) -> f64 {
        self.largest_queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link of 100 packets per second, evaluated once per second.
    struct Link {
        meter: LossMeter,
        now: Timestamp,
    }

    impl Link {
        fn new() -> Self {
            let now = Timestamp::ZERO + Duration::from_secs(1);
            Self {
                meter: LossMeter::default(),
                now,
            }
        }

        /// Returns the first class within `seconds` that is not ordinary.
        fn verdict(&mut self, lost: u32, seconds: u32) -> LossClass {
            for _ in 0..seconds {
                for packet in 0..100_u32 {
                    self.now += Duration::from_millis(10);
                    // Losses are spread evenly.
                    let is_lost = (packet + 1) * lost / 100 > packet * lost / 100;
                    let received = if is_lost { 0.0 } else { 1.0 };
                    self.meter.on_packets(self.now, received, 1.0 - received, 0.0);
                    let verdict = self.meter.judge(self.now, 1.0, 0.0, 0.1);
                    if verdict != LossClass::Ordinary {
                        return verdict;
                    }
                }
            }
            LossClass::Ordinary
        }

        fn try_less(&mut self, share: f64) {
            self.meter
                .begin_trial(self.now + Duration::from_secs(1), 100_000.0, share);
        }
    }

    #[test]
    fn what_a_cut_does_not_change_is_the_links_own() {
        let mut link = Link::new();
        assert_eq!(link.verdict(20, 5), LossClass::TrialNeeded);
        link.try_less(0.7);
        assert!(link.meter.on_trial());
        assert_eq!(link.verdict(20, 5), LossClass::RandomLoss(100_000.0));
        assert_eq!(link.verdict(20, 28), LossClass::Ordinary);
        assert_eq!(link.verdict(20, 5), LossClass::TrialNeeded);
        // A confirmed result is believed for longer.
        link.try_less(0.7);
        assert_eq!(link.verdict(20, 5), LossClass::RandomLoss(100_000.0));
        assert_eq!(link.verdict(20, 58), LossClass::Ordinary);
    }

    #[test]
    fn what_a_cut_ends_was_our_own() {
        let mut link = Link::new();
        assert_eq!(link.verdict(50, 5), LossClass::TrialNeeded);
        link.try_less(0.45);
        assert!(
            matches!(link.verdict(0, 5), LossClass::CongestionLoss(kept) if (49_000.0..51_000.0).contains(&kept))
        );
        assert!(matches!(
            link.verdict(50, 5),
            LossClass::Heavy { .. } | LossClass::TrialNeeded
        ));
    }

    #[test]
    fn many_sessions_cut_at_once_and_losses_fall() {
        let mut link = Link::new();
        assert_eq!(link.verdict(80, 5), LossClass::TrialNeeded);
        link.try_less(0.4);
        // Before, a fifth of the packets arrived: at a share of 0.4, congestion alone would lose half.
        assert!(matches!(link.verdict(50, 5), LossClass::CongestionLoss(_)));
    }

    #[test]
    fn no_link_is_believed_to_lose_half() {
        let mut link = Link::new();
        assert_eq!(link.verdict(50, 5), LossClass::TrialNeeded);
        link.try_less(0.45);
        assert!(matches!(link.verdict(50, 5), LossClass::CongestionLoss(_)));
    }

    #[test]
    fn little_loss_is_believed_at_once() {
        assert_eq!(Link::new().verdict(5, 600), LossClass::Ordinary);
    }
}
