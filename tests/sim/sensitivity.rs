//! Sensitivity of the congestion control algorithm to its constants (congestion.md section 11).
//!
//! `LONGHAUL_SIM_SENSITIVITY=1 cargo test --locked --workspace --test sim sensitivity_of -- --nocapture` sets each
//! constant to both ends of its range and prints throughput and queueing delay relative to the standard values, on four
//! links. `LONGHAUL_SIM_SENSITIVITY=cut` measures only the constants whose names begin with `cut`.
mod situation;

use std::{collections::BTreeMap, time::Duration};

use longhaul_netem::Side;
use longhaul_protocol::congestion::{CongestionParameters, Constant};
use longhaul_types::Timestamp;

use self::situation::{Situation, length};
use crate::{
    links,
    plan::Exchange,
    report::{Table, ms, percent},
    seeds,
    world::{GivenToken, Moves, Setting, World},
};

const LINKS: [&str; 4] = ["gprs-3+1", "umts-384", "lte", "geo-sat"];
/// Runs of each setting, with different seeds; the results are means.
const RUNS: u64 = 4;
/// Runs of the standard values, whose spread is the noise of the measurement.
const STANDARD_RUNS: u64 = 12;
/// Shorter queues in seconds than this are noise.
const LEAST_QUEUE: f64 = 0.01;

/// Result of a download.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    /// Bytes that the user got, of the capacity in the time in which the user waited for bytes.
    throughput: f64,
    /// 95th percentile of the time that packets waited in the link's queue, in seconds.
    queue: f64,
}

impl Outcome {
    fn mean(outcomes: &[Self]) -> Self {
        let count = outcomes.len().max(1) as f64;
        let sum = |value: fn(&Self) -> f64| outcomes.iter().map(value).sum::<f64>() / count;
        Self {
            throughput: sum(|outcome| outcome.throughput),
            queue: sum(|outcome| outcome.queue),
        }
    }

    /// Changes relative to `standard`. A queue is compared with at least [`LEAST_QUEUE`].
    fn relative_to(self, standard: Self) -> Change {
        Change {
            throughput: self.throughput / standard.throughput.max(f64::MIN_POSITIVE) - 1.0,
            queue: (self.queue - standard.queue) / standard.queue.max(LEAST_QUEUE),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Change {
    throughput: f64,
    queue: f64,
}

fn run(parameters: &'static CongestionParameters, situation: Situation, link: &str, seed: u64) -> Outcome {
    let profile = links::named(link);
    let length = length(situation, profile);
    let plan = situation.plan(profile, length);
    let setting = Setting {
        hop: situation.hop(profile, length),
        profile: situation.knowledge().of(profile),
        plan: plan.clone(),
        token: GivenToken::Valid,
        moves: Moves::Silent,
        seed,
    };
    let mut world = World::with_transport(setting, |transport| transport.congestion = parameters);
    let end = Timestamp::ZERO + length;
    world.run(end, |_| false);
    world.hop.advance(end);
    let waited = if situation == Situation::Pauses {
        waiting_time(&world, &plan, end)
    } else {
        length
    };
    let possible = (situation.capacity(profile) * waited).bytes() as f64;
    let delays = world.hop.take_queueing_delays(Side::Client);
    Outcome {
        throughput: world.agent.application.delivered as f64 / possible,
        queue: delays.percentile(95).as_secs_f64(),
    }
}

/// Time in which the user waited for the responses of the plan.
fn waiting_time(world: &World, plan: &[Exchange], end: Timestamp) -> Duration {
    let waited = plan.iter().enumerate().map(|(number, exchange)| {
        let done = world.agent.application.progress(number).done.unwrap_or(end);
        done - (Timestamp::ZERO + exchange.at)
    });
    waited.sum()
}

/// The standard values with one constant changed. The copy lives as long as the test.
fn changed(constant: &Constant, value: f64) -> &'static CongestionParameters {
    let mut parameters = CongestionParameters::default();
    let field = parameters.get_mut(constant.group, constant.name);
    *field.expect("a listed constant") = value;
    Box::leak(Box::new(parameters))
}

/// Outcomes of the standard values in each situation and on each link: the mean of the runs that the changed values have,
/// and the relative spread of more seeds.
fn standard(situations: &[Situation]) -> BTreeMap<(Situation, &'static str), (Outcome, Change)> {
    let cases: Vec<_> = situations
        .iter()
        .flat_map(|situation| LINKS.map(|link| (*situation, link)))
        .collect();
    let outcomes = seeds::for_exactly("sensitivity", cases.len() as u64, |number| {
        let (situation, link) = cases[usize::try_from(number).expect("a place in a list")];
        let runs: Vec<_> = (0..STANDARD_RUNS)
            .map(|seed| run(&CongestionParameters::STANDARD, situation, link, seed))
            .collect();
        let mean = Outcome::mean(&runs[..usize::try_from(RUNS).expect("few")]);
        let mut spread = Change::default();
        for pair in runs.chunks_exact(usize::try_from(RUNS).expect("few")) {
            let change = Outcome::mean(pair).relative_to(mean);
            spread.throughput = spread.throughput.max(change.throughput.abs());
            spread.queue = spread.queue.max(change.queue.abs());
        }
        (mean, spread)
    });
    cases.into_iter().zip(outcomes).collect()
}

/// The changes at both ends of the range of a constant, link by link.
fn changes(
    constant: &Constant,
    standard: &BTreeMap<(Situation, &'static str), (Outcome, Change)>,
    links: &[&'static str],
) -> Vec<[Change; 2]> {
    let situation = Situation::of(constant);
    let parameters = [constant.low, constant.high].map(|value| changed(constant, value));
    let of_link = |link: &&'static str| {
        let (usual, _) = standard[&(situation, *link)];
        parameters.map(|parameters| {
            let runs: Vec<_> = (0..RUNS)
                .map(|seed| run(parameters, situation, link, seed))
                .collect();
            Outcome::mean(&runs).relative_to(usual)
        })
    };
    links.iter().map(of_link).collect()
}

/// Row of a constant in the table of congestion.md section 11.
fn row(constant: &Constant) -> String {
    let Constant {
        group, name, unit, ..
    } = constant;
    let value = number(constant.value);
    format!("| `{group}.{name}` | {value} | {unit} | {} |", constant.section)
}

/// At most three digits behind the point.
fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if value.fract() == 0.0 || short.len() <= 6 {
        short.to_owned()
    } else {
        format!("{value:.3}")
    }
}

/// The largest of the changes of a value, with the link that has it.
fn largest(changes: &[[Change; 2]], end: usize, value: fn(&Change) -> f64) -> String {
    let of_link = changes
        .iter()
        .zip(LINKS)
        .map(|(change, link)| (value(&change[end]), link));
    let (change, link) = of_link
        .max_by(|(one, _), (other, _)| one.abs().total_cmp(&other.abs()))
        .expect("four links");
    if change.abs() < 0.0005 {
        return "0".to_owned();
    }
    format!("{:+.1} {link}", change * 100.0)
}

#[test]
fn sensitivity_of_the_constants() {
    let Ok(wanted) = std::env::var("LONGHAUL_SIM_SENSITIVITY") else {
        let cut = CongestionParameters::constants()
            .find(|constant| constant.group == "cut" && constant.name == "kept_queue")
            .expect("listed");
        let standard = standard(&[Situation::of(cut)]);
        let [small, large] = changes(cut, &standard, &["umts-384"])[0];
        assert!(
            small.queue < large.queue,
            "a cut that keeps less of the queue leaves a shorter one: {small:?}, {large:?}"
        );
        return;
    };
    let constants: Vec<_> = CongestionParameters::constants()
        .filter(|constant| {
            wanted == "1" || format!("{}.{}", constant.group, constant.name).starts_with(&wanted)
        })
        .collect();
    let mut situations: Vec<_> = constants.iter().map(|constant| Situation::of(constant)).collect();
    situations.sort_unstable();
    situations.dedup();
    let standard = standard(&situations);
    print_standard(&standard);
    let changes = seeds::for_exactly("sensitivity", constants.len() as u64, |number| {
        changes(
            constants[usize::try_from(number).expect("a place in a list")],
            &standard,
            &LINKS,
        )
    });
    let mut table = Table::new(
        "constants",
        &[
            "constant",
            "value",
            "unit",
            "section",
            "range",
            "measured with",
            "throughput, low",
            "throughput, high",
            "queue, low",
            "queue, high",
        ],
    );
    for (constant, changes) in constants.iter().zip(&changes) {
        let cells = [
            largest(changes, 0, |change| change.throughput),
            largest(changes, 1, |change| change.throughput),
            largest(changes, 0, |change| change.queue),
            largest(changes, 1, |change| change.queue),
        ];
        let [low, high] = [constant.low, constant.high].map(number);
        table.line(&format!(
            "{} {low} to {high} | {} | {} |",
            row(constant),
            Situation::of(constant),
            cells.join(" | ")
        ));
    }
    table.print();
    print_links(&constants, &changes);
}

/// The standard values, and the noise of the measurement.
fn print_standard(standard: &BTreeMap<(Situation, &'static str), (Outcome, Change)>) {
    let mut table = Table::new(
        "standard values",
        &[
            "measured with",
            "link",
            "throughput",
            "spread",
            "queue p95 ms",
            "spread",
        ],
    );
    for ((situation, link), (mean, spread)) in standard {
        table.row(&[
            situation.to_string(),
            (*link).to_owned(),
            percent(mean.throughput),
            percent(spread.throughput),
            ms(Duration::from_secs_f64(mean.queue)),
            percent(spread.queue),
        ]);
    }
    table.print();
}

/// All changes, link by link.
fn print_links(constants: &[&Constant], changes: &[Vec<[Change; 2]>]) {
    let mut table = Table::new(
        "changes on each link",
        &[
            "constant",
            "link",
            "throughput, low",
            "throughput, high",
            "queue, low",
            "queue, high",
        ],
    );
    for (constant, changes) in constants.iter().zip(changes) {
        for ([low, high], link) in changes.iter().zip(LINKS) {
            table.row(&[
                format!("`{}.{}`", constant.group, constant.name),
                link.to_owned(),
                percent(low.throughput),
                percent(high.throughput),
                percent(low.queue),
                percent(high.queue),
            ]);
        }
    }
    table.print();
}

/// The table of congestion.md section 11 has a row for each constant, with its value, unit and section, and no other
/// rows.
#[test]
fn sensitivity_table_lists_every_constant() {
    let document = include_str!("../../docs/protocol/congestion.md");
    let (_, table) = document
        .split_once("## 11 Constants")
        .expect("the section with the table");
    for constant in CongestionParameters::constants() {
        let row = row(constant);
        assert!(table.contains(&row), "congestion.md section 11 lacks: {row}");
    }
    let rows = table.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(
        rows,
        CongestionParameters::constants().count(),
        "rows of the table"
    );
}
