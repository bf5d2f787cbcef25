//! The single rules of the governor, with the figures at which they begin to apply.
use super::*;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A governor whose link has this shortest round trip, and in mode `Bound` these rates.
fn bound(base: Duration, rates: &[f64]) -> Governor {
    let mut governor = Governor::new();
    governor.handshake(Duration::ZERO, base);
    governor.mode = Mode::Bound;
    governor.rates = rates.iter().copied().collect();
    governor
}

/// A measurement of a second in which so many of ten readings were held back.
fn measurement(bytes: u64, queue: f64, held_back: u32) -> Measurement {
    Measurement {
        start: None,
        bytes,
        readings: 10,
        held_back,
        least_queue: Some(queue),
    }
}

#[track_caller]
fn assert_near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-6, "{value} instead of {expected}");
}

/// The permitted rate, to the one that was measured.
fn gain(governor: &mut Governor, now: Duration) -> f64 {
    governor.decide(now).rate.unwrap() / HEADERS / governor.best_rate()
}

#[test]
fn the_first_flight_depends_on_the_round_trip() {
    for (millis, expected) in [
        (19, Mode::Free),
        (20, Mode::Start(FIRST_FLIGHT)),
        (99, Mode::Start(FIRST_FLIGHT)),
        (100, Mode::Start(SHORT_FIRST_FLIGHT)),
    ] {
        let mut governor = Governor::new();
        governor.handshake(Duration::ZERO, ms(millis));
        assert_eq!(governor.mode, expected, "{millis}");
    }
}

#[test]
fn the_last_round_trip_is_never_below_the_shortest_and_readings_are_a_quarter_of_it_apart() {
    let mut governor = bound(ms(600), &[]);
    assert_eq!(governor.last_round_trip(), ms(600));
    assert_eq!(governor.interval(), ms(150));
    governor.recent.push_back((ms(1000), 0.9));
    assert_eq!(governor.last_round_trip(), ms(900));
    governor.recent.push_back((ms(1001), 0.1));
    assert_eq!(governor.last_round_trip(), ms(600));
    assert_eq!(Governor::new().interval(), ms(10));
}

#[test]
fn the_time_in_which_the_link_carries_a_packet_is_no_queue() {
    // A full packet takes 100 ms, half of one 50 ms.
    let mut governor = bound(ms(500), &[14_480.0]);
    let reading = Reading {
        round_trip: Some((ms(800), 724)),
        outstanding: 1,
        ..Reading::default()
    };
    governor.read(ms(1000), &reading);
    assert_near(governor.recent.back().unwrap().1, 0.75);
    // The last measured round trip counts until there is another.
    let nothing = Reading {
        outstanding: 1,
        ..Reading::default()
    };
    governor.read(ms(20_000), &nothing);
    assert_near(governor.queue().unwrap(), 0.25);
}

#[test]
fn what_arrived_while_the_last_packet_waited_is_the_rate() {
    let flight = |base: u64, readings: &[(u64, u64, Option<u64>)]| {
        let mut governor = Governor::new();
        governor.handshake(Duration::ZERO, ms(base));
        for (delivered, at, round_trip) in readings {
            let reading = Reading {
                delivered: *delivered,
                delivered_at: ms(*at),
                round_trip: round_trip.map(|round_trip| (ms(round_trip), 1448)),
                outstanding: 1,
                ..Reading::default()
            };
            governor.read(ms(*at), &reading);
        }
        governor
    };
    // Bytes that arrived before the wait do not count for its rate.
    let waited = flight(500, &[(2896, 1000, None), (2896, 1500, Some(1000))]);
    assert_eq!(waited.mode, Mode::Bound);
    assert_near(waited.best_rate(), 2896.0 / 0.5);
    let fast = flight(500, &[(187_501, 1500, Some(1000))]);
    assert_eq!(fast.mode, Mode::Free);
    let slower = flight(500, &[(187_500, 1500, Some(1000))]);
    assert_eq!(slower.mode, Mode::Bound);
    // 100 ms say nothing: the client may have delayed its acknowledgement.
    assert_eq!(flight(100, &[(2896, 1000, Some(200))]).mode, Mode::Start(6.0));
    assert_eq!(flight(100, &[(2896, 1000, Some(201))]).mode, Mode::Bound);
}

#[test]
fn a_measurement_takes_two_round_trips() {
    let mut governor = bound(ms(500), &[]);
    governor.mode = Mode::Free;
    governor.recent.push_back((ms(1000), 0.5));
    let arrive = |governor: &mut Governor, at| {
        let reading = Reading {
            delivered: 20_000,
            delivered_at: ms(at),
            outstanding: 1,
            ..Reading::default()
        };
        governor.measure(ms(at), &reading);
    };
    arrive(&mut governor, 1000);
    arrive(&mut governor, 2000);
    assert_eq!(governor.best_rate(), 0.0);
    arrive(&mut governor, 2250);
    assert_near(governor.best_rate(), 40_000.0 / 1.25);
    // The next one begins with the last acknowledgement of this one.
    assert_eq!(governor.measured.start, Some(ms(2250)));
    assert_eq!((governor.measured.bytes, governor.measured.readings), (0, 0));
}

#[test]
fn a_lower_rate_counts_only_if_the_connections_were_held_back_most_of_the_time() {
    for (held_back, kept) in [(0, false), (7, false), (8, true), (10, true)] {
        let mut governor = bound(ms(100), &[100_000.0]);
        governor.limit = Limit::NONE;
        governor.measured_rate(ms(1000), 1.0, measurement(50_000, 0.0, held_back));
        assert_eq!(governor.rates.len() == 2, kept, "{held_back}");
    }
    // A rate that is not higher says nothing new.
    let mut governor = bound(ms(100), &[100_000.0]);
    governor.limit = Limit::NONE;
    governor.measured_rate(ms(1000), 1.0, measurement(100_000, 0.0, 0));
    assert_eq!(governor.rates.len(), 1);
    governor.measured_rate(ms(1000), 1.0, measurement(100_001, 0.0, 0));
    assert_eq!(governor.rates.len(), 2);
    // As read from connections.
    let mut governor = bound(ms(100), &[100_000.0]);
    governor.recent.push_back((ms(1000), 0.1));
    for at in [1000, 1100, 1200, 1300] {
        let reading = Reading {
            delivered: 5_000,
            delivered_at: ms(at),
            outstanding: 1,
            ..Reading::default()
        };
        governor.measure(ms(at), &reading);
    }
    assert_eq!(governor.rates.len(), 1);
    assert_eq!(governor.measured.start, Some(ms(1300)), "it was measured");
}

#[test]
fn a_free_client_is_held_back_once_there_is_a_queue() {
    for (bytes, queue, expected) in [
        (100_000, 0.0, Mode::Free),
        (100_000, ENGAGING, Mode::Free),
        (100_000, 0.16, Mode::Bound),
        (6_249_999, 0.16, Mode::Bound),
        (6_250_000, 0.16, Mode::Free),
    ] {
        let mut governor = bound(ms(100), &[]);
        governor.mode = Mode::Free;
        governor.limit = Limit::NONE;
        governor.measured_rate(ms(1000), 1.0, measurement(bytes, queue, 0));
        assert_eq!(governor.mode, expected, "{bytes} {queue}");
    }
}

#[test]
fn a_link_is_slower_if_little_arrives_and_the_queue_is_long() {
    let long = LONG * bound(ms(100), &[100_000.0]).queues().1;
    for (bytes, queue, slower) in [
        (50_000, 0.5, 1),
        (50_000, long, 0),
        (60_000, 0.5, 0),
        (90_000, 0.5, 0),
    ] {
        let mut governor = bound(ms(100), &[100_000.0]);
        governor.limit = Limit::NONE;
        governor.measured_rate(ms(1000), 1.0, measurement(bytes, queue, 0));
        assert_eq!(governor.slower, slower, "{bytes} {queue}");
    }
}

#[test]
fn the_rate_grows_faster_only_without_a_queue_and_while_more_arrives() {
    let governor = || {
        let mut governor = bound(ms(100), &[1000.0]);
        governor.limit = Limit::NONE;
        governor.quiet = QUIET;
        governor
    };
    let quiet = governor().queues().0 / 2.0;
    for (bytes, queue, expected) in [(1101, 0.0, QUIET + 1), (1100, 0.0, QUIET), (1101, quiet, 0)] {
        let mut governor = governor();
        governor.measured_rate(ms(1000), 1.0, measurement(bytes, queue, 10));
        assert_eq!(governor.quiet, expected, "{bytes} {queue}");
    }
}

#[test]
fn a_fast_client_is_released_after_a_while_and_the_fastest_at_once() {
    for (rate, seconds, expected) in [
        (FASTEST + 1.0, 0, Mode::Free),
        (FASTEST, 0, Mode::Bound),
        (FAST + 1.0, 11, Mode::Free),
        (FAST + 1.0, 10, Mode::Bound),
        (FAST, 11, Mode::Bound),
        (FASTEST, 11, Mode::Free),
    ] {
        let mut governor = bound(ms(100), &[rate]);
        governor.limit = Limit::NONE;
        let now = ms(20_000);
        governor.quiet_since = Some(now - Duration::from_secs(seconds));
        governor.measured_rate(now, 1.0, measurement(1000, 0.0, 0));
        assert_eq!(governor.mode, expected, "{rate} {seconds}");
    }
}

#[test]
fn a_queue_that_does_not_fall_with_the_rate_belongs_to_the_round_trip() {
    // A queue of half a second, which was noted at the beginning.
    let noted = || {
        let mut governor = bound(ms(250), &[]);
        governor.recent.push_back((Duration::ZERO, 0.75));
        governor.unfallen = Some(Unfallen {
            queue: 0.5,
            rate: 1000.0,
            since: Duration::ZERO,
        });
        governor
    };
    for (now, rate, base) in [
        (1500, 100.0, 0.25),
        (1600, 100.0, 0.75),
        (1600, 800.0, 0.25),
        (1600, 799.0, 0.75),
    ] {
        let mut governor = noted();
        governor.note_fall(ms(now), rate);
        assert_eq!(governor.base.least, Some(base), "{now} {rate}");
    }
    // A queue of the longest intended length need not fall.
    let mut governor = bound(ms(250), &[]);
    governor.recent.push_back((Duration::ZERO, 0.3125));
    assert_eq!(governor.queue(), Some(governor.queues().1));
    governor.note_fall(ms(1000), 100.0);
    assert!(governor.unfallen.is_none());
}

#[test]
fn the_highest_of_the_last_four_rates_counts() {
    let mut governor = bound(ms(100), &[]);
    for (rate, best) in [(9.0, 9.0), (1.0, 9.0), (2.0, 9.0), (3.0, 9.0), (4.0, 4.0)] {
        governor.keep(rate);
        assert_eq!(governor.best_rate(), best);
    }
}

#[test]
fn a_long_queue_is_emptied_fast_only_when_the_rate_was_just_found() {
    let mut governor = bound(ms(250), &[1_448_000.0]);
    governor.recent.push_back((Duration::ZERO, 2.25));
    assert_near(gain(&mut governor, Duration::ZERO), LEAST_GAIN);
    governor.found(Duration::ZERO, 1_448_000.0);
    let until = governor.empty_at;
    assert_near(gain(&mut governor, until - ms(1)), DRAINING_GAIN);
    assert_near(gain(&mut governor, until), LEAST_GAIN);
}

#[test]
fn without_a_queue_the_rate_grows_the_faster_the_longer_there_was_none() {
    for (quiet, time, expected) in [
        (VERY_QUIET, 0.25, 2.0),
        (QUIET, 0.25, MOST_GAIN),
        // Half of the intended queue counts as a queue.
        (VERY_QUIET, 0.265_625, 1.0 + GAIN * 0.015_625 / 0.28225),
    ] {
        let mut governor = bound(ms(250), &[1_448_000.0]);
        governor.recent.push_back((Duration::ZERO, time));
        governor.quiet = quiet;
        assert_near(gain(&mut governor, Duration::ZERO), expected);
    }
}

#[test]
fn a_queue_is_emptied_to_measure_an_old_round_trip_again() {
    let mut governor = bound(ms(250), &[1_448_000.0]);
    let (now, queue) = (ms(40_000), 0.046_875);
    governor.recent.push_back((now, 0.25 + queue));
    assert_near(gain(&mut governor, now), 0.5);
    // A round trip, and twice the queue.
    let until = governor.drain_until;
    assert_near((until - now).as_secs_f64(), 0.251 + 2.0 * queue);
    assert_near(gain(&mut governor, until - ms(1)), 0.5);
    assert!(gain(&mut governor, until) >= LEAST_GAIN);
    // A quarter of the intended queue is short enough.
    for (queue, drains) in [(0.007_812_5, false), (0.015, true)] {
        governor.recent = VecDeque::from([(now, 0.25 + queue)]);
        let gain = gain(&mut governor, now);
        assert_eq!(gain < LEAST_GAIN, drains, "{queue}: {gain}");
    }
}

#[test]
fn outstanding_bytes_fill_the_way_and_the_longest_queue() {
    let mut governor = bound(ms(250), &[100_000.0]);
    let limit = governor.decide(Duration::ZERO);
    assert_near(limit.rate.unwrap(), 100_000.0 * HEADERS);
    // A round trip and the time of a packet, six times the longest queue of 62.5 ms, 50 ms; and two packets.
    let time = 0.25 + 0.01448 + 6.0 * 0.0625 + 0.05;
    assert_near(limit.window.unwrap(), 100_000.0 * time + 2896.0);
}

#[test]
fn the_shortest_round_trip_counts_for_a_minute_or_two() {
    let sampled = |samples: &[(u64, f64)]| {
        let mut base = Base::default();
        for (seconds, time) in samples {
            base.sample(Duration::from_secs(*seconds), *time, *time);
        }
        base
    };
    assert_eq!(sampled(&[(0, 0.5), (61, 0.8)]).least, Some(0.5));
    assert_eq!(sampled(&[(0, 0.5), (61, 0.8), (122, 0.9)]).least, Some(0.8));
    // After exactly a minute the shortest one since then is not yet another.
    assert_eq!(sampled(&[(0, 0.5), (60, 0.8), (121, 0.8)]).least, Some(0.5));
    // A round trip that is about as short confirms it.
    let is_old = |samples: &[(u64, f64)], seconds| sampled(samples).is_old(Duration::from_secs(seconds));
    assert!(!is_old(&[(0, 0.1)], 30) && is_old(&[(0, 0.1)], 31));
    assert!(!is_old(&[(0, 0.1), (40, 0.113)], 45));
    assert!(is_old(&[(0, 0.1), (40, 0.117)], 45));
}

#[test]
fn only_bytes_that_arrived_have_a_time() {
    let mut reading = Reading::default();
    let arrived = |bytes, at| Arrived {
        bytes,
        at: ms(at),
        round_trip: None,
    };
    reading.add(&arrived(0, 5000));
    assert_eq!((reading.delivered, reading.delivered_at), (0, Duration::ZERO));
    reading.add(&arrived(700, 2000));
    reading.add(&arrived(300, 1000));
    assert_eq!((reading.delivered, reading.delivered_at), (1000, ms(2000)));
}
