//! Two paths between agent and gateway, UDP and a link, ordered or of datagrams, with changes from one to the other at any
//! time: each byte arrives once, in order (docs/protocol/transport.md section 8).
mod datagrams;
mod doubts;
mod lane;
mod limited;
mod probes;
mod silence;
mod silent_links;
mod world;

use std::time::Duration;

use longhaul_protocol::path::Path;

use self::world::{AGENT, GATEWAY, World, gateway_address};
use crate::seeds;

#[test]
fn changes_of_the_carrier_at_any_time_lose_and_repeat_nothing() {
    let results = seeds::for_each(
        "changes_of_the_carrier_at_any_time_lose_and_repeat_nothing",
        |seed| {
            let mut world = World::new(seed);
            for lane in [&mut world.up, &mut world.down] {
                lane.loss = 30 + seed % 100;
                lane.reordering = 20;
            }
            for _ in 0..40 {
                let time = world.random.time(Duration::from_millis(1500));
                world.run_until(world.now + time);
                world.disturb();
            }
            // In the end one path works, and it is not always the same.
            world.up.works = true;
            world.down.works = true;
            if world.random.one_in(2) {
                let id = world.open_link();
                world.change_path(id.into());
            } else {
                world.close_link();
                world.change_path(gateway_address().into());
            }
            world.run_until(world.now + Duration::from_secs(20));
            for _ in 0..4 {
                world.send_body(50_000);
            }
            world.run_to_the_end();
            assert!(world.finished >= 4);
            assert_eq!(world.path(AGENT), Some(expected_path(&world)));
            world.finished
        },
    );
    println!("{} bodies arrived", results.iter().sum::<usize>());
}

fn expected_path(world: &World) -> Path {
    world
        .link
        .as_ref()
        .map_or_else(|| gateway_address().into(), |link| link.id.into())
}

/// On an ordered path, lateness is never taken for loss, whatever the timers of a datagram path would do.
#[test]
fn an_ordered_path_repeats_nothing() {
    seeds::for_each("an_ordered_path_repeats_nothing", |seed| {
        let mut world = World::new(seed);
        (world.up.works, world.down.works) = (false, false);
        // The INIT goes out over UDP, and is lost.
        world.run_until(world.now + Duration::from_millis(1));
        let id = world.open_link();
        world.change_path(id.into());
        world.run_until(world.now + Duration::from_secs(3));
        assert_eq!(world.path(AGENT), Some(id.into()));
        for _ in 0..10 {
            let length = 1 + world.random.below(300_000);
            world.send_body(length);
            let time = world.random.time(Duration::from_secs(2));
            world.run_until(world.now + time);
            let pause = world.random.time(Duration::from_secs(12));
            if let Some(link) = &mut world.link {
                link.up.pause(world.now, pause);
                link.down.pause(world.now, pause);
            }
        }
        world.run_to_the_end();
        assert_eq!(world.finished, 10);
        for side in [AGENT, GATEWAY] {
            let stats = world.stats(side);
            assert_eq!(
                (stats.packets_lost, stats.retransmitted_bytes, stats.spurious),
                (0, 0, 0),
                "side {side}: {stats:?}"
            );
        }
    });
}

/// What is in flight on a path that dies is sent again once, and the transfer continues within a second.
#[test]
fn a_dead_path_costs_what_was_in_flight() {
    let pauses = seeds::for_each("a_dead_path_costs_what_was_in_flight", |seed| {
        let mut world = World::new(seed);
        let started = Duration::from_millis(500) + world.random.time(Duration::from_secs(2));
        world.run_until(world.now + Duration::from_secs(1));
        world.send_body(3_000_000);
        world.run_until(world.now + started);
        let before = world.stats(GATEWAY);
        (world.up.works, world.down.works) = (false, false);
        let id = world.open_link();
        let at = world.now;
        world.change_path(id.into());
        // What the gateway sends until it follows is lost, too.
        world.most_in_flight = 0;
        while world.path(GATEWAY) != Some(id.into()) {
            world.step(at + Duration::from_secs(5));
            assert!(
                world.now < at + Duration::from_secs(5),
                "the gateway does not follow"
            );
        }
        let in_flight = world.most_in_flight;
        while world.over_links < 3000 {
            assert!(world.now < at + Duration::from_secs(5), "no data over the link");
            world.step(at + Duration::from_secs(5));
        }
        let pause = world.now.saturating_since(at);
        world.run_to_the_end();
        let repeated = world.stats(GATEWAY).retransmitted_bytes - before.retransmitted_bytes;
        assert!(
            repeated <= in_flight,
            "{repeated} bytes repeated, {in_flight} in flight"
        );
        pause
    });
    println!("longest pause {:?}", pauses.iter().max());
}
