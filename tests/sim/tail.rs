//! Loss of the last packet of a message, and of its only packet.
use std::time::Duration;

use longhaul_netem::{HopConfig, Profile};
use longhaul_types::Timestamp;

use crate::{
    application::User,
    datagram::Fate,
    links::{self, Knowledge},
    plan::Exchange,
    report::{Bars, Table, ms},
    seeds,
    world::{GivenToken, Moves, Setting, World},
};

const LIMIT: Timestamp = Timestamp::from_nanos(300_000_000_000);
/// Minimum size of a datagram with data: headers, AEAD and an empty frame are shorter.
const CARRIES_DATA: u64 = 150;
/// Time of the test's request; congestion control has reached the link's rate by then.
const ASKED: Duration = Duration::from_secs(30);

/// Messages before it, in the tests with jitter.
const EARLIER: u32 = 10;
const EARLIER_FROM: Duration = Duration::from_secs(10);
const EARLIER_EVERY: Duration = Duration::from_millis(1_900);

/// The lost datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// The last datagram of the gateway with data.
    LastOfResponse,
    /// The datagram of the agent with the request.
    Request,
}

impl Victim {
    const fn sender(self) -> User {
        match self {
            Self::LastOfResponse => User::Gateway,
            Self::Request => User::Agent,
        }
    }
}

fn world(mut hop: HopConfig, profile: Profile, response: u64, earlier: u32, seed: u64) -> World {
    hop.down.loss = longhaul_netem::Loss::Never;
    hop.up.loss = longhaul_netem::Loss::Never;
    let mut plan = vec![
        Exchange::fetch(ASKED, response),
        Exchange::fetch(Duration::ZERO, 40_000),
    ];
    // A reader's session has many samples of the round-trip time.
    plan.extend((0..earlier).map(|number| Exchange::fetch(EARLIER_FROM + EARLIER_EVERY * number, 2_500)));
    let profile = Knowledge::Known.of(profile);
    World::new(Setting {
        hop,
        profile,
        plan,
        token: GivenToken::Valid,
        moves: Moves::Silent,
        seed,
    })
}

fn complete(world: &mut World) -> Duration {
    let done = world.run(LIMIT, |world| world.agent.application.progress(0).done.is_some());
    assert!(done, "the message did not arrive: {}", world.describe());
    world.now - (Timestamp::ZERO + ASKED)
}

/// Duration of the message without a loss and with the victim lost, and the world of the run without loss.
fn compare(
    hop: &HopConfig,
    profile: Profile,
    response: u64,
    victim: Victim,
    earlier: u32,
    seed: u64,
) -> (Duration, Duration, World) {
    let mut lossless = world(hop.clone(), profile, response, earlier, seed);
    let without = complete(&mut lossless);
    let numbered = lossless
        .sent
        .iter()
        .filter(|sent| sent.from == victim.sender())
        .enumerate();
    let mut with_data =
        numbered.filter(|(_, sent)| sent.at >= Timestamp::ZERO + ASKED && sent.len >= CARRIES_DATA);
    let number = match victim {
        Victim::LastOfResponse => with_data.last(),
        Victim::Request => with_data.next(),
    };
    let (number, _) = number.expect("the message was sent");
    let mut lossy = world(hop.clone(), profile, response, earlier, seed);
    lossy.censor = Some(Box::new(move |from, sent, _| {
        if from == victim.sender() && sent == number {
            Fate::Lost
        } else {
            Fate::Arrives
        }
    }));
    (without, complete(&mut lossy), lossless)
}

/// Target 4: an additional round trip with a margin.
#[test]
fn lost_tail_costs_a_round_trip() {
    let mut table = Table::new(
        "last packet of a message lost",
        &[
            "profile",
            "bytes",
            "lossless ms",
            "lost ms",
            "extra ms",
            "bound ms",
        ],
    );
    let mut bars = Bars::default();
    for name in ["gprs-3+1", "edge", "umts-384", "lte", "geo-sat", "wlan-lossy"] {
        let profile = links::named(name);
        for response in [2_500, 6_000, 30_000] {
            let hop = links::without_jitter(profile);
            let (without, with, _) = compare(&hop, profile, response, Victim::LastOfResponse, 0, 3);
            let extra = with - without;
            // The repair takes a round trip that includes the time of a feedback on the uplink and of a
            // packet on the downlink.
            let feedback = longhaul_types::ByteCount::new(90) / profile.rate_up();
            let round_trip =
                links::without_jitter(profile).down.delay * 2 + feedback + links::packet_time(profile);
            let bound = round_trip + Duration::from_millis(60).max(links::packet_time(profile) * 2);
            table.row(&[
                name.to_owned(),
                response.to_string(),
                ms(without),
                ms(with),
                ms(extra),
                ms(bound),
            ]);
            bars.within(&format!("{name}, {response} B"), extra, bound, 2.2);
        }
    }
    table.print();
    bars.settle("lost tail");
}

/// Target 4: no later packet reveals that the only packet of a message is missing, so a probe must.
#[test]
fn lost_request_costs_a_probe_timeout() {
    let mut table = Table::new(
        "request of one packet lost",
        &["profile", "lossless ms", "lost ms", "extra ms", "bound ms"],
    );
    let mut bars = Bars::default();
    for name in ["gprs-3+1", "edge", "umts-384", "lte", "geo-sat", "wlan-lossy"] {
        let profile = links::named(name);
        let hop = links::without_jitter(profile);
        let (without, with, mut lossless) = compare(&hop, profile, 2_500, Victim::Request, 0, 3);
        let extra = with - without;
        let bound = lossless.probe_timeout(User::Agent);
        table.row(&[name.to_owned(), ms(without), ms(with), ms(extra), ms(bound)]);
        bars.within(name, extra, bound, 2.0);
    }
    table.print();
    bars.settle("lost request");
}

/// Number of losses on each link with its jitter.
const LOSSES: u64 = 100;

/// A measurement with jitter, in ms.
struct Extra {
    p50: Duration,
    p95: Duration,
}

/// Additional time of messages whose victim is lost, on the link with its jitter.
fn extra(profile: Profile, response: u64, victim: Victim) -> Extra {
    let hop = HopConfig::from(profile);
    let mut extra = seeds::for_exactly("losses_with_jitter", LOSSES, |seed| {
        let (without, with, _) = compare(&hop, profile, response, victim, EARLIER, seed);
        with.saturating_sub(without)
    });
    extra.sort_unstable();
    let at = |percent: usize| {
        extra
            .get(extra.len() * percent / 100)
            .copied()
            .unwrap_or_default()
    };
    Extra {
        p50: at(50),
        p95: at(95),
    }
}

/// Target 4 with the jitter of the links: the bounds are those of the measurements on real kernels.
#[test]
fn losses_with_jitter() {
    let mut table = Table::new(
        "a lost packet on links with jitter",
        &["profile", "lost", "p50 ms", "p95 ms", "bound ms"],
    );
    let mut bars = Bars::default();
    // Link, bounds of a lost request and of a lost last packet, limit of the first one in parts of the bound.
    for (name, bound, tail_bound, limit) in [
        ("gprs-3+1", 930, 1430, 2.6),
        ("umts-384", 325, 348, 1.4),
        ("lte", 105, 121, 1.0),
        ("geo-sat", 655, 661, 1.2),
        ("wlan-lossy", 105, 121, 1.0),
    ] {
        let profile = links::named(name);
        let [bound, tail_bound] = [bound, tail_bound].map(Duration::from_millis);
        let request = extra(profile, 2_500, Victim::Request);
        let tail = extra(profile, 6_000, Victim::LastOfResponse);
        for (what, extra, bound) in [("request", &request, bound), ("last packet", &tail, tail_bound)] {
            table.row(&[
                name.to_owned(),
                what.to_owned(),
                ms(extra.p50),
                ms(extra.p95),
                ms(bound),
            ]);
        }
        bars.within(&format!("{name}, request: p50"), request.p50, bound, limit);
        bars.within(&format!("{name}, request: p95"), request.p95, bound, limit);
        bars.within(&format!("{name}, last packet: p95"), tail.p95, tail_bound, 1.0);
    }
    table.print();
    bars.settle("losses with jitter");
}
