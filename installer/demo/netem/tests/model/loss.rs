use longhaul_netem::{Arq, DropCause, GilbertElliott, Link, Loss, Probability};
use longhaul_types::{BitRate, ByteCount};

use crate::probe::{Probe, at, config, drain, ms, send_spaced};

const SEEDS: std::ops::Range<u64> = 1..9;

/// Returns for each of `count` packets whether a link with this loss delivers it.
fn delivered(loss: Loss, seed: u64, count: u64) -> Vec<bool> {
    let mut lossy = config(1_000_000);
    lossy.loss = loss;
    let mut link = Link::new(lossy, seed);
    let mut arrived = vec![false; usize::try_from(count).unwrap()];
    for delivery in send_spaced(&mut link, count, ms(1)) {
        arrived[usize::try_from(delivery.packet.number).unwrap()] = true;
    }
    let lost = arrived.iter().filter(|arrived| !**arrived).count() as u64;
    assert_eq!(link.stats().dropped(DropCause::Loss).packets, lost);
    arrived
}

#[test]
fn random_loss_is_within_its_binomial_interval() {
    let count = 100_000;
    for per_mille in [1, 30, 200] {
        for seed in SEEDS {
            let probability = Probability::per_mille(per_mille);
            let arrived = delivered(Loss::Random(probability), seed, count);
            let lost = arrived.iter().filter(|arrived| !**arrived).count() as f64;
            let (mean, p) = (count as f64 * probability.value(), probability.value());
            let deviation = (mean * (1.0 - p)).sqrt();
            let off = (lost - mean).abs() / deviation;
            assert!(
                off < 4.0,
                "seed {seed}: {lost} lost at {p}, {off:.1} standard deviations away"
            );
        }
    }
}

#[test]
fn random_losses_are_independent() {
    // The share of losses after a loss equals the share of losses.
    let arrived = delivered(Loss::Random(Probability::per_mille(200)), 5, 200_000);
    let (after_loss, pairs) = arrived.windows(2).fold((0_u32, 0_u32), |(after, pairs), pair| {
        (
            after + u32::from(!pair[0]),
            pairs + u32::from(!pair[0] && !pair[1]),
        )
    });
    let share = f64::from(pairs) / f64::from(after_loss);
    assert!((share - 0.2).abs() < 0.01, "{share}");
}

#[test]
fn bursts_have_the_mean_loss_and_length_of_their_chain() {
    let model = GilbertElliott {
        p_gb: Probability::per_mille(10),
        p_bg: Probability::per_mille(200),
        loss_good: Probability::ZERO,
        loss_bad: Probability::ONE,
    };
    assert!((model.mean_loss() - 1.0 / 21.0).abs() < 1e-12);
    for seed in SEEDS {
        let arrived = delivered(Loss::Bursts(model), seed, 200_000);
        let lost = arrived.iter().filter(|arrived| !**arrived).count() as f64;
        let bursts = arrived.windows(2).filter(|pair| pair[0] && !pair[1]).count() as f64;
        let (share, length) = (lost / arrived.len() as f64, lost / bursts);
        let off = (share / model.mean_loss() - 1.0).abs();
        assert!(off < 0.15, "seed {seed}: loss {share}");
        assert!((4.5..5.5).contains(&length), "seed {seed}: bursts of {length}");
    }
}

#[test]
fn a_lost_packet_occupies_the_link() {
    let mut lossy = config(8);
    lossy.loss = Loss::Random(Probability::ONE);
    let mut link = Link::new(lossy, 1);
    link.enqueue(at(0), Probe::new(0, 1000));
    assert!(drain(&mut link).is_empty());
    link.advance(at(5000));
    assert_eq!(link.busy_between(at(0), at(5000)), Some(ms(1000)));
    assert_eq!(link.stats().sent.packets, 1);
}

#[test]
fn arq_delivers_in_order_and_uses_capacity() {
    for seed in SEEDS {
        let mut radio = config(256);
        radio.queue = ByteCount::kb(100_000);
        radio.arq = Some(Arq {
            frame_loss: Probability::per_mille(200),
            frame_size: ByteCount::new(320),
            repair_delay: ms(150),
            max_transmissions: 32,
        });
        let mut link = Link::new(radio, seed);
        for number in 0..5000 {
            link.enqueue(at(0), Probe::new(number, 1280));
        }
        let arrived = drain(&mut link);
        let numbers: Vec<_> = arrived.iter().map(|delivery| delivery.packet.number).collect();
        assert_eq!(numbers, (0..5000).collect::<Vec<_>>(), "seed {seed}");
        let rate = BitRate::of(ByteCount::new(5000 * 1280), arrived[4999].arrived - at(0));
        let error = rate.as_bps().abs_diff(256_000 * 8 / 10);
        assert!(error < 4_096, "seed {seed}: {rate} instead of 204.8 kbit/s");
    }
}

#[test]
fn arq_discards_a_packet_after_the_last_transmission() {
    let mut dead = config(256);
    dead.arq = Some(Arq {
        frame_loss: Probability::ONE,
        frame_size: ByteCount::new(320),
        repair_delay: ms(150),
        max_transmissions: 3,
    });
    let mut link = Link::new(dead, 1);
    link.enqueue(at(0), Probe::new(0, 640));
    assert!(drain(&mut link).is_empty());
    link.advance(at(1000));
    assert_eq!(link.stats().dropped(DropCause::Arq).packets, 1);
    assert_eq!(
        link.busy_between(at(0), at(1000)),
        Some(ms(60)),
        "each frame three times"
    );
}

#[test]
fn a_probability_is_a_number_from_zero_to_one() {
    for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert!(Probability::new(wrong).is_err(), "{wrong}");
    }
    assert_eq!(Probability::new(0.03).unwrap(), Probability::per_mille(30));
    assert_eq!(Probability::per_mille(2000), Probability::ONE);
}

#[test]
fn lose_after_loses_exactly_the_selected_packet() {
    let lost_at = |bytes: u64| {
        let mut link = Link::new(config(1_000_000), 1);
        link.lose_after(at(0), ByteCount::new(bytes));
        let arrived = send_spaced(&mut link, 6, ms(1));
        assert_eq!(arrived.len(), 5, "exactly one packet is lost");
        assert_eq!(link.stats().dropped(DropCause::Loss).packets, 1);
        let arrived: Vec<_> = arrived.iter().map(|delivery| delivery.packet.number).collect();
        (0..6).find(|number| !arrived.contains(number)).unwrap()
    };
    // Packets have 1000 bytes: the third one is the one that reaches 2500 bytes.
    assert_eq!(lost_at(0), 0);
    assert_eq!(lost_at(1000), 0);
    assert_eq!(lost_at(1001), 1);
    assert_eq!(lost_at(2500), 2);
    // The second call replaces the first, and its number of bytes is never reached.
    let mut link = Link::new(config(1_000_000), 1);
    link.lose_after(at(0), ByteCount::ZERO);
    link.lose_after(at(0), ByteCount::new(u64::MAX));
    assert_eq!(send_spaced(&mut link, 6, ms(1)).len(), 6);
}
