//! Rates.
use std::{fs, time::Duration};

use longhaul_netem::DropCause;
use longhaul_types::{BitRate, ByteCount, Timestamp};

use crate::traffic::{
    Way, blast, both, build, config, held, link, machine, ms, profile, transfer, wait, world,
};

/// Returns the processor time of the process' thread with this name.
fn computed(name: &str) -> Duration {
    let tick = ms(10);
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok())
        .filter_map(|stat| {
            let (head, fields) = stat.rsplit_once(") ")?;
            let ticks = |index| fields.split(' ').nth(index)?.parse::<u32>().ok();
            head.ends_with(&format!("({name}"))
                .then_some(tick * (ticks(11)? + ticks(12)?))
        })
        .sum()
}

fn percent_off(measured: BitRate, rate: BitRate) -> f64 {
    (measured.as_bps() as f64 / rate.as_bps() as f64 - 1.0) * 100.0
}

/// Tests that a TCP transfer of `bytes` fills this link: by the link's counters and, independently of them,
/// by the bytes that the receiver's socket returned.
fn tcp_fills(rate: BitRate, delay: Duration, bytes: u64, way: Way) {
    // Room for all packets that the windows of the sockets may allow.
    let queue = ByteCount::new(2 * bytes);
    let mut config = config(both(link(rate, delay, queue)));
    // Every kernel has Reno. It does not pace and therefore keeps the queue full.
    config.congestion = Some("reno".to_owned());
    let Some(world) = build(config) else { return };
    world.hop().start_sampling(ms(10));
    let course = wait(transfer(&world, way, bytes));
    let cpu = computed("link hop");
    // From a third on, when slow start is over.
    let begin = course[course.iter().position(|(_, total)| *total > bytes / 3).unwrap()];
    // Before the end: a late reader reads more at once, but never more than exists.
    let end = course[course
        .iter()
        .rposition(|(_, total)| *total < bytes / 20 * 19)
        .unwrap()];
    let snapshot = world.hop().snapshot();
    let direction = if way == Way::Down {
        snapshot.down
    } else {
        snapshot.up
    };
    assert_eq!(direction.dropped_total().packets, 0);
    assert_eq!(world.kernel_drops().unwrap(), 0);
    // Payload at the socket, scaled by the header bytes that the link counted.
    let received = ByteCount::new((end.1 - begin.1) * direction.delivered.bytes.bytes() / bytes);
    let goodput = BitRate::of(received, end.0 - begin.0);
    let samples = world.hop().take_samples();
    let within: Vec<_> = samples
        .iter()
        .filter(|sample| sample.at > begin.0 && sample.at + ms(20) + delay < end.0)
        .collect();
    let (first, last) = (within[0], within[within.len() - 1]);
    let sent = match way {
        Way::Down => last.down_bytes_sent - first.down_bytes_sent,
        Way::Up => last.up_bytes_sent - first.up_bytes_sent,
    };
    let counted = BitRate::of(sent, last.at - first.at);
    let expected = rate * (last.at - first.at);
    // The counters increase by whole packets.
    let off = sent.bytes().abs_diff(expected.bytes());
    eprintln!(
        "TCP {way:?} ({}) at {rate}: socket {:+.3} %, link {:+.3} %, link thread {:.1} % of a core",
        world.congestion_control(),
        percent_off(goodput, rate),
        percent_off(counted, rate),
        100.0 * cpu.as_secs_f64() / (end.0 - Timestamp::ZERO).as_secs_f64()
    );
    assert!(percent_off(goodput, rate).abs() < 1.0, "{goodput} at the socket");
    assert!(off <= expected.bytes() / 100 + 1500, "{counted} by the counters");
}

#[test]
fn tcp_fills_a_slow_link() {
    let _machine = machine();
    tcp_fills(BitRate::kbps(384), ms(60), 160_000, Way::Down);
}

#[test]
fn tcp_fills_a_medium_link_in_the_up_direction() {
    let _machine = machine();
    tcp_fills(BitRate::kbps(20_000), ms(10), 4_000_000, Way::Up);
}

#[test]
fn tcp_fills_a_fast_link() {
    let _machine = machine();
    tcp_fills(BitRate::kbps(100_000), ms(2), 25_000_000, Way::Down);
}

#[test]
fn udp_is_received_at_the_rate_of_the_link() {
    let _machine = machine();
    for (kbps, queue, len, way) in [
        (384, 30, 1500, Way::Down),
        (64, 5, 200, Way::Up),
        (20_000, 400, 1000, Way::Up),
        (100_000, 1000, 1500, Way::Down),
    ] {
        let rate = BitRate::kbps(kbps);
        let queue = ByteCount::kb(queue);
        let Some(world) = world(held(both(link(rate, ms(5), queue)))) else {
            return;
        };
        let count = u32::try_from(queue.bytes()).unwrap() / len;
        let arrivals = wait(blast(&world, way, count, len as usize));
        assert_eq!(arrivals.len(), count as usize);
        // The median of many intervals: work of the machine delays single packets, a wrong rate all of them.
        let half = arrivals.len() / 2;
        let mut rates: Vec<BitRate> = arrivals
            .iter()
            .zip(&arrivals[half..])
            .map(|(first, last)| {
                let crossed = ByteCount::new(u64::from(last.number - first.number) * u64::from(len));
                BitRate::of(crossed, last.at - first.at)
            })
            .collect();
        rates.sort_unstable();
        let measured = rates[rates.len() / 2];
        eprintln!("UDP {way:?} at {rate}: {:+.3} %", percent_off(measured, rate));
        assert!(percent_off(measured, rate).abs() < 1.0, "{measured} of {rate}");
    }
}

#[test]
fn each_congestion_control_fills_the_link() {
    let _machine = machine();
    for name in ["cubic", "bbr", "reno"] {
        let rate = BitRate::kbps(10_000);
        let mut config = config(both(link(rate, ms(10), ByteCount::kb(200))));
        config.congestion = Some(name.to_owned());
        let Some(world) = build(config) else { continue };
        assert_eq!(world.congestion_control(), name);
        let course = wait(transfer(&world, Way::Down, 1_500_000));
        let (at, total) = course[course.len() - 1];
        let stats = world.hop().snapshot().down;
        let goodput = BitRate::of(ByteCount::new(total), at - course[0].0);
        eprintln!(
            "{name}: {:+.1} % of {rate}, {} packets dropped, {} B queued at most",
            percent_off(goodput, rate),
            stats.dropped(DropCause::QueueFull).packets,
            stats.queued_max.bytes()
        );
        // BBR avoids the end of the queue, CUBIC and Reno fill it.
        assert!(percent_off(goodput, rate) > -25.0, "{name}: {goodput}");
    }
}

#[test]
fn an_unknown_congestion_control_is_rejected_with_the_available_ones() {
    let _machine = machine();
    for name in ["nonesuch", "cubic dev lo\nlink set lo down"] {
        let mut config = config(profile("lan-fast"));
        config.congestion = Some(name.to_owned());
        match longhaul_world::World::build(config) {
            Err(longhaul_world::WorldError::Namespace(error)) => eprintln!("SKIPPED: {error}"),
            Err(error @ longhaul_world::WorldError::Congestion { .. }) => {
                assert!(error.to_string().contains("reno"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}
