//! Packet drops before the link for other reasons than the bound of its queue.
use longhaul_netem::{Codel, DropCause, Enqueued, Link, Policer};
use longhaul_types::{BitRate, ByteCount};

use crate::probe::{Probe, at, config, drain, ms};

#[test]
fn a_policer_admits_its_burst_and_its_rate() {
    let mut policed = config(100_000);
    policed.policer = Some(Policer {
        rate: BitRate::kbps(800),
        burst: ByteCount::new(5000),
    });
    let mut link = Link::new(policed, 1);
    let mut offer = |time, number| link.enqueue(at(time), Probe::new(number, 1000)) == Enqueued::Accepted;
    // The bucket begins full and holds five packets.
    assert_eq!((0..8).filter(|number| offer(0, *number)).count(), 5);
    // The tokens of a packet take 10 ms.
    assert!(!offer(9, 8) && offer(10, 9) && !offer(19, 10));
    // After a long pause it holds five packets again, not more.
    assert_eq!((11..30).filter(|number| offer(1000, *number)).count(), 5);
    // With an offered load of ten times its rate, it admits its rate.
    assert_eq!(
        (0..10_000)
            .filter(|number| offer(1000 + number, 100 + number))
            .count(),
        999
    );
    while link.poll_deliver(at(20_000)).is_some() {}
    assert_eq!(link.stats().delivered.packets, 5 + 1 + 5 + 999);
    let refused = link.stats().dropped(DropCause::Policed).packets;
    assert_eq!(
        refused,
        link.stats().offered.packets - link.stats().delivered.packets
    );
}

/// Offers a link of 8 Mbit/s (a packet per millisecond) a load in packets per 10 ms for 20 s.
fn codel_drops(packets_per_10_ms: u64) -> (u64, Link<Probe>) {
    let mut managed = config(8_000);
    managed.codel = Some(Codel::RFC_8289);
    let mut link = Link::new(managed, 1);
    for step in 0..2000 {
        for packet in 0..packets_per_10_ms {
            link.enqueue(at(step * 10), Probe::new(step * 100 + packet, 1000));
        }
        while link.poll_deliver(at(step * 10)).is_some() {}
    }
    (link.stats().dropped(DropCause::Codel).packets, link)
}

#[test]
fn codel_drops_nothing_from_a_queue_that_empties() {
    let (drops, link) = codel_drops(10);
    assert_eq!(drops, 0, "bursts of 10 ms that drain are not a standing queue");
    assert!(link.queueing_delays().max() >= ms(9));
}

#[test]
fn codel_increases_its_drop_rate_for_a_standing_queue() {
    let (drops, link) = codel_drops(11);
    // An overload of a tenth is 2000 packets in 20 s; without CoDel they would fill the queue of 1 MB.
    assert!(drops > 900, "{drops}");
    assert_eq!(link.stats().dropped(DropCause::QueueFull).packets, 0);
    assert!(
        link.queueing_delays().max() < ms(1000),
        "{:?}",
        link.queueing_delays().max()
    );
}

#[test]
fn codel_drops_at_the_times_of_rfc_8289() {
    // The first drop happens an interval after the target was first exceeded, the next 100 ms later, then
    // after 100 / sqrt(2) ms, 100 / sqrt(3) ms and so on.
    let mut managed = config(800);
    managed.codel = Some(Codel::RFC_8289);
    let mut link = Link::new(managed, 1);
    for number in 0..200 {
        link.enqueue(at(0), Probe::new(number, 1000));
    }
    let arrived = drain(&mut link);
    let numbers: Vec<_> = arrived.iter().map(|delivery| delivery.packet.number).collect();
    let gaps: Vec<_> = (0..45).filter(|number| !numbers.contains(number)).collect();
    // A packet takes 10 ms, so packet n leaves the queue at 10 n ms, and 10 ms earlier for each drop ahead of
    // it. Packet 1 is the first above the target, at 10 ms. Drops are due at 110, 210, 280.7, 338.4 and 388.4
    // ms.
    assert_eq!(gaps, [11, 22, 31, 37, 43]);
}
