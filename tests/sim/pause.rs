//! A link that pauses while an unknown session begins: sleeping radios and trains in tunnels.
use std::time::Duration;

use longhaul_netem::{HopConfig, WhileOut};
use longhaul_types::{ByteCount, Timestamp};

use crate::{
    dumbbell::{Dumbbell, Session},
    links,
    report::{Bars, Table, median_and_worst, percent},
    seeds,
};

const MOST_SEEDS: u64 = 5;

fn millis(seconds: f64) -> String {
    format!("{:.1}", seconds * 1e3)
}

/// The link pauses while the INIT crosses it, so the first sample of the round-trip time is too large. The window that
/// follows from it must not become a queue.
#[test]
fn pause_at_the_start() {
    const PAUSE: Duration = Duration::from_millis(700);
    let mut table = Table::new(
        "download on an unknown link that pauses for 0.7 s at the start, the first 4 s",
        &["link", "share of the link", "queue p95 ms", "without a pause ms"],
    );
    let mut bars = Bars::default();
    for name in ["umts-384", "lte", "wlan-lossy", "leo-sat"] {
        let profile = links::named(name);
        let watch = |pause: Duration| {
            let mut hop = HopConfig::from(profile);
            // No loss by a full buffer hides a queue.
            hop.down.queue = ByteCount::mib(64);
            links::interrupt(&mut hop, Timestamp::ZERO, pause, WhileOut::Hold);
            let runs = seeds::for_some("pause_at_the_start", MOST_SEEDS, |seed| {
                let from = pause + profile.rtt() * 4;
                Dumbbell::new(&hop, &[Session::bulk(None)], &[], seed)
                    .watch(from, from + Duration::from_secs(4))
            });
            let used = runs.iter().map(|run| run.utilisation).sum::<f64>() / runs.len().max(1) as f64;
            let queue = median_and_worst(runs.iter().map(|run| run.queue_p95.as_secs_f64()).collect()).0;
            (used, queue)
        };
        let ((used, queue), (_, usual)) = (watch(PAUSE), watch(Duration::from_nanos(1)));
        table.row(&[name.to_owned(), percent(used), millis(queue), millis(usual)]);
        bars.at_most(
            &format!("{name}: queue p95 in s"),
            queue,
            1.5 * usual,
            2.0 * usual + 0.05,
        );
        bars.at_least(&format!("{name}: share of the link"), used, 0.8, 0.6);
    }
    table.print();
    bars.settle("pause at the start");
}
