//! Readings of a link: counters, samples and lateness.
use longhaul_types::{BitRate, ByteCount, Timestamp};
use longhaul_world::{DriverCounters, GATEWAY_ON_HOP, Quiet};

use crate::traffic::{HELD, Way, blast, both, held, link, machine, ms, ping, profile, wait, world};

#[test]
fn an_unused_world_carries_no_packets() {
    let _machine = machine();
    let Some(world) = world(profile("lan-fast")) else {
        return;
    };
    for link in [world.hop(), world.internet()] {
        assert_eq!(wait(link.idle(ms(500), ms(5000))), Quiet::Reached);
        let snapshot = link.snapshot();
        assert_eq!(snapshot.down.offered.packets + snapshot.up.offered.packets, 0);
        assert_eq!(snapshot.driver, DriverCounters::default());
    }
}

#[test]
fn a_link_is_idle_once_its_last_packet_has_arrived() {
    let _machine = machine();
    let Some(world) = world(both(link(BitRate::kbps(80), ms(100), ByteCount::kb(20)))) else {
        return;
    };
    // Ten packets of 100 ms each.
    let arrivals = wait(blast(&world, Way::Down, 10, 1000));
    // The blast has waited for 20 ms without traffic. How much later it notices is up to the machine.
    let (last, now) = (arrivals[9].at, world.hop().now());
    assert!(now - last >= ms(20), "{:?}", now - last);
    assert_eq!(wait(world.hop().idle(ms(20), ms(5000))), Quiet::Reached);
    let sending = blast(&world, Way::Down, 10, 1000);
    let (_, quiet) = wait(async { tokio::join!(sending, world.hop().idle(ms(50), ms(300))) });
    assert_eq!(quiet, Quiet::LimitPassed);
}

#[test]
fn samples_show_the_queue_drain() {
    let _machine = machine();
    let Some(world) = world(held(both(link(BitRate::kbps(800), ms(10), ByteCount::kb(50))))) else {
        return;
    };
    world.hop().start_sampling(ms(10));
    // Thirty packets of 10 ms each, all of which are there before the link begins.
    let arrivals = wait(blast(&world, Way::Down, 30, 1000));
    let samples = world.hop().take_samples();
    let end = arrivals[29].at;
    let all = ByteCount::kb(30);
    // A busy machine may hold the sender back.
    let complete = samples.iter().filter(|sample| {
        sample.down_queued + sample.down_bytes_sent == all && sample.down_queued > ByteCount::ZERO
    });
    let during: Vec<_> = complete
        .filter(|sample| sample.at >= Timestamp::ZERO + HELD)
        .collect();
    if during.len() < 29 {
        eprintln!("SKIPPED: this machine is too busy to send 30 packets in {HELD:?}");
        return;
    }
    for pair in during.windows(2) {
        assert_eq!(pair[1].at - pair[0].at, ms(10));
        assert_eq!(pair[1].at.as_nanos() % 10_000_000, 0);
        assert_eq!(
            pair[1].down_bytes_sent - pair[0].down_bytes_sent,
            ByteCount::kb(1)
        );
        assert_eq!(pair[0].down_queued - pair[1].down_queued, ByteCount::kb(1));
    }
    let last = samples[samples.len() - 1];
    assert_eq!(
        (last.down_bytes_sent, last.down_queued),
        (ByteCount::kb(30), ByteCount::ZERO)
    );
    assert_eq!(last.up_bytes_sent, ByteCount::ZERO);
    assert_eq!(world.hop().busy_down(Timestamp::ZERO, end), Some(ms(300)));
    let (down, up) = world.hop().take_queueing_delays();
    assert_eq!((down.count(), up.count()), (30, 0));
    assert_eq!(world.hop().take_queueing_delays().0.count(), 0, "taken");
    assert_eq!(world.hop().take_lateness().count(), 30);
}

#[test]
fn a_corrupted_packet_is_delivered_and_fails_its_checksum() {
    let _machine = machine();
    let mut corrupting = link(BitRate::kbps(10_000), ms(1), ByteCount::kb(500));
    corrupting.corruption = longhaul_netem::Probability::ONE;
    let mut hop = both(corrupting);
    hop.up = link(BitRate::kbps(10_000), ms(1), ByteCount::kb(500));
    let Some(world) = world(hop) else { return };
    let arrivals = wait(blast(&world, Way::Down, 300, 200));
    let snapshot = world.hop().snapshot();
    assert_eq!(snapshot.down.corrupted.packets, 300);
    assert_eq!(snapshot.down.delivered.packets, 300);
    // An inverted bit could only hide if it made the checksum zero, which means that there is none (RFC 768);
    // no single bit does so here.
    assert_eq!(arrivals.len(), 0);
    // Four of each packet's 1600 bits, if inverted, make it invalid as an IPv4 packet. The kernel rejects
    // those, which is no error of the world.
    assert_eq!(snapshot.driver.fault, None);
}

#[test]
fn a_short_ping_is_counted_with_all_headers() {
    let _machine = machine();
    let Some(world) = world(profile("lan-fast")) else {
        return;
    };
    wait(ping(world.client(), GATEWAY_ON_HOP, 1));
    let (hop, internet) = (world.hop().snapshot(), world.internet().snapshot());
    assert_eq!(hop.up.delivered.bytes, ByteCount::new(84));
    assert_eq!(
        internet.up.offered.packets, 0,
        "the gateway's own address is on the hop"
    );
}
