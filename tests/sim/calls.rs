//! Datagrams beside a download that fills the link: the delay and loss of a call.
//!
//! A call has no target of its own: its bar is that of urgent data (target 10), the queue that congestion control aims at
//! and the packet that is being sent.
use std::{collections::BTreeMap, time::Duration};

use longhaul_netem::{HopConfig, Loss};
use longhaul_protocol::streams::{Datagram, Priority};
use longhaul_types::Timestamp;

use crate::{
    links::{self, Knowledge},
    plan::Exchange,
    report::{Bars, Table, ms, percent},
    seeds,
    world::{GivenToken, Moves, Setting, World},
};

const MOST_SEEDS: u64 = 2;
const BULK: u64 = 1 << 40;
const BULK_CLASS: u8 = 5;
const BEGINS: Duration = Duration::from_secs(15);
/// Interval at which arrivals are looked for, which is the error of the delays.
const STEP: Duration = Duration::from_millis(2);

/// A link, and a call of as many datagrams and bytes as programs send over such a link.
struct Case {
    link: &'static str,
    interval: Duration,
    len: usize,
    /// Random loss of the link.
    keeps_loss: bool,
}

const CASES: [Case; 5] = [
    // 8 kbit/s of a codec for voice on a link of 40 kbit/s.
    Case {
        link: "gprs-3+1",
        interval: Duration::from_millis(60),
        len: 72,
        keeps_loss: false,
    },
    Case {
        link: "umts-384",
        interval: Duration::from_millis(20),
        len: 172,
        keeps_loss: false,
    },
    Case {
        link: "lte",
        interval: Duration::from_millis(20),
        len: 172,
        keeps_loss: false,
    },
    Case {
        link: "geo-sat",
        interval: Duration::from_millis(20),
        len: 172,
        keeps_loss: true,
    },
    Case {
        link: "wlan-lossy",
        interval: Duration::from_millis(20),
        len: 172,
        keeps_loss: true,
    },
];

/// Delays of the datagrams that arrived at the agent, and the share of those that did not.
struct Call {
    delays: Vec<Duration>,
    lost: f64,
    /// Bytes of the download per second during the call.
    bulk: f64,
}

impl Call {
    fn percentile(&self, hundredths: usize) -> Duration {
        let mut delays = self.delays.clone();
        delays.sort_unstable();
        let rank = (delays.len() * hundredths).div_ceil(100).max(1);
        delays.get(rank - 1).copied().unwrap_or(Duration::MAX)
    }
}

fn call(case: &Case, with_bulk: bool, seed: u64) -> Call {
    const LENGTH: Duration = Duration::from_secs(30);
    let profile = links::named(case.link);
    let mut hop = HopConfig::from(profile);
    if !case.keeps_loss {
        hop.down.loss = Loss::Never;
        hop.up.loss = Loss::Never;
    }
    let bulk = Exchange {
        class: Priority::new(BULK_CLASS),
        ..Exchange::fetch(Duration::ZERO, BULK)
    };
    let mut world = World::new(Setting {
        hop,
        profile: Knowledge::Known.of(profile),
        plan: with_bulk.then_some(bulk).into_iter().collect(),
        token: GivenToken::Valid,
        moves: Moves::Told,
        seed,
    });
    let begins = Timestamp::ZERO + BEGINS;
    world.run(begins, |_| false);
    let received = |world: &mut World| world.agent.stats().map_or(0, |stats| stats.bytes_received);
    let before = received(&mut world);
    let mut sent = BTreeMap::new();
    let mut delays = Vec::new();
    let mut next = begins;
    // After the call, the last ones have time to arrive.
    while world.now < begins + LENGTH + Duration::from_secs(5) {
        if world.now >= next && next < begins + LENGTH {
            let number = sent.len() as u64;
            sent.insert(number, world.now);
            let mut bytes = number.to_be_bytes().to_vec();
            bytes.resize(case.len, 0);
            let datagram = Datagram {
                flow: 1,
                class: Priority::NORMAL,
                bytes: bytes.into(),
            };
            let handle = world.gateway.handle.expect("a session");
            let now = world.now;
            let connection = world.gateway.endpoint.connection(handle).expect("open");
            connection.send_datagram(now, datagram).expect("negotiated");
            next += case.interval;
        }
        let mut until = world.now + STEP;
        if next > world.now && next < begins + LENGTH {
            until = until.min(next);
        }
        world.run(until, |_| false);
        let handle = world.agent.handle.expect("a session");
        let now = world.now;
        let connection = world.agent.endpoint.connection(handle).expect("open");
        while let Some(bytes) = connection.take_datagram() {
            let number = u64::from_be_bytes(*bytes.first_chunk().expect("a number"));
            delays.push(now - sent[&number]);
        }
    }
    let bulk = (received(&mut world) - before) as f64 / (LENGTH + Duration::from_secs(5)).as_secs_f64();
    Call {
        lost: 1.0 - delays.len() as f64 / sent.len() as f64,
        delays,
        bulk,
    }
}

#[test]
fn a_call_beside_a_bulk() {
    let columns = [
        "link",
        "alone, median ms",
        "p95",
        "lost",
        "beside a bulk, median ms",
        "p95",
        "lost",
        "bulk and call of link",
    ];
    let mut table = Table::new("datagrams of a call towards the agent", &columns);
    let mut bars = Bars::default();
    for case in &CASES {
        let profile = links::named(case.link);
        let runs = seeds::for_some("a_call_beside_a_bulk", MOST_SEEDS, |seed| {
            (call(case, false, seed), call(case, true, seed))
        });
        // The queue that congestion control aims at, and the packet on the link.
        let aimed = (profile.rtt() / 10).clamp(Duration::from_millis(25), Duration::from_millis(200));
        let allowed = aimed.max(links::packet_time(profile) * 5 / 2) + links::packet_time(profile);
        for (alone, beside) in &runs {
            let used = beside.bulk * 8.0 / profile.rate_down().as_bps() as f64;
            table.row(&[
                case.link.to_owned(),
                ms(alone.percentile(50)),
                ms(alone.percentile(95)),
                percent(alone.lost),
                ms(beside.percentile(50)),
                ms(beside.percentile(95)),
                percent(beside.lost),
                percent(used),
            ]);
            let added = beside.percentile(95).saturating_sub(alone.percentile(95));
            bars.within(
                &format!("{}: 95th percentile of the added delay", case.link),
                added,
                allowed,
                3.0,
            );
            bars.at_most(
                &format!("{}: loss beside a bulk", case.link),
                beside.lost,
                alone.lost + 0.01,
                alone.lost + 0.05,
            );
            bars.at_least(&format!("{}: use of the link", case.link), used, 0.85, 0.5);
        }
    }
    table.print();
    bars.settle("a call beside a bulk");
}
