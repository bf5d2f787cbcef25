//! Downloads over recorded mobile links (mahimahi's traces) without a profile, with queues that never drop
//! (target 2).
//!
//! The traces are in `LONGHAUL_TRACES` or beside the workspace; without them the tests print a note and end.
use std::{path::PathBuf, time::Duration};

use longhaul_netem::{HopConfig, LinkDefinition};
use longhaul_types::ByteCount;

use crate::{
    dumbbell::{Dumbbell, Session, Watched},
    report::{Bars, Table, ms, percent},
    seeds,
};

/// A single run is not sufficient: results differ by a factor of 1.6. Seeds change the jitter but not the
/// traces.
const SEEDS: u64 = 10;
/// One-way delay of each direction, as in the measurements that set the targets.
const DELAY: Duration = Duration::from_millis(20);
const JITTER: Duration = Duration::from_millis(4);
/// More than a minute of any of these links.
const QUEUE: ByteCount = ByteCount::mib(256);
const LENGTH: Duration = Duration::from_secs(60);

fn hop(name: &str) -> Option<HopConfig> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
    let folder = std::env::var_os("LONGHAUL_TRACES").map_or_else(beside, PathBuf::from);
    let text = |suffix: &str| std::fs::read_to_string(folder.join(format!("{name}{suffix}")));
    let (Ok(down), Ok(up)) = (text(".down"), text(".up")) else {
        say_skipped(&folder);
        return None;
    };
    let link = LinkDefinition::from_traces(name, &down, &up, DELAY, QUEUE).expect("a trace");
    let mut hop = link.hop;
    hop.down.jitter = JITTER;
    Some(hop)
}

#[expect(
    clippy::print_stdout,
    reason = "a test that was not run must not look like one that passed"
)]
fn say_skipped(folder: &std::path::Path) {
    println!(
        "SKIPPED: no recorded traces in {} (LONGHAUL_TRACES names another folder)",
        folder.display()
    );
}

#[test]
fn downloads_on_recorded_roads() {
    const COLUMNS: [&str; 6] = [
        "trace",
        "util mean",
        "least",
        "queue p50 ms",
        "mean of p95 ms",
        "largest p95 ms",
    ];
    let mut table = Table::new("recorded traces, the first minute", &COLUMNS);
    let mut bars = Bars::default();
    // Targets of the utilisation and of the mean 95th percentile of the queue in s, with their limits. The
    // design has no target for the last link; its value is the one that the simulation of the design reached.
    let traces = [
        ("Verizon-LTE-short", (0.92, 0.90), (0.45, 0.45)),
        ("TMobile-UMTS-driving", (0.80, 0.80), (0.5, 0.5)),
        ("Verizon-EVDO-driving", (0.75, 0.75), (0.9, 1.4)),
        ("ATT-LTE-driving-2016", (0.688, 0.60), (0.210, 6.0)),
    ];
    for (name, utilisation_bar, queue_bar) in traces {
        let Some(hop) = hop(name) else { return };
        let runs = seeds::for_some("downloads_on_recorded_roads", SEEDS, |seed| {
            Dumbbell::new(&hop, &[Session::bulk(None)], &[], seed).watch(Duration::ZERO, LENGTH)
        });
        let mean = |of: fn(&Watched) -> f64| runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64;
        let used = mean(|run| run.utilisation);
        let least = runs
            .iter()
            .map(|run| run.utilisation)
            .fold(f64::INFINITY, f64::min);
        let queue = mean(|run| run.queue_p95.as_secs_f64());
        let largest = runs.iter().map(|run| run.queue_p95).max().unwrap_or_default();
        table.row(&[
            name.to_owned(),
            percent(used),
            percent(least),
            ms(Duration::from_secs_f64(mean(|run| run.queue_p50.as_secs_f64()))),
            ms(Duration::from_secs_f64(queue)),
            ms(largest),
        ]);
        let (bar, limit) = utilisation_bar;
        bars.at_least(&format!("{name}: utilisation"), used, bar, limit);
        let (bar, limit) = queue_bar;
        bars.at_most(&format!("{name}: queue p95 in s, mean"), queue, bar, limit);
    }
    table.print();
    bars.settle("recorded traces");
}
