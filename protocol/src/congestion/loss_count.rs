//! Counts of losses, and how much they come in episodes (congestion.md section 7).
use super::parameters::LossParameters;

/// Packets and losses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossCount {
    /// Received or declared lost.
    pub(super) packets: f64,
    pub(super) lost: f64,
    /// Episodes of losses that began.
    episodes: f64,
    /// Sum of the squares of the numbers of losses of the episodes.
    squares: f64,
}

impl LossCount {
    /// Counts of losses that are independent of each other.
    pub(super) const fn of(packets: f64, lost: f64) -> Self {
        Self {
            packets,
            lost,
            episodes: lost,
            squares: lost,
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.lost += other.lost;
        self.episodes += other.episodes;
        self.squares += other.squares;
    }

    pub(super) fn halve(&mut self) {
        for count in [
            &mut self.packets,
            &mut self.lost,
            &mut self.episodes,
            &mut self.squares,
        ] {
            *count /= 2.0;
        }
    }

    pub(super) fn subtract(&mut self, other: Self) {
        self.packets = (self.packets - other.packets).max(0.0);
        self.lost = (self.lost - other.lost).max(0.0);
        self.episodes = (self.episodes - other.episodes).max(0.0);
        self.squares = (self.squares - other.squares).max(0.0);
    }

    /// Loss ratio; of at least one packet, so that it is defined.
    pub(super) fn ratio(&self) -> f64 {
        self.lost / self.packets.max(1.0)
    }

    /// Index of dispersion: variance of the number of losses in relation to that of as many independent losses.
    /// Episodes that occur independently with L losses each have the index E(L^2) / E(L).
    pub(super) fn dispersion(&self, parameters: &LossParameters) -> f64 {
        let index = self.squares / self.lost.max(1.0);
        // A full buffer of some packets loses a few packets at a time: no bursts of a radio link.
        if index < parameters.dispersion_least {
            1.0
        } else {
            index
        }
    }

    /// Returns true if the losses significantly exceed those of a link with the loss ratio `baseline` and this
    /// index of `dispersion`.
    pub(super) fn is_beyond(&self, parameters: &LossParameters, baseline: f64, dispersion: f64) -> bool {
        let expected = baseline * self.packets;
        self.episodes >= parameters.heavy_losses
            && self.lost
                > expected
                    + parameters.heavy_deviations * (expected * dispersion).sqrt()
                    + parameters.heavy_share * self.packets
    }
}

/// Joins losses that are close to each other to episodes.
#[derive(Clone, Debug)]
pub(super) struct EpisodeTracker {
    parameters: &'static LossParameters,
    /// Packets since the last loss.
    since_lost: f64,
    /// Packets and losses of the current episode.
    packets: f64,
    lost: f64,
    /// Most packets of an episode.
    longest: f64,
}

impl EpisodeTracker {
    pub(super) const fn new(parameters: &'static LossParameters) -> Self {
        Self {
            parameters,
            since_lost: 0.0,
            packets: 0.0,
            lost: 0.0,
            longest: 1.0,
        }
    }

    /// An episode is part of a round: a bottleneck that loses packets for a whole round has several.
    pub(super) fn on_round(&mut self, round: &LossCount) {
        let part = self.parameters.episode_share * round.packets;
        self.longest = part.clamp(1.0, self.parameters.episode_most);
    }

    /// Counts the packets of one arrival, and returns what they add to the counts.
    pub(super) fn on_packets(&mut self, received: f64, lost: f64) -> LossCount {
        let packets = received + lost;
        let mut losses = LossCount {
            packets,
            lost,
            ..LossCount::default()
        };
        if lost > 0.0 {
            let continues = self.lost > 0.0
                && self.since_lost <= self.parameters.episode_gap
                && self.packets + self.since_lost + lost <= self.longest;
            if continues {
                losses.squares = lost * (2.0 * self.lost + lost);
                self.packets += self.since_lost + lost;
                self.lost += lost;
            } else {
                // More losses than an episode can have are several.
                losses.episodes = (lost / self.longest).ceil();
                losses.squares = lost * lost.min(self.longest);
                self.packets = lost;
                self.lost = lost;
            }
            self.since_lost = 0.0;
        }
        self.since_lost += received;
        losses
    }
}
