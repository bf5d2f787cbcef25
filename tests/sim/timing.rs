//! Exact arrival times: the first response of a session, and a page bundle.
use std::time::Duration;

use longhaul_netem::{HopConfig, Loss, Profile};
use longhaul_types::{BitRate, ByteCount, Timestamp};

use crate::{
    application::User,
    links::{self, Knowledge},
    plan::Exchange,
    report::{Bars, Table, median_and_worst, ms, percent},
    seeds,
    world::{GivenToken, Moves, Setting, World},
};

const LIMIT: Timestamp = Timestamp::from_nanos(120_000_000_000);
/// Bytes of a page bundle.
const BUNDLE: u64 = 60_000;

fn setting(hop: HopConfig, profile: Profile, plan: Vec<Exchange>, seed: u64) -> Setting {
    Setting {
        hop,
        profile: Knowledge::Known.of(profile),
        plan,
        token: GivenToken::Valid,
        moves: Moves::Silent,
        seed,
    }
}

fn time_of(bytes: u64, rate: BitRate) -> Duration {
    ByteCount::new(bytes) / rate
}

/// Time and length of the first datagram of `from` at or after `since`.
fn first_sent(world: &World, from: User, since: Timestamp) -> (Timestamp, u64) {
    let sent = world
        .sent
        .iter()
        .find(|sent| sent.from == from && sent.at >= since);
    let sent = sent.expect("a datagram was sent");
    (sent.at, sent.len)
}

/// A new session whose first datagram contains the request: the first bytes of the response arrive after one
/// round trip and the origin's time.
#[test]
fn first_response_takes_one_round_trip() {
    let mut table = Table::new(
        "first response of a new session",
        &["profile", "origin ms", "computed ms", "measured ms", "RTT ms"],
    );
    for profile in Profile::all().filter(|profile| profile.down().arq.is_none()) {
        let mut hop = links::without_jitter(profile);
        hop.down.loss = Loss::Never;
        hop.up.loss = Loss::Never;
        for origin in [0, 150].map(Duration::from_millis) {
            let mut exchange = Exchange::fetch(Duration::ZERO, 5000);
            exchange.origin = origin;
            let mut world = World::new(setting(hop.clone(), profile, vec![exchange], 1));
            let answered = world.run(LIMIT, |world| {
                world.agent.application.progress(0).first_byte.is_some()
            });
            assert!(answered, "{}: no response: {}", profile.name(), world.describe());
            let (_, request) = first_sent(&world, User::Agent, Timestamp::ZERO);
            let arrived = Timestamp::ZERO + time_of(request, profile.rate_up()) + hop.up.delay;
            let (_, response) = first_sent(&world, User::Gateway, arrived + origin);
            let computed = arrived + origin + time_of(response, profile.rate_down()) + hop.down.delay;
            let measured = world.now;
            let millis = |at: Timestamp| ms(at - Timestamp::ZERO);
            let rtt = ms(hop.up.delay + hop.down.delay);
            table.row(&[
                profile.name().to_owned(),
                ms(origin),
                millis(computed),
                millis(measured),
                rtt,
            ]);
            let late = measured - computed;
            let early = computed - measured;
            assert!(
                late.max(early) <= Duration::from_millis(1),
                "{}: the response came at {}, computed {}",
                profile.name(),
                millis(measured),
                millis(computed)
            );
        }
    }
    table.print();
}

/// Measurements of the downlink for one bundle.
struct Bundle {
    /// Time from the request to the last byte, relative to the round trip + request + bundle's packets at the
    /// link's rate.
    of_wire_bound: f64,
    /// Time from the request to the last byte, relative to the round trip + request + payload at the link's
    /// rate.
    of_payload_bound: f64,
    /// Share of the time between the bundle's first and last packet in which the downlink was sending.
    busy: f64,
    took: Duration,
}

/// Fetches a bundle at `at`, after a small page at the start.
fn fetch_bundle(profile: Profile, at: Duration, seed: u64) -> Bundle {
    let hop = HopConfig::from(profile);
    let mut plan = vec![Exchange::fetch(at, BUNDLE)];
    if !at.is_zero() {
        plan.push(Exchange::fetch(Duration::ZERO, 2000));
    }
    let asked = Timestamp::ZERO + at;
    let mut world = World::new(setting(hop, profile, plan, seed));
    assert!(
        world.run(LIMIT, |world| world.agent.application.progress(0).done.is_some()),
        "{}",
        world.describe()
    );
    let took = world.now - asked;
    let (_, request) = first_sent(&world, User::Agent, asked);
    let (begin, _) = first_sent(&world, User::Gateway, asked + Duration::from_nanos(1));
    let packets: Vec<_> = world
        .sent
        .iter()
        .filter(|sent| sent.from == User::Gateway && sent.at >= begin)
        .collect();
    let wire: u64 = packets.iter().map(|sent| sent.len).sum();
    let round_trip = profile.rtt() + time_of(request, profile.rate_up());
    // The link is a FIFO queue, so its idle times follow from the times at which packets were offered.
    let mut free = begin;
    let mut idle = Duration::ZERO;
    for packet in &packets {
        idle += packet.at - free;
        free = free.max(packet.at) + time_of(packet.len, profile.rate_down());
    }
    let bound = |bytes| (round_trip + time_of(bytes, profile.rate_down())).as_secs_f64();
    Bundle {
        of_wire_bound: took.as_secs_f64() / bound(wire),
        of_payload_bound: took.as_secs_f64() / bound(BUNDLE),
        busy: 1.0 - idle.as_secs_f64() / (free - begin).as_secs_f64(),
        took,
    }
}

/// Target 0: only the link's rate limits the time of a page bundle.
#[test]
fn bundle_is_bound_by_the_link() {
    const COLUMNS: [&str; 8] = [
        "profile",
        "session",
        "ms, median",
        "worst",
        "of RTT + wire bytes/rate, median",
        "worst",
        "of RTT + payload/rate, median",
        "busy, median / least",
    ];
    let mut table = Table::new("60 kB bundle, profile known", &COLUMNS);
    let mut bars = Bars::default();
    for name in ["gprs-3+1", "umts-384"] {
        let profile = links::named(name);
        for (session, at) in [("new", Duration::ZERO), ("open", Duration::from_secs(8))] {
            let bundles = seeds::for_each("bundle_is_bound_by_the_link", |seed| {
                fetch_bundle(profile, at, seed)
            });
            let of = |value: fn(&Bundle) -> f64| median_and_worst(bundles.iter().map(value).collect());
            let (took, longest) = of(|bundle| bundle.took.as_secs_f64() * 1e3);
            let (wire, wire_worst) = of(|bundle| bundle.of_wire_bound);
            let (payload, _) = of(|bundle| bundle.of_payload_bound);
            let (idle, idle_worst) = of(|bundle| 1.0 - bundle.busy);
            table.row(&[
                name.to_owned(),
                session.to_owned(),
                format!("{took:.0}"),
                format!("{longest:.0}"),
                format!("{wire:.4}"),
                format!("{wire_worst:.4}"),
                format!("{payload:.4}"),
                format!("{} / {}", percent(1.0 - idle), percent(1.0 - idle_worst)),
            ]);
            bars.at_most(&format!("{name}, {session} session: time"), wire, 1.03, 1.03);
            bars.at_least(
                &format!("{name}, {session} session: busy"),
                1.0 - idle,
                0.985,
                0.985,
            );
        }
    }
    table.print();
    bars.settle("60 kB bundle");
}
