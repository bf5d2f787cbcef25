//! Bursts of losses in a download: short outages at regular intervals, as at handovers of satellites and cells, and
//! a channel that is bad for some packets.
use std::{fmt, time::Duration};

use longhaul_netem::{GilbertElliott, HopConfig, Loss, Outage, OutageSchedule, Profile, WhileOut};
use longhaul_types::Timestamp;

use crate::{
    links::{self, Knowledge},
    plan::Exchange,
    report::{Bars, Table, median_and_worst, percent},
    seeds,
    world::{GivenToken, Moves, Setting, World},
};

const NAMES: [&str; 5] = ["umts-384", "lte", "geo-sat", "leo-sat", "wlan-lossy"];
const BEGIN: Duration = Duration::from_secs(5);
const TIME: Duration = Duration::from_secs(20);
/// Time of a measurement in which delays of the start leave the window of the base delay.
const LONG: Duration = Duration::from_secs(90);
const MOST_SEEDS: u64 = 2;
/// Seeds of a channel with a good and a bad state; the times in the bad state differ from seed to seed.
const MOST_SEEDS_OF_CHANNEL: u64 = 4;
/// Least share of what the bursts leave.
const BAR: f64 = 0.9;
const LIMIT: f64 = 0.7;
/// The same for the worst seed of a channel: a bad state at the start must not limit the rest of the download.
const WORST: f64 = 0.5;
const WORST_LIMIT: f64 = 0.2;

/// Losses of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bursts {
    /// All packets of this time are lost, once in each interval; both in ms.
    Outages(u64, u64),
    /// A share of the packets is lost, for so many packets in the mean, once in so many packets.
    Channel(f64, u32, u32),
}

/// Bursts of the measurement of the constants' sensitivity.
pub(crate) const BURSTS: Bursts = Bursts::Channel(0.5, 40, 400);
pub(crate) const OUTAGES: Bursts = Bursts::Outages(100, 1_000);

const PATTERNS: [Bursts; 7] = [
    Bursts::Outages(20, 200),
    Bursts::Outages(100, 1_000),
    Bursts::Outages(300, 3_000),
    Bursts::Outages(150, 15_000),
    Bursts::Channel(1.0, 20, 400),
    Bursts::Channel(0.5, 40, 400),
    Bursts::Channel(0.5, 40, 1_000),
];

impl fmt::Display for Bursts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outages(length, interval) => write!(f, "{length} of {interval} ms"),
            Self::Channel(share, length, interval) => {
                write!(f, "{} of {length} of {interval} packets", percent(*share))
            }
        }
    }
}

impl Bursts {
    pub(crate) fn apply(self, hop: &mut HopConfig) {
        match self {
            Self::Outages(length, interval) => interrupt(
                hop,
                Duration::from_millis(length),
                Duration::from_millis(interval),
            ),
            Self::Channel(share, length, interval) => {
                let model = GilbertElliott {
                    p_gb: links::share(1.0 / f64::from(interval - length)),
                    p_bg: links::share(1.0 / f64::from(length)),
                    loss_good: links::share(0.0),
                    loss_bad: links::share(share),
                };
                // The uplink carries few packets, whose bad state would last for seconds.
                hop.down.loss = Loss::Bursts(model);
            }
        }
    }

    /// Share of the link that the bursts leave.
    fn left(self) -> f64 {
        match self {
            Self::Outages(length, interval) => 1.0 - length as f64 / interval as f64,
            Self::Channel(share, length, interval) => 1.0 - share * f64::from(length) / f64::from(interval),
        }
    }
}

/// Interrupts both directions again and again.
fn interrupt(hop: &mut HopConfig, length: Duration, interval: Duration) {
    let outages = (1..=1_000)
        .map(|number| Outage {
            start: Timestamp::ZERO + interval * number,
            length,
            behaviour: WhileOut::Drop,
        })
        .collect();
    let schedule = OutageSchedule::new(outages).expect("the outages are in order");
    hop.down.outages = schedule.clone();
    hop.up.outages = schedule;
}

/// Returns the bytes delivered in `time` from [`BEGIN`] on, in shares of what the link carries without losses.
fn goodput(hop: HopConfig, profile: Profile, time: Duration, seed: u64) -> f64 {
    let bytes = (profile.rate_down() * (BEGIN + time)).bytes();
    let mut world = World::new(Setting {
        hop,
        profile: Knowledge::Unknown.of(profile),
        plan: vec![Exchange::fetch(Duration::ZERO, bytes)],
        token: GivenToken::Valid,
        moves: Moves::Silent,
        seed,
    });
    world.run(Timestamp::ZERO + BEGIN, |_| false);
    let before = world.agent.application.delivered;
    world.run(Timestamp::ZERO + BEGIN + time, |_| false);
    let delivered = world.agent.application.delivered - before;
    delivered as f64 / (profile.rate_down() * time).bytes() as f64
}

#[test]
fn bursts_of_losses_do_not_reduce_the_rate() {
    const COLUMNS: [&str; 4] = ["profile", "lost", "goodput of what is left", "worst"];
    let mut table = Table::new("download with bursts of losses", &COLUMNS);
    let mut bars = Bars::default();
    for name in NAMES {
        let profile = links::named(name);
        for bursts in PATTERNS {
            let mut hop = HopConfig::from(profile);
            bursts.apply(&mut hop);
            let condition = format!("{name}, lost: {bursts}");
            let run = |seed| goodput(hop.clone(), profile, TIME, seed) / bursts.left();
            let is_channel = matches!(bursts, Bursts::Channel(..));
            let most = if is_channel {
                MOST_SEEDS_OF_CHANNEL
            } else {
                MOST_SEEDS
            };
            let goodputs = seeds::for_some(&condition, most, run);
            let worst = goodputs.iter().copied().fold(f64::INFINITY, f64::min);
            let (median, _) = median_and_worst(goodputs);
            bars.at_least(&condition, median, BAR, LIMIT);
            if is_channel {
                bars.at_least(&format!("{condition}, worst"), worst, WORST, WORST_LIMIT);
            }
            table.row(&[
                name.to_owned(),
                bursts.to_string(),
                percent(median),
                percent(worst),
            ]);
        }
    }
    table.print();
    bars.settle("bursts of losses");
}

/// Prints the goodput of a long download with random losses and on a channel with bad times, in shares of what they
/// leave, with as many seeds as `LONGHAUL_SIM_SEEDS` says; only with `LONGHAUL_SIM_EXPERIMENTS`.
#[test]
fn losses_in_long_downloads() {
    if !seeds::experiments() {
        return;
    }
    let mut table = Table::new(
        "long download with losses",
        &["profile", "lost", "goodput of what is left", "worst"],
    );
    for name in NAMES {
        let profile = links::named(name);
        let mut print = |what: String, hop: &HopConfig, left: f64| {
            let run = |seed| goodput(hop.clone(), profile, LONG, seed) / left;
            let runs = seeds::for_each(name, run);
            let worst = runs.iter().copied().fold(f64::INFINITY, f64::min);
            let (median, _) = median_and_worst(runs);
            table.row(&[
                name.to_owned(),
                what,
                format!("{median:.3}"),
                format!("{worst:.3}"),
            ]);
        };
        let mut hop = HopConfig::from(profile);
        for lost in [0.0, 0.02, 0.05, 0.1] {
            hop.down.loss = Loss::Random(links::share(lost));
            hop.up.loss = Loss::Random(links::share(lost));
            print(percent(lost), &hop, 1.0 - lost);
        }
        let mut hop = HopConfig::from(profile);
        BURSTS.apply(&mut hop);
        print(BURSTS.to_string(), &hop, BURSTS.left());
    }
    table.print();
}
