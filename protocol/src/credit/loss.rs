//! Loss that the queue explains, told apart from loss that the link has anyway (credit.md 7).
use std::time::Duration;

use longhaul_types::Timestamp;

/// Packets after which the ratio without a queue is believed.
const BASELINE_PACKETS: f64 = 60.0;
/// The baseline's counts are halved at this interval, in seconds.
const BASELINE_HALVING: f64 = 10.0;

/// What the last round's losses mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Nothing beyond what the link loses anyway.
    Ordinary,
    /// More than chance explains, by a margin.
    Heavy {
        /// More than twice the baseline while the queue is nearly full: the buffer is shallow.
        shallow: bool,
    },
    /// As heavy, if this is not what the link loses anyway: whether it is, the cut tells.
    Doubtful,
    /// The cut changed nothing: the link loses that much. W before the cut, in bytes.
    Innocent(f64),
    /// The cut helped: W before it, without what was lost of it.
    Guilty(f64),
}

/// A smaller baseline is that of a link that nobody crowds, and believed without a trial.
const QUIET: f64 = 0.05;
/// No link is believed to lose more.
const MOST_BELIEVED: f64 = 1.0 / 3.0;
/// Packets that a trial takes at least, and losses that it would have if the cut changed nothing.
const TRIAL_PACKETS: f64 = 60.0;
const TRIAL_LOSSES: f64 = 10.0;
/// What a trial has found is believed for so long, in seconds; each time that it is found again, for twice as long as before.
const BELIEVED_FOR: (f64, f64) = (30.0, 300.0);

/// Whether `lost` of `packets` are beyond what chance makes of a link that loses the share `baseline`, by a margin.
fn is_beyond(baseline: f64, packets: f64, lost: f64) -> bool {
    let expected = baseline * packets;
    lost >= 3.0 && lost > expected + 3.0 * expected.sqrt() + 0.02 * packets
}

/// A cut whose effect on the losses is measured.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// Packets from then on were sent with the smaller window.
    from: Timestamp,
    /// The loss ratio before.
    ratio: f64,
    /// W before, and the share of it that is left.
    window: f64,
    share: f64,
    packets: f64,
    lost: f64,
}

impl Trial {
    /// Whether it has seen enough.
    fn is_over(&self) -> bool {
        self.packets >= TRIAL_PACKETS && self.packets * self.ratio >= TRIAL_LOSSES
    }

    /// The loss ratio, if the cut changed nothing. Where all that is lost is too much for the link, what is left of the load says how
    /// much would be lost now: the bound is halfway.
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
    /// What this round has added to these two.
    round_base: (f64, f64),
    halved_at: Timestamp,
    largest_queue: f64,
    pub(super) heavy_at: Option<Timestamp>,
    /// Until then losses are of packets that were sent before the last heavy round was known.
    known_until: Timestamp,
    /// The largest baseline that is believed, until when, and for how long a trial is believed that finds it again.
    believed: f64,
    believed_until: Timestamp,
    believed_for: f64,
    trial: Option<Trial>,
    /// The last judged round's loss ratio.
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

    /// Losses until then have a cause that is known and dealt with.
    pub(super) fn expect_until(&mut self, until: Timestamp) {
        self.known_until = self.known_until.max(until);
    }

    /// Judges a round of `round` seconds, once it is over.
    pub(super) fn judge(&mut self, now: Timestamp, round: f64, queue: f64, target: f64) -> Verdict {
        self.age(now);
        if let Some(trial) = self.trial {
            return self.end_trial(now, &trial);
        }
        if now.saturating_since(self.round_since).as_secs_f64() < round {
            return Verdict::Ordinary;
        }
        self.round_since = now;
        let (packets, lost) = (std::mem::take(&mut self.packets), std::mem::take(&mut self.lost));
        let (base_packets, base_lost) = std::mem::take(&mut self.round_base);
        self.last_ratio = lost / packets.max(1.0);
        let known = self.base_packets > BASELINE_PACKETS;
        if !known && queue < 0.5 * target {
            return Verdict::Ordinary;
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
            return Verdict::Doubtful;
        }
        if !is_heavy {
            return Verdict::Ordinary;
        }
        self.heavy_at = Some(now);
        self.known_until = now + Duration::from_secs_f64(1.1 * round.min(60.0));
        // A round that is no ordinary one says nothing about what is.
        self.base_packets = (self.base_packets - base_packets).max(0.0);
        self.base_lost = (self.base_lost - base_lost).max(0.0);
        let shallow = queue > 0.7 * self.largest_queue && lost > (2.0 * baseline + 0.02) * packets;
        Verdict::Heavy { shallow }
    }

    /// The last judged round's loss ratio.
    pub(super) const fn last_ratio(&self) -> f64 {
        self.last_ratio
    }

    /// The loss ratio without a queue.
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

    /// W was cut from `window` to its `share` because of losses that may be the link's own; from `from` on that shows.
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

    /// Whether a cut's effect is being measured: W stays.
    pub(super) const fn on_trial(&self) -> bool {
        self.trial.is_some()
    }

    fn end_trial(&mut self, now: Timestamp, trial: &Trial) -> Verdict {
        self.heavy_at = Some(now);
        if !trial.is_over() {
            return Verdict::Ordinary;
        }
        self.trial = None;
        self.round_since = now;
        if let Some(ratio) = trial.innocent().filter(|ratio| *ratio < MOST_BELIEVED) {
            self.believed = ratio;
            self.believed_until = now + Duration::from_secs_f64(self.believed_for);
            self.believed_for = (2.0 * self.believed_for).min(BELIEVED_FOR.1);
            return Verdict::Innocent(trial.window);
        }
        self.believed_for = BELIEVED_FOR.0;
        self.base_packets = trial.packets;
        self.base_lost = trial.lost;
        Verdict::Guilty(trial.window * (1.0 - trial.ratio).max(trial.share))
    }

    /// Whether the baseline is known to be small. With more loss, late feedback is not told from a sender's wait for lost packets.
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

    /// A link of a hundred packets a second, judged each second.
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

        /// The first verdict within `seconds` that is not ordinary.
        fn verdict(&mut self, lost: u32, seconds: u32) -> Verdict {
            for _ in 0..seconds {
                for packet in 0..100_u32 {
                    self.now += Duration::from_millis(10);
                    // Spread evenly.
                    let is_lost = (packet + 1) * lost / 100 > packet * lost / 100;
                    let received = if is_lost { 0.0 } else { 1.0 };
                    self.meter.on_packets(self.now, received, 1.0 - received, 0.0);
                    let verdict = self.meter.judge(self.now, 1.0, 0.0, 0.1);
                    if verdict != Verdict::Ordinary {
                        return verdict;
                    }
                }
            }
            Verdict::Ordinary
        }

        fn try_less(&mut self, share: f64) {
            self.meter
                .begin_trial(self.now + Duration::from_secs(1), 100_000.0, share);
        }
    }

    #[test]
    fn what_a_cut_does_not_change_is_the_links_own() {
        let mut link = Link::new();
        assert_eq!(link.verdict(20, 5), Verdict::Doubtful);
        link.try_less(0.7);
        assert!(link.meter.on_trial());
        assert_eq!(link.verdict(20, 5), Verdict::Innocent(100_000.0));
        assert_eq!(link.verdict(20, 28), Verdict::Ordinary);
        assert_eq!(link.verdict(20, 5), Verdict::Doubtful);
        // Found again, it is believed for longer.
        link.try_less(0.7);
        assert_eq!(link.verdict(20, 5), Verdict::Innocent(100_000.0));
        assert_eq!(link.verdict(20, 58), Verdict::Ordinary);
    }

    #[test]
    fn what_a_cut_ends_was_our_own() {
        let mut link = Link::new();
        assert_eq!(link.verdict(50, 5), Verdict::Doubtful);
        link.try_less(0.45);
        assert!(matches!(link.verdict(0, 5), Verdict::Guilty(kept) if (49_000.0..51_000.0).contains(&kept)));
        assert!(matches!(
            link.verdict(50, 5),
            Verdict::Heavy { .. } | Verdict::Doubtful
        ));
    }

    #[test]
    fn many_sessions_cut_at_once_and_losses_fall() {
        let mut link = Link::new();
        assert_eq!(link.verdict(80, 5), Verdict::Doubtful);
        link.try_less(0.4);
        // A fifth of it came through before, so half of the rest does now.
        assert!(matches!(link.verdict(50, 5), Verdict::Guilty(_)));
    }

    #[test]
    fn no_link_is_believed_to_lose_half() {
        let mut link = Link::new();
        assert_eq!(link.verdict(50, 5), Verdict::Doubtful);
        link.try_less(0.45);
        assert!(matches!(link.verdict(50, 5), Verdict::Guilty(_)));
    }

    #[test]
    fn little_loss_is_believed_at_once() {
        assert_eq!(Link::new().verdict(5, 600), Verdict::Ordinary);
    }
}
