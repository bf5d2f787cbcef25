//! Clocks of agent and gateway with different rates or with jumps: one-way delays are differences of two
//! clocks.
use std::time::Duration;

use longhaul_netem::HopConfig;

use crate::{
    clock::Clock,
    dumbbell::{Dumbbell, Session, Watched},
    links::{self, Knowledge},
    report::{Bars, Table, median_and_worst, ms, percent},
    seeds,
};

const MOST_SEEDS: u64 = 1;
/// Rate error in parts per million: crystals are accurate to 100, bad ones in the cold to some hundred.
const SKEW: i32 = 500;
/// Time of a clock's jump.
const STEP_AT: Duration = Duration::from_secs(20);
/// Observation time after the jump.
const LATER: Duration = Duration::from_secs(15);

/// Target 1: utilisation and 95th percentile of the queue of a bulk download.
const LINKS: [(&str, f64, Option<f64>); 4] = [
    ("gprs-3+1", 0.92, Some(1.0)),
    ("umts-384", 0.95, Some(0.230)),
    ("lte", 0.95, None),
    ("geo-sat", 0.95, Some(0.270)),
];

/// Long enough for a base delay to leave its window of 30 s or 60 round trips.
fn times(rate: u64) -> [Duration; 2] {
    match rate {
        0..=1_000_000 => [60, 180],
        _ => [40, 60],
    }
    .map(Duration::from_secs)
}

#[test]
fn clocks_that_run_apart() {
    const COLUMNS: [&str; 5] = [
        "link",
        "agent's clock, ppm",
        "gateway's, ppm",
        "util least",
        "queue p95 ms",
    ];
    let mut table = Table::new("clock skew", &COLUMNS);
    let mut bars = Bars::default();
    for (name, utilisation_bar, queue_bar) in LINKS {
        let profile = links::named(name);
        let [from, to] = times(profile.rate_down().as_bps());
        for (agent, gateway) in [(SKEW, 0), (-SKEW, 0), (0, SKEW), (0, -SKEW)] {
            let session = Session {
                agent_clock: Clock::fast_by(agent),
                gateway_clock: Clock::fast_by(gateway),
                ..Session::bulk(Knowledge::Known.of(profile))
            };
            let runs = seeds::for_some("clocks_that_run_apart", MOST_SEEDS, |seed| {
                let hop = HopConfig::from(profile);
                Dumbbell::new(&hop, std::slice::from_ref(&session), &[], seed).watch(from, to)
            });
            let of = |value: fn(&Watched) -> f64| median_and_worst(runs.iter().map(value).collect()).1;
            let utilisation = 1.0 - of(|run| 1.0 - run.utilisation);
            let queue = of(|run| run.queue_p95.as_secs_f64());
            table.row(&[
                name.to_owned(),
                agent.to_string(),
                gateway.to_string(),
                percent(utilisation),
                ms(Duration::from_secs_f64(queue)),
            ]);
            let what = format!("{name}, agent {agent} ppm, gateway {gateway} ppm");
            let limit = utilisation_bar;
            bars.at_least(
                &format!("{what}: share of the link"),
                utilisation,
                utilisation_bar,
                limit,
            );
            if let Some(bar) = queue_bar {
                bars.at_most(&format!("{what}: queue p95 in s"), queue, bar, bar * 1.5);
            }
        }
    }
    table.print();
    bars.settle("clock skew");
}

/// A jump of a clock looks like a change of the delay, and a long one like a silence. As after an outage
/// (target 6), most of the rate must be reached again within three round trips or two seconds.
#[test]
fn clocks_that_jump() {
    const COLUMNS: [&str; 6] = [
        "link",
        "whose clock",
        "by ms",
        "rate after it",
        "in the next 15 s",
        "queue p95 ms",
    ];
    let mut table = Table::new("clock steps", &COLUMNS);
    let mut bars = Bars::default();
    for name in ["umts-384", "lte", "geo-sat"] {
        let profile = links::named(name);
        let back = Duration::from_secs(2).max(profile.rtt() * 3);
        for step in [50, 1_000, 40_000].map(Duration::from_millis) {
            for whose in ["agent", "gateway"] {
                let clock = Clock::stepping(&[STEP_AT], step);
                let mut session = Session::bulk(Knowledge::Known.of(profile));
                match whose {
                    "agent" => session.agent_clock = clock,
                    _ => session.gateway_clock = clock,
                }
                let runs = seeds::for_some("clocks_that_jump", MOST_SEEDS, |seed| {
                    let hop = HopConfig::from(profile);
                    let mut dumbbell = Dumbbell::new(&hop, std::slice::from_ref(&session), &[], seed);
                    let after = STEP_AT + back;
                    let first = dumbbell.watch(after, after + back);
                    let later = dumbbell.watch(after + back, after + back + LATER);
                    (first.utilisation, later.utilisation, later.queue_p95)
                });
                let least =
                    |of: fn(&(f64, f64, Duration)) -> f64| runs.iter().map(of).fold(f64::INFINITY, f64::min);
                let (first, later) = (least(|run| run.0), least(|run| run.1));
                let queue = runs.iter().map(|run| run.2).max().unwrap_or_default();
                table.row(&[
                    name.to_owned(),
                    whose.to_owned(),
                    ms(step),
                    percent(first),
                    percent(later),
                    ms(queue),
                ]);
                // A jump of a second looks like a queue; a longer jump exceeds the window of the base delay.
                let limit = match (name, whose, step.as_millis()) {
                    ("geo-sat", _, 1_000) => 0.004,
                    (_, _, 1_000) => 0.02,
                    ("lte", "agent", 50) => 0.3,
                    _ => 0.8,
                };
                let what = format!("{name}, {whose}'s clock by {step:?}");
                bars.at_least(
                    &format!("{what}: share of the link soon after"),
                    first,
                    0.8,
                    limit,
                );
                bars.at_least(&format!("{what}: share of the link later"), later, 0.8, limit);
            }
        }
    }
    table.print();
    bars.settle("clock steps");
}
