//! Agents with profiles whose rates are ten times too high or too low, on every link of the testbed (target
//! 8).
use std::time::Duration;

use longhaul_netem::{HopConfig, Profile, Side as End};
use longhaul_types::{ByteCount, Timestamp};

use crate::{
    dumbbell::{Dumbbell, Session},
    links::{self, Knowledge},
    report::{Bars, Table, ms, percent},
    seeds,
};

const MOST_SEEDS: u64 = 1;
/// Data of the first round trip at ten times the rate, in bandwidth-delay products.
const UNSCHEDULED: u64 = 10;

/// Queueing delay that congestion control aims at on a steady link.
fn target_queue(profile: Profile) -> Duration {
    let by_time = (profile.rtt() / 10).clamp(Duration::from_millis(25), Duration::from_millis(200));
    by_time.max(links::packet_time(profile) * 5 / 2)
}

/// Three round trips, and the time in which the link drains the excess of the start.
fn settling(profile: Profile, hop: &HopConfig) -> Duration {
    let product = profile.rate_down() * profile.rtt();
    let excess = (product.bytes() * UNSCHEDULED).min(hop.down.queue.bytes());
    profile.rtt() * 3 + ByteCount::new(excess) / profile.rate_down()
}

fn length(profile: Profile) -> Duration {
    match profile.rate_down().as_bps() {
        0..=1_000_000 => Duration::from_secs(30),
        1_000_001..=20_000_000 => Duration::from_secs(10),
        _ => Duration::from_secs(3),
    }
}

/// The 95th percentile of the queueing delay of a packet that arrives at a time from `from` on. Delays of
/// packets that were queued before do not describe the sender's present behaviour.
fn queue_over_time(dumbbell: &mut Dumbbell, profile: Profile, from: Duration, length: Duration) -> Duration {
    const SAMPLES: u32 = 400;
    let mut waits: Vec<_> = (1..=SAMPLES)
        .map(|sample| {
            let at = Timestamp::ZERO + from + length * sample / SAMPLES;
            dumbbell.run(at);
            dumbbell.hop.advance(at);
            dumbbell.hop.down().stats().queued.bytes / profile.rate_down()
        })
        .collect();
    waits.sort_unstable();
    waits.get(waits.len() * 95 / 100).copied().unwrap_or_default()
}

#[test]
fn told_ten_times_the_rate() {
    let mut table = Table::new(
        "profile x10",
        &[
            "link",
            "settling ms",
            "queue p95 ms after it",
            "bar ms",
            "util",
            "lost after 5 RTT",
        ],
    );
    let mut bars = Bars::default();
    for profile in Profile::all() {
        let hop = HopConfig::from(profile);
        let settled = settling(profile, &hop);
        let told = Knowledge::TooFast.of(profile);
        let runs = seeds::for_some("told_ten_times_the_rate", MOST_SEEDS, |seed| {
            let mut losses = Dumbbell::new(&hop, &[Session::bulk(told)], &[], seed);
            let five = profile.rtt() * 5;
            let lost = losses.watch(five, five + length(profile)).lost;
            let mut dumbbell = Dumbbell::new(&hop, &[Session::bulk(told)], &[], seed);
            dumbbell.run(Timestamp::ZERO + settled);
            let queue = queue_over_time(&mut dumbbell, profile, settled, length(profile));
            let mut dumbbell = Dumbbell::new(&hop, &[Session::bulk(told)], &[], seed);
            let watched = dumbbell.watch(settled, settled + length(profile));
            (queue, watched.utilisation, lost)
        });
        let queue = runs.iter().map(|run| run.0).max().unwrap_or_default();
        let used = runs.iter().map(|run| run.1).fold(f64::INFINITY, f64::min);
        let lost = runs.iter().map(|run| run.2).fold(0.0, f64::max);
        let bar = target_queue(profile) * 3;
        let name = profile.name();
        table.row(&[
            name.to_owned(),
            ms(settled),
            ms(queue),
            ms(bar),
            percent(used),
            percent(lost),
        ]);
        let slack = match name {
            "geo-sat" | "umts-dch256" => 4.5,
            _ => 1.6,
        };
        bars.within(&format!("{name}, x10: queue p95"), queue, bar, slack);
        bars.at_most(&format!("{name}, x10: lost after 5 RTT"), lost, 0.05, 0.05);
    }
    table.print();
    bars.settle("profile x10");
}

/// Time from the start until nine tenths of the rate are used for a round trip (at least half a second and
/// four packets).
fn reached(dumbbell: &mut Dumbbell, profile: Profile, limit: Duration) -> Duration {
    let window = profile
        .rtt()
        .max(Duration::from_millis(500))
        .max(links::packet_time(profile) * 4);
    let step = window / 4;
    // Bytes sent at the end of each step; a window has four steps.
    let mut sent = vec![0];
    let mut at = Duration::ZERO;
    while at < limit {
        at += step;
        dumbbell.run(Timestamp::ZERO + at);
        dumbbell.hop.advance(Timestamp::ZERO + at);
        sent.push(dumbbell.hop.down().stats().sent.bytes.bytes());
        if let [.., before, _, _, _, now] = sent[..]
            && (now - before) as f64 >= 0.9 * (profile.rate_down() * window).bytes() as f64
        {
            return at;
        }
    }
    limit
}

#[test]
fn told_a_tenth_of_the_rate() {
    let mut table = Table::new(
        "profile x0.1",
        &["link", "90 % of the rate after s", "bar s", "queue p95 ms"],
    );
    let mut bars = Bars::default();
    for profile in Profile::all().filter(|profile| profile.down().arq.is_none()) {
        let hop = HopConfig::from(profile);
        let bar = Duration::from_secs(5).max(profile.rtt() * 10);
        let told = Knowledge::TooSlow.of(profile);
        let runs = seeds::for_some("told_a_tenth_of_the_rate", MOST_SEEDS, |seed| {
            let mut dumbbell = Dumbbell::new(&hop, &[Session::bulk(told)], &[], seed);
            let reached = reached(&mut dumbbell, profile, bar * 4);
            (
                reached,
                dumbbell.hop.take_queueing_delays(End::Client).percentile(95),
            )
        });
        let reached = runs.iter().map(|run| run.0).max().unwrap_or_default();
        let queue = runs.iter().map(|run| run.1).max().unwrap_or_default();
        let name = profile.name();
        table.row(&[
            name.to_owned(),
            format!("{:.2}", reached.as_secs_f64()),
            format!("{:.2}", bar.as_secs_f64()),
            ms(queue),
        ]);
        bars.within(&format!("{name}, x0.1: 90 % of the rate"), reached, bar, 1.4);
    }
    table.print();
    bars.settle("profile x0.1");
}
