//! A link of datagrams, as QUIC is: smaller packets than those of UDP, and losses.
use std::time::Duration;

use longhaul_protocol::path::LEAST_LINK_PAYLOAD;

use super::world::{AGENT, GATEWAY, World, gateway_address};
use crate::seeds;

/// A download from UDP to the link and back: what was cut for one path is cut anew for the other, and each byte
/// arrives once. The world checks each body, and that each packet fits its path.
#[test]
fn a_download_goes_from_udp_to_small_datagrams_and_back() {
    seeds::for_each("a_download_goes_from_udp_to_small_datagrams_and_back", |seed| {
        let mut world = World::new(seed);
        for lane in [&mut world.up, &mut world.down] {
            lane.loss = 50 + seed % 100;
            lane.reordering = 20;
        }
        world.run_until(world.now + Duration::from_secs(2));
        world.send_body(3_000_000);
        let time = Duration::from_millis(200) + world.random.time(Duration::from_secs(1));
        world.run_until(world.now + time);
        (world.up.works, world.down.works) = (false, false);
        let id = world.open_datagram_link(LEAST_LINK_PAYLOAD);
        world.change_path(id.into());
        let follow = world.now + Duration::from_secs(20);
        while world.path(GATEWAY) != Some(id.into()) {
            assert!(world.now < follow, "the gateway does not follow");
            world.step(follow);
        }
        // The carrier finds out that its path takes more, and later that it takes less.
        for payload in [1_194, 1_414, LEAST_LINK_PAYLOAD] {
            world.set_link_payload(payload);
            world.run_until(world.now + Duration::from_millis(500));
        }
        let losses = world.stats(GATEWAY).packets_lost;
        (world.up.works, world.down.works) = (true, true);
        world.change_path(gateway_address().into());
        world.run_to_the_end();
        assert_eq!(world.path(AGENT), Some(gateway_address().into()));
        assert_eq!(world.finished, 1);
        losses
    });
}

/// The link loses packets, and the session recovers them by the rules of UDP.
#[test]
fn losses_on_a_link_of_datagrams_are_repaired() {
    let lost = seeds::for_each("losses_on_a_link_of_datagrams_are_repaired", |seed| {
        let mut world = World::new(seed);
        world.run_until(world.now + Duration::from_secs(2));
        let id = world.open_datagram_link(1_194);
        world.change_path(id.into());
        for _ in 0..5 {
            world.send_body(200_000);
            world.run_until(world.now + Duration::from_secs(1));
        }
        world.run_to_the_end();
        assert_eq!(world.finished, 5);
        world.stats(GATEWAY).packets_lost
    });
    assert!(lost.iter().any(|lost| *lost > 0), "no run lost a packet");
}
