//! The same load on a disturbed link: under losses, with a short buffer, behind a policer, and beside TCP.
use longhaul_netem::{Policer, Side as End};

use super::*;
use crate::{
    application::User,
    dumbbell::{Cubic, Dumbbell, Session},
    links::PACKET,
};

/// Changes of the hop under which the measurement errs.
fn disturbances(profile: Profile) -> Vec<(&'static str, HopConfig, Option<Duration>)> {
    let plain = HopConfig::from(profile);
    let mut lossy = plain.clone();
    links::lose(&mut lossy, 0.03);
    let mut short = plain.clone();
    short.down.queue = ByteCount::new(16_000);
    // The bucket passes the train and the first page at the rate of the link.
    let mut policed = plain.clone();
    policed.down.policer = Some(Policer {
        rate: BitRate::bps(profile.rate_down().as_bps() / 2),
        burst: ByteCount::new(48 * PACKET.bytes()),
    });
    vec![
        ("3 % loss", lossy, None),
        ("16 kB buffer", short, None),
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
fn cubic_in_the_train() {
    const AFTER: Duration = Duration::from_secs(20);
    let mut table = Table::new(
        "88 kB beside TCP, on an unknown link",
        &["link", "told s", "measured s", "ratio"],
    );
    let mut bars = Bars::default();
    for name in ["umts-384", "lte", "geo-sat"] {
        let profile = links::named(name);
        let mut hop = HopConfig::from(profile);
        let product = (profile.rate_down() * profile.rtt()).bytes();
        hop.down.queue = ByteCount::new(product.max(20 * PACKET.bytes()));
        let rival = Cubic {
            starts: Duration::ZERO,
            sender: End::Gateway,
        };
        let asked = profile.rtt() * 4;
        let time = |knowledge: Knowledge| {
            let times = seeds::for_some("cubic_in_the_train", MOST_SEEDS, |seed| {
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
            seconds(told),
            seconds(measured),
            format!("{:.2}", measured / told),
        ]);
        bars.at_most(&format!("{name}: of a told session"), measured / told, 1.5, 2.0);
    }
    table.print();
    bars.settle("TCP in the train");
}
