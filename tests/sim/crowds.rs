//! Crowds, as in a train: twenty sessions at one bottleneck, judged by the worst of many seeds.
use crate::{
    application::User,
    dumbbell::{Dumbbell, Watched},
    flows,
    report::{Table, ms, percent},
    seeds,
};

const SESSIONS: u32 = 20;
/// Seeds of the test: without the rule that it judges, two of these lose more than a third of the packets.
const SEEDS: u64 = 12;
/// Largest loss ratio of any seed.
const LOST: f64 = 0.15;

/// State of a session at the end of a run.
struct State {
    /// Delivered bytes relative to the fair share.
    share: f64,
    cells: [String; 6],
}

struct Crowd {
    watched: Watched,
    states: Vec<State>,
}

fn run(name: &str, seed: u64) -> Crowd {
    let (dumbbell, watched) = flows::run(name, SESSIONS, seed);
    let total: f64 = watched.got.iter().sum();
    let fair = (total / f64::from(SESSIONS)).max(1.0);
    let states = watched.got.iter().enumerate();
    let states = states
        .map(|(flow, got)| State {
            share: got / fair,
            cells: state(&dumbbell, flow),
        })
        .collect();
    Crowd { watched, states }
}

fn state(dumbbell: &Dumbbell, flow: usize) -> [String; 6] {
    let stats = dumbbell.stats(flow, User::Agent);
    [
        stats.min_rtt.map_or_else(|| "-".to_owned(), ms),
        (stats.receive_rate.as_bps() / 1000).to_string(),
        stats.window.bytes().to_string(),
        ms(stats.queue_delay),
        stats.packets_missing.to_string(),
        stats.is_loss_limited.to_string(),
    ]
}

/// A table with a row for each seed; of a single run (`LONGHAUL_SIM_SEED`), also one with a row for each session.
fn print(name: &str, runs: &[Crowd]) {
    const SEED: [&str; 7] = [
        "run",
        "util",
        "Jain",
        "least of fair",
        "queue p50 ms",
        "queue p95 ms",
        "lost",
    ];
    const SESSION: [&str; 8] = [
        "session",
        "of fair",
        "R ms",
        "rmax kbit/s",
        "W",
        "q ms",
        "lost packets",
        "bound by loss",
    ];
    let mut table = Table::new(&format!("{SESSIONS} sessions on {name}"), &SEED);
    for (number, Crowd { watched, .. }) in runs.iter().enumerate() {
        table.row(&[
            number.to_string(),
            percent(watched.utilisation),
            format!("{:.3}", watched.jain()),
            format!("{:.2}", watched.least_of_fair()),
            ms(watched.queue_p50),
            ms(watched.queue_p95),
            percent(watched.lost),
        ]);
    }
    table.print();
    let [run] = runs else { return };
    let mut table = Table::new("sessions at the end", &SESSION);
    for (number, State { share, cells }) in run.states.iter().enumerate() {
        let mut row = vec![number.to_string(), format!("{share:.2}")];
        row.extend_from_slice(cells);
        table.row(&row);
    }
    table.print();
}

/// Crowds whose queue never becomes empty take a part of it for the delay of the link. The full buffer must still
/// bound them.
#[test]
fn a_crowd_does_not_lose_a_third_of_its_packets() {
    let runs = seeds::for_exactly("a_crowd_does_not_lose_a_third_of_its_packets", SEEDS, |seed| {
        run("wlan-lossy", seed)
    });
    print("wlan-lossy", &runs);
    for (number, Crowd { watched, .. }) in runs.iter().enumerate() {
        assert!(
            watched.lost < LOST,
            "run {number} loses {}",
            percent(watched.lost)
        );
        assert!(
            watched.utilisation > 0.95,
            "run {number} uses {}",
            percent(watched.utilisation)
        );
    }
}

/// Prints crowds on four links, with as many seeds as `LONGHAUL_SIM_SEEDS` says; only with `LONGHAUL_SIM_EXPERIMENTS`.
#[test]
fn crowds_of_many_seeds() {
    if !seeds::experiments() {
        return;
    }
    for name in ["wlan-lossy", "lte", "umts-384", "geo-sat"] {
        let runs = seeds::for_each("crowds_of_many_seeds", |seed| run(name, seed));
        print(name, &runs);
    }
}
