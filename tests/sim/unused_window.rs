//! A session that uses a small part of its window, while another sender fills the queue for a while. The cut of the
//! window must not hold for as long as the unused window would have taken to arrive.
use std::time::Duration;

use longhaul_netem::{HopConfig, Loss, Side as End};
use longhaul_types::{ByteCount, Timestamp};

use crate::{
    application::User,
    dumbbell::{Dumbbell, Rival, Session},
    links::{self, Knowledge},
    plan::Exchange,
    report::{Bars, Table, median_and_worst, ms, percent},
    seeds,
    tcp::Congestion,
};

const MOST_SEEDS: u64 = 8;
/// Small responses, of one packet, at this interval: a chat, or the updates of a page.
const INTERVAL: Duration = Duration::from_millis(200);
const SMALL: u64 = 700;
/// Another sender's TCP connection.
const JOINS: Duration = Duration::from_secs(3);
const LASTS: Duration = Duration::from_secs(3);
/// Start of a download, when the queue of TCP has left the link.
const DOWNLOAD: Duration = Duration::from_millis(8_500);
/// Time of the link that the download takes.
const LENGTH: Duration = Duration::from_secs(3);

/// Links with the least share of the rate that the download must reach.
const CASES: [(&str, f64); 4] = [
    ("umts-384", 0.52),
    ("lte", 0.6),
    ("wlan-lossy", 0.6),
    ("geo-sat", 0.6),
];

struct Run {
    /// W before the download.
    window: ByteCount,
    /// Goodput of the download, in shares of the rate.
    goodput: f64,
    took: Duration,
}

fn run(name: &str, seed: u64) -> Run {
    let profile = links::named(name);
    let mut hop = HopConfig::from(profile);
    hop.down.loss = Loss::Never;
    hop.up.loss = Loss::Never;
    let bytes = (profile.rate_down() * LENGTH).bytes();
    let shift = INTERVAL * u32::try_from(seed).expect("few seeds") / 8;
    let mut plan = vec![Exchange::fetch(DOWNLOAD + shift, bytes)];
    let mut at = Duration::ZERO;
    while at < DOWNLOAD {
        plan.push(Exchange::fetch(at, SMALL));
        at += INTERVAL;
    }
    let session = Session::new(Knowledge::Known.of(profile), plan);
    let rival = Rival {
        congestion: Congestion::Cubic,
        starts: JOINS,
        lasts: LASTS,
        sender: End::Gateway,
    };
    let mut dumbbell = Dumbbell::new(&hop, &[session], &[rival], seed);
    let begin = Timestamp::ZERO + DOWNLOAD + shift;
    dumbbell.run(begin);
    let window = dumbbell.stats(0, User::Agent).window;
    let done = |dumbbell: &Dumbbell| dumbbell.side(0, User::Agent).application.progress(0).done;
    let limit = begin + LENGTH * 30;
    dumbbell.run_while(limit, |dumbbell| done(dumbbell).is_none());
    let took = done(&dumbbell).unwrap_or(limit) - begin;
    Run {
        window,
        goodput: LENGTH.as_secs_f64() / took.as_secs_f64(),
        took,
    }
}

#[test]
fn a_cut_of_an_unused_window_does_not_delay_a_download() {
    const COLUMNS: [&str; 5] = ["link", "W before", "goodput", "worst", "took ms"];
    let mut table = Table::new("a download after a cut of an unused window", &COLUMNS);
    let mut bars = Bars::default();
    for (name, limit) in CASES {
        let runs = seeds::for_some("a_cut_of_an_unused_window", MOST_SEEDS, |seed| run(name, seed));
        let worst = runs.iter().map(|run| run.goodput).fold(f64::INFINITY, f64::min);
        let (median, _) = median_and_worst(runs.iter().map(|run| run.goodput).collect());
        let (took, _) = median_and_worst(runs.iter().map(|run| run.took.as_secs_f64()).collect());
        let (window, _) = median_and_worst(runs.iter().map(|run| run.window.bytes() as f64).collect());
        table.row(&[
            name.to_owned(),
            format!("{window:.0}"),
            percent(median),
            percent(worst),
            ms(Duration::from_secs_f64(took)),
        ]);
        bars.at_least(&format!("{name}: goodput"), median, limit, limit);
    }
    table.print();
    bars.settle("a cut of an unused window");
}
