//! Hours in one session: page loads over links with occasional failures, and downloads that fill each link.
//! The invariants of every run must hold all the time. `make sim-long` simulates a day of pages and an hour
//! of each link; without `LONGHAUL_SIM_HOURS` the same runs take minutes of simulated time.
use std::time::Duration;

use longhaul_netem::{HopConfig, Outage, OutageSchedule, Profile, WhileOut};
use longhaul_protocol::streams::Priority;
use longhaul_types::{BitRate, ByteCount, Timestamp};

use crate::{
    links::{self, Knowledge},
    plan::{Ending, Exchange, Length},
    random::Random,
    report::{Table, percent},
    seeds,
    world::{GivenToken, Moves, Setting, World},
};

const PURPOSE_PAGES: u64 = 40;
const PURPOSE_FAULTS: u64 = 41;
const HOUR: Duration = Duration::from_secs(3600);
/// Simulated time without `LONGHAUL_SIM_HOURS`.
const SHORT: Duration = Duration::from_secs(120);
/// Maximum bytes of a download: on the fastest links it takes less than an hour.
const MOST: ByteCount = ByteCount::mib(4096);
/// Maximum bytes of a download without `LONGHAUL_SIM_HOURS`.
const MOST_SHORT: ByteCount = ByteCount::mib(8);
/// Additional time after the end of the page loads for unfinished exchanges.
const GRACE: Duration = Duration::from_secs(1800);

fn hours() -> u64 {
    let text = std::env::var("LONGHAUL_SIM_HOURS").unwrap_or_default();
    text.parse().unwrap_or(0)
}

/// Adds a page and its objects at `at` to the plan; returns its bytes.
fn page(at: Duration, random: &mut Random, plan: &mut Vec<Exchange>) -> u64 {
    let left = random.one_in(20);
    let ending = |random: &mut Random| {
        if left {
            Ending::AgentLeaves(random.time(Duration::from_secs(3)))
        } else {
            Ending::Complete
        }
    };
    let mut html = Exchange::fetch(at, 5_000 + random.below(60_000));
    html.class = Priority::new(1);
    html.origin = Duration::from_millis(50);
    html.ending = ending(random);
    let mut bytes = html.response;
    plan.push(html);
    for _ in 0..3 + random.below(14) {
        let mut object = Exchange::fetch(
            at + random.time(Duration::from_secs(2)),
            300 + random.below(25_000),
        );
        object.class = Priority::new(2 + random.class() % 2);
        object.origin = random.time(Duration::from_millis(200));
        object.ending = ending(random);
        if random.one_in(4) {
            object.length = Length::Unknown;
        }
        bytes += object.response;
        plan.push(object);
    }
    if random.one_in(10) {
        let mut form = Exchange::fetch(at, 1_000);
        form.request = 1_000 + random.below(30_000);
        form.class = Priority::new(5);
        bytes += form.request;
        plan.push(form);
    }
    bytes
}

/// The page loads of a reader in this time, with pauses for reading.
fn pages(length: Duration, rate: BitRate, random: &mut Random) -> Vec<Exchange> {
    let mut plan = Vec::new();
    let mut at = Duration::ZERO;
    while at < length {
        let bytes = page(at, random, &mut plan);
        let load = ByteCount::new(bytes) / rate;
        at += load + Duration::from_secs(10) + random.time(Duration::from_secs(50));
    }
    plan
}

/// A link with all impairments at random times.
fn faulty(profile: Profile, length: Duration, random: &mut Random) -> HopConfig {
    let mut hop = HopConfig::from(profile);
    links::lose(&mut hop, 0.005);
    links::reorder(&mut hop, profile, 0.005);
    links::duplicate(&mut hop, 0.001);
    links::corrupt(&mut hop, 0.0005);
    let mut outages = Vec::new();
    let mut at = random.time(Duration::from_secs(600));
    while at < length {
        let outage = Duration::from_secs(1 + random.below(90));
        outages.push(Outage {
            start: Timestamp::ZERO + at,
            length: outage,
            behaviour: if random.one_in(2) {
                WhileOut::Hold
            } else {
                WhileOut::Drop
            },
        });
        at += outage + Duration::from_secs(60) + random.time(Duration::from_secs(1200));
    }
    let schedule = OutageSchedule::new(outages).expect("the outages are in order");
    hop.down.outages = schedule.clone();
    hop.up.outages = schedule;
    let moves: Vec<Duration> = (0..3).map(|_| random.time(length)).collect();
    links::move_client(&mut hop, &moves);
    hop
}

/// One session of a reader; returns the numbers of exchanges and datagrams.
fn reading(seed: u64, length: Duration) -> (usize, usize) {
    let (profile, knowledge) = links::of_seed(seed);
    let plan = pages(length, profile.rate_down(), &mut Random::new(seed, PURPOSE_PAGES));
    let exchanges = plan.len();
    let mut world = World::new(Setting {
        hop: faulty(profile, length, &mut Random::new(seed, PURPOSE_FAULTS)),
        profile: knowledge.of(profile),
        plan,
        token: GivenToken::Valid,
        moves: if seed.is_multiple_of(2) {
            Moves::Told
        } else {
            Moves::Silent
        },
        seed,
    });
    world.run_to_completion(Timestamp::ZERO + length + GRACE);
    world.close();
    (exchanges, world.sent.len())
}

#[test]
fn long_reading() {
    let (runs, length) = match hours() {
        0 => (5, SHORT),
        hours => (hours, HOUR),
    };
    let sessions = seeds::for_exactly("long_reading", runs, |seed| reading(seed, length));
    let (exchanges, datagrams) = sessions
        .iter()
        .fold((0, 0), |sum, session| (sum.0 + session.0, sum.1 + session.1));
    println!(
        "{runs} sessions of {} min: {exchanges} exchanges, {datagrams} datagrams, no invariant violated",
        length.as_secs() / 60
    );
}

/// A download that fills a link; returns the delivered bytes relative to the link's capacity.
fn filling(profile: Profile, length: Duration, seed: u64) -> f64 {
    let capacity = profile.rate_down() * length;
    let mut world = World::new(Setting {
        hop: profile.into(),
        profile: Knowledge::Known.of(profile),
        plan: vec![Exchange::fetch(Duration::ZERO, capacity.bytes() * 2)],
        token: GivenToken::Valid,
        moves: Moves::Silent,
        seed,
    });
    world.run(Timestamp::ZERO + length, |_| false);
    let delivered = world.agent.application.delivered;
    world.close();
    delivered as f64 / capacity.bytes() as f64
}

#[test]
fn long_filling() {
    let (longest, most) = match hours() {
        0 => (SHORT, MOST_SHORT),
        _ => (HOUR, MOST),
    };
    let profiles: Vec<Profile> = Profile::all().collect();
    let runs = seeds::for_exactly("long_filling", profiles.len() as u64, |seed| {
        let profile = profiles[usize::try_from(seed).expect("the index is within the list")];
        let length = longest.min(most / profile.rate_down());
        (profile, length, filling(profile, length, seed))
    });
    let mut table = Table::new("filled for long", &["profile", "min", "goodput / rate"]);
    for (profile, length, goodput) in runs {
        table.row(&[
            profile.name().to_owned(),
            format!("{:.1}", length.as_secs_f64() / 60.0),
            percent(goodput),
        ]);
        // Far below the targets of the download tests: this test checks invariants over hours.
        assert!(goodput > 0.4, "{}: {goodput:.2} of the rate", profile.name());
    }
    table.print();
}
