use longhaul_netem::{Delivery, Link, Probability, Reordering};

use crate::probe::{Probe, at, config, ms, send_spaced};

fn numbers(arrived: &[Delivery<Probe>]) -> Vec<u64> {
    arrived.iter().map(|delivery| delivery.packet.number).collect()
}

#[test]
fn jitter_keeps_the_order_and_its_bounds() {
    for seed in 1..9 {
        let mut jittery = config(1_000_000);
        jittery.jitter = ms(20);
        let mut link = Link::new(jittery, seed);
        let arrived = send_spaced(&mut link, 20_000, ms(3));
        assert_eq!(numbers(&arrived), (0..20_000).collect::<Vec<_>>(), "seed {seed}");
        assert!(arrived.is_sorted_by_key(|delivery| delivery.arrived));
        for delivery in &arrived {
            let delay = delivery.arrived - delivery.sent - ms(10);
            assert!(delay <= ms(21), "seed {seed}: {delay:?}");
        }
    }
}

#[test]
fn jitter_of_packets_far_apart_is_uniform() {
    let mut jittery = config(1_000_000);
    jittery.jitter = ms(20);
    let mut link = Link::new(jittery, 4);
    let mut tenths = [0_u32; 10];
    for delivery in send_spaced(&mut link, 20_000, ms(50)) {
        let jitter = delivery.arrived - delivery.sent - ms(10);
        let tenth = usize::try_from(jitter.as_micros() / 2000).unwrap();
        tenths[tenth.min(9)] += 1;
    }
    for count in tenths {
        assert!(count.abs_diff(2000) < 250, "{tenths:?}");
    }
}

#[test]
fn the_share_of_detoured_packets_and_the_distance_are_as_configured() {
    for (max_distance, extra) in [(1, 1000), (3, 1000), (100, 25), (3, 2)] {
        let mut reordering = config(1_000_000);
        reordering.reordering = Some(Reordering {
            share: Probability::per_mille(50),
            extra_delay: ms(extra),
            max_distance,
        });
        let mut link = Link::new(reordering, 6);
        let arrived = send_spaced(&mut link, 20_000, ms(1));
        assert_eq!(arrived.len(), 20_000);
        let slowest = arrived
            .iter()
            .map(|delivery| delivery.arrived - delivery.sent)
            .max();
        assert!(
            slowest.is_some_and(|slowest| slowest <= ms(10 + extra + 1)),
            "{slowest:?}"
        );
        let detoured = link.stats().detoured.packets;
        assert!(detoured.abs_diff(1000) < 130, "{detoured} of 20000 at 5 %");

        let order = numbers(&arrived);
        let mut position = vec![0; order.len()];
        for (place, number) in order.iter().enumerate() {
            position[usize::try_from(*number).unwrap()] = place;
        }
        // Only detoured packets are overtaken, by at most the distance and by at most the number that fits
        // into the additional delay.
        let window = usize::try_from(max_distance.min(extra)).unwrap();
        let mut overtaken = 0;
        for (number, place) in position.iter().enumerate() {
            let later = position.iter().skip(number + 1).take(300);
            let overtakers = later.filter(|other| *other < place).count();
            assert!(
                overtakers <= window,
                "packet {number} was overtaken by {overtakers}"
            );
            overtaken += u64::from(overtakers > 0);
        }
        assert!(
            overtaken <= detoured && overtaken * 10 >= detoured * 8,
            "{overtaken} of {detoured}"
        );
    }
}

#[test]
fn a_distance_of_zero_reorders_nothing() {
    let mut reordering = config(1_000_000);
    reordering.reordering = Some(Reordering {
        share: Probability::ONE,
        extra_delay: ms(100),
        max_distance: 0,
    });
    let arrived = send_spaced(&mut Link::new(reordering, 6), 100, ms(1));
    assert_eq!(numbers(&arrived), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_late_poll_returns_packets_in_the_same_order() {
    let run = |extra: u64, gap: u64| {
        let mut reordering = config(1_000_000);
        reordering.delay = ms(0);
        reordering.jitter = ms(1);
        reordering.reordering = Some(Reordering {
            share: Probability::per_mille(300),
            extra_delay: ms(extra),
            max_distance: 4,
        });
        let mut link = Link::new(reordering, 9);
        let mut arrived = Vec::new();
        for number in 0..5000 {
            let now = at(number);
            link.enqueue(now, Probe::new(number, 1000));
            if number % gap == 0 {
                arrived.extend(std::iter::from_fn(|| link.poll_deliver(now)));
            }
        }
        arrived.extend(std::iter::from_fn(|| link.poll_deliver(at(100_000))));
        arrived
    };
    // Packets that are released by the distance, and packets that are released by the time.
    for extra in [7, 3] {
        assert_eq!(run(extra, 1), run(extra, 701));
    }
}
