//! Loss of the last packet of a message, and of its only packet.
use std::time::Duration;

use longhaul_netem::Profile;
use longhaul_types::Timestamp;

use crate::{
    application::User,
    datagram::Fate,
    links::{self, Knowledge},
    plan::Exchange,
    report::{Bars, Table, ms},
    world::{GivenToken, Moves, Setting, World},
};

const LIMIT: Timestamp = Timestamp::from_nanos(300_000_000_000);
/// Minimum size of a datagram with data: headers, AEAD and an empty frame are shorter.
const CARRIES_DATA: u64 = 150;
/// Time of the test's request; congestion control has reached the link's rate by then.
const ASKED: Duration = Duration::from_secs(30);

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

fn world(profile: Profile, response: u64) -> World {
    let mut hop = links::without_jitter(profile);
    hop.down.loss = longhaul_netem::Loss::Never;
    hop.up.loss = longhaul_netem::Loss::Never;
    let plan = vec![
        Exchange::fetch(ASKED, response),
        Exchange::fetch(Duration::ZERO, 40_000),
    ];
    let profile = Knowledge::Known.of(profile);
    World::new(Setting {
        hop,
        profile,
        plan,
        token: GivenToken::Valid,
        moves: Moves::Silent,
        seed: 3,
    })
}

fn complete(world: &mut World) -> Duration {
    let done = world.run(LIMIT, |world| world.agent.application.progress(0).done.is_some());
    assert!(done, "the message did not arrive: {}", world.describe());
    world.now - (Timestamp::ZERO + ASKED)
}

/// Duration of the message without a loss and with the victim lost, and the world of the run without loss.
fn compare(profile: Profile, response: u64, victim: Victim) -> (Duration, Duration, World) {
    let mut lossless = world(profile, response);
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
    let mut lossy = world(profile, response);
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
            let (without, with, _) = compare(profile, response, Victim::LastOfResponse);
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
        let (without, with, mut lossless) = compare(profile, 2_500, Victim::Request);
        let extra = with - without;
        let bound = lossless.probe_timeout(User::Agent);
        table.row(&[name.to_owned(), ms(without), ms(with), ms(extra), ms(bound)]);
        bars.within(name, extra, bound, 2.0);
    }
    table.print();
    bars.settle("lost request");
}
