use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::wire::feedback::MAX_GAPS;

const SRTT: Duration = Duration::from_millis(400);
const PACKET: Duration = Duration::from_millis(5);

fn at(ms: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(ms)
}

fn numbers(list: &GapList) -> BTreeSet<u64> {
    list.gaps.iter().flat_map(|gap| gap.range.clone()).collect()
}

#[test]
fn a_gap_waits_for_the_delay_or_for_later_packets() {
    let mut list = GapList::default();
    list.on_packet(at(0), 0);
    assert_eq!(list.on_packet(at(1), 2), Arrival::OpenedGap);
    assert!(list.has_news());
    assert_eq!(list.report(MAX_GAPS).pending.len(), 1);
    assert!(!list.has_news());
    assert_eq!(list.declare(at(50), SRTT, PACKET), 0);
    assert_eq!(list.next_declaration(SRTT, PACKET), Some(at(51)));
    assert_eq!(list.declare(at(51), SRTT, PACKET), 1);
    assert!(list.has_news());
    assert_eq!(list.report(MAX_GAPS).declared.len(), 1);

    for pn in [4, 5, 6] {
        list.on_packet(at(60), pn);
    }
    assert_eq!(list.declare(at(60), SRTT, PACKET), 0);
    list.on_packet(at(60), 7);
    assert_eq!(list.declare(at(60), SRTT, PACKET), 1);
    assert_eq!(list.on_packet(at(61), 3), Arrival::Spurious);
    assert!(list.tolerance() > 3, "it adapts to what was seen");
    list.forward(3);
    assert_eq!(list.count(), 0);
    assert_eq!((list.lost(), list.spurious()), (1, 1));
}

#[test]
fn after_a_stall_loss_declarations_are_delayed() {
    let mut list = GapList::default();
    list.on_packet(at(0), 0);
    list.on_packet(at(5000), 9);
    list.be_patient(at(5050));
    for pn in 10..20 {
        list.on_packet(at(5001), pn);
    }
    assert_eq!(list.declare(at(5049), SRTT, PACKET), 0);
    assert_eq!(list.next_declaration(SRTT, PACKET), Some(at(5050)));
    assert_eq!(list.declare(at(5050), SRTT, PACKET), 8);
}

#[test]
fn memory_is_bounded() {
    let mut list = GapList::default();
    for pn in 0..20_000 {
        list.on_packet(at(pn), pn * 2);
    }
    assert_eq!(list.count(), MAX_GAPS_KEPT);
    assert_eq!(list.on_packet(at(30_000), 50_000), Arrival::Refused);
    list.forward(1000);
    assert_eq!(list.on_packet(at(30_000), 50_000), Arrival::OpenedGap);
}

proptest! {
    /// Compares the list with a naive set of received numbers: after any arrivals, declarations and
    /// FORWARDs the gaps are exactly the missing numbers between floor and largest, with declared gaps
    /// first.
    #[test]
    fn behaves_as_a_naive_set(ops in prop::collection::vec((0u8..10, 0u64..60), 1..150)) {
        let mut list = GapList::default();
        let mut seen = BTreeSet::new();
        let mut floor = 0;
        let mut now = 0;
        for (op, value) in ops {
            match op {
                0..8 => {
                    let fresh = value >= floor && seen.insert(value);
                    let arrival = list.on_packet(at(now), value);
                    prop_assert_eq!(fresh, arrival != Arrival::Old, "{} {:?}", value, arrival);
                }
                8 => {
                    now += value;
                    list.declare(at(now), SRTT, PACKET);
                }
                _ => {
                    let to = value.min(seen.last().copied().unwrap_or(0));
                    list.forward(to);
                    floor = floor.max(to);
                }
            }
            let largest = seen.last().copied();
            let expected: BTreeSet<u64> = largest
                .map_or(floor..floor, |l| floor..l)
                .filter(|pn| !seen.contains(pn))
                .collect();
            prop_assert_eq!(&numbers(&list), &expected);
            prop_assert_eq!(list.gaps.iter().filter(|g| g.declared).count(), list.declared);
            prop_assert!(list.gaps.iter().skip(list.declared).all(|g| !g.declared));
            let gaps = list.report(MAX_GAPS);
            if list.count() <= MAX_GAPS {
                let told: BTreeSet<u64> = gaps.ranges(largest.unwrap_or(0)).flat_map(|(_, r)| r).collect();
                prop_assert_eq!(&told, &expected);
            }
            prop_assert!(!list.has_news());
        }
    }
}
