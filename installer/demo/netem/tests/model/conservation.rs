//! Random links with random traffic: the counters balance, and the same seed gives the same run.
use longhaul_netem::{
    Capacity, Codel, DeliveryTrace, GilbertElliott, Link, LinkConfig, LinkStats, Loss, Outage,
    OutageSchedule, Policer, Probability, Reordering, WhileOut,
};
use longhaul_types::{BitRate, ByteCount, Timestamp};
use proptest::prelude::*;

use crate::probe::{Probe, at, drain, ms};

fn capacity() -> impl Strategy<Value = Capacity> {
    prop_oneof![
        (1_u64..20_000).prop_map(|kbps| Capacity::Rate(BitRate::kbps(kbps))),
        proptest::collection::vec(0_u32..200, 1..20).prop_map(|mut times| {
            times.push(200);
            times.sort_unstable();
            let text = times.iter().map(|time| format!("{time}\n")).collect::<String>();
            Capacity::Trace(DeliveryTrace::parse(&text).unwrap())
        }),
    ]
}

fn loss() -> impl Strategy<Value = Loss> {
    let probability = || (0_u16..=1000).prop_map(Probability::per_mille);
    prop_oneof![
        Just(Loss::Never),
        probability().prop_map(Loss::Random),
        (probability(), probability(), probability(), probability()).prop_map(
            |(p_gb, p_bg, loss_good, loss_bad)| Loss::Bursts(GilbertElliott {
                p_gb,
                p_bg,
                loss_good,
                loss_bad,
            })
        ),
    ]
}

prop_compose! {
    fn outages()(gaps in proptest::collection::vec((0_u64..300, 1_u64..300, any::<bool>()), 0..4)) -> OutageSchedule {
        let mut start = 0;
        let outages = gaps.into_iter().map(|(gap, length, hold)| {
            start += gap;
            let behaviour = if hold { WhileOut::Hold } else { WhileOut::Drop };
            let outage = Outage { start: at(start), length: ms(length), behaviour };
            start += length;
            outage
        });
        OutageSchedule::new(outages.collect()).unwrap()
    }
}

prop_compose! {
    fn config()(
        capacity in capacity(),
        delays in (0_u64..300, 0_u64..100),
        queue in 500_u64..20_000,
        loss in loss(),
        shares in (0_u16..300, 0_u16..300, 0_u16..300),
        detour in (0_u64..200, 0_u64..10),
        outages in outages(),
        mtu in proptest::option::of(500_u64..1500),
        codel in any::<bool>(),
        policer in proptest::option::of((10_u64..2000, 1_u64..5000)),
    ) -> LinkConfig {
        let mut config = LinkConfig::new(capacity, ms(delays.0), ByteCount::new(queue));
        config.jitter = ms(delays.1);
        config.loss = loss;
        config.duplication = Probability::per_mille(shares.0);
        config.corruption = Probability::per_mille(shares.1);
        config.reordering = Some(Reordering {
            share: Probability::per_mille(shares.2),
            extra_delay: ms(detour.0),
            max_distance: detour.1,
        });
        config.outages = outages;
        config.mtu = mtu.map(ByteCount::new);
        config.codel = codel.then_some(Codel::RFC_8289);
        config.policer = policer.map(|(kbps, burst)| Policer {
            rate: BitRate::kbps(kbps),
            burst: ByteCount::new(burst),
        });
        config
    }
}

fn assert_conserved(stats: &LinkStats) -> Result<(), TestCaseError> {
    let dropped = stats.dropped_total();
    prop_assert_eq!(
        stats.offered.packets + stats.duplicated.packets,
        stats.delivered.packets + dropped.packets + stats.queued.packets + stats.in_flight.packets
    );
    prop_assert_eq!(
        stats.offered.bytes + stats.duplicated.bytes,
        stats.delivered.bytes + dropped.bytes + stats.queued.bytes + stats.in_flight.bytes
    );
    Ok(())
}

/// Runs the traffic (gap in ms and length of each packet) and returns the arrivals and the hash of events.
fn run(
    config: &LinkConfig,
    seed: u64,
    traffic: &[(u64, u64)],
) -> Result<(Vec<(u64, Timestamp)>, u64), TestCaseError> {
    let mut link = Link::new(config.clone(), seed);
    let mut now = Timestamp::ZERO;
    let mut arrived = Vec::new();
    for (number, (gap, len)) in (0..).zip(traffic) {
        now += ms(*gap);
        // The contract of the model: poll at each event before the next packet.
        while let Some(event) = link.next_event().filter(|event| *event <= now) {
            arrived.extend(std::iter::from_fn(|| link.poll_deliver(event)));
        }
        link.enqueue(now, Probe::new(number, *len));
        prop_assert!(link.stats().queued.bytes <= config.queue);
        assert_conserved(link.stats())?;
    }
    arrived.extend(drain(&mut link));
    // A loss at the end of serialisation announces no event.
    link.advance(now + ms(10_000_000));
    assert_conserved(link.stats())?;
    prop_assert_eq!(link.stats().queued.packets, 0);
    prop_assert_eq!(link.stats().in_flight.packets, 0);
    prop_assert!(arrived.is_sorted_by_key(|delivery| delivery.arrived));
    let arrived = arrived
        .iter()
        .map(|delivery| (delivery.packet.number, delivery.arrived))
        .collect();
    Ok((arrived, link.event_hash()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packets_are_conserved_and_runs_are_reproducible(
        config in config(),
        seed: u64,
        traffic in proptest::collection::vec((0_u64..30, 1_u64..1600), 1..150),
    ) {
        let first = run(&config, seed, &traffic)?;
        prop_assert_eq!(&first, &run(&config, seed, &traffic)?);
    }
}

#[test]
fn another_seed_gives_another_hash() {
    let mut lossy = crate::probe::config(800);
    lossy.loss = Loss::Random(Probability::per_mille(100));
    let traffic: Vec<_> = (0..500).map(|number| (10, 100 + number)).collect();
    let hashes: Vec<_> = (0..20)
        .map(|seed| run(&lossy, seed, &traffic).unwrap().1)
        .collect();
    let distinct: std::collections::BTreeSet<_> = hashes.iter().collect();
    assert_eq!(distinct.len(), hashes.len());
}
