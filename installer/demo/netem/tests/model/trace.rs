use longhaul_netem::{Capacity, DeliveryTrace, Link, LinkConfig, OutageSchedule, ParseTraceError};
use longhaul_netem::{Outage, WhileOut};
use longhaul_types::{ByteCount, Timestamp};

use crate::probe::{Probe, at, drain, ms};

fn link(trace: &str) -> Link<Probe> {
    Link::new(config(trace), 1)
}

fn config(trace: &str) -> LinkConfig {
    let trace = DeliveryTrace::parse(trace).unwrap();
    LinkConfig::new(Capacity::Trace(trace), ms(0), ByteCount::kb(1000))
}

/// Returns the arrival times of `count` packets of `len` bytes that are enqueued at `start`.
fn arrivals(link: &mut Link<Probe>, start: Timestamp, count: u64, len: u64) -> Vec<u64> {
    for number in 0..count {
        link.enqueue(start, Probe::new(number, len));
    }
    let arrived = drain(link);
    arrived
        .iter()
        .map(|delivery| delivery.arrived.as_nanos() / 1_000_000)
        .collect()
}

#[test]
fn a_trace_is_replayed_exactly_and_repeats() {
    let mut link = link("3\n3\n10\n12\n");
    assert_eq!(
        arrivals(&mut link, at(0), 9, 1500),
        [3, 3, 10, 12, 15, 15, 22, 24, 27]
    );
}

#[test]
fn a_trace_of_a_single_line_is_a_constant_rate() {
    let mut link = link("1");
    assert_eq!(arrivals(&mut link, at(0), 5, 1500), [1, 2, 3, 4, 5]);
    assert_eq!(link.capacity_between(at(0), at(1000)), ByteCount::kb(1500));
}

#[test]
fn an_opportunity_serves_bytes_not_packets() {
    assert_eq!(arrivals(&mut link("5"), at(0), 4, 500), [5, 5, 5, 10]);
    assert_eq!(arrivals(&mut link("5"), at(0), 3, 1000), [5, 10, 10]);
    assert_eq!(arrivals(&mut link("5"), at(0), 2, 4000), [15, 30]);
}

#[test]
fn an_opportunity_serves_only_packets_enqueued_before_it() {
    assert_eq!(arrivals(&mut link("5"), at(5), 1, 1500), [10]);
    assert_eq!(arrivals(&mut link("5"), at(4), 1, 1500), [5]);
    let mut late = link("5");
    assert_eq!(arrivals(&mut late, at(5_000_001), 1, 1500), [5_000_005]);
    assert_eq!(late.busy_between(at(0), at(6_000_000)), Some(ms(4)));
}

#[test]
fn an_offset_sets_the_beginning_of_a_trace() {
    let text = "3\n3\n10\n12\n";
    for offset in 0..30 {
        let trace = DeliveryTrace::parse(text).unwrap().starting_at(ms(offset));
        let config = LinkConfig::new(Capacity::Trace(trace), ms(0), ByteCount::kb(1000));
        let mut window = Link::new(config, 1);
        let within = offset % 12;
        let expected: Vec<_> = [3, 3, 10, 12, 15, 15, 22, 24]
            .into_iter()
            .filter(|time| *time > within)
            .map(|time| time - within)
            .take(4)
            .collect();
        assert_eq!(arrivals(&mut window, at(0), 4, 1500), expected, "offset {offset}");
    }
}

#[test]
fn the_queue_bound_holds_on_a_trace() {
    let mut limited = config("10");
    limited.queue = ByteCount::new(3000);
    let mut link = Link::new(limited, 1);
    assert_eq!(arrivals(&mut link, at(0), 5, 1500), [10, 20]);
    assert_eq!(
        link.queueing_delays().max(),
        ms(20),
        "until the first byte was served"
    );
}

#[test]
fn opportunities_during_an_outage_are_lost() {
    let out = |behaviour| {
        let mut config = config("10");
        let outage = Outage {
            start: at(15),
            length: ms(20),
            behaviour,
        };
        config.outages = OutageSchedule::new(vec![outage]).unwrap();
        Link::new(config, 1)
    };
    assert_eq!(
        arrivals(&mut out(WhileOut::Hold), at(0), 4, 1500),
        [10, 40, 50, 60]
    );
    assert_eq!(arrivals(&mut out(WhileOut::Drop), at(0), 4, 1500), [10, 40]);
}

#[test]
fn an_invalid_trace_is_rejected_with_the_line_number() {
    let bad = |line, text: &str| ParseTraceError::BadLine {
        line,
        text: text.to_owned(),
    };
    let cases = [
        ("", ParseTraceError::Empty),
        ("1\nx\n", bad(2, "x")),
        ("1\n\n2\n", bad(2, "")),
        ("-1\n", bad(1, "-1")),
        ("1.5\n", bad(1, "1.5")),
        ("5\n5\n4\n", ParseTraceError::Decreasing { line: 3 }),
        ("0\n0\n", ParseTraceError::NoDuration),
        ("1\n4294967296\n", ParseTraceError::TooLarge { line: 2 }),
        (
            "1\n99999999999999999999999\n",
            ParseTraceError::TooLarge { line: 2 },
        ),
    ];
    for (text, error) in cases {
        assert_eq!(DeliveryTrace::parse(text), Err(error), "{text:?}");
    }
    let long = "y".repeat(1000);
    assert_eq!(DeliveryTrace::parse(&long), Err(bad(1, &"y".repeat(40))));
    assert!(DeliveryTrace::parse("4294967295").is_ok());
}

#[test]
fn a_trace_with_too_many_lines_is_rejected() {
    let lines = 16 * 1024 * 1024 + 1;
    let refused = DeliveryTrace::parse(&"1\n".repeat(lines));
    assert_eq!(refused, Err(ParseTraceError::TooLarge { line: lines }));
}

#[test]
fn lines_may_end_with_carriage_return_and_line_feed() {
    let trace = DeliveryTrace::parse("1\r\n2\r\n").unwrap();
    assert_eq!((trace.opportunities(), trace.period()), (2, ms(2)));
}
