//! The same load on a disturbed link: under losses, with a short buffer, behind a policer or CoDel, beside TCP, and beside
//! another start.
use longhaul_netem::{Codel, Policer, Side as End};

use super::*;
use crate::{
    application::User,
    dumbbell::{Dumbbell, ENDLESS, Rival, Session},
    links::PACKET,
    tcp::Congestion,
};

/// Changes of the hop under which the measurement errs.
fn disturbances(profile: Profile) -> Vec<(&'static str, HopConfig, Option<Duration>)> {
    let plain = HopConfig::from(profile);
    let mut lossy = plain.clone();
    links::lose(&mut lossy, 0.03);
    let mut short = plain.clone();
    short.down.queue = ByteCount::new(16_000);
    let mut longer = plain.clone();
    longer.down.queue = ByteCount::new(32_000);
    let mut codel = plain.clone();
    codel.down.codel = Some(Codel::RFC_8289);
    // The bucket passes the train and the first page at the rate of the link.
    let mut policed = plain.clone();
    policed.down.policer = Some(Policer {
        rate: BitRate::bps(profile.rate_down().as_bps() / 2),
        burst: ByteCount::new(48 * PACKET.bytes()),
    });
    vec![
        ("3 % loss", lossy, None),
        ("16 kB buffer", short, None),
        ("32 kB buffer", longer, None),
        ("CoDel", codel, None),
        ("policer", policed, None),
        ("bunches of 4 ms", plain, Some(Duration::from_millis(4))),
    ]
}

#[test]
fn disturbed_measurements() {
    const COLUMNS: [&str; 8] = [
        "link",
        "disturbance",
        "asked",
        "told s",
        "slow start s",
        "measured s",
        "ratio",
        "lost, told / measured",
    ];
    let mut table = Table::new("88 kB on a disturbed unknown link", &COLUMNS);
    let mut bars = Bars::default();
    for name in ["umts-384", "dialup", "lte", "geo-sat", "wlan-lossy"] {
        let profile = links::named(name);
        for (disturbance, hop, bunching) in disturbances(profile) {
            for asked in [0, 2] {
                let with = |knowledge, probing| {
                    let load = Load::new(&hop, profile, knowledge, asked);
                    let load = Load {
                        probing,
                        bunching,
                        ..load
                    };
                    load.measure("disturbed_measurements")
                };
                let (told, _, told_lost) = with(Knowledge::Known, Probing::Both);
                let (slow_start, ..) = with(Knowledge::Unknown, Probing::Neither);
                let (measured, _, lost) = with(Knowledge::Unknown, Probing::Both);
                table.row(&[
                    name.to_owned(),
                    disturbance.to_owned(),
                    asked.to_string(),
                    seconds(told),
                    seconds(slow_start),
                    seconds(measured),
                    format!("{:.2}", measured / told),
                    format!("{} / {}", percent(told_lost), percent(lost)),
                ]);
                let what = format!("{name}, {disturbance}, asked after {asked} RTT");
                judge(&mut bars, &what, name, measured, told.max(slow_start), 1.15, 1.6);
            }
        }
    }
    table.print();
    bars.settle("disturbed measurements");
}

/// A TCP connection fills the buffer while the train crosses the link.
#[test]
fn tcp_in_the_train() {
    const AFTER: Duration = Duration::from_secs(20);
    let mut table = Table::new(
        "88 kB beside TCP, on an unknown link",
        &["link", "TCP", "told s", "measured s", "ratio"],
    );
    let mut bars = Bars::default();
    let rivals = [Congestion::Cubic, Congestion::Bbr];
    let cases = ["umts-384", "lte", "geo-sat"].map(|name| rivals.map(|congestion| (name, congestion)));
    for (name, congestion) in cases.into_iter().flatten() {
        let profile = links::named(name);
        let mut hop = HopConfig::from(profile);
        let product = (profile.rate_down() * profile.rtt()).bytes();
        hop.down.queue = ByteCount::new(product.max(20 * PACKET.bytes()));
        let rival = Rival {
            congestion,
            starts: Duration::ZERO,
            lasts: ENDLESS,
            sender: End::Gateway,
        };
        let asked = profile.rtt() * 4;
        let time = |knowledge: Knowledge| {
            let times = seeds::for_some("tcp_in_the_train", MOST_SEEDS, |seed| {
                let plan = vec![Exchange::fetch(asked, PAGE)];
                let session = Session::new(knowledge.of(profile), plan).starting(AFTER);
                let mut dumbbell = Dumbbell::new(&hop, &[session], &[rival], seed);
                let loaded = |dumbbell: &Dumbbell| {
                    let application = &dumbbell.side(0, User::Agent).application;
                    application.progress(0).done.is_none()
                };
                assert!(dumbbell.run_while(LIMIT, loaded), "{name}: no page");
                (dumbbell.now - (Timestamp::ZERO + AFTER + asked)).as_secs_f64()
            });
            median_and_worst(times).0
        };
        let (told, measured) = (time(Knowledge::Known), time(Knowledge::Unknown));
        table.row(&[
            name.to_owned(),
            format!("{congestion:?}"),
            seconds(told),
            seconds(measured),
            format!("{:.2}", measured / told),
        ]);
        let what = format!("{name}, {congestion:?}: of a told session");
        bars.at_most(&what, measured / told, 1.5, 2.0);
    }
    table.print();
    bars.settle("TCP in the train");
}

/// Seeds of two starts at once: the losses of a single one move the median of five by a fifth.
const STARTS: u64 = 25;

/// Two agents that know nothing start at once on one link, as after an outage, and each loads a page: their pairs and
/// trains cross. Compared with two agents that are told the link, by the later page.
#[test]
fn two_starts_at_once() {
    let mut table = Table::new(
        "two pages of 88 kB on one unknown link",
        &[
            "link",
            "asked after RTT",
            "told s",
            "measured s",
            "ratio",
            "the other s",
        ],
    );
    let mut bars = Bars::default();
    for name in ["gprs-3+1", "umts-384", "lte", "geo-sat", "wlan-lossy"] {
        let profile = links::named(name);
        let hop = HopConfig::from(profile);
        for rtts in [0, 4] {
            let asked = profile.rtt() * rtts;
            let times = |knowledge: Knowledge| {
                let runs = seeds::for_some("two_starts_at_once", STARTS, |seed| {
                    let session = || Session::new(knowledge.of(profile), vec![Exchange::fetch(asked, PAGE)]);
                    let mut dumbbell = Dumbbell::new(&hop, &[session(), session()], &[], seed);
                    let mut done = [None; 2];
                    while done.contains(&None) {
                        let is_loading = |dumbbell: &Dumbbell, flow: usize| {
                            let application = &dumbbell.side(flow, User::Agent).application;
                            application.progress(0).done.is_none()
                        };
                        let waiting: Vec<_> = (0..2).filter(|flow| done[*flow].is_none()).collect();
                        let goes_on =
                            |dumbbell: &Dumbbell| waiting.iter().all(|flow| is_loading(dumbbell, *flow));
                        assert!(dumbbell.run_while(LIMIT, goes_on), "{name}: no page");
                        for flow in waiting.iter().filter(|flow| !is_loading(&dumbbell, **flow)) {
                            done[*flow] = Some((dumbbell.now - (Timestamp::ZERO + asked)).as_secs_f64());
                        }
                    }
                    let [one, other] = done.map(|time| time.expect("both pages are complete"));
                    (one.max(other), one.min(other))
                });
                let later = median_and_worst(runs.iter().map(|run| run.0).collect()).0;
                (later, median_and_worst(runs.iter().map(|run| run.1).collect()).0)
            };
            let ((told, _), (measured, earlier)) = (times(Knowledge::Known), times(Knowledge::Unknown));
            table.row(&[
                name.to_owned(),
                rtts.to_string(),
                seconds(told),
                seconds(measured),
                format!("{:.2}", measured / told),
                seconds(earlier),
            ]);
            let what = format!("{name}, asked after {rtts} RTT: the later of two pages");
            bars.at_most(&what, measured / told, 1.15, 1.15);
        }
    }
    table.print();
    bars.settle("two starts at once");
}
