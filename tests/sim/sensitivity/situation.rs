//! Situations in which the constants of the congestion control algorithm are measured.
use std::{fmt, time::Duration};

use longhaul_netem::{HopConfig, Loss, Policer, Profile, WhileOut};
use longhaul_protocol::congestion::Constant;
use longhaul_types::{BitRate, ByteCount, Timestamp};

use crate::{
    links::{self, Knowledge, PACKET},
    loss_bursts,
    plan::Exchange,
};

/// More than any link carries.
const ENDLESS: u64 = 1 << 40;
/// A short buffer holds a twentieth of a second, but not less than this.
const SHORT_BUFFER: Duration = Duration::from_millis(50);
const LEAST_BUFFER: u64 = 10;
/// Bucket of the policer.
const POLICER_PACKETS: u64 = 16;
/// Downloads with pauses in a run, and an outage in the third of them that is a stall on every link.
const PAUSES: u32 = 4;
const OUTAGE: Duration = Duration::from_secs(6);
/// Losses of the lossy link: more than the algorithm believes without a trial.
const LOSS_RATIO: f64 = 0.1;

/// A use of the link in which a constant matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Situation {
    /// A download with the right profile.
    Download,
    /// A download without a profile, from its start.
    Unknown,
    /// A download with a tenth of the rate as profile.
    TooSlow,
    /// A download beside an upload of the same session.
    Upload,
    /// A download over a link that loses a tenth of the packets.
    Lossy,
    /// A download through a short buffer.
    ShortBuffer,
    /// A download through a policer of half the link's rate.
    Policed,
    /// A download over a link that loses packets in bursts.
    Bursts,
    /// A download over a link with short outages.
    Outages,
    /// Downloads with idle times and an outage.
    Pauses,
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Download => "download",
            Self::Unknown => "unknown link",
            Self::TooSlow => "slow profile",
            Self::Upload => "upload",
            Self::Lossy => "lossy link",
            Self::ShortBuffer => "short buffer",
            Self::Policed => "policer",
            Self::Bursts => "loss bursts",
            Self::Outages => "outages",
            Self::Pauses => "pauses",
        })
    }
}

impl Situation {
    /// The situation in which a constant is varied.
    pub(crate) fn of(constant: &Constant) -> Self {
        match (constant.group, constant.name) {
            ("start", "profile_margin" | "standing_packets") => Self::Download,
            ("path" | "start" | "probing", _) | ("rate", "early_arrivals" | "early_time") => Self::Unknown,
            ("growth" | "ramp", _) => Self::TooSlow,
            ("late_feedback", _) | ("rate", "memory_late") => Self::Upload,
            ("burst", _) => Self::Outages,
            (
                "loss",
                "episode_gap" | "episode_share" | "episode_most" | "dispersion_least" | "review_losses"
                | "heavy_losses",
            )
            | ("trial", "dispersion_most") => Self::Bursts,
            ("trial", _) => Self::Lossy,
            ("loss_bound", "shallow_baselines" | "shallow_share" | "shallow_packets" | "shallow_target")
            | ("loss_bound", "shallow_queue" | "queue_rise") => Self::ShortBuffer,
            ("loss", "outage_rtts" | "outage_time") | ("silence", _) => Self::Pauses,
            ("loss" | "loss_bound", _) => Self::Policed,
            _ => Self::Download,
        }
    }

    pub(crate) fn hop(self, profile: Profile, length: Duration) -> HopConfig {
        let mut hop = HopConfig::from(profile);
        match self {
            Self::Download | Self::Unknown | Self::TooSlow | Self::Upload => {}
            Self::Lossy => links::lose(&mut hop, LOSS_RATIO),
            Self::ShortBuffer => {
                hop.down.loss = Loss::Never;
                let bytes = (profile.rate_down() * SHORT_BUFFER).bytes();
                hop.down.queue = ByteCount::new(bytes.max(LEAST_BUFFER * PACKET.bytes()));
            }
            Self::Policed => {
                hop.down.loss = Loss::Never;
                hop.down.policer = Some(Policer {
                    rate: half(profile.rate_down()),
                    burst: ByteCount::new(POLICER_PACKETS * PACKET.bytes()),
                });
            }
            Self::Bursts => loss_bursts::BURSTS.apply(&mut hop),
            Self::Outages => loss_bursts::OUTAGES.apply(&mut hop),
            Self::Pauses => {
                let start = Timestamp::ZERO + length / 2 + profile.rtt();
                links::interrupt(&mut hop, start, OUTAGE, WhileOut::Drop);
            }
        }
        hop
    }

    pub(crate) fn plan(self, profile: Profile, length: Duration) -> Vec<Exchange> {
        match self {
            Self::Pauses => {
                // Each takes a quarter of its interval; the third meets the outage.
                let interval = length / PAUSES;
                let bytes = (profile.rate_down() * (interval / 4)).bytes();
                let fetch = |number: u32| Exchange::fetch(interval * number, bytes);
                (0..PAUSES).map(fetch).collect()
            }
            Self::Upload => {
                let mut upload = Exchange::fetch(Duration::ZERO, 4);
                upload.request = ENDLESS;
                vec![Exchange::fetch(Duration::ZERO, ENDLESS), upload]
            }
            Self::Download
            | Self::Unknown
            | Self::TooSlow
            | Self::Lossy
            | Self::ShortBuffer
            | Self::Bursts
            | Self::Outages
            | Self::Policed => vec![Exchange::fetch(Duration::ZERO, ENDLESS)],
        }
    }

    pub(crate) const fn knowledge(self) -> Knowledge {
        match self {
            Self::Unknown => Knowledge::Unknown,
            Self::TooSlow => Knowledge::TooSlow,
            Self::Download
            | Self::Upload
            | Self::Lossy
            | Self::ShortBuffer
            | Self::Policed
            | Self::Bursts
            | Self::Outages
            | Self::Pauses => Knowledge::Known,
        }
    }

    /// The rate that the sender can reach at most.
    pub(crate) fn capacity(self, profile: Profile) -> BitRate {
        match self {
            Self::Policed => half(profile.rate_down()),
            Self::Download
            | Self::Unknown
            | Self::TooSlow
            | Self::Upload
            | Self::Lossy
            | Self::ShortBuffer
            | Self::Bursts
            | Self::Outages
            | Self::Pauses => profile.rate_down(),
        }
    }
}

fn half(rate: BitRate) -> BitRate {
    BitRate::bps(rate.as_bps() / 2)
}

/// Duration of a run: some thousand packets, and less where the start is measured; at least 15 round trips.
pub(crate) fn length(situation: Situation, profile: Profile) -> Duration {
    let [slow, middle, fast] = if situation == Situation::Unknown {
        [30, 10, 3]
    } else if situation == Situation::Pauses {
        [80, 40, 32]
    } else if matches!(situation, Situation::Bursts | Situation::Outages) {
        [90, 45, 20]
    } else {
        [90, 45, 8]
    };
    let time = Duration::from_secs(match profile.rate_down().as_bps() {
        0..=100_000 => slow,
        100_001..=1_000_000 => middle,
        _ => fast,
    });
    time.max(profile.rtt() * 15)
}
