//! Downloads that fill the link: utilisation, queueing delay, cost of retransmissions.
use std::time::Duration;

use longhaul_netem::{Capacity, HopConfig, LinkConfig, Profile, Side, WhileOut};
use longhaul_types::{BitRate, ByteCount, Timestamp};

use crate::{
    application::User,
    links::{self, Knowledge},
    plan::Exchange,
    report::{Bars, Table, median_and_worst, ms, percent},
    seeds,
    world::{GivenToken, Moves, Setting, World},
};

/// Maximum number of seeds of a bulk download, which transfers up to 100 MB.
const MOST_SEEDS: u64 = 4;
/// Number of seeds of the loss test; with some of them the RESP is lost, too.
const LOSS_SEEDS: u64 = 12;

/// Measurements of a download.
struct Download {
    /// Bytes sent on the downlink, relative to its capacity.
    utilisation: f64,
    /// Bytes delivered to the user, relative to the downlink's capacity.
    goodput: f64,
    queue_p50: Duration,
    queue_p95: Duration,
    /// Bytes sent on the uplink, relative to its capacity.
    uplink: f64,
    retransmitted: f64,
    lost: f64,
    spurious: f64,
}

/// A download of length `time`, measured after a start of two round trips and half a second.
fn download(hop: HopConfig, profile: Profile, knowledge: Knowledge, time: Duration, seed: u64) -> Download {
    let capacity = profile.rate_down() * (time * 2);
    let plan = vec![Exchange::fetch(Duration::ZERO, capacity.bytes())];
    let setting = Setting {
        hop,
        profile: knowledge.of(profile),
        plan,
        token: GivenToken::Valid,
        moves: Moves::Silent,
        seed,
    };
    let mut world = World::new(setting);
    let begin = Timestamp::ZERO + profile.rtt() * 2 + Duration::from_millis(500);
    world.run(begin, |_| false);
    world.hop.take_queueing_delays(Side::Client);
    let sent_before = world.hop.down().stats().sent.bytes;
    let delivered_before = world.agent.application.delivered;
    let agent_before = sent_by_agent(&world);
    let end = begin + time;
    world.run(end, |_| false);
    world.hop.advance(end);
    let possible = (profile.rate_down() * time).bytes() as f64;
    let delays = world.hop.take_queueing_delays(Side::Client);
    let of = |bytes: ByteCount| bytes.bytes() as f64 / possible;
    let lost = world.hop.down().stats().dropped_total().packets as f64
        / world.hop.down().stats().offered.packets as f64;
    Download {
        utilisation: of(world.hop.down().stats().sent.bytes - sent_before),
        goodput: of(ByteCount::new(
            world.agent.application.delivered - delivered_before,
        )),
        queue_p50: delays.percentile(50),
        queue_p95: delays.percentile(95),
        uplink: (sent_by_agent(&world) - agent_before) as f64 / (profile.rate_up() * time).bytes() as f64,
        retransmitted: world.retransmitted_share(),
        lost,
        spurious: world.spurious_share(),
    }
}

fn sent_by_agent(world: &World) -> u64 {
    world
        .sent
        .iter()
        .filter(|sent| sent.from == User::Agent)
        .map(|sent| sent.len)
        .sum()
}

/// A minute, or less on links where a minute is a hundred thousand packets.
fn duration(profile: Profile) -> Duration {
    match profile.rate_down().as_bps() {
        0..=1_000_000 => Duration::from_secs(60),
        1_000_001..=20_000_000 => Duration::from_secs(20),
        _ => Duration::from_secs(5),
    }
}

/// Queueing delay of target 1: 95th percentile in seconds.
fn queue_bar(profile: Profile) -> Option<f64> {
    match profile.name() {
        "gprs-3+1" => Some(1.0),
        "umts-384" => Some(0.230),
        "geo-sat" => Some(0.270),
        _ => None,
    }
}

#[test]
fn bulk_download_fills_every_profile() {
    const COLUMNS: [&str; 8] = [
        "profile",
        "known",
        "util mean",
        "least",
        "queue p50 ms",
        "queue p95 ms",
        "uplink used",
        "retransmitted",
    ];
    let mut table = Table::new("bulk download", &COLUMNS);
    let mut bars = Bars::default();
    for profile in Profile::all() {
        for knowledge in [Knowledge::Known, Knowledge::Unknown] {
            let downloads = seeds::for_some("bulk_download_fills_every_profile", MOST_SEEDS, |seed| {
                download(profile.into(), profile, knowledge, duration(profile), seed)
            });
            let of = |value: fn(&Download) -> f64| median_and_worst(downloads.iter().map(value).collect());
            let (idle, idle_worst) = of(|download| 1.0 - download.utilisation);
            let (p50, _) = of(|download| download.queue_p50.as_secs_f64());
            let (_, p95) = of(|download| download.queue_p95.as_secs_f64());
            let (uplink, _) = of(|download| download.uplink);
            let (retransmitted, _) = of(|download| download.retransmitted);
            table.row(&[
                profile.name().to_owned(),
                format!("{knowledge:?}"),
                percent(1.0 - idle),
                percent(1.0 - idle_worst),
                ms(Duration::from_secs_f64(p50)),
                ms(Duration::from_secs_f64(p95)),
                percent(uplink),
                percent(retransmitted),
            ]);
            // The count does not include the frames that the profile's ARQ repeats.
            let repeats = if profile.down().arq.is_some() { 0.2 } else { 0.0 };
            let utilisation = (1.0 - idle_worst) / (1.0 - repeats);
            // Target 1, where the design sets one; an unknown link needs time for slow start.
            let (bar, limit) = match (knowledge, profile.name()) {
                (Knowledge::Known, "umts-dch256") => (0.95, 0.50),
                (Knowledge::Known, _) => (0.95, 0.90),
                (Knowledge::Unknown, "umts-dch256") => (0.85, 0.40),
                _ => (0.85, 0.75),
            };
            bars.at_least(
                &format!("{}, {knowledge:?}: share of the link", profile.name()),
                utilisation,
                bar,
                limit,
            );
            if let Some(bar) = queue_bar(profile).filter(|_| knowledge == Knowledge::Known) {
                bars.at_most(
                    &format!("{}: queue p95 in s", profile.name()),
                    p95,
                    bar,
                    bar * 1.5,
                );
            }
        }
    }
    table.print();
    bars.settle("bulk download");
}

/// Target 3.
#[test]
fn loss_costs_little_more_than_itself() {
    const COLUMNS: [&str; 7] = [
        "profile",
        "loss",
        "goodput / (1-p) mean",
        "least",
        "bar",
        "retransmitted / sent",
        "lost",
    ];
    let mut table = Table::new("random loss", &COLUMNS);
    let mut bars = Bars::default();
    for name in ["umts-384", "lte", "geo-sat"] {
        let profile = links::named(name);
        for (probability, bar) in [(0.01, 0.93), (0.05, 0.93), (0.10, 0.88)] {
            let mut hop = HopConfig::from(profile);
            links::lose(&mut hop, probability);
            let downloads = seeds::for_some("loss_costs_little_more_than_itself", LOSS_SEEDS, |seed| {
                download(hop.clone(), profile, Knowledge::Known, duration(profile), seed)
            });
            let of = |value: fn(&Download) -> f64| median_and_worst(downloads.iter().map(value).collect());
            let (missing, missing_worst) = of(|download| 1.0 - download.goodput);
            let goodput = (1.0 - missing) / (1.0 - probability);
            let least = (1.0 - missing_worst) / (1.0 - probability);
            let (retransmitted, _) = of(|download| download.retransmitted);
            let (lost, _) = of(|download| download.lost);
            table.row(&[
                name.to_owned(),
                percent(probability),
                format!("{goodput:.3}"),
                format!("{least:.3}"),
                format!("{bar:.2}"),
                percent(retransmitted),
                percent(lost),
            ]);
            let what = format!("{name}, {} lost", percent(probability));
            let limit = bar - if name == "geo-sat" { 0.13 } else { 0.05 };
            bars.at_least(&format!("{what}: goodput / (1-p)"), goodput, bar, limit);
            bars.at_least(&format!("{what}: the least of all"), least, bar, limit);
            bars.at_most(
                &format!("{what}: sent again beyond the loss"),
                retransmitted - lost,
                0.01,
                0.01,
            );
        }
    }
    table.print();
    bars.settle("random loss");
}

/// Target 3: reordering is not loss.
#[test]
fn reordering_is_not_taken_for_loss() {
    let mut table = Table::new(
        "reordering",
        &[
            "profile",
            "share",
            "spurious, median",
            "worst",
            "retransmitted",
            "util",
        ],
    );
    let mut bars = Bars::default();
    for name in ["umts-384", "lte", "geo-sat"] {
        let profile = links::named(name);
        for probability in [0.01, 0.05] {
            let mut hop = HopConfig::from(profile);
            links::reorder(&mut hop, profile, probability);
            let downloads = seeds::for_some("reordering_is_not_taken_for_loss", MOST_SEEDS, |seed| {
                download(hop.clone(), profile, Knowledge::Known, duration(profile), seed)
            });
            let of = |value: fn(&Download) -> f64| median_and_worst(downloads.iter().map(value).collect());
            let (spurious, worst) = of(|download| download.spurious);
            let (retransmitted, _) = of(|download| download.retransmitted);
            let (idle, _) = of(|download| 1.0 - download.utilisation);
            table.row(&[
                name.to_owned(),
                percent(probability),
                percent(spurious),
                percent(worst),
                percent(retransmitted),
                percent(1.0 - idle),
            ]);
            let what = format!("{name}, {} reordered: spurious", percent(probability));
            bars.at_most(&what, spurious, 0.005, 0.005);
        }
    }
    table.print();
    bars.settle("reordering");
}

/// A fast link with a short round-trip time and no profile, and a host that pauses for some milliseconds
/// during slow start.
#[test]
fn pause_at_the_start_does_not_slow_a_fast_link_down() {
    const RATE: BitRate = BitRate::bps(400_000_000);
    const VOLUME: ByteCount = ByteCount::new(40_000_000);
    let mut table = Table::new(
        "40 MB over 400 Mbit/s and 0.1 ms, a pause at the start",
        &["pause at ms", "of ms", "took ms"],
    );
    let mut bars = Bars::default();
    let lane = LinkConfig::new(
        Capacity::Rate(RATE),
        Duration::from_micros(50),
        ByteCount::new(1 << 20),
    );
    for at in [5, 20, 40, 60, 80, 100, 150] {
        for length in [10, 40] {
            let mut hop = HopConfig::new(lane.clone(), lane.clone());
            links::interrupt(
                &mut hop,
                Timestamp::ZERO + Duration::from_millis(at),
                Duration::from_millis(length),
                WhileOut::Hold,
            );
            let mut world = World::new(Setting {
                hop,
                profile: None,
                plan: vec![Exchange::fetch(Duration::ZERO, VOLUME.bytes())],
                token: GivenToken::Valid,
                moves: Moves::Silent,
                seed: 1,
            });
            let limit = Timestamp::ZERO + Duration::from_secs(60);
            let done = world.run(limit, |world| world.agent.application.progress(0).done.is_some());
            assert!(done, "pause of {length} ms at {at} ms: {}", world.describe());
            let took = world.now - Timestamp::ZERO;
            table.row(&[at.to_string(), length.to_string(), ms(took)]);
            bars.at_most(
                &format!("pause of {length} ms at {at} ms: seconds"),
                took.as_secs_f64(),
                1.5,
                2.0,
            );
        }
    }
    table.print();
    bars.settle("pause at the start");
}
