//! Fairness between a session and another flow at one bottleneck (target 8).
use std::time::Duration;

use longhaul_netem::{HopConfig, Loss};
use longhaul_types::{ByteCount, Timestamp};

use crate::{
    crossing::{Crossing, Kind},
    links::{self, Knowledge},
    report::{Bars, Table},
    seeds,
};

const NAMES: [&str; 3] = ["umts-384", "geo-sat", "wlan-lossy"];
/// Start of the second flow; targets for shares refer to the second minute.
const JOINS: Duration = Duration::from_secs(20);
const MEASURED: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(120)];

/// A lossless hop whose downlink buffers `products` bandwidth-delay products.
fn hop(name: &str, products: u64) -> HopConfig {
    let profile = links::named(name);
    let mut hop = HopConfig::from(profile);
    hop.down.loss = Loss::Never;
    hop.up.loss = Loss::Never;
    let product = (profile.rate_down() * profile.rtt()).bytes();
    hop.down.queue = ByteCount::new(product * products);
    hop
}

fn session(name: &str) -> Kind {
    Kind::Session(Knowledge::Known.of(links::named(name)))
}

/// Share of each flow in the bytes of all flows between two times.
fn shares(crossing: &mut Crossing, from: Duration, to: Duration) -> Vec<f64> {
    crossing.run(Timestamp::ZERO + from);
    let before = crossing.delivered();
    crossing.run(Timestamp::ZERO + to);
    let after = crossing.delivered();
    let got: Vec<f64> = after.iter().zip(&before).map(|(a, b)| (a - b) as f64).collect();
    let total: f64 = got.iter().sum();
    got.iter().map(|bytes| bytes / total.max(1.0)).collect()
}

/// Jain's fairness index.
fn jain(shares: &[f64]) -> f64 {
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    shares.iter().sum::<f64>().powi(2) / (shares.len() as f64 * squares)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// A minute of a fast link is a hundred thousand packets: one seed by default.
fn most_seeds(name: &str) -> u64 {
    if name == "umts-384" { 4 } else { 1 }
}

#[test]
fn sessions_share_a_link() {
    let mut table = Table::new(
        "a second session joins after 20 s",
        &[
            "link",
            "Jain in the second minute",
            "least",
            "newcomer after 20 s",
            "least",
        ],
    );
    let mut bars = Bars::default();
    for name in NAMES {
        let profile = links::named(name);
        let mut lossless = HopConfig::from(profile);
        lossless.down.loss = Loss::Never;
        let runs = seeds::for_some("sessions_share_a_link", most_seeds(name), |seed| {
            let flows = [(Duration::ZERO, session(name)), (JOINS, session(name))];
            let mut crossing = Crossing::new(&lossless, &flows, seed);
            let joined = shares(&mut crossing, JOINS * 2 - Duration::from_secs(5), JOINS * 2);
            let settled = shares(&mut crossing, MEASURED[0], MEASURED[1]);
            (jain(&settled), joined[1])
        });
        let (fair, newcomer): (Vec<f64>, Vec<f64>) = runs.into_iter().unzip();
        table.row(&[
            name.to_owned(),
            format!("{:.3}", mean(&fair)),
            format!("{:.3}", least(&fair)),
            format!("{:.2}", mean(&newcomer)),
            format!("{:.2}", least(&newcomer)),
        ]);
        bars.at_least(&format!("{name}: Jain of two sessions"), least(&fair), 0.90, 0.80);
        bars.at_least(
            &format!("{name}: share of the newcomer"),
            least(&newcomer),
            0.20,
            0.10,
        );
    }
    table.print();
    bars.settle("sessions share a link");
}

#[test]
fn session_and_cubic() {
    let mut table = Table::new(
        "share of a session beside CUBIC, second minute",
        &["link", "buffer, BDP", "session is", "share", "least", "largest"],
    );
    let mut bars = Bars::default();
    for name in NAMES {
        for (products, first) in [(1, true), (1, false), (4, true)] {
            let runs = seeds::for_some("session_and_cubic", most_seeds(name), |seed| {
                let (ours, theirs) = if first {
                    (Duration::ZERO, JOINS)
                } else {
                    (JOINS, Duration::ZERO)
                };
                let flows = [(ours, session(name)), (theirs, Kind::Cubic)];
                let mut crossing = Crossing::new(&hop(name, products), &flows, seed);
                shares(&mut crossing, MEASURED[0], MEASURED[1])[0]
            });
            let largest = runs.iter().copied().fold(0.0, f64::max);
            let order = if first { "first" } else { "second" };
            table.row(&[
                name.to_owned(),
                products.to_string(),
                order.to_owned(),
                format!("{:.2}", mean(&runs)),
                format!("{:.2}", least(&runs)),
                format!("{largest:.2}"),
            ]);
            let what = format!("{name}, {products} BDP, session {order}: share beside CUBIC");
            let (bar, limit) = if products > 1 { (0.15, 0.0) } else { (0.25, 0.0) };
            bars.at_least(&what, least(&runs), bar, limit);
            if products <= 1 {
                bars.at_most(&what, largest, 0.75, 0.95);
            }
        }
    }
    table.print();
    bars.settle("session and CUBIC");
}
