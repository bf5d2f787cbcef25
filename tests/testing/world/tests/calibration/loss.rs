//! Packet loss, measured with UDP.
use longhaul_netem::{DropCause, Loss, Probability};
use longhaul_types::{BitRate, ByteCount};

use crate::traffic::{Way, blast, both, link, machine, ms, wait, world};

const COUNT: u32 = 3000;
/// Probability of both tails together.
const OUTSIDE: f64 = 0.001;

/// Returns the smallest and largest number of losses out of `count` whose tail has at most half of the
/// probability [`OUTSIDE`].
fn binomial_interval(count: u32, probability: f64) -> (u64, u64) {
    let (mut tail, mut low, mut high) = (0.0, 0, 0);
    let mut log_term = f64::from(count) * (1.0 - probability).ln();
    for lost in 0..=count {
        tail += log_term.exp();
        if tail < OUTSIDE / 2.0 {
            low = u64::from(lost) + 1;
        }
        if tail < 1.0 - OUTSIDE / 2.0 {
            high = u64::from(lost) + 1;
        }
        let step = f64::from(count - lost) / f64::from(lost + 1) * probability / (1.0 - probability);
        log_term += step.ln();
    }
    (low, high)
}

#[test]
fn the_binomial_interval_matches_the_normal_approximation() {
    // The normal approximation, 3.29 standard deviations around the mean, is accurate to one unit in this
    // range.
    let (low, high) = binomial_interval(3000, 0.2);
    let (mean, deviation) = (600.0, (3000.0_f64 * 0.2 * 0.8).sqrt());
    assert!((low as f64 - (mean - 3.29 * deviation)).abs() < 2.0, "{low}");
    assert!((high as f64 - (mean + 3.29 * deviation)).abs() < 3.0, "{high}");
}

#[test]
fn losses_are_within_their_binomial_interval() {
    let _machine = machine();
    for (per_mille, way) in [(30, Way::Down), (30, Way::Up), (200, Way::Up), (200, Way::Down)] {
        let mut lossy = link(BitRate::kbps(20_000), ms(5), ByteCount::kb(2000));
        let probability = Probability::per_mille(per_mille);
        lossy.loss = Loss::Random(probability);
        let Some(world) = world(both(lossy)) else { return };
        let arrivals = wait(blast(&world, way, COUNT, 300));
        let snapshot = world.hop().snapshot();
        let stats = if way == Way::Down {
            snapshot.down
        } else {
            snapshot.up
        };
        assert_eq!(stats.offered.packets, u64::from(COUNT));
        let lost = stats.dropped(DropCause::Loss).packets;
        assert_eq!(
            arrivals.len() as u64 + lost,
            u64::from(COUNT),
            "the kernel must not lose packets"
        );
        let (low, high) = binomial_interval(COUNT, probability.value());
        let seed = crate::traffic::SEED;
        eprintln!(
            "seed {seed}, {way:?}: {lost} of {COUNT} lost at {per_mille} per mille, {low} to {high} expected"
        );
        assert!((low..=high).contains(&lost));
    }
}
