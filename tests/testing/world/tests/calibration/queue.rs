//! The bound of the queue.
use longhaul_netem::DropCause;
use longhaul_types::{BitRate, ByteCount};

use crate::traffic::{Way, blast, both, held, link, machine, measured, ms, wait, world};

#[test]
fn a_blast_fills_the_queue_to_its_bound_exactly() {
    let _machine = machine();
    // The link sends nothing during the blast, so the accepted packets are those that the queue holds: as
    // many whole packets as fit the bound, including the packet in service.
    for (way, bound, len) in [
        (Way::Down, 120_000, 1500),
        (Way::Down, 16_000, 1500),
        (Way::Up, 60_000, 1000),
        (Way::Up, 16_000, 1000),
        (Way::Down, 60_000, 100),
    ] {
        let slow = link(BitRate::bps(100), ms(0), ByteCount::new(bound));
        let mut hop = both(slow);
        // The other direction is not involved.
        let unused = if way == Way::Down {
            &mut hop.up
        } else {
            &mut hop.down
        };
        *unused = link(BitRate::kbps(1000), ms(0), ByteCount::kb(10));
        let Some(world) = world(hop) else { return };
        let fits = bound / len;
        let count = fits + 50;
        let work = blast_without_waiting(
            &world,
            way,
            u32::try_from(count).unwrap(),
            usize::try_from(len).unwrap(),
        );
        wait(work);
        let snapshot = world.hop().snapshot();
        let stats = if way == Way::Down {
            snapshot.down
        } else {
            snapshot.up
        };
        assert_eq!(stats.offered.packets, count, "{way:?}");
        assert_eq!(stats.queued.packets, fits, "{way:?} {bound} B of {len} B");
        assert_eq!(stats.queued.bytes, ByteCount::new(fits * len));
        assert_eq!(stats.queued_max, ByteCount::new(fits * len));
        assert_eq!(stats.dropped(DropCause::QueueFull).packets, 50);
        assert_eq!(stats.dropped_total().packets, 50);
        assert_eq!(world.kernel_drops().unwrap(), 0);
    }
}

/// Sends, and waits until all packets have been offered to the link.
async fn blast_without_waiting(world: &longhaul_world::World, way: Way, count: u32, len: usize) {
    let sending = blast(world, way, count, len);
    tokio::pin!(sending);
    loop {
        tokio::select! {
            biased;
            _ = &mut sending => unreachable!("sending takes hours"),
            () = tokio::task::yield_now() => {}
        }
        let snapshot = world.hop().snapshot();
        let stats = if way == Way::Down {
            snapshot.down
        } else {
            snapshot.up
        };
        if stats.offered.packets == u64::from(count) {
            return;
        }
    }
}

#[test]
fn a_full_queue_takes_its_bytes_over_the_rate_to_empty() {
    let _machine = machine();
    let (rate, bound) = (BitRate::kbps(2_000), ByteCount::kb(60));
    let hop = held(both(link(rate, ms(10), bound)));
    let measurement = measured(&hop, |world| wait(blast(world, Way::Down, 80, 1000)));
    let Some((world, arrivals)) = measurement else {
        return;
    };
    let stats = world.hop().snapshot().down;
    assert_eq!(stats.queued_max, bound);
    assert_eq!(stats.dropped(DropCause::QueueFull).packets, 20);
    let numbers: Vec<_> = arrivals.iter().map(|arrival| arrival.number).collect();
    assert_eq!(numbers, (0..60).collect::<Vec<_>>(), "the first sixty fit");
    let took = arrivals[59].at - arrivals[0].at;
    let expected = ByteCount::kb(59) / rate;
    assert!(took.abs_diff(expected) < ms(2), "{took:?} of {expected:?}");
}
