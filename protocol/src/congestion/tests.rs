//! Tests of the controller on a model of one link: a server with a constant rate, a delay, and a sender that
//! always has data.
use std::{collections::VecDeque, time::Duration};

use longhaul_types::{BitRate, LinkProfile, Timestamp};

use super::*;
use crate::wire::{Activity, Stamp};

struct Outcome {
    /// Busy share of the link after two seconds.
    busy: f64,
    /// 95th percentile of the queue, in seconds.
    queue: f64,
}

/// Runs a bulk transfer of `seconds` over a link of `rate` bit/s and RTT `rtt` ms; the controller gets
/// `profile`.
fn bulk(rate: u64, rtt: u64, profile: Option<&str>, seconds: u64) -> Outcome {
    let profile: Option<LinkProfile> = profile.map(|name| name.parse().expect("known"));
    let parameters = &CongestionParameters::STANDARD;
    let (down, up) = (profile.map(|known| known.down), profile.map(|known| known.up));
    let mut controller = Controller::new(parameters, profile.as_ref(), down, up);
    let initial = InitialGrant::new(parameters, down, profile.as_ref(), up);
    let start = Timestamp::ZERO + Duration::from_secs(1);
    let mut pacer = Pacer::new(&parameters.pacing, start, initial.rate);
    let (mut credit, mut sent, mut reported) = (initial.window, 0.0, 0.0);
    let one_way = Duration::from_millis(rtt / 2);
    let serialisation = Duration::from_secs_f64(1280.0 * 8.0 / rate as f64);
    let mut free_at = start;
    let mut data: VecDeque<(Timestamp, Timestamp)> = VecDeque::new();
    let mut feedback: VecDeque<(Timestamp, f64, Grant)> = VecDeque::new();
    let mut arrived = 0.0;
    let mut due: Option<Timestamp> = None;
    let (mut busy, mut queues) = (Duration::ZERO, Vec::new());
    let tick = Duration::from_millis(1);
    let end = start + Duration::from_secs(seconds);
    let measured_from = start + Duration::from_secs(2);
    let mut now = start;
    while now < end {
        while sent - reported + 1280.0 <= credit && pacer.is_open(now) {
            let begins = free_at.max(now);
            free_at = begins + serialisation;
            if begins > measured_from {
                busy += serialisation;
                queues.push(begins.saturating_since(now).as_secs_f64());
            }
            data.push_back((free_at + one_way, now));
            sent += 1280.0;
            pacer.on_sent(FULL_PACKET);
        }
        while data.front().is_some_and(|(at, _)| *at <= now) {
            let (at, stamp) = data.pop_front().expect("front");
            arrived += 1280.0;
            controller.on_packet(&PacketSample {
                now: at,
                size: FULL_PACKET,
                stamp: Stamp::of(stamp),
                activity: Some(Activity::More),
                skipped: Some(0),
                received: 1,
                lost: 0,
                min_rtt: Duration::from_millis(rtt),
                is_ordered: false,
            });
            due = due.or_else(|| Some(now + controller.feedback_interval()));
        }
        if due.is_some_and(|at| at <= now) {
            due = None;
            let grant = controller.grant(now, ByteCount::new(u64::MAX));
            controller.on_granted(now, &grant);
            feedback.push_back((now + one_way, arrived, grant));
        }
        while feedback.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, upto, grant) = feedback.pop_front().expect("front");
            reported = upto;
            credit = as_bytes(grant.credit);
            pacer.set_rate(now, grant.rate.into());
        }
        now += tick;
    }
    queues.sort_by(f64::total_cmp);
    Outcome {
        busy: busy.as_secs_f64() / (end - measured_from).as_secs_f64(),
        queue: queues[queues.len() * 95 / 100],
    }
}

#[test]
fn bulk_with_the_right_profile_keeps_links_busy_with_a_short_queue() {
    for (name, rate, rtt, busy, queue) in [
        ("gprs-3+1", 39_600, 660, 0.97, 1.0),
        ("umts-384", 384_000, 260, 0.97, 0.25),
        ("geo-sat", 20_000_000, 602, 0.95, 0.27),
        ("lte", 12_000_000, 63, 0.95, 0.1),
    ] {
        let outcome = bulk(rate, rtt, Some(name), 60);
        println!(
            "{name}: busy {:.3}, queue p95 {:.3} s",
            outcome.busy, outcome.queue
        );
        assert!(outcome.busy >= busy, "{name}: busy {}", outcome.busy);
        assert!(outcome.queue <= queue, "{name}: queue {}", outcome.queue);
    }
}

#[test]
fn without_a_profile_the_window_finds_the_link() {
    for (rate, rtt) in [(384_000, 260), (20_000_000, 602), (20_000_000, 60)] {
        let outcome = bulk(rate, rtt, None, 60);
        println!(
            "{rate}: busy {:.3}, queue p95 {:.3} s",
            outcome.busy, outcome.queue
        );
        assert!(outcome.busy >= 0.85, "{rate}: busy {}", outcome.busy);
        assert!(outcome.queue <= 0.35, "{rate}: queue {}", outcome.queue);
    }
}

#[test]
fn a_profile_that_is_far_too_fast_is_corrected() {
    let outcome = bulk(384_000, 260, Some("lte"), 60);
    println!(
        "too fast: busy {:.3}, queue p95 {:.3} s",
        outcome.busy, outcome.queue
    );
    assert!(outcome.busy >= 0.9 && outcome.queue < 0.4);
}

#[test]
fn the_window_grows_beyond_a_profile_that_is_too_slow() {
    let outcome = bulk(3_840_000, 260, Some("umts-384"), 60);
    println!(
        "too slow: busy {:.3}, queue p95 {:.3} s",
        outcome.busy, outcome.queue
    );
    assert!(outcome.busy >= 0.75 && outcome.queue < 0.3);
}

#[test]
fn feedback_takes_at_most_a_tenth_of_a_thin_uplink() {
    let interval = feedback_seconds(
        &FeedbackParameters::STANDARD,
        4950.0,
        0.66,
        Some(BitRate::bps(13_400)),
    );
    let share = 76.0 * 8.0 / interval / 13_400.0;
    assert!(share <= 0.1001, "{share}");
}

#[test]
fn the_pacer_keeps_the_rate_for_all_packet_sizes() {
    let mut pacer = Pacer::new(
        &PacingParameters::STANDARD,
        Timestamp::ZERO,
        ByteRate::new(4950.0),
    );
    let mut now = Timestamp::ZERO;
    let mut sent = 0;
    for size in [1280, 90, 700, 1280].into_iter().cycle().take(400) {
        while !pacer.is_open(now) {
            let at = pacer.opens_at();
            assert!(at > now);
            now = at;
        }
        pacer.on_sent(ByteCount::new(size));
        sent += size;
    }
    let rate = (sent - 3 * 1280) as f64 / now.as_nanos() as f64 * 1e9;
    assert!((rate - 4950.0).abs() < 50.0, "{rate}");
}
