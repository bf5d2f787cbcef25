use longhaul_netem::{Capacity, Enqueued, Hop, HopConfig, Link, Loss, Probability, Profile, Side};
use longhaul_types::{BitRate, ByteCount, LinkProfile, Timestamp};

use crate::probe::{Probe, drain};

/// The benchmark's table: name, kbit/s down and up, delay and jitter in ms, queue in kB down and up.
const TABLE: [(&str, f64, f64, f64, f64, u64, u64); 12] = [
    ("gprs-3+1", 39.6, 13.4, 300.0, 60.0, 120, 60),
    ("gprs-class6", 34.5, 13.4, 400.0, 60.0, 120, 60),
    ("edge", 200.0, 60.0, 220.0, 40.0, 120, 60),
    ("cdma-1x", 144.0, 64.0, 200.0, 20.0, 100, 50),
    ("umts-384", 384.0, 64.0, 125.0, 10.0, 120, 60),
    ("umts-dch256", 256.0, 256.0, 75.0, 0.0, 120, 120),
    ("lte", 12000.0, 5000.0, 30.0, 3.0, 500, 300),
    ("geo-sat", 20000.0, 2000.0, 300.0, 2.0, 1500, 150),
    ("leo-sat", 100_000.0, 15000.0, 25.0, 10.0, 1000, 300),
    ("wlan-lossy", 20000.0, 20000.0, 30.0, 0.0, 300, 300),
    ("dialup", 44.0, 31.0, 75.0, 0.0, 16, 16),
    ("lan-fast", 100_000.0, 100_000.0, 2.5, 0.0, 1000, 1000),
];

fn bps(kbps: f64) -> BitRate {
    format!("{kbps}kbit/s").parse().unwrap()
}

#[test]
fn profiles_match_the_table_of_the_benchmark() {
    let names: Vec<_> = TABLE.iter().map(|row| row.0).collect();
    assert_eq!(Profile::names().collect::<Vec<_>>(), names);
    for (name, down, up, delay, jitter, queue_down, queue_up) in TABLE {
        let profile = Profile::named(name).unwrap();
        assert_eq!(profile.name(), name);
        for (link, rate, queue) in [(profile.down(), down, queue_down), (profile.up(), up, queue_up)] {
            assert_eq!(link.capacity, Capacity::Rate(bps(rate)), "{name}");
            assert_eq!(link.delay.as_secs_f64() * 1000.0, delay, "{name}");
            assert_eq!(link.jitter.as_secs_f64() * 1000.0, jitter, "{name}");
            assert_eq!(link.queue, ByteCount::kb(queue), "{name}");
            let loss = if name == "wlan-lossy" {
                Loss::Random(Probability::per_mille(30))
            } else {
                Loss::Never
            };
            assert_eq!(link.loss, loss, "{name}");
        }
    }
    let dch = Profile::named("umts-dch256").unwrap();
    assert_eq!(dch.down().arq.unwrap().frame_loss, Probability::per_mille(200));
    assert_eq!(dch.up().arq.unwrap().frame_loss, Probability::per_mille(100));
    assert_eq!(
        Profile::all()
            .filter(|profile| profile.down().arq.is_some())
            .count(),
        1
    );
}

#[test]
fn the_product_has_the_same_profiles() {
    assert_eq!(
        LinkProfile::names().collect::<Vec<_>>(),
        Profile::names().collect::<Vec<_>>()
    );
    for profile in Profile::all() {
        let known: LinkProfile = profile.name().parse().unwrap();
        assert_eq!(known.down, profile.rate_down(), "{}", profile.name());
        assert_eq!(known.up, profile.rate_up(), "{}", profile.name());
        assert_eq!(known.rtt, profile.rtt(), "{}", profile.name());
    }
}

#[test]
fn an_unknown_profile_error_lists_the_known_profiles() {
    let error = Profile::named("5g").unwrap_err().to_string();
    assert!(error.contains("`5g`") && error.contains("gprs-3+1, "), "{error}");
}

#[test]
fn each_profile_delivers_its_rate_within_one_percent() {
    for profile in Profile::all() {
        for link in [profile.down(), profile.up()] {
            let Capacity::Rate(rate) = link.capacity else {
                panic!("a profile has a rate")
            };
            // ARQ retransmissions reduce the rate: the tests of loss calibrate the remainder.
            if link.arq.is_some() {
                continue;
            }
            let mut link = Link::new(link, 7);
            let mut now = Timestamp::ZERO;
            let end = now + std::time::Duration::from_secs(600);
            let mut number = 0;
            while now < end && number < 100_000 {
                let room = link.config().queue - link.stats().queued.bytes;
                if room >= ByteCount::new(1280) {
                    assert_eq!(link.enqueue(now, Probe::new(number, 1280)), Enqueued::Accepted);
                    number += 1;
                    continue;
                }
                now += ByteCount::new(2560) / rate;
                while link.poll_deliver(now).is_some() {}
            }
            let measured = BitRate::of(link.stats().sent.bytes, now - Timestamp::ZERO);
            let error = measured.as_bps().abs_diff(rate.as_bps());
            assert!(
                error * 100 <= rate.as_bps(),
                "{}: {measured} of {rate}",
                profile.name()
            );
            drain(&mut link);
        }
    }
}

#[test]
fn each_profile_has_its_round_trip_time_within_two_milliseconds() {
    for profile in Profile::all() {
        let mut config = HopConfig::from(profile);
        for link in [&mut config.down, &mut config.up] {
            // Only the propagation delay is measured, without loss and repair.
            link.loss = Loss::Never;
            link.arq = None;
        }
        let mut hop = Hop::new(config, 3);
        let mut now = Timestamp::ZERO;
        let rounds = 4000;
        let mut total = std::time::Duration::ZERO;
        for number in 0..rounds {
            let start = now;
            hop.send(now, Side::Client, Probe::new(number, 1));
            now = hop.next_event().unwrap();
            let up = loop {
                match hop.poll_gateway(now) {
                    Some(up) => break up,
                    None => now = hop.next_event().unwrap(),
                }
            };
            hop.send_to_client(now, up.from, Probe::new(number, 1));
            while hop.poll_client(now).is_none() {
                now = hop.next_event().unwrap();
            }
            total += now - start;
        }
        let mean = total / u32::try_from(rounds).unwrap();
        let error = mean.abs_diff(profile.rtt());
        assert!(
            error.as_secs_f64() < 0.002,
            "{}: {mean:?} of {:?}",
            profile.name(),
            profile.rtt()
        );
    }
}
