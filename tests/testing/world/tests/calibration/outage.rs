//! Outages.
use longhaul_netem::{DropCause, HopConfig, LinkConfig, Outage, OutageSchedule, WhileOut};
use longhaul_types::{BitRate, ByteCount, Timestamp};

use crate::traffic::{Arrival, Way, blast, link, machine, measured, ms, wait};

const LEN: usize = 1000;
const COUNT: u32 = 60;
/// A rate at which a packet takes 8 ms.
const RATE: BitRate = BitRate::kbps(1_000);
const START: u64 = 200;
const LENGTH: u64 = 150;

fn hop(behaviour: WhileOut) -> HopConfig {
    let plain = link(RATE, ms(10), ByteCount::kb(100));
    let outages = OutageSchedule::new(vec![Outage {
        start: Timestamp::ZERO + ms(START),
        length: ms(LENGTH),
        behaviour,
    }])
    .unwrap();
    let down = LinkConfig {
        outages,
        ..plain.clone()
    };
    HopConfig::new(down, plain)
}

/// Returns the longest gap between two arrivals.
fn longest_gap(arrivals: &[Arrival]) -> std::time::Duration {
    arrivals
        .windows(2)
        .map(|pair| pair[1].at - pair[0].at)
        .max()
        .unwrap()
}

#[test]
fn a_holding_outage_delays_and_loses_nothing() {
    let _machine = machine();
    let measurement = measured(&hop(WhileOut::Hold), |world| {
        wait(blast(world, Way::Down, COUNT, LEN))
    });
    let Some((world, arrivals)) = measurement else {
        return;
    };
    assert_eq!(arrivals.len(), COUNT as usize);
    // The packet being sent at the start of the outage is finished afterwards.
    let gap = longest_gap(&arrivals);
    assert!(gap >= ms(LENGTH + 7) && gap < ms(LENGTH + 10), "{gap:?}");
    let took = arrivals[arrivals.len() - 1].at - arrivals[0].at;
    let expected = ByteCount::new(u64::from(COUNT - 1) * LEN as u64) / RATE + ms(LENGTH);
    assert!(took.abs_diff(expected) < ms(2), "{took:?} of {expected:?}");
    let (sent_all, end) = (world.hop().snapshot(), arrivals[arrivals.len() - 1].at);
    assert_eq!(sent_all.down.dropped_total().packets, 0);
    // The link was backlogged from the blast on; the outage does not count as busy.
    let busy = world.hop().busy_down(Timestamp::ZERO, end).unwrap();
    assert_eq!(busy, ByteCount::new(u64::from(COUNT) * LEN as u64) / RATE);
}

#[test]
fn a_dropping_outage_loses_packets_sent_during_it() {
    let _machine = machine();
    let measurement = measured(&hop(WhileOut::Drop), |world| {
        wait(blast(world, Way::Down, COUNT, LEN))
    });
    let Some((world, arrivals)) = measurement else {
        return;
    };
    let lost = u64::from(COUNT) - arrivals.len() as u64;
    // 150 ms are 18.75 packets: those whose transmission overlaps the outage, including one in part at either
    // end.
    assert!((19..=20).contains(&lost), "{lost}");
    assert_eq!(
        world.hop().snapshot().down.dropped(DropCause::Outage).packets,
        lost
    );
    let gap = longest_gap(&arrivals);
    let expected = ms(8 * (lost + 1));
    assert!(gap.abs_diff(expected) < ms(2), "{gap:?} of {expected:?}");
    let took = arrivals[arrivals.len() - 1].at - arrivals[0].at;
    let expected = ByteCount::new(u64::from(COUNT - 1) * LEN as u64) / RATE;
    assert!(took.abs_diff(expected) < ms(2), "{took:?} of {expected:?}");
}
