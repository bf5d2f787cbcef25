use longhaul_netem::{AddressChanges, ClientAddress, Hop, HopConfig, Side};

use crate::probe::{Probe, at, config, ms};

fn hop(changes: AddressChanges) -> Hop<Probe> {
    let config = HopConfig {
        down: config(8_000),
        up: config(8_000),
        address_changes: changes,
    };
    Hop::new(config, 1)
}

#[test]
fn packets_are_delivered_in_both_directions() {
    let mut hop = hop(AddressChanges::default());
    hop.send(at(0), Side::Client, Probe::new(1, 1000));
    hop.send(at(0), Side::Gateway, Probe::new(2, 1000));
    assert_eq!(hop.next_event(), Some(at(11)));
    assert_eq!(hop.poll_client(at(10)), None);
    assert_eq!(hop.poll_client(at(11)).unwrap().packet.number, 2);
    let up = hop.poll_gateway(at(11)).unwrap();
    assert_eq!((up.from, up.delivery.packet.number), (ClientAddress(0), 1));
    assert_eq!(hop.next_event(), None);
}

#[test]
fn packets_to_an_earlier_client_address_are_lost() {
    let mut hop = hop(AddressChanges::at([at(100), at(50)]));
    assert_eq!(hop.client_address(at(49)), ClientAddress(0));
    assert_eq!(hop.client_address(at(50)), ClientAddress(1));
    assert_eq!(hop.client_address(at(100)), ClientAddress(2));

    // Sent to the current address, which changes while the packet is in flight.
    hop.send(at(45), Side::Gateway, Probe::new(1, 1000));
    // Sent before the change with the old source, and received.
    hop.send(at(45), Side::Client, Probe::new(2, 1000));
    assert_eq!(hop.poll_client(at(60)), None);
    assert_eq!(hop.poll_gateway(at(60)).unwrap().from, ClientAddress(0));

    hop.send(at(60), Side::Client, Probe::new(3, 1000));
    assert_eq!(hop.poll_gateway(at(80)).unwrap().from, ClientAddress(1));
    hop.send_to_client(at(80), ClientAddress(0), Probe::new(4, 1000));
    hop.send_to_client(at(80), ClientAddress(1), Probe::new(5, 1000));
    // A poll after the next change still compares with the address at the time of arrival.
    assert_eq!(hop.poll_client(at(200)).unwrap().packet.number, 5);
    assert_eq!(hop.poll_client(at(200)), None);
    assert_eq!(hop.misaddressed().packets, 2);

    // Both directions can be inspected; the lost packets crossed the link.
    assert_eq!(hop.down().stats().delivered.packets, 3);
    assert_eq!(hop.up().stats().delivered.packets, 2);
    assert_eq!(hop.down().busy_between(at(0), at(200)), Some(ms(3)));
    assert_eq!(hop.take_queueing_delays(Side::Client).count(), 3);
    assert_eq!(hop.take_queueing_delays(Side::Client).count(), 0);
}

#[test]
fn directions_and_seeds_have_different_draws() {
    let arrivals = |seed| {
        let mut jittery = config(8_000);
        jittery.jitter = ms(1000);
        let config = HopConfig {
            down: jittery.clone(),
            up: jittery,
            address_changes: AddressChanges::default(),
        };
        let mut hop = Hop::new(config, seed);
        hop.send(at(0), Side::Client, Probe::new(0, 1000));
        hop.send(at(0), Side::Gateway, Probe::new(0, 1000));
        let down = hop.poll_client(at(5000)).unwrap().arrived;
        let up = hop.poll_gateway(at(5000)).unwrap().delivery.arrived;
        (down, up, hop.event_hash())
    };
    let (down, up, _) = arrivals(1);
    assert_ne!(down, up);
    assert_eq!(arrivals(1), arrivals(1));
    assert_ne!(arrivals(1), arrivals(2));
}
