//! An outage, and an address change, during a download.
use std::time::Duration;

use longhaul_netem::{HopConfig, Profile, WhileOut};
use longhaul_protocol::endpoint::Event;
use longhaul_types::{BitRate, Timestamp};

use crate::{
    application::User,
    links::{self, Knowledge},
    plan::Exchange,
    report::{Bars, Table, ms},
    world::{GivenToken, Moves, Setting, World},
};

/// Start of an outage; congestion control has reached the link's rate by then.
const BEGINS: Timestamp = Timestamp::from_nanos(10_000_000_000);
const NAMES: [&str; 5] = ["gprs-3+1", "umts-384", "lte", "geo-sat", "wlan-lossy"];

fn download(hop: HopConfig, profile: Profile, time: Duration) -> World {
    downloads(hop, profile, time, 1)
}

/// Equal downloads that together fill the link for this time.
fn downloads(hop: HopConfig, profile: Profile, time: Duration, count: u64) -> World {
    let bytes = (profile.rate_down() * time).bytes() / count;
    let plan = (0..count)
        .map(|_| Exchange::fetch(Duration::ZERO, bytes))
        .collect();
    let profile = Knowledge::Known.of(profile);
    World::new(Setting {
        hop,
        profile,
        plan,
        token: GivenToken::Valid,
        moves: Moves::Silent,
        seed: 4,
    })
}

/// Targets 6 and 7.
#[test]
fn outage_of_40_s() {
    const COLUMNS: [&str; 8] = [
        "profile",
        "meanwhile",
        "detected ms (agent, gateway)",
        "bytes sent in the stall, gateway + agent",
        "first byte after restore ms",
        "rate 2 s to 7 s after",
        "rate before",
        "duplicate bytes",
    ];
    const LENGTH: Duration = Duration::from_secs(40);
    let mut table = Table::new("outage of 40 s in a download", &COLUMNS);
    let mut bars = Bars::default();
    for (name, behaviour) in NAMES
        .into_iter()
        .flat_map(|name| [(name, WhileOut::Hold), (name, WhileOut::Drop)])
    {
        let profile = links::named(name);
        let mut hop = HopConfig::from(profile);
        links::interrupt(&mut hop, BEGINS, LENGTH, behaviour);
        let mut world = download(hop, profile, Duration::from_secs(40));
        let restore = BEGINS + LENGTH;
        let rate_before = delivered_rate(&mut world, Timestamp::ZERO + Duration::from_secs(4), BEGINS);
        let srtt = world.gateway.stats().map_or(Duration::ZERO, |stats| stats.srtt);
        world.run(restore, |_| false);
        let stalled = world.gateway.first(|event| *event == Event::Stalled);
        let agent_stalled = world.agent.first(|event| *event == Event::Stalled);
        let detected = stalled.map(|at| at - BEGINS);
        let from = stalled.into_iter().chain(agent_stalled).max().unwrap_or(BEGINS);
        let probes = [User::Gateway, User::Agent].map(|user| {
            let sent = world
                .sent
                .iter()
                .filter(|sent| sent.from == user && sent.at > from && sent.at < restore);
            sent.map(|sent| sent.len).sum::<u64>()
        });
        let before = world.agent.application.delivered;
        world.run(restore + Duration::from_secs(30), |world| {
            world.agent.application.delivered > before
        });
        let first = world.now - restore;
        let settled = restore + Duration::from_secs(2).max(profile.rtt() * 3);
        let rate = delivered_rate(&mut world, settled, settled + Duration::from_secs(5));
        let ratio = rate.as_bps() as f64 / rate_before.as_bps() as f64;
        let condition = format!("{name} {behaviour:?}");
        let duplicate = world.duplicate_bytes();
        table.row(&[
            name.to_owned(),
            format!("{behaviour:?}"),
            format!(
                "{}, {}",
                agent_stalled.map_or_else(|| "-".into(), |at| ms(at - BEGINS)),
                detected.map_or_else(|| "-".into(), ms)
            ),
            format!("{} + {}", probes[0], probes[1]),
            ms(first),
            rate.to_string(),
            rate_before.to_string(),
            duplicate.to_string(),
        ]);
        let bar = Duration::from_secs(1) + profile.rtt() + links::packet_time(profile);
        bars.within(&format!("{condition}: first byte"), first, bar, 1.25);
        let bar = srtt * 3 + Duration::from_secs(1);
        bars.within(
            &format!("{condition}: detection"),
            detected.unwrap_or(LENGTH),
            bar,
            1.1,
        );
        for (sent, user) in probes.into_iter().zip(["gateway", "agent"]) {
            bars.at_most(
                &format!("{condition}: bytes of the {user} in the stall"),
                sent as f64,
                4096.0,
                4096.0,
            );
        }
        bars.at_least(&format!("{condition}: rate, of that before"), ratio, 0.8, 0.7);
        world.run_to_completion(Timestamp::ZERO + Duration::from_secs(300));
    }
    table.print();
    bars.settle("outage of 40 s");
}

/// A laptop that is away for two hours in the midst of downloads.
#[test]
fn outage_of_two_hours() {
    const LENGTH: Duration = Duration::from_secs(2 * 3600);
    /// Both ends probe at least this often.
    const PROBES: Duration = Duration::from_secs(15);
    let mut table = Table::new(
        "outage of two hours in six downloads",
        &[
            "profile",
            "bytes sent in the outage",
            "first byte after restore ms",
            "duplicate bytes",
        ],
    );
    let mut bars = Bars::default();
    for name in ["umts-384", "geo-sat"] {
        let profile = links::named(name);
        let mut hop = HopConfig::from(profile);
        links::interrupt(&mut hop, BEGINS, LENGTH, WhileOut::Drop);
        // The simulated session has no control streams, which do not count as something in progress.
        let mut world = downloads(hop, profile, Duration::from_secs(20), 6);
        let restore = BEGINS + LENGTH;
        world.run(restore, |_| false);
        let before = world.agent.application.delivered;
        let sent = world.sent.iter().filter(|sent| sent.at > BEGINS);
        let sent = sent.map(|sent| sent.len).sum::<u64>();
        world.run(restore + Duration::from_secs(60), |world| {
            world.agent.application.delivered > before
        });
        let first = world.now - restore;
        assert!(world.agent.closed.is_none(), "{name}: {}", world.describe());
        world.run_to_completion(restore + Duration::from_secs(300));
        let duplicate = world.duplicate_bytes();
        table.row(&[
            name.to_owned(),
            sent.to_string(),
            ms(first),
            duplicate.to_string(),
        ]);
        let bar = PROBES + profile.rtt() * 2 + links::packet_time(profile);
        bars.within(&format!("{name}: first byte"), first, bar, 1.1);
    }
    table.print();
    bars.settle("outage of two hours");
}

/// Rate of the bytes delivered to the agent's user.
fn delivered_rate(world: &mut World, from: Timestamp, to: Timestamp) -> BitRate {
    world.run(from, |_| false);
    let before = world.agent.application.delivered;
    world.run(to, |_| false);
    let bytes = longhaul_types::ByteCount::new(world.agent.application.delivered - before);
    BitRate::of(bytes, to - from)
}

/// Target 6: the operating system reports the new network, and a download pauses for a round trip.
#[test]
fn move_to_another_network() {
    let mut table = Table::new(
        "address change in a download",
        &["profile", "pause ms", "bound ms"],
    );
    let mut bars = Bars::default();
    for name in NAMES {
        let profile = links::named(name);
        let mut hop = HopConfig::from(profile);
        links::move_client(&mut hop, &[BEGINS - Timestamp::ZERO]);
        let mut world = download(hop, profile, Duration::from_secs(30));
        world.run(BEGINS, |_| false);
        world.notice_new_network();
        // The queue of the link remains, so that packets to the old address are transmitted first.
        let queued = world.hop.down().stats().queued.bytes / profile.rate_down();
        // Packets to the old address are lost; the pause is the longest time without a byte from here on.
        let mut last = world.now;
        let mut delivered = world.agent.application.delivered;
        let mut pause = Duration::ZERO;
        world.run(BEGINS + Duration::from_secs(10), |world| {
            if world.agent.application.delivered > delivered {
                delivered = world.agent.application.delivered;
                pause = pause.max(world.now - last);
                last = world.now;
            }
            false
        });
        let bound = profile.rtt() + Duration::from_millis(200) + queued + links::packet_time(profile);
        table.row(&[name.to_owned(), ms(pause), ms(bound)]);
        bars.within(&format!("{name}: pause"), pause, bound, 2.0);
        world.run_to_completion(Timestamp::ZERO + Duration::from_secs(200));
    }
    table.print();
    bars.settle("address change");
}
