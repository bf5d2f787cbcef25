//! Hops of the tests: profiles, the agent's knowledge of them, and impairments.
use std::time::Duration;

use longhaul_netem::{
    AddressChanges, GilbertElliott, HopConfig, Loss, Outage, OutageSchedule, Probability, Profile,
    Reordering, WhileOut,
};
use longhaul_types::{BitRate, ByteCount, LinkProfile, Timestamp};

/// Profiles of the tests of conditions.
const PROFILES: [&str; 5] = ["gprs-3+1", "umts-384", "lte", "geo-sat", "wlan-lossy"];

/// Size of a full packet with its headers.
pub(crate) const PACKET: ByteCount = ByteCount::new(1280);

/// The agent's knowledge of the hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knowledge {
    Known,
    Unknown,
    /// Rates that are ten times too high.
    TooFast,
    /// Rates that are ten times too low.
    TooSlow,
    /// Rates of an earlier session on this network, in tenths of the true ones.
    Remembered(u64),
}

impl Knowledge {
    const ALL: [Self; 4] = [Self::Known, Self::Unknown, Self::TooFast, Self::TooSlow];

    /// Link profile that the agent is configured with.
    pub(crate) fn of(self, profile: Profile) -> Option<LinkProfile> {
        let known: LinkProfile = profile
            .name()
            .parse()
            .expect("every profile of the testbed has a definition");
        let scaled = |by: &dyn Fn(u64) -> u64| LinkProfile {
            down: BitRate::bps(by(known.down.as_bps())),
            up: BitRate::bps(by(known.up.as_bps())),
            rtt: known.rtt,
        };
        match self {
            Self::Known => Some(known),
            Self::Unknown => None,
            Self::TooFast => Some(scaled(&|rate| rate * 10)),
            Self::TooSlow => Some(scaled(&|rate| rate / 10)),
            Self::Remembered(tenths) => Some(scaled(&|rate| rate * tenths / 10)),
        }
    }
}

/// Link and knowledge of a seed: twenty consecutive seeds cover all combinations.
pub(crate) fn of_seed(seed: u64) -> (Profile, Knowledge) {
    let profiles = PROFILES.len() as u64;
    let pick = |number: u64, of: usize| usize::try_from(number % of as u64).expect("below a length");
    let profile = named(PROFILES[pick(seed, PROFILES.len())]);
    (
        profile,
        Knowledge::ALL[pick(seed / profiles, Knowledge::ALL.len())],
    )
}

pub(crate) fn named(name: &str) -> Profile {
    Profile::named(name).expect("a profile of the testbed")
}

/// The hop of the profile without jitter, so that times can be computed.
pub(crate) fn without_jitter(profile: Profile) -> HopConfig {
    let mut hop = HopConfig::from(profile);
    hop.down.jitter = Duration::ZERO;
    hop.up.jitter = Duration::ZERO;
    hop
}

/// Time of a full packet at the downlink's rate.
pub(crate) fn packet_time(profile: Profile) -> Duration {
    PACKET / profile.rate_down()
}

pub(crate) fn share(value: f64) -> Probability {
    Probability::new(value).expect("a constant below 1")
}

/// Adds random loss to that of the profile, in both directions.
pub(crate) fn lose(hop: &mut HopConfig, probability: f64) {
    for link in [&mut hop.down, &mut hop.up] {
        let before = match link.loss {
            Loss::Random(before) => before.value(),
            Loss::Never | Loss::Bursts(_) => 0.0,
        };
        link.loss = Loss::Random(share(1.0 - (1.0 - before) * (1.0 - probability)));
    }
}

/// Adds bursts of about 3 lost packets, 4 % on average.
pub(crate) fn lose_in_bursts(hop: &mut HopConfig) {
    let bursts = GilbertElliott {
        p_gb: share(0.018),
        p_bg: share(0.33),
        loss_good: share(0.002),
        loss_bad: share(0.75),
    };
    hop.down.loss = Loss::Bursts(bursts);
    hop.up.loss = Loss::Bursts(bursts);
}

/// Delays random packets by 20 ms or two packet times, whichever is longer, so that up to ten others overtake
/// them.
pub(crate) fn reorder(hop: &mut HopConfig, profile: Profile, probability: f64) {
    let extra_delay = Duration::from_millis(20).max(packet_time(profile) * 2);
    let reordering = Reordering {
        share: share(probability),
        extra_delay,
        max_distance: 10,
    };
    hop.down.reordering = Some(reordering);
    hop.up.reordering = Some(reordering);
}

pub(crate) fn duplicate(hop: &mut HopConfig, probability: f64) {
    hop.down.duplication = share(probability);
    hop.up.duplication = share(probability);
}

pub(crate) fn corrupt(hop: &mut HopConfig, probability: f64) {
    hop.down.corruption = share(probability);
    hop.up.corruption = share(probability);
}

/// Interrupts both directions.
pub(crate) fn interrupt(hop: &mut HopConfig, start: Timestamp, length: Duration, behaviour: WhileOut) {
    let schedule = OutageSchedule::new(vec![Outage {
        start,
        length,
        behaviour,
    }])
    .expect("one outage");
    hop.down.outages = schedule.clone();
    hop.up.outages = schedule;
}

pub(crate) fn move_client(hop: &mut HopConfig, times: &[Duration]) {
    hop.address_changes = AddressChanges::at(times.iter().map(|time| Timestamp::ZERO + *time));
}
