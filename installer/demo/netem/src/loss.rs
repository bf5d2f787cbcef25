//! Packet loss after serialisation.
use crate::{Probability, random::Stream};

/// Models of packet loss.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// No packet is lost.
    #[default]
    Never,
    /// Each packet is lost with this probability, independently of the others.
    Random(Probability),
    /// Losses come in bursts.
    Bursts(GilbertElliott),
}

/// The two-state loss model of Gilbert (1960) and Elliott (1963). The chain starts in the good state and
/// makes one step before each packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Probability of the step from good to bad.
    pub p_gb: Probability,
    /// Probability of the step from bad to good; the mean stay in the bad state is `1 / p_bg` packets.
    pub p_bg: Probability,
    /// Loss probability of a packet in the good state.
    pub loss_good: Probability,
    /// Loss probability of a packet in the bad state.
    pub loss_bad: Probability,
}

impl GilbertElliott {
    /// Long-term share of lost packets.
    pub fn mean_loss(&self) -> f64 {
        let steps = self.p_gb.value() + self.p_bg.value();
        let bad = if steps > 0.0 {
            self.p_gb.value() / steps
        } else {
            0.0
        };
        bad * self.loss_bad.value() + (1.0 - bad) * self.loss_good.value()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Good,
    Bad,
}

/// State of a loss model.
pub(crate) struct LossProcess {
    model: Loss,
    channel: Channel,
}

impl LossProcess {
    pub(crate) fn new(model: Loss) -> Self {
        Self {
            model,
            channel: Channel::Good,
        }
    }

    /// Returns true if the next packet is lost.
    pub(crate) fn loses(&mut self, random: &mut Stream) -> bool {
        match self.model {
            Loss::Never => false,
            Loss::Random(probability) => random.happens(probability),
            Loss::Bursts(model) => {
                let (leave, other) = match self.channel {
                    Channel::Good => (model.p_gb, Channel::Bad),
                    Channel::Bad => (model.p_bg, Channel::Good),
                };
                if random.happens(leave) {
                    self.channel = other;
                }
                random.happens(match self.channel {
                    Channel::Good => model.loss_good,
                    Channel::Bad => model.loss_bad,
                })
            }
        }
    }
}
