//! Probes of UDP by an agent whose session runs over a link.
use std::time::Duration;

use longhaul_protocol::path::{LinkId, Path};

use super::world::{AGENT, GATEWAY, World, gateway_address};
use crate::seeds;

/// A session over a link; UDP works only if `udp_works`.
fn over_a_link(seed: u64, udp_works: bool) -> (World, LinkId) {
    let mut world = World::new(seed);
    world.run_until(world.now + Duration::from_secs(3));
    let id = world.open_link();
    world.change_path(id.into());
    world.run_until(world.now + Duration::from_secs(3));
    (world.up.works, world.down.works) = (udp_works, udp_works);
    assert_eq!(world.path(GATEWAY), Some(Path::Link(id)));
    (world, id)
}

#[test]
fn a_probe_does_not_move_the_session_and_costs_it_nothing() {
    seeds::for_each("a_probe_does_not_move_the_session_and_costs_it_nothing", |seed| {
        let udp_works = seed % 2 == 0;
        let (mut world, id) = over_a_link(seed, udp_works);
        world.send_body(200_000);
        let before = [AGENT, GATEWAY].map(|side| world.stats(side));
        world.probe(gateway_address().into());
        world.run_to_the_end();
        world.run_until(world.now + Duration::from_secs(20));
        let (path, rtt) = world.probed.expect("the probe has ended");
        assert_eq!(path, Path::from(gateway_address()));
        assert_eq!(rtt.is_some(), udp_works);
        for side in [AGENT, GATEWAY] {
            assert_eq!(world.path(side), Some(Path::Link(id)), "side {side}");
            let (stats, before) = (world.stats(side), before[side]);
            assert_eq!(
                stats.retransmitted_bytes, before.retransmitted_bytes,
                "side {side}"
            );
            assert_eq!(stats.packets_lost, before.packets_lost, "side {side}");
            assert_eq!(stats.stalls, before.stalls, "side {side}");
        }
    });
}

#[test]
fn after_a_probe_the_session_returns_to_udp() {
    seeds::for_each("after_a_probe_the_session_returns_to_udp", |seed| {
        let (mut world, _) = over_a_link(seed, true);
        world.probe(gateway_address().into());
        world.run_until(world.now + Duration::from_secs(20));
        let (path, rtt) = world.probed.expect("the probe has ended");
        assert!(rtt.is_some());
        world.send_body(300_000);
        world.run_until(world.now + Duration::from_millis(200));
        world.change_path(path);
        world.run_to_the_end();
        assert!(world.path(GATEWAY).and_then(Path::udp).is_some());
    });
}

/// A path that carries only small packets, or only one direction, fails the probe.
#[test]
fn a_path_that_carries_one_direction_only_fails_the_probe() {
    seeds::for_each("a_path_that_carries_one_direction_only_fails_the_probe", |seed| {
        let (mut world, id) = over_a_link(seed, false);
        if seed % 2 == 0 {
            world.up.works = true;
        } else {
            world.down.works = true;
        }
        world.probe(gateway_address().into());
        world.run_until(world.now + Duration::from_secs(20));
        assert_eq!(world.probed, Some((gateway_address().into(), None)));
        world.send_body(100_000);
        world.run_to_the_end();
        assert_eq!(world.path(GATEWAY), Some(Path::Link(id)));
    });
}
