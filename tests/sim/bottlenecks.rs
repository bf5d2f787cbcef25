//! Bottlenecks that drop packets instead of queueing them: short buffers, policers, and CoDel.
//!
//! Where the design sets no target for such a link, the targets are those of a link with a deep buffer
//! (target 1) and, for losses, that of a wrong profile (target 8): less than 5 % after five round trips.
use std::time::Duration;

use longhaul_netem::{Codel, HopConfig, Loss, Policer, Profile};
use longhaul_types::{BitRate, ByteCount, LinkProfile};

use crate::{
    dumbbell::{Dumbbell, Session, Watched},
    links::{self, Knowledge, PACKET},
    report::{Bars, Table, median_and_worst, ms, percent},
    seeds,
};

const MOST_SEEDS: u64 = 2;
/// Maximum loss ratio of target 8.
const LOSS: f64 = 0.05;
/// Minimum buffer in packets: shorter buffers hold less than the burst that one feedback releases.
const LEAST_BUFFER: u64 = 10;

/// The hop of the profile without its losses.
fn lossless(profile: Profile) -> HopConfig {
    let mut hop = HopConfig::from(profile);
    hop.down.loss = Loss::Never;
    hop.up.loss = Loss::Never;
    hop
}

/// Length of the measurement, which starts after five round trips and two seconds.
fn length(profile: Profile) -> Duration {
    match profile.rate_down().as_bps() {
        0..=1_000_000 => Duration::from_secs(60),
        _ => Duration::from_secs(20),
    }
}

fn begin(profile: Profile) -> Duration {
    profile.rtt() * 5 + Duration::from_secs(2)
}

fn downloads(condition: &str, hop: &HopConfig, profile: Profile, told: LinkProfile) -> Vec<Watched> {
    let begin = begin(profile);
    seeds::for_some(condition, MOST_SEEDS, |seed| {
        let mut dumbbell = Dumbbell::new(hop, &[Session::bulk(Some(told))], &[], seed);
        dumbbell.watch(begin, begin + length(profile))
    })
}

/// The worst values of the runs: utilisation, 95th percentile of the queue, loss.
fn worst(runs: &[Watched]) -> (f64, Duration, f64) {
    let of = |value: fn(&Watched) -> f64| median_and_worst(runs.iter().map(value).collect()).1;
    let idle = of(|run| 1.0 - run.utilisation);
    let queue = of(|run| run.queue_p95.as_secs_f64());
    (1.0 - idle, Duration::from_secs_f64(queue), of(|run| run.lost))
}

fn known(profile: Profile) -> LinkProfile {
    Knowledge::Known.of(profile).expect("known")
}

/// Buffers of 0.1 and 0.5 bandwidth-delay products. The targets of the short ones are the values that
/// congestion control reached in the simulation of its design.
#[test]
fn short_buffers() {
    const COLUMNS: [&str; 6] = [
        "link",
        "buffer, BDP",
        "packets",
        "util least",
        "queue p95 ms",
        "lost",
    ];
    let mut table = Table::new("short buffers", &COLUMNS);
    let mut bars = Bars::default();
    // Link, tenths of a bandwidth-delay product, target and limit of the utilisation, limit of the losses.
    let cases = [
        ("umts-384", 1, 0.985, 0.93, LOSS),
        ("lte", 1, 0.942, 0.70, 0.08),
        ("lte", 5, 0.95, 0.90, LOSS),
        ("geo-sat", 1, 0.917, 0.85, LOSS),
        ("geo-sat", 5, 0.95, 0.93, LOSS),
        ("wlan-lossy", 1, 0.674, 0.674, 0.10),
        ("wlan-lossy", 5, 0.95, 0.93, LOSS),
    ];
    for (name, tenths, bar, limit, loss_limit) in cases {
        let profile = links::named(name);
        let mut hop = lossless(profile);
        let product = (profile.rate_down() * profile.rtt()).bytes();
        let packets = (product * tenths / 10 / PACKET.bytes()).max(LEAST_BUFFER);
        hop.down.queue = ByteCount::new(packets * PACKET.bytes());
        let runs = downloads("short_buffers", &hop, profile, known(profile));
        let (utilisation, queue, lost) = worst(&runs);
        table.row(&[
            name.to_owned(),
            format!("0.{tenths}"),
            packets.to_string(),
            percent(utilisation),
            ms(queue),
            percent(lost),
        ]);
        let what = format!("{name}, 0.{tenths} BDP");
        bars.at_least(&format!("{what}: share of the link"), utilisation, bar, limit);
        bars.at_most(&format!("{what}: lost"), lost, LOSS, loss_limit);
    }
    table.print();
    bars.settle("short buffers");
}

/// A policer at half the link's rate; the agent knows the rate of the link or of the policer.
#[test]
fn policers() {
    const COLUMNS: [&str; 6] = [
        "link",
        "burst, packets",
        "profile",
        "of the policer's rate",
        "queue p95 ms",
        "lost",
    ];
    let mut table = Table::new("policer at half the rate", &COLUMNS);
    let mut bars = Bars::default();
    let cases = [
        ("umts-384", 8, 0.90, 0.20),
        ("umts-384", 32, 0.90, 0.20),
        ("lte", 32, 0.95, 0.12),
        ("geo-sat", 32, 0.85, 0.20),
        ("geo-sat", 320, 0.90, 0.15),
    ];
    for (name, burst, limit, loss_limit) in cases {
        let profile = links::named(name);
        let rate = BitRate::bps(profile.rate_down().as_bps() / 2);
        let mut hop = lossless(profile);
        let burst = ByteCount::new(burst * PACKET.bytes());
        hop.down.policer = Some(Policer { rate, burst });
        let link = known(profile);
        for (told, profile_told) in [("link", link), ("policer", LinkProfile { down: rate, ..link })] {
            let runs = downloads("policers", &hop, profile, profile_told);
            let (_, queue, lost) = worst(&runs);
            let shares = runs.iter().map(|run| 1.0 - run.of_rate(rate, length(profile)));
            let share = 1.0 - median_and_worst(shares.collect()).1;
            table.row(&[
                name.to_owned(),
                (burst.bytes() / PACKET.bytes()).to_string(),
                told.to_owned(),
                percent(share),
                ms(queue),
                percent(lost),
            ]);
            let what = format!("{name}, burst {burst}, profile of the {told}");
            bars.at_least(&format!("{what}: of the policer's rate"), share, 0.95, limit);
            bars.at_most(&format!("{what}: lost"), lost, LOSS, loss_limit);
        }
    }
    table.print();
    bars.settle("policers");
}

/// Active queue management with the constants for the Internet (RFC 8289), which allow far less queue than
/// congestion control aims at on these links.
#[test]
fn codel() {
    const COLUMNS: [&str; 5] = ["link", "util least", "queue p50 ms", "queue p95 ms", "lost"];
    let mut table = Table::new("CoDel", &COLUMNS);
    let mut bars = Bars::default();
    let cases = [
        ("umts-384", Some((0.230, 0.230)), 0.88, 0.28),
        ("lte", None, 0.93, 0.08),
        ("geo-sat", Some((0.270, 0.500)), 0.75, 0.08),
        ("wlan-lossy", None, 0.93, 0.15),
    ];
    for (name, queue_bar, limit, loss_limit) in cases {
        let profile = links::named(name);
        let mut hop = lossless(profile);
        hop.down.codel = Some(Codel::RFC_8289);
        let runs = downloads("codel", &hop, profile, known(profile));
        let (utilisation, queue, lost) = worst(&runs);
        let (p50, _) = median_and_worst(runs.iter().map(|run| run.queue_p50.as_secs_f64()).collect());
        table.row(&[
            name.to_owned(),
            percent(utilisation),
            ms(Duration::from_secs_f64(p50)),
            ms(queue),
            percent(lost),
        ]);
        bars.at_least(&format!("{name}: share of the link"), utilisation, 0.95, limit);
        bars.at_most(&format!("{name}: lost"), lost, LOSS, loss_limit);
        if let Some((bar, limit)) = queue_bar {
            bars.at_most(
                &format!("{name}: queue p95 in s"),
                queue.as_secs_f64(),
                bar,
                limit,
            );
        }
    }
    table.print();
    bars.settle("CoDel");
}
