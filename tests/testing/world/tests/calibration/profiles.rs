//! The benchmark's profiles, measured with ICMP and UDP. The model's own tests check their rates and delays
//! more precisely, in virtual time; here jitter and the short measurement affect the results.
use std::{thread, time::Duration};

use longhaul_netem::{Capacity, LinkConfig, Profile};
use longhaul_types::{BitRate, ByteCount};
use longhaul_world::GATEWAY_ON_HOP;

use crate::traffic::{Arrival, PING_BYTES, Way, blast, held, machine, measured, ms, percentile, ping, wait};

const LEN: u64 = 528;

fn rate(link: &LinkConfig) -> BitRate {
    match link.capacity {
        Capacity::Rate(rate) => rate,
        Capacity::Trace(_) => panic!("a profile has a rate"),
    }
}

/// Maximum time that the link layer's retransmissions add to one packet.
fn repairs(link: &LinkConfig) -> Duration {
    link.arq.map_or(Duration::ZERO, |arq| {
        arq.repair_delay * (arq.max_transmissions - 1)
    })
}

/// Checks one profile's RTT and rates. Returns the text to print, or `None` without a world.
fn check(profile: Profile) -> Option<String> {
    let (down, up) = (profile.down(), profile.up());
    let (_, (arrived_down, arrived_up, times)) = measured(&held(profile.into()), |world| {
        let blasts = async {
            tokio::join!(
                blast(world, Way::Down, packets(&down), 528),
                blast(world, Way::Up, packets(&up), 528)
            )
        };
        let (down, up) = wait(blasts);
        (down, up, wait(ping(world.client(), GATEWAY_ON_HOP, 3)))
    })?;
    let rates = (
        check_rate(&arrived_down, profile, Way::Down, &down),
        check_rate(&arrived_up, profile, Way::Up, &up),
    );
    let least = down.delay
        + up.delay
        + ByteCount::new(PING_BYTES) / rate(&down)
        + ByteCount::new(PING_BYTES) / rate(&up);
    let most = least + down.jitter + up.jitter + repairs(&down) + repairs(&up);
    let median = percentile(&times, 50);
    let name = profile.name();
    assert!(
        median >= least && median < most + ms(2),
        "{name}: {median:?} outside {least:?} to {most:?}"
    );
    Some(format!("{name:12} ping {median:?}, {}, {}", rates.0, rates.1))
}

/// About the packets of a second, as far as the queue accepts them.
fn packets(link: &LinkConfig) -> u32 {
    let count = (rate(link).as_bps() / 8 / LEN)
        .clamp(3, 1000)
        .min(link.queue.bytes() / LEN);
    u32::try_from(count).unwrap()
}

fn check_rate(arrivals: &[Arrival], profile: Profile, way: Way, link: &LinkConfig) -> String {
    let rate = rate(link);
    let (first, last) = (arrivals[0], arrivals[arrivals.len() - 1]);
    let crossed = ByteCount::new(u64::from(last.number - first.number) * LEN);
    let (took, expected) = (last.at - first.at, crossed / rate);
    // ARQ's retransmissions occupy the link: the remaining rate is lower, by a share that a short blast only
    // estimates.
    let repeated = link.arq.map_or(0.0, |arq| 2.0 * arq.frame_loss.value());
    let slack = expected.mul_f64(0.01 + repeated) + link.jitter + repairs(link) + ms(1);
    assert!(
        took.abs_diff(expected) < slack,
        "{} {way:?}: {crossed:?} in {took:?} instead of {expected:?}",
        profile.name()
    );
    format!(
        "{way:?} {:.1} of {rate}",
        BitRate::of(crossed, took).as_bps() as f64 / 1000.0
    )
}

#[test]
fn each_profile_has_its_rtt_and_rates() {
    let _machine = machine();
    // The slow ones in parallel, because they mostly wait; the fast ones one after the other.
    let (slow, fast): (Vec<_>, Vec<_>) =
        Profile::all().partition(|profile| profile.rate_down() < BitRate::kbps(50_000));
    let mut lines: Vec<_> = thread::scope(|scope| {
        let checks: Vec<_> = slow
            .into_iter()
            .map(|profile| scope.spawn(move || check(profile)))
            .collect();
        checks.into_iter().map(|check| check.join().unwrap()).collect()
    });
    lines.extend(fast.into_iter().map(check));
    for line in lines.iter().flatten() {
        eprintln!("{line}");
    }
}
