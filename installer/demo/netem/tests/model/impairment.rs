use longhaul_netem::{Link, Packet, Probability};

use crate::probe::{config, ms, send_spaced};

#[test]
fn duplicates_arrive_consecutively_and_use_no_capacity() {
    let mut duplicating = config(8_000);
    duplicating.duplication = Probability::per_mille(100);
    let mut link = Link::new(duplicating, 2);
    let arrived = send_spaced(&mut link, 20_000, ms(1));
    let twice = arrived.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
    let stats = link.stats();
    assert_eq!(twice, stats.duplicated.packets);
    assert!(twice.abs_diff(2000) < 180, "{twice} of 20000 at 10 %");
    assert_eq!(stats.delivered.packets, 20_000 + twice);
    assert_eq!(stats.sent.packets, 20_000);
    let last = arrived[arrived.len() - 1].arrived;
    assert_eq!(last.as_nanos(), 20_010_000_000);
}

#[test]
fn corruption_inverts_one_uniformly_distributed_bit() {
    let mut corrupting = config(8_000);
    corrupting.corruption = Probability::per_mille(250);
    let mut link = Link::new(corrupting, 3);
    let arrived = send_spaced(&mut link, 20_000, ms(1));
    let flipped: Vec<_> = arrived
        .iter()
        .filter_map(|delivery| delivery.packet.flipped)
        .collect();
    assert_eq!(flipped.len() as u64, link.stats().corrupted.packets);
    assert!(
        flipped.len().abs_diff(5000) < 250,
        "{} of 20000 at 25 %",
        flipped.len()
    );
    assert!(flipped.iter().all(|bit| *bit < 8000));
    for quarter in 0..4 {
        let range = quarter * 2000..(quarter + 1) * 2000;
        let hits = flipped.iter().filter(|bit| range.contains(*bit)).count();
        assert!(hits.abs_diff(flipped.len() / 4) < 140, "{hits} in {range:?}");
    }
}

#[test]
fn flip_bit_inverts_exactly_the_numbered_bit() {
    let mut packet = vec![0_u8; 4];
    packet.flip_bit(9);
    assert_eq!(packet, [0, 2, 0, 0]);
    packet.flip_bit(9);
    packet.flip_bit(32);
    assert_eq!(packet, [0; 4], "a bit number beyond the packet has no effect");
}

#[test]
fn impairments_have_independent_random_streams() {
    let losses = |jitter| {
        let mut lossy = config(8_000);
        lossy.loss = longhaul_netem::Loss::Random(Probability::per_mille(50));
        lossy.jitter = ms(jitter);
        let arrived = send_spaced(&mut Link::new(lossy, 11), 2000, ms(1));
        arrived
            .iter()
            .map(|delivery| delivery.packet.number)
            .collect::<Vec<_>>()
    };
    assert_eq!(losses(0), losses(7));
}
