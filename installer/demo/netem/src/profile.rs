//! Named links of the benchmark.
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount};

use crate::{Arq, Capacity, LinkConfig, Loss, Probability};

/// Frame of a 256 kbit/s channel: its data of one radio frame of 10 ms (3GPP TS 25.211).
const DCH256_FRAME: ByteCount = ByteCount::new(320);
/// A frame is discarded after 32 transmissions; at 0.2 loss this does not happen in practice.
const DCH256_TRANSMISSIONS: u32 = 32;

/// A named link between client and gateway.
///
/// The values are part of the benchmark's definition. Two profiles need an explanation:
/// * `umts-dch256` loses 0.2 (down) and 0.1 (up) of its *frames*, which ARQ retransmits in order (Necker,
///   Scharf, Weber: TCP and HTTP proxies in UMTS). The source specifies neither frame size nor repair time;
///   the model uses one radio frame of 10 ms and one round-trip time of the profile. Retransmissions use the
///   channel, so that packets get 205 kbit/s down and 230 kbit/s up.
/// * `wlan-lossy` loses 3 % of the packets in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    name: &'static str,
    down: Lane,
    up: Lane,
    delay: Duration,
    jitter: Duration,
    loss: Loss,
}

/// Parameters that differ between the directions.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lane {
    rate: BitRate,
    queue: ByteCount,
    frame_loss: Probability,
}

/// A name that is not a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a link profile; known are: {known}", known = Profile::names().collect::<Vec<_>>().join(", "))]
pub struct UnknownProfile(pub String);

/// Rates in bit/s, one-way delay and jitter in microseconds, queues in kB; down before up.
const fn profile(name: &'static str, rates: (u64, u64), delay: (u64, u64), queues: (u64, u64)) -> Profile {
    Profile {
        name,
        down: lane(rates.0, queues.0),
        up: lane(rates.1, queues.1),
        delay: Duration::from_micros(delay.0),
        jitter: Duration::from_micros(delay.1),
        loss: Loss::Never,
    }
}

const fn lane(rate: u64, queue: u64) -> Lane {
    Lane {
        rate: BitRate::bps(rate),
        queue: ByteCount::kb(queue),
        frame_loss: Probability::ZERO,
    }
}

impl Profile {
    const fn with_loss(mut self, per_mille: u16) -> Self {
        self.loss = Loss::Random(Probability::per_mille(per_mille));
        self
    }

    const fn with_frame_loss(mut self, down_per_mille: u16, up_per_mille: u16) -> Self {
        self.down.frame_loss = Probability::per_mille(down_per_mille);
        self.up.frame_loss = Probability::per_mille(up_per_mille);
        self
    }
}

const PROFILES: [Profile; 12] = [
    profile("gprs-3+1", (39_600, 13_400), (300_000, 60_000), (120, 60)),
    profile("gprs-class6", (34_500, 13_400), (400_000, 60_000), (120, 60)),
    profile("edge", (200_000, 60_000), (220_000, 40_000), (120, 60)),
    profile("cdma-1x", (144_000, 64_000), (200_000, 20_000), (100, 50)),
    profile("umts-384", (384_000, 64_000), (125_000, 10_000), (120, 60)),
    profile("umts-dch256", (256_000, 256_000), (75_000, 0), (120, 120)).with_frame_loss(200, 100),
    profile("lte", (12_000_000, 5_000_000), (30_000, 3_000), (500, 300)),
    profile("geo-sat", (20_000_000, 2_000_000), (300_000, 2_000), (1500, 150)),
    profile(
        "leo-sat",
        (100_000_000, 15_000_000),
        (25_000, 10_000),
        (1000, 300),
    ),
    profile("wlan-lossy", (20_000_000, 20_000_000), (30_000, 0), (300, 300)).with_loss(30),
    profile("dialup", (44_000, 31_000), (75_000, 0), (16, 16)),
    profile("lan-fast", (100_000_000, 100_000_000), (2_500, 0), (1000, 1000)),
];

impl Profile {
    /// Returns the profile with this name.
    ///
    /// # Errors
    /// There is no such profile; the error lists the existing profiles.
    pub fn named(name: &str) -> Result<Self, UnknownProfile> {
        Self::all()
            .find(|profile| profile.name == name)
            .ok_or_else(|| UnknownProfile(name.to_owned()))
    }

    /// Returns all profiles, the slowest first, as in the benchmark's table.
    pub fn all() -> impl Iterator<Item = Self> {
        PROFILES.into_iter()
    }

    /// Returns the names of all profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PROFILES.iter().map(|profile| profile.name)
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Raw rate towards the client.
    pub fn rate_down(&self) -> BitRate {
        self.down.rate
    }

    /// Raw rate towards the gateway.
    pub fn rate_up(&self) -> BitRate {
        self.up.rate
    }

    /// Round-trip time of the idle link with the mean jitter, without serialisation.
    pub fn rtt(&self) -> Duration {
        self.delay * 2 + self.jitter
    }

    /// Direction from gateway to client.
    pub fn down(&self) -> LinkConfig {
        self.link(&self.down)
    }

    /// Direction from client to gateway.
    pub fn up(&self) -> LinkConfig {
        self.link(&self.up)
    }

    fn link(&self, lane: &Lane) -> LinkConfig {
        let mut config = LinkConfig::new(Capacity::Rate(lane.rate), self.delay, lane.queue);
        config.jitter = self.jitter;
        config.loss = self.loss;
        if lane.frame_loss != Probability::ZERO {
            config.arq = Some(Arq {
                frame_loss: lane.frame_loss,
                frame_size: DCH256_FRAME,
                repair_delay: self.delay * 2,
                max_transmissions: DCH256_TRANSMISSIONS,
            });
        }
        config
    }
}
