use longhaul_netem::{Capacity, DropCause, Enqueued, Link, LinkConfig};
use longhaul_types::{BitRate, ByteCount, Timestamp};

use crate::probe::{Probe, at, config, drain, ms};

#[test]
fn a_saturated_link_delivers_its_rate_within_one_percent() {
    for kbps in [13, 40, 384, 12_000, 100_000] {
        for len in [40, 576, 1280] {
            let mut link = Link::new(config(kbps), 1);
            let mut queued = 0;
            while link.enqueue(Timestamp::ZERO, Probe::new(queued, len)) == Enqueued::Accepted {
                queued += 1;
            }
            let arrived = drain(&mut link);
            assert_eq!(arrived.len() as u64, queued);
            let (first, last) = (arrived[0].arrived, arrived[arrived.len() - 1].arrived);
            let rate = BitRate::of(ByteCount::new((queued - 1) * len), last - first);
            let error = rate.as_bps().abs_diff(kbps * 1000);
            assert!(
                error * 100 <= kbps * 1000,
                "{rate} instead of {kbps} kbit/s at {len} B"
            );
            // All packets were enqueued at zero, so the link was busy from then until the last packet left.
            assert_eq!(link.busy_between(at(0), last), Some(last - at(10)));
        }
    }
}

#[test]
fn a_single_packet_takes_serialisation_plus_delay() {
    let mut link = Link::new(config(40), 1);
    link.enqueue(at(7), Probe::new(0, 1000));
    let arrived = drain(&mut link);
    assert_eq!(arrived[0].sent, at(7));
    assert_eq!(arrived[0].arrived, at(7 + 200 + 10));
    assert_eq!(link.busy_between(at(0), at(1000)), Some(ms(200)));
    assert_eq!(link.busy_between(at(107), at(150)), Some(ms(43)));
}

#[test]
fn the_queue_bound_is_exact_and_counts_the_packet_in_service() {
    let mut limited = config(8);
    limited.queue = ByteCount::new(3000);
    let mut link = Link::new(limited, 1);
    for number in 0..3 {
        assert_eq!(link.enqueue(at(0), Probe::new(number, 1000)), Enqueued::Accepted);
    }
    let full = Enqueued::Dropped(DropCause::QueueFull);
    assert_eq!(link.enqueue(at(0), Probe::new(3, 1)), full);
    assert_eq!(
        link.enqueue(at(999), Probe::new(4, 1)),
        full,
        "the first is still being sent"
    );
    assert_eq!(link.enqueue(at(1000), Probe::new(5, 1001)), full);
    assert_eq!(link.enqueue(at(1000), Probe::new(6, 1000)), Enqueued::Accepted);
    assert_eq!(link.stats().queued.bytes, ByteCount::new(3000));
    assert_eq!(link.stats().queued_max, ByteCount::new(3000));
    assert_eq!(link.stats().dropped(DropCause::QueueFull).packets, 3);
    let numbers: Vec<_> = drain(&mut link)
        .iter()
        .map(|delivery| delivery.packet.number)
        .collect();
    assert_eq!(numbers, [0, 1, 2, 6]);
    assert_eq!(link.queueing_delays().max(), ms(2000));
    assert_eq!(link.queueing_delays().count(), 4);
}

#[test]
fn idle_time_does_not_accumulate_capacity() {
    let mut link = Link::new(config(8), 1);
    link.enqueue(at(0), Probe::new(0, 10));
    link.enqueue(at(5000), Probe::new(1, 10));
    link.enqueue(at(5000), Probe::new(2, 10));
    let arrivals: Vec<_> = drain(&mut link).iter().map(|delivery| delivery.arrived).collect();
    assert_eq!(arrivals, [at(20), at(5020), at(5030)]);
    assert_eq!(link.busy_between(at(0), at(10_000)), Some(ms(30)));
    assert_eq!(link.capacity_between(at(0), at(10_000)), ByteCount::kb(10));
}

#[test]
fn late_polls_change_only_the_time_of_delivery() {
    let run = |polls: &[u64]| {
        let mut link = Link::new(config(80), 3);
        let mut arrivals = Vec::new();
        for number in 0..20 {
            link.enqueue(at(number * 150), Probe::new(number, 1000));
        }
        for poll in polls {
            while let Some(delivery) = link.poll_deliver(at(*poll)) {
                arrivals.push((delivery.packet.number, delivery.arrived));
            }
        }
        arrivals
    };
    let steps: Vec<_> = (0..10_000).collect();
    assert_eq!(run(&steps), run(&[100_000]));
}

#[test]
fn a_packet_above_the_mtu_is_dropped() {
    let mut small = config(80);
    small.mtu = Some(ByteCount::new(576));
    let mut link = Link::new(small, 1);
    let too_large = Enqueued::Dropped(DropCause::TooLarge);
    assert_eq!(link.enqueue(at(0), Probe::new(0, 577)), too_large);
    assert_eq!(link.enqueue(at(0), Probe::new(1, 576)), Enqueued::Accepted);
}

#[test]
fn a_link_of_rate_zero_announces_no_event() {
    let stuck = LinkConfig::new(Capacity::Rate(BitRate::bps(0)), ms(0), ByteCount::kb(1));
    let mut link = Link::new(stuck, 1);
    link.enqueue(at(0), Probe::new(0, 1000));
    assert_eq!(link.next_event(), None);
    assert!(link.poll_deliver(at(1_000_000)).is_none());
}
