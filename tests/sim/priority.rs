//! Urgent data during a download that fills the link: messages, a tunnel, a page; and cancelled downloads
//! (target 10).
use std::time::Duration;

use longhaul_netem::{HopConfig, Loss, Profile};
use longhaul_protocol::streams::Priority;
use longhaul_types::{ByteCount, Timestamp};

use crate::{
    application::User,
    dumbbell::{Dumbbell, Session},
    links::{self, Knowledge},
    plan::{Ending, Exchange, PIECE},
    report::{Bars, Table, ms},
    seeds,
};

const MOST_SEEDS: u64 = 2;
const NAMES: [&str; 5] = ["gprs-3+1", "umts-384", "lte", "geo-sat", "wlan-lossy"];
const BULK: u64 = 1 << 40;
const BULK_CLASS: u8 = 5;
const URGENT_CLASS: u8 = 1;
/// Start of the measurement; the bulk download has filled the link by then.
const BEGINS: Duration = Duration::from_secs(1);
const ESTABLISHED: Duration = Duration::from_secs(15);
/// Bytes of a message with its headers.
const MESSAGE: u64 = 2_000;
const MESSAGES: u32 = 20;
/// Number of keystrokes, at five per second.
const KEYS: u64 = 100;
const TYPING: Duration = Duration::from_millis(200);
/// Bytes of a page bundle.
const BUNDLE: u64 = 60_000;
/// Bytes of the headers of a request or message and of its frames.
const OVERHEAD: u64 = 80;

fn hop(profile: Profile) -> HopConfig {
    let mut hop = HopConfig::from(profile);
    hop.down.loss = Loss::Never;
    hop.up.loss = Loss::Never;
    hop
}

fn bulk(at: Duration) -> Exchange {
    Exchange {
        class: Priority::new(BULK_CLASS),
        ..Exchange::fetch(at, BULK)
    }
}

fn urgent(at: Duration, response: u64) -> Exchange {
    Exchange {
        class: Priority::new(URGENT_CLASS),
        ..Exchange::fetch(at, response)
    }
}

fn session(profile: Profile, plan: Vec<Exchange>) -> Session {
    Session::new(Knowledge::Known.of(profile), plan)
}

/// Queueing delay that congestion control aims at on a steady link.
fn target_queue(profile: Profile) -> Duration {
    let by_time = (profile.rtt() / 10).clamp(Duration::from_millis(25), Duration::from_millis(200));
    by_time.max(links::packet_time(profile) * 5 / 2)
}

/// Time that a request and its response take on an idle link.
fn own_time(profile: Profile, request: u64, response: u64) -> Duration {
    ByteCount::new(request + OVERHEAD) / profile.rate_up()
        + ByteCount::new(response + OVERHEAD) / profile.rate_down()
}

fn p95(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let rank = (times.len() * 95).div_ceil(100).max(1);
    times.get(rank - 1).copied().unwrap_or_default()
}

/// Runs until these exchanges are complete at the agent; returns their durations.
fn complete(dumbbell: &mut Dumbbell, exchanges: &[(usize, Duration)]) -> Vec<Duration> {
    let limit = dumbbell.now + Duration::from_secs(900);
    let done = dumbbell.run_while(limit, |dumbbell| {
        let agent = &dumbbell.side(0, User::Agent).application;
        exchanges
            .iter()
            .any(|(index, _)| agent.progress(*index).done.is_none())
    });
    assert!(done, "not done by {limit:?}");
    let agent = &dumbbell.side(0, User::Agent).application;
    let took = |(index, at): &(usize, Duration)| {
        let done = agent.progress(*index).done.expect("all are");
        done - (Timestamp::ZERO + *at)
    };
    exchanges.iter().map(took).collect()
}

/// The last part of target 2, and target 10: a message of class 1 waits only for the queue and one packet,
/// however much other data there is.
#[test]
fn messages_beside_a_bulk() {
    let columns = [
        "link",
        "alone ms",
        "during a bulk, p95 ms",
        "bar ms",
        "delayed by ms",
        "bar ms",
    ];
    let mut table = Table::new("messages of 2 kB", &columns);
    let mut bars = Bars::default();
    for name in NAMES {
        let profile = links::named(name);
        let spacing = Duration::from_millis(700).max(profile.rtt() * 3);
        let at = |number: u32| ESTABLISHED + spacing * number;
        let messages = || (0..MESSAGES).map(|number| urgent(at(number), MESSAGE));
        let wanted: Vec<_> = (0..MESSAGES)
            .map(|number| (number as usize, at(number)))
            .collect();
        let runs = seeds::for_some("messages_beside_a_bulk", MOST_SEEDS, |seed| {
            let alone = session(profile, messages().collect());
            let beside = session(profile, messages().chain([bulk(BEGINS)]).collect());
            [alone, beside].map(|session| {
                let mut dumbbell = Dumbbell::new(&hop(profile), &[session], &[], seed);
                p95(complete(&mut dumbbell, &wanted))
            })
        });
        let alone = runs.iter().map(|run| run[0]).max().unwrap_or_default();
        let beside = runs.iter().map(|run| run[1]).max().unwrap_or_default();
        let bar = profile.rtt() + own_time(profile, 300, MESSAGE) + target_queue(profile) * 2;
        let delayed = beside.saturating_sub(alone);
        let delay_bar = target_queue(profile) + links::packet_time(profile);
        table.row(&[
            name.to_owned(),
            ms(alone),
            ms(beside),
            ms(bar),
            ms(delayed),
            ms(delay_bar),
        ]);
        bars.within(
            &format!("{name}: delayed by a bulk, p95"),
            delayed,
            delay_bar,
            2.8,
        );
        bars.within(&format!("{name}: message beside a bulk, p95"), beside, bar, 1.4);
    }
    table.print();
    bars.settle("messages beside a bulk");
}

/// Times from writing to reading of each piece; `lead` is the time at which the first one was written.
fn piece_times(heard: &[(usize, u64, Timestamp)], exchange: usize, lead: Timestamp) -> Vec<Duration> {
    let mut times = Vec::new();
    for (index, bytes, at) in heard {
        while *index == exchange && (times.len() as u64 + 1) * PIECE <= *bytes {
            let written = lead + TYPING * u32::try_from(times.len()).expect("few pieces");
            times.push(*at - written);
        }
    }
    times
}

/// A tunnel (a terminal or WebSocket) during a download and during an upload: each piece is as fast as a
/// message.
#[test]
fn tunnel_stays_interactive() {
    let columns = ["link", "beside", "up p95 ms", "bar ms", "down p95 ms", "bar ms"];
    let mut table = Table::new("pieces of 64 bytes in a tunnel", &columns);
    let mut bars = Bars::default();
    for name in NAMES {
        let profile = links::named(name);
        for beside in ["nothing", "download", "upload"] {
            let mut tunnel = Exchange::tunnel(ESTABLISHED, KEYS, TYPING);
            tunnel.class = Priority::new(URGENT_CLASS);
            let mut plan = vec![tunnel];
            match beside {
                "download" => plan.push(bulk(BEGINS)),
                "upload" => plan.push(Exchange {
                    request: BULK,
                    class: Priority::new(BULK_CLASS),
                    ..Exchange::fetch(BEGINS, 4)
                }),
                _ => {}
            }
            let session = session(profile, plan);
            let runs = seeds::for_some("tunnel_stays_interactive", MOST_SEEDS, |seed| {
                let mut dumbbell = Dumbbell::new(&hop(profile), std::slice::from_ref(&session), &[], seed);
                complete(&mut dumbbell, &[(0, ESTABLISHED)]);
                let limit = dumbbell.now + Duration::from_secs(60);
                dumbbell.run_while(limit, |dumbbell| {
                    let gateway = &dumbbell.side(0, User::Gateway).application;
                    gateway.progress(0).done.is_none()
                });
                let opened = Timestamp::ZERO + ESTABLISHED;
                let gateway = &dumbbell.side(0, User::Gateway).application;
                let up = piece_times(&gateway.heard, 0, opened);
                let answered = gateway.progress(0).first_byte.expect("it answered");
                let down = piece_times(&dumbbell.side(0, User::Agent).application.heard, 0, answered);
                assert_eq!((up.len() as u64, down.len() as u64), (KEYS, KEYS));
                (p95(up), p95(down))
            });
            let up = runs.iter().map(|run| run.0).max().unwrap_or_default();
            let down = runs.iter().map(|run| run.1).max().unwrap_or_default();
            let one_way = profile.rtt() / 2 + target_queue(profile) * 2;
            let full_up = links::PACKET / profile.rate_up();
            // The queue of an upload is measured in packets of the uplink.
            let up_bar = one_way.max(profile.rtt() / 2 + full_up * 5)
                + ByteCount::new(PIECE + OVERHEAD) / profile.rate_up();
            let down_bar = one_way + ByteCount::new(PIECE + OVERHEAD) / profile.rate_down();
            table.row(&[
                name.to_owned(),
                beside.to_owned(),
                ms(up),
                ms(up_bar),
                ms(down),
                ms(down_bar),
            ]);
            let what = format!("{name}, tunnel beside {beside}");
            bars.within(&format!("{what}: up p95"), up, up_bar, 1.8);
            bars.within(&format!("{what}: down p95"), down, down_bar, 1.8);
        }
    }
    table.print();
    bars.settle("tunnel");
}

/// A page bundle during a download takes at most 1.3 times as long as alone.
#[test]
fn page_beside_a_bulk() {
    const MOST: f64 = 1.3;
    let mut table = Table::new(
        "bundle of 60 kB",
        &["link", "alone ms", "beside a bulk ms", "ratio"],
    );
    let mut bars = Bars::default();
    for name in NAMES {
        let profile = links::named(name);
        let runs = seeds::for_some("page_beside_a_bulk", MOST_SEEDS, |seed| {
            let page = urgent(ESTABLISHED, BUNDLE);
            let alone = session(profile, vec![page.clone()]);
            let beside = session(profile, vec![page, bulk(BEGINS)]);
            [alone, beside].map(|session| {
                let mut dumbbell = Dumbbell::new(&hop(profile), &[session], &[], seed);
                complete(&mut dumbbell, &[(0, ESTABLISHED)])[0]
            })
        });
        let [alone, beside] = [0, 1].map(|which| runs.iter().map(|run| run[which]).max().unwrap_or_default());
        let ratio = runs.iter().map(|run| run[1].as_secs_f64() / run[0].as_secs_f64());
        let ratio = ratio.fold(0.0, f64::max);
        table.row(&[name.to_owned(), ms(alone), ms(beside), format!("{ratio:.2}")]);
        bars.at_most(
            &format!("{name}: bundle beside a bulk, of alone"),
            ratio,
            MOST,
            1.7,
        );
    }
    table.print();
    bars.settle("page beside a bulk");
}

/// A cancelled download frees the link within a round trip, and at most a window of data follows.
#[test]
fn cancel_frees_the_link() {
    let columns = [
        "link",
        "last data sent after ms",
        "bar ms",
        "bytes sent meanwhile",
        "bar",
    ];
    let mut table = Table::new("a download is given up", &columns);
    let mut bars = Bars::default();
    for name in NAMES {
        let profile = links::named(name);
        let mut download = bulk(BEGINS);
        download.ending = Ending::AgentLeaves(ESTABLISHED - BEGINS);
        let session = session(profile, vec![download]);
        let runs = seeds::for_some("cancel_frees_the_link", MOST_SEEDS, |seed| {
            let mut dumbbell = Dumbbell::new(&hop(profile), std::slice::from_ref(&session), &[], seed);
            let left = Timestamp::ZERO + ESTABLISHED;
            dumbbell.run(left);
            let mut data = data_sent(&dumbbell);
            let (before, mut last) = (data, left);
            // Another exchange could start at once: the queues of both directions are checked after the
            // limit.
            let limit = left + profile.rtt() * 10 + Duration::from_secs(2);
            dumbbell.run_while(limit, |dumbbell| {
                let now = data_sent(dumbbell);
                if now > data {
                    data = now;
                    last = dumbbell.now;
                }
                true
            });
            let queued = dumbbell.hop.down().stats().queued.bytes;
            assert_eq!(queued, ByteCount::ZERO, "{name}: the link still has {queued}");
            (last - left, data - before)
        });
        let stopped = runs.iter().map(|run| run.0).max().unwrap_or_default();
        let wasted = runs.iter().map(|run| run.1).max().unwrap_or_default();
        let request = ByteCount::new(OVERHEAD) / profile.rate_up();
        let bar = profile.rtt() + request;
        let window = (profile.rate_down() * (profile.rtt() + target_queue(profile))).bytes();
        table.row(&[
            name.to_owned(),
            ms(stopped),
            ms(bar),
            wasted.to_string(),
            window.to_string(),
        ]);
        bars.within(&format!("{name}: last data after giving up"), stopped, bar, 1.0);
        bars.at_most(
            &format!("{name}: bytes after giving up"),
            wasted as f64,
            window as f64,
            window as f64,
        );
    }
    table.print();
    bars.settle("giving up");
}

/// Bytes of the gateway's packets that contain more than feedback.
fn data_sent(dumbbell: &Dumbbell) -> u64 {
    let stats = dumbbell.stats(0, User::Gateway);
    stats.bytes_sent - stats.feedback_bytes_sent
}
