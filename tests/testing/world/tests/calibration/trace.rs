//! Recorded links.
use std::{env, fs, path::Path, path::PathBuf, time::Duration};

use longhaul_netem::{Capacity, DeliveryTrace, Enqueued, HopConfig, Link, LinkConfig};
use longhaul_types::{BitRate, ByteCount, Timestamp};

use crate::traffic::{Way, blast, link, machine, ms, percentile, wait, world};

fn config(trace: &DeliveryTrace, delay: Duration) -> LinkConfig {
    LinkConfig::new(Capacity::Trace(trace.clone()), delay, ByteCount::kb(3000))
}

#[test]
fn packets_leave_at_the_opportunities_of_the_trace() {
    let _machine = machine();
    // Bursts, steady periods and gaps; one second long.
    let millis: Vec<u64> = (1..=1000_u64)
        .flat_map(|milli| {
            let opportunities = match milli % 100 {
                0 => 6,
                10..40 => milli % 2,
                60..70 => 1,
                _ => 0,
            };
            std::iter::repeat_n(milli, usize::try_from(opportunities).unwrap())
        })
        .collect();
    let lines: Vec<_> = millis.iter().map(u64::to_string).collect();
    let trace = DeliveryTrace::parse(&lines.join("\n")).unwrap();
    let delay = ms(5);
    let other = link(BitRate::kbps(1000), ms(0), ByteCount::kb(10));
    let Some(world) = world(HopConfig::new(config(&trace, delay), other)) else {
        return;
    };
    world.hop().start_sampling(ms(20));
    // Each packet of 1500 bytes uses one opportunity; two periods of the trace.
    let count = u32::try_from(2 * millis.len()).unwrap();
    let arrivals = wait(blast(&world, Way::Down, count, 1500));
    assert_eq!(arrivals.len(), count as usize);
    let times = |index: usize| {
        let milli = millis[index % millis.len()] + 1000 * (index / millis.len()) as u64;
        Timestamp::ZERO + ms(milli) + delay
    };
    // The opportunity of the first packet depends on the time of the blast; from there on each opportunity is
    // used, and no packet arrives before its own.
    let fits = |first: &usize| {
        let mut numbered = arrivals.iter().enumerate();
        numbered.all(|(index, arrival)| arrival.at >= times(first + index))
    };
    let first = (0..millis.len()).rev().find(fits).unwrap();
    let late: Vec<_> = arrivals
        .iter()
        .enumerate()
        .map(|(index, arrival)| arrival.at - times(first + index))
        .collect();
    eprintln!(
        "trace: packets late by {:?} (p95), {:?} (most)",
        percentile(&late, 95),
        percentile(&late, 100)
    );
    assert!(percentile(&late, 95) < ms(2));
    // In each window, the bytes sent equal the bytes that the trace admits.
    let samples = world.hop().take_samples();
    let (begin, end) = (arrivals[0].at, arrivals[arrivals.len() - 1].at);
    let mut windows = 0;
    for pair in samples
        .windows(2)
        .filter(|pair| pair[0].at > begin && pair[1].at + delay < end)
    {
        let sent = pair[1].down_bytes_sent - pair[0].down_bytes_sent;
        assert_eq!(
            sent,
            trace.capacity_between(pair[0].at, pair[1].at),
            "{:?}",
            pair[0].at
        );
        windows += 1;
    }
    assert!(windows > 80, "{windows}");
}

#[test]
fn recorded_traces_are_replayed_exactly() {
    let _machine = machine();
    let folder = env::var_os("LONGHAUL_TRACES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/traces"),
        PathBuf::from,
    );
    let Ok(entries) = fs::read_dir(&folder) else {
        eprintln!(
            "SKIPPED: no recorded traces in {} (LONGHAUL_TRACES names another folder)",
            folder.display()
        );
        return;
    };
    let recorded = entries.flatten().map(|entry| entry.path());
    let is_trace = |path: &PathBuf| {
        path.extension()
            .is_some_and(|kind| kind == "down" || kind == "up")
    };
    let mut count = 0;
    for path in recorded.filter(is_trace) {
        let trace = DeliveryTrace::parse(&fs::read_to_string(&path).unwrap()).unwrap();
        replay(&trace, &path);
        count += 1;
    }
    assert!(count > 0, "{} holds no traces", folder.display());
}

/// Keeps the link backlogged during the whole trace and compares each tenth of a second.
fn replay(trace: &DeliveryTrace, path: &Path) {
    let mut link = Link::new(config(trace, Duration::ZERO), 1);
    let window = ms(100);
    let mut now = Timestamp::ZERO;
    let packet = vec![0; 1500];
    while now < Timestamp::ZERO + trace.period() {
        while link.stats().queued.bytes < ByteCount::kb(1500) {
            assert_eq!(link.enqueue(now, packet.clone()), Enqueued::Accepted);
        }
        let next = now + window;
        let mut delivered = ByteCount::ZERO;
        while let Some(delivery) = link.poll_deliver(next) {
            delivered += ByteCount::new(delivery.packet.len() as u64);
        }
        assert_eq!(
            delivered,
            trace.capacity_between(now, next),
            "{} at {now:?}",
            path.display()
        );
        now = next;
    }
}
