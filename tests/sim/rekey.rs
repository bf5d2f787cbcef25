//! Key updates during transfers, far more often than in practice, over links that lose, reorder, duplicate
//! and delay packets (transport.md section 2.3).
use std::time::Duration;

use longhaul_netem::{HopConfig, Profile, WhileOut};
use longhaul_protocol::crypto::RekeyLimits;
use longhaul_types::Timestamp;

use crate::{
    links::{self, Knowledge},
    plan::Exchange,
    report::Table,
    seeds,
    world::{GivenToken, Moves, Setting, World},
};

const SEEDS: u64 = 4;
const LIMIT: Timestamp = Timestamp::from_nanos(900_000_000_000);
/// Limits of a key phase: packets, or time.
const EARLY: RekeyLimits = RekeyLimits {
    packets: 20,
    time: Duration::from_secs(2),
};

/// Both directions at the same time: large responses and large requests.
fn plan() -> Vec<Exchange> {
    let exchange = |at: u64, request: u64, response: u64| {
        let mut exchange = Exchange::fetch(Duration::from_secs(at), response);
        exchange.request = request;
        exchange
    };
    vec![
        exchange(0, 300, 150_000),
        exchange(1, 40_000, 4),
        exchange(3, 300, 60_000),
        exchange(6, 20_000, 90_000),
    ]
}

/// Result of a run: key updates and undecryptable packets of each side.
struct Run {
    replaced: [u32; 2],
    dropped: [u64; 2],
    duplicates: u64,
}

fn run(profile: Profile, hop: HopConfig, limits: RekeyLimits, seed: u64) -> Run {
    let setting = Setting {
        hop,
        profile: Knowledge::Known.of(profile),
        plan: plan(),
        token: GivenToken::Valid,
        moves: Moves::Silent,
        seed,
    };
    let mut world = World::with_transport(setting, |transport| transport.rekey = limits);
    world.run_to_completion(LIMIT);
    let [agent, gateway] =
        [&mut world.agent, &mut world.gateway].map(|side| side.stats().expect("the session is open"));
    let duplicates = [world.hop.down(), world.hop.up()].map(|link| link.stats().duplicated.packets);
    world.close();
    Run {
        replaced: [agent.keys_replaced, gateway.keys_replaced],
        dropped: [agent.packets_dropped, gateway.packets_dropped],
        duplicates: duplicates.iter().sum(),
    }
}

type Impair = fn(&mut HopConfig, Profile);

const CONDITIONS: [(&str, Impair); 5] = [
    ("clean", |_, _| {}),
    ("20 % lost", |hop, _| links::lose(hop, 0.20)),
    ("5 % overtaken", |hop, profile| links::reorder(hop, profile, 0.05)),
    ("5 % lost, overtaken, repeated", |hop, profile| {
        links::lose(hop, 0.05);
        links::reorder(hop, profile, 0.05);
        links::duplicate(hop, 0.05);
    }),
    ("held for 60 s", |hop, _| {
        let at = Timestamp::ZERO + Duration::from_millis(2_500);
        links::interrupt(hop, at, Duration::from_secs(60), WhileOut::Hold);
    }),
];

#[test]
fn keys_are_replaced_in_mid_transfer() {
    let columns = [
        "link",
        "condition",
        "agent's keys replaced",
        "gateway's",
        "not opened",
    ];
    let mut table = Table::new("keys replaced after 20 packets or 2 s", &columns);
    for name in ["gprs-3+1", "umts-384", "geo-sat"] {
        let profile = links::named(name);
        for (condition, impair) in CONDITIONS {
            let runs = seeds::for_some("keys_are_replaced_in_mid_transfer", SEEDS, |seed| {
                let mut hop = HopConfig::from(profile);
                impair(&mut hop, profile);
                let run = run(profile, hop, EARLY, seed);
                let [agent, gateway] = run.replaced;
                assert!(
                    agent >= 3 && gateway >= 3,
                    "{name}, {condition}: {agent} and {gateway} times"
                );
                assert!(
                    agent.abs_diff(gateway) <= 1,
                    "{name}, {condition}: {agent} and {gateway}"
                );
                // Duplicates are rejected as replays; no other packet may be rejected.
                let dropped: u64 = run.dropped.iter().sum();
                assert!(
                    dropped <= run.duplicates,
                    "{name}, {condition}: {dropped} packets not opened, {} copies",
                    run.duplicates
                );
                run
            });
            let most = |side: usize| runs.iter().map(|run| run.replaced[side]).max().unwrap_or(0);
            let dropped: u64 = runs.iter().flat_map(|run| run.dropped).sum();
            table.row(&[
                name.to_owned(),
                condition.to_owned(),
                most(0).to_string(),
                most(1).to_string(),
                dropped.to_string(),
            ]);
        }
    }
    table.print();
}

/// With the limits of the design a key phase lasts five minutes, also in an idle session.
#[test]
fn an_hour_has_twelve_phases() {
    let profile = links::named("umts-384");
    let setting = Setting {
        hop: profile.into(),
        profile: Knowledge::Known.of(profile),
        plan: plan(),
        token: GivenToken::Valid,
        moves: Moves::Silent,
        seed: 1,
    };
    let mut world = World::new(setting);
    world.run_to_completion(LIMIT);
    world.run(Timestamp::ZERO + Duration::from_secs(3600), |_| false);
    for side in [&mut world.agent, &mut world.gateway] {
        let stats = side.stats().expect("the session is open");
        // A keepalive is sent every 25 s, by which each phase may be longer.
        assert!(
            (11..=12).contains(&stats.keys_replaced),
            "{}",
            stats.keys_replaced
        );
        assert_eq!(stats.packets_dropped, 0);
    }
    world.close();
}
