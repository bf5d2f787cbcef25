use super::*;
use crate::congestion::CongestionParameters;

const FULL: ByteCount = ByteCount::new(1280);
const PATIENCE: f64 = 0.6;

fn at(seconds: f64) -> Timestamp {
    Timestamp::ZERO + Duration::from_secs_f64(seconds)
}

fn probe() -> RateProbe {
    let mut probe = RateProbe::new(&CongestionParameters::STANDARD.probing, Start::Pair);
    probe.on_resp(Some(at(1.0)), true);
    probe
}

fn estimate(finding: Option<Finding>) -> Option<Estimate> {
    match finding? {
        Finding::Estimate(estimate) => Some(estimate),
        Finding::NeedsTrain(_) | Finding::Doubt(_) => None,
    }
}

/// Result of a train of `requested` packets, of which `packets` arrive, for a told rate in byte/s.
fn verified(told: f64, rate: f64, requested: u8, packets: u32) -> Option<Finding> {
    let mut probe = RateProbe::new(&CongestionParameters::STANDARD.probing, Start::Told);
    probe.on_train_requested(requested);
    let stamp = Stamp::of(at(1.0));
    let findings: Vec<_> = (0..packets)
        .map(|number| at(1.3 + f64::from(number) * 1280.0 / rate))
        .filter_map(|now| probe.on_arrival(now, stamp, FULL, PATIENCE, told))
        .collect();
    assert!(findings.len() < 2, "a train has one result");
    let is_refuted = matches!(findings.first(), Some(Finding::Estimate(_)));
    assert_eq!(probe.state, if is_refuted { Start::Steady } else { Start::Told });
    findings.first().copied()
}

#[test]
fn a_pair_confirms_or_refutes_a_told_rate_that_it_can_measure() {
    for told in [24_000.0, 48_000.0, 90_000.0] {
        assert_eq!(verified(told, 48_000.0, 2, 2), None, "{told}");
    }
    for told in [4_800.0, 480_000.0] {
        let found = estimate(verified(told, 48_000.0, 2, 2)).expect("refuted");
        assert!(
            (found.capacity / (0.8 * 48_000.0) - 1.0).abs() < 1e-3,
            "{found:?}"
        );
        assert!(found.train.is_some(), "a train improves it");
    }
}

#[test]
fn a_train_verifies_rates_above_what_a_pair_can_measure() {
    assert_eq!(
        verified(2_500_000.0, 2_500_000.0, 2, 2),
        Some(Finding::NeedsTrain(32))
    );
    for packets in [32, 24] {
        assert_eq!(verified(1_500_000.0, 1_500_000.0, 32, packets), None);
        let found = estimate(verified(150_000.0, 1_500_000.0, 32, packets)).expect("refuted");
        assert!(found.capacity > 1_300_000.0, "{found:?}");
        assert!(estimate(verified(15_000_000.0, 1_500_000.0, 32, packets)).is_some());
    }
    assert_eq!(verified(150_000.0, 1_500_000.0, 32, 23), None, "too many lost");
    assert_eq!(
        verified(20_000_000.0, 50_000_000.0, 32, 32),
        None,
        "the shortest dispersion refutes only a lower rate"
    );
}

#[test]
fn packets_that_were_not_requested_do_not_refute_a_told_rate() {
    let mut probe = RateProbe::new(&CongestionParameters::STANDARD.probing, Start::Told);
    assert_eq!(train(&mut probe, 1.0, 32, 48_000.0), None);
    probe.on_train_requested(2);
    let short = ByteCount::new(100);
    for number in 0..4 {
        let now = at(1.0 + f64::from(number) * 0.001);
        let found = probe.on_arrival(now, Stamp::of(at(0.9)), short, PATIENCE, 480_000.0);
        assert_eq!(found, None);
    }
    let stamp = Stamp::of(at(1.1));
    let arrivals = [1.4, 1.4 + 1280.0 / 48_000.0].map(at);
    let found = arrivals.map(|now| probe.on_arrival(now, stamp, FULL, PATIENCE, 480_000.0));
    assert!(found[0].is_none() && found[1].is_some(), "{found:?}");
}

#[test]
fn two_packets_of_data_that_come_too_close_ask_for_a_train() {
    // Told rate, rate of the link, time between the two packets at the sender, packets of the train.
    for (told, rate, spacing, expected) in [
        (4_800.0, 48_000.0, 0.0, Some(4)),
        (20_000.0, 2_000_000.0, 0.0, Some(10)),
        (100_000.0, 2_000_000.0, 0.0, Some(32)),
        (30_000.0, 48_000.0, 0.0, None),
        (480_000.0, 48_000.0, 0.0, None),
        // The sender has spaced them, and the link still carried the second one in less time.
        (4_800.0, 48_000.0, 0.02, Some(4)),
    ] {
        let mut probe = RateProbe::new(&CongestionParameters::STANDARD.probing, Start::Told);
        probe.watch();
        let arrivals = [(1.3, 1.0), (1.3 + 1280.0 / rate, 1.0 + spacing)];
        let found =
            arrivals.map(|(now, sent)| probe.on_arrival(at(now), Stamp::of(at(sent)), FULL, PATIENCE, told));
        assert_eq!(
            found,
            [None, expected.map(Finding::Doubt)],
            "{told} {rate} {spacing}"
        );
    }
}

#[test]
fn after_a_train_is_requested_data_gives_no_further_doubt() {
    let mut probe = RateProbe::new(&CongestionParameters::STANDARD.probing, Start::Told);
    probe.watch();
    probe.on_train_requested(4);
    let found: Vec<_> = (0..2)
        .filter_map(|number| {
            probe.on_arrival(
                at(1.3 + f64::from(number) * 0.02),
                Stamp::of(at(1.0)),
                FULL,
                PATIENCE,
                4_800.0,
            )
        })
        .collect();
    assert_eq!(found, [], "the train is four packets long");
}

/// Packets sent at the same time over a link of `rate` byte/s.
fn train(probe: &mut RateProbe, from: f64, packets: u32, rate: f64) -> Option<f64> {
    let stamp = Stamp::of(at(from));
    let arrivals = (0..packets).map(|number| at(from + 0.3 + f64::from(number) * 1280.0 / rate));
    let estimates = arrivals.filter_map(|now| estimate(probe.on_arrival(now, stamp, FULL, PATIENCE, 0.0)));
    estimates.last().map(|estimate| estimate.capacity)
}

#[test]
fn the_packet_behind_the_resp_gives_the_rate_and_the_length_of_the_train() {
    // Rate of the link, its estimate, packets of the train.
    for (rate, estimated, packets) in [
        (4_950.0, 4_950.0, None),
        (49_000.0, 49_000.0, Some(6)),
        // The shortest dispersion limits the estimate.
        (2_500_000.0, 256_000.0, Some(32)),
    ] {
        let mut probe = probe();
        let arrival = at(1.0 + 1280.0 / rate);
        let finding = probe.on_arrival(arrival, Stamp::of(at(0.7)), FULL, PATIENCE, 0.0);
        let estimate = estimate(finding).expect("a pair");
        assert!(
            (estimate.capacity / (0.8 * estimated) - 1.0).abs() < 1e-3,
            "{estimate:?}"
        );
        assert_eq!(estimate.train, packets);
        assert_eq!(probe.state, Start::Steady);
    }
}

#[test]
fn a_train_gives_a_better_rate_also_with_losses() {
    for (rate, expected) in [(48_000.0, 43_200.0), (2_500_000.0, 2_250_000.0)] {
        for packets in [32, 30, 17] {
            let mut probe = probe();
            probe.on_arrival(at(1.03), Stamp::of(at(0.7)), FULL, PATIENCE, 0.0);
            probe.on_train_requested(32);
            let capacity = train(&mut probe, 2.0, packets, rate).expect("a train");
            assert!(capacity <= expected * 1.001, "{capacity} of {packets} packets");
            assert!(capacity >= 0.6 * expected, "{capacity} of {packets} packets");
        }
    }
}

#[test]
fn packets_that_the_sender_has_spaced_give_no_estimate() {
    let mut probe = probe();
    probe.on_arrival(at(1.03), Stamp::of(at(0.7)), FULL, PATIENCE, 0.0);
    for number in 0..200 {
        let sent = at(2.0 + f64::from(number) * 0.001);
        let estimate = probe.on_arrival(
            sent + Duration::from_millis(30),
            Stamp::of(sent),
            FULL,
            PATIENCE,
            0.0,
        );
        assert_eq!(estimate, None, "packet {number}");
    }
}

#[test]
fn a_gateway_without_support_leaves_slow_start() {
    let mut probe = RateProbe::new(&CongestionParameters::STANDARD.probing, Start::Pair);
    probe.on_resp(Some(at(1.0)), false);
    assert_eq!(probe.state, Start::SlowStart);
    assert_eq!(
        probe.on_arrival(at(1.1), Stamp::of(at(0.7)), FULL, PATIENCE, 0.0),
        None
    );
}

#[test]
fn a_short_packet_behind_the_resp_is_no_pair() {
    let mut probe = probe();
    assert_eq!(
        probe.on_arrival(at(1.1), Stamp::of(at(0.7)), ByteCount::new(200), PATIENCE, 0.0),
        None
    );
    assert!(
        train(&mut probe, 2.0, 10, 48_000.0).is_some(),
        "a first flight of data"
    );
}
