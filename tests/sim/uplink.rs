//! Downloads whose feedback shares the uplink with an upload of the same session, of another session, or of
//! TCP.
//!
//! The targets are those of a download with an idle uplink (target 1). A TCP upload fills the uplink's
//! buffer, so that feedback waits for seconds; a session cannot shorten that queue.
use std::time::Duration;

use longhaul_netem::{HopConfig, Side as End};
use longhaul_types::Timestamp;

use crate::{
    application::User,
    dumbbell::{Dumbbell, ENDLESS, Rival, Session, Watched},
    links::{self, Knowledge},
    plan::Exchange,
    report::{Bars, Table, ms, percent},
    seeds,
    tcp::Congestion,
};

const MOST_SEEDS: u64 = 2;
const BULK: u64 = 1 << 40;
/// Start of the upload.
const JOINS: Duration = Duration::from_secs(5);

/// Target 1: utilisation of the downlink, and 95th percentile of the queue in seconds.
fn bar_1(link: &str) -> (f64, Option<f64>) {
    match link {
        "gprs-3+1" => (0.92, Some(1.0)),
        "umts-384" => (0.95, Some(0.230)),
        "geo-sat" => (0.95, Some(0.270)),
        _ => (0.95, None),
    }
}

/// A link with its limits.
struct Case {
    link: &'static str,
    upload: Upload,
    used_limit: f64,
    queue_limit: f64,
    stalls_limit: f64,
}

const fn case(
    link: &'static str,
    upload: Upload,
    used_limit: f64,
    queue_limit: f64,
    stalls_limit: f64,
) -> Case {
    Case {
        link,
        upload,
        used_limit,
        queue_limit,
        stalls_limit,
    }
}

const CASES: [Case; 12] = [
    case("gprs-3+1", Upload::Own, 0.45, 2.20, 0.0),
    case("gprs-3+1", Upload::Session, 0.40, 2.20, 0.0),
    case("gprs-3+1", Upload::Cubic, 0.05, 2.00, 2.0),
    case("umts-384", Upload::Own, 0.50, 0.90, 0.0),
    case("umts-384", Upload::Session, 0.48, 0.80, 0.0),
    case("umts-384", Upload::Cubic, 0.04, 0.50, 2.0),
    case("lte", Upload::Own, 0.75, 1.00, 0.0),
    case("lte", Upload::Session, 0.73, 1.00, 0.0),
    case("lte", Upload::Cubic, 0.20, 1.00, 0.0),
    case("geo-sat", Upload::Own, 0.75, 0.27, 0.0),
    case("geo-sat", Upload::Session, 0.75, 0.27, 0.0),
    case("geo-sat", Upload::Cubic, 0.45, 0.27, 0.0),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upload {
    /// An upload of the session with the download.
    Own,
    /// An upload of another session.
    Session,
    /// An upload of TCP.
    Cubic,
}

fn dumbbell(hop: &HopConfig, name: &str, upload: Upload, seed: u64) -> Dumbbell {
    let profile = Knowledge::Known.of(links::named(name));
    let mut up = Exchange::fetch(JOINS, 4);
    up.request = BULK;
    let mut download = Session::bulk(profile);
    let mut sessions = Vec::new();
    let mut rivals = Vec::new();
    match upload {
        Upload::Own => download.plan.push(up),
        Upload::Session => sessions.push(Session::new(profile, vec![up])),
        Upload::Cubic => rivals.push(Rival {
            congestion: Congestion::Cubic,
            starts: JOINS,
            lasts: ENDLESS,
            sender: End::Client,
        }),
    }
    sessions.insert(0, download);
    Dumbbell::new(hop, &sessions, &rivals, seed)
}

/// Measurements of a download and its uplink.
struct Run {
    down: Watched,
    /// Bytes sent on the uplink, relative to its capacity.
    up_used: f64,
    up_queue: Duration,
    stalls: u64,
}

fn run(name: &str, upload: Upload, seed: u64) -> Run {
    let profile = links::named(name);
    let fast = profile.rate_down().as_bps() > 1_000_000;
    let [from, to] = if fast { [15, 35] } else { [30, 90] }.map(Duration::from_secs);
    let hop = HopConfig::from(profile);
    let mut dumbbell = dumbbell(&hop, name, upload, seed);
    dumbbell.run(Timestamp::ZERO + from);
    dumbbell.hop.take_queueing_delays(End::Gateway);
    let before = dumbbell.hop.up().stats().sent.bytes;
    let down = dumbbell.watch(from, to);
    let sent = dumbbell.hop.up().stats().sent.bytes - before;
    let closed = &dumbbell.side(0, User::Agent).closed;
    assert!(closed.is_none(), "{name}, {upload:?}: {closed:?}");
    Run {
        down,
        up_used: sent.bytes() as f64 / (profile.rate_up() * (to - from)).bytes() as f64,
        up_queue: dumbbell.hop.take_queueing_delays(End::Gateway).percentile(95),
        stalls: dumbbell.stats(0, User::Gateway).stalls,
    }
}

#[test]
fn feedback_beside_an_upload() {
    const COLUMNS: [&str; 7] = [
        "link",
        "upload",
        "downlink used",
        "queue p95 ms",
        "stalls",
        "uplink used",
        "uplink's queue p95 ms",
    ];
    let mut table = Table::new("download beside an upload", &COLUMNS);
    let mut bars = Bars::default();
    for case in CASES {
        let (name, upload) = (case.link, case.upload);
        let runs = seeds::for_some("feedback_beside_an_upload", MOST_SEEDS, |seed| {
            run(name, upload, seed)
        });
        let most = |of: fn(&Run) -> f64| runs.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        let least = -most(|run| -run.down.utilisation);
        let queue = most(|run| run.down.queue_p95.as_secs_f64());
        let stalls = most(|run| run.stalls as f64);
        table.row(&[
            name.to_owned(),
            format!("{upload:?}"),
            percent(least),
            ms(Duration::from_secs_f64(queue)),
            format!("{stalls}"),
            percent(-most(|run| -run.up_used)),
            ms(Duration::from_secs_f64(most(|run| run.up_queue.as_secs_f64()))),
        ]);
        let what = format!("{name}, upload {upload:?}");
        let (used_bar, queue_bar) = bar_1(name);
        bars.at_least(
            &format!("{what}: share of the downlink"),
            least,
            used_bar,
            case.used_limit,
        );
        if let Some(bar) = queue_bar {
            bars.at_most(&format!("{what}: queue p95 in s"), queue, bar, case.queue_limit);
        }
        bars.at_most(&format!("{what}: stalls"), stalls, 0.0, case.stalls_limit);
    }
    table.print();
    bars.settle("download beside an upload");
}
