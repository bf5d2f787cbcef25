use longhaul_netem::{DropCause, Enqueued, Link, Outage, OutageSchedule, WhileOut};
use longhaul_types::ByteCount;

use crate::probe::{Probe, at, config, drain, ms};

/// A link that sends a packet of 1000 bytes in 100 ms, with an outage from 250 ms to 1250 ms.
fn link(behaviour: WhileOut, queue: u64) -> Link<Probe> {
    let mut config = config(80);
    config.queue = ByteCount::new(queue);
    let outage = Outage {
        start: at(250),
        length: ms(1000),
        behaviour,
    };
    config.outages = OutageSchedule::new(vec![outage]).unwrap();
    Link::new(config, 1)
}

fn arrivals(link: &mut Link<Probe>) -> Vec<(u64, u64)> {
    let arrived = drain(link);
    arrived
        .iter()
        .map(|delivery| (delivery.packet.number, delivery.arrived.as_nanos() / 1_000_000))
        .collect()
}

#[test]
fn a_hold_keeps_the_queue_and_continues_the_packet_in_service() {
    let mut link = link(WhileOut::Hold, 10_000);
    for number in 0..4 {
        link.enqueue(at(0), Probe::new(number, 1000));
    }
    assert_eq!(arrivals(&mut link), [(0, 110), (1, 210), (2, 1310), (3, 1410)]);
    link.advance(at(3000));
    assert_eq!(
        link.busy_between(at(0), at(3000)),
        Some(ms(400)),
        "held time is not busy"
    );
    assert_eq!(link.busy_between(at(300), at(1200)), Some(ms(0)));
}

#[test]
fn a_packet_enqueued_during_a_hold_is_sent_after_it() {
    let mut link = link(WhileOut::Hold, 10_000);
    link.enqueue(at(600), Probe::new(0, 1000));
    assert_eq!(arrivals(&mut link), [(0, 1360)]);
    assert_eq!(link.queueing_delays().max(), ms(650));
}

#[test]
fn the_queue_bound_holds_during_a_hold() {
    let mut link = link(WhileOut::Hold, 2000);
    let outcomes = [300, 400, 500].map(|time| link.enqueue(at(time), Probe::new(time, 1000)));
    let full = Enqueued::Dropped(DropCause::QueueFull);
    assert_eq!(outcomes, [Enqueued::Accepted, Enqueued::Accepted, full]);
    assert_eq!(arrivals(&mut link), [(300, 1360), (400, 1460)]);
}

#[test]
fn a_dropping_outage_loses_packets_whose_transmission_overlaps_it() {
    let mut link = link(WhileOut::Drop, 100_000);
    for number in 0..15 {
        link.enqueue(at(0), Probe::new(number, 1000));
    }
    // Packet 2 is half sent when the outage begins, packet 12 when it ends.
    assert_eq!(arrivals(&mut link), [(0, 110), (1, 210), (13, 1410), (14, 1510)]);
    assert_eq!(link.stats().dropped(DropCause::Outage).packets, 11);
}
