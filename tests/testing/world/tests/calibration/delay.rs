//! Round-trip times.
use longhaul_types::{BitRate, ByteCount};
use longhaul_world::{GATEWAY_ON_HOP, ORIGINS};

use crate::traffic::{
    PING_BYTES, both, build, config, link, machine, ms, percentile, ping, profile, wait, world,
};

#[test]
fn a_ping_over_the_fast_link_takes_its_delay() {
    let _machine = machine();
    let Some(world) = world(profile("lan-fast")) else {
        return;
    };
    let times = wait(ping(world.client(), GATEWAY_ON_HOP, 200));
    let (median, p95) = (percentile(&times, 50), percentile(&times, 95));
    let lateness = world.hop().take_lateness();
    eprintln!(
        "lan-fast, 200 pings: median {median:?}, p95 {p95:?}; packets late by {:?} (p95), {:?} (most)",
        lateness.percentile(95),
        lateness.max()
    );
    let expected = ms(5) + ByteCount::new(2 * PING_BYTES) / BitRate::kbps(100_000);
    assert!(median >= expected && median < expected + ms(2), "{median:?}");
    let snapshot = world.hop().snapshot();
    for direction in [snapshot.up, snapshot.down] {
        assert_eq!(direction.offered.packets, 200);
        assert_eq!(direction.offered.bytes.bytes(), 200 * PING_BYTES);
    }
}

#[test]
fn a_ping_takes_delay_and_serialisation_at_any_rate() {
    let _machine = machine();
    for (kbps, delay) in [(13, 100), (44, 75), (384, 125), (2_000, 150), (20_000, 0)] {
        let rate = BitRate::kbps(kbps);
        let Some(world) = world(both(link(rate, ms(delay), ByteCount::kb(100)))) else {
            return;
        };
        let times = wait(ping(world.client(), GATEWAY_ON_HOP, 3));
        let expected = ms(2 * delay) + ByteCount::new(2 * PING_BYTES) / rate;
        let median = percentile(&times, 50);
        assert!(
            median >= expected && median < expected + ms(2),
            "{kbps} kbit/s: {median:?} of {expected:?}"
        );
    }
}

#[test]
fn a_ping_to_the_origins_crosses_both_links() {
    let _machine = machine();
    let mut config = config(profile("lan-fast"));
    let rate = BitRate::kbps(10_000);
    config.internet = both(link(rate, ms(20), ByteCount::kb(100)));
    let Some(world) = build(config) else {
        return;
    };
    let times = wait(ping(world.client(), ORIGINS, 20));
    let on_hop = ms(5) + ByteCount::new(2 * PING_BYTES) / BitRate::kbps(100_000);
    let expected = on_hop + ms(40) + ByteCount::new(2 * PING_BYTES) / rate;
    let median = percentile(&times, 50);
    assert!(
        median >= expected && median < expected + ms(2),
        "{median:?} of {expected:?}"
    );
}
