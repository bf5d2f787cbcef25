//! A gateway that is killed and restarted while the agent only receives, and the cost of detecting this.
use std::time::Duration;

use longhaul_netem::{HopConfig, WhileOut};
use longhaul_protocol::endpoint::{CloseReason, Event};
use longhaul_types::Timestamp;

use crate::{
    application::User,
    links::{self, Knowledge},
    plan::{Exchange, Length, PIECE},
    report::{Bars, Table, ms},
    world::{GivenToken, Moves, Setting, World},
};

const NAMES: [&str; 5] = ["gprs-3+1", "umts-384", "lte", "geo-sat", "wlan-lossy"];
/// Time at which the gateway is killed.
const KILLED: Timestamp = Timestamp::from_nanos(20_000_000_000);

/// A response of small pieces at an interval; the gateway has no other data.
fn drip(interval: Duration, pieces: u64) -> Exchange {
    Exchange {
        request: PIECE,
        length: Length::Unknown,
        typed: Some(interval),
        ..Exchange::fetch(Duration::ZERO, pieces * PIECE)
    }
}

fn world(name: &str, hop: HopConfig, plan: Vec<Exchange>) -> World {
    World::new(Setting {
        hop,
        profile: Knowledge::Known.of(links::named(name)),
        plan,
        token: GivenToken::Valid,
        moves: Moves::Silent,
        seed: 9,
    })
}

/// Declares that the agent's user expects data.
fn expect_data(world: &mut World) {
    let handle = world.agent.handle.expect("the agent has a session");
    let now = world.now;
    let connection = world.agent.endpoint.connection(handle).expect("it is open");
    connection.expect_data(now, true);
}

/// Time from the restart of a gateway that was down for `away` until the agent learns that the session is
/// lost.
fn learns(name: &str, away: Duration, expects: bool) -> Duration {
    let hop = HopConfig::from(links::named(name));
    let mut world = world(name, hop, vec![drip(Duration::from_millis(250), 100_000)]);
    world.run(Timestamp::ZERO + Duration::from_secs(5), |_| false);
    if expects {
        expect_data(&mut world);
    }
    world.run(KILLED, |_| false);
    world.restart_gateway(away);
    let restarted = KILLED + away;
    world.run(restarted + Duration::from_secs(60), |world| {
        world.agent.closed.is_some()
    });
    let (at, reason) = world.agent.closed.clone().expect("the agent learns of it");
    assert_eq!(reason, CloseReason::Reset);
    at - restarted
}

/// Transport.md section 7.3: after a second of silence the agent sends probes at increasing intervals.
#[test]
fn an_agent_that_only_receives_learns_of_a_restart() {
    let mut table = Table::new(
        "gateway killed and restarted in a drip of small pieces",
        &[
            "profile",
            "away",
            "learned after the restart ms",
            "without an expectation ms",
        ],
    );
    let mut bars = Bars::default();
    for name in NAMES {
        let rtt = links::named(name).rtt();
        for away in [0_u64, 1, 5, 50].map(Duration::from_secs) {
            let (with, without) = (learns(name, away, true), learns(name, away, false));
            table.row(&[name.to_owned(), format!("{away:?}"), ms(with), ms(without)]);
            // A lost probe, or a lost RESET, costs another interval.
            let bound = Duration::from_secs(1) + rtt * 2 + Duration::from_millis(500);
            bars.within(&format!("{name}, away for {away:?}"), with, bound, 1.6);
        }
    }
    table.print();
    bars.settle("restart of the gateway");
}

/// An outage of any length does not end the session: only a RESET does, and probes remain few.
#[test]
fn ten_minutes_without_a_link_lose_nothing() {
    const LENGTH: Duration = Duration::from_secs(600);
    let mut table = Table::new("agent in an outage of 10 min", &["profile", "bytes up"]);
    for name in NAMES {
        let mut hop = HopConfig::from(links::named(name));
        links::interrupt(&mut hop, KILLED, LENGTH, WhileOut::Drop);
        let mut world = world(name, hop, vec![drip(Duration::from_millis(250), 2600)]);
        world.run(Timestamp::ZERO + Duration::from_secs(5), |_| false);
        expect_data(&mut world);
        world.run(KILLED + LENGTH, |_| false);
        assert!(
            world.agent.first(|event| *event == Event::Stalled).is_some(),
            "{name}"
        );
        let up: u64 = world
            .sent
            .iter()
            .filter(|sent| sent.from == User::Agent && sent.at > KILLED)
            .map(|sent| sent.len)
            .sum();
        table.row(&[name.to_owned(), up.to_string()]);
        // A probe per second for a minute, then fewer than forty in nine minutes, of 90 bytes at most.
        assert!(up < 10_000, "{name}: {up} bytes up");
        world.run_to_completion(KILLED + LENGTH + Duration::from_secs(300));
        assert!(
            world.agent.closed.is_none() && world.gateway.closed.is_none(),
            "{name}"
        );
    }
    table.print();
}

/// The intervals of probes to a live gateway without data increase.
#[test]
fn a_late_answer_costs_few_questions() {
    const LATE: Duration = Duration::from_secs(600);
    let mut table = Table::new(
        "an answer after 10 min",
        &["profile", "bytes", "without an expectation"],
    );
    for name in NAMES {
        let exchange = Exchange {
            origin: LATE,
            ..Exchange::fetch(Duration::ZERO, 5000)
        };
        let cost = |expects: bool| {
            let mut world = world(name, HopConfig::from(links::named(name)), vec![exchange.clone()]);
            world.run(Timestamp::ZERO + Duration::from_secs(5), |_| false);
            if expects {
                expect_data(&mut world);
            }
            world.run(Timestamp::ZERO + LATE, |_| false);
            let bytes: u64 = world.sent.iter().map(|sent| sent.len).sum();
            world.run_to_completion(Timestamp::ZERO + LATE + Duration::from_secs(60));
            assert!(
                world.agent.first(|event| *event == Event::Stalled).is_none(),
                "{name}"
            );
            bytes
        };
        let (with, without) = (cost(true), cost(false));
        table.row(&[name.to_owned(), with.to_string(), without.to_string()]);
        // Five doublings from a second to the interval of keepalives, each with a probe and feedback of some
        // 60 bytes.
        assert!(with < without + 1200, "{name}: {with} bytes, {without} without");
    }
    table.print();
}
