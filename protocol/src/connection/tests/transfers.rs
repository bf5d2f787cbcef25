//! Complete transfers: busy links, random loss, every byte delivered once.
use super::{pair::Link, *};

#[test]
fn a_60_kb_response_keeps_thin_links_busy_from_first_to_last_byte() {
    for name in ["gprs-3+1", "umts-384", "edge", "geo-sat"] {
        for size in [20_000, 60_000, 300_000] {
            let (up, down) = hop(name);
            let rtt = up.delay + down.delay;
            let mut pair = Pair::new(Some(name), up, down, 1);
            let mut users = (User::default(), User::default());
            let time = fetch(&mut pair, &mut users, &[size], Duration::from_secs(300));
            let link = &pair.down;
            let request = ByteCount::new(500) / BitRate::bps(pair.up.rate);
            let wire = ByteCount::new(link.bytes) / BitRate::bps(link.rate);
            let floor = rtt + wire + request;
            let begun = link.first.expect("sent");
            let busy = link.busy.as_secs_f64() / link.free_at.saturating_since(begun).as_secs_f64();
            println!(
                "{name} {size}: {:.3} s, floor {:.3} s, busy {:.4}, bytes {} ({:.4}), up {} lost {} again {}",
                time.as_secs_f64(),
                floor.as_secs_f64(),
                busy,
                link.bytes,
                link.bytes as f64 / size as f64,
                pair.up.bytes,
                pair.gateway.stats().packets_lost,
                pair.gateway.stats().retransmitted_bytes,
            );
            assert!(
                time <= floor.mul_f64(1.03),
                "{name} {size}: {time:?} over {floor:?}"
            );
            if name != "geo-sat" {
                assert!(busy >= 0.985, "{name} {size}: busy {busy}");
            }
            assert_eq!(pair.gateway.stats().retransmitted_bytes, 0);
            assert!(
                pair.up.bytes as f64 * 8.0 <= 0.11 * pair.up.rate as f64 * time.as_secs_f64() + 8.0 * 800.0
            );
        }
    }
}

#[test]
fn a_second_fetch_after_a_pause_is_as_fast() {
    for name in ["gprs-3+1", "umts-384"] {
        let (up, down) = hop(name);
        let mut pair = Pair::new(Some(name), up, down, 1);
        let mut users = (User::default(), User::default());
        let first = fetch(&mut pair, &mut users, &[60_000], Duration::from_secs(60));
        pair.run_for(Duration::from_secs(20));
        let second = fetch(&mut pair, &mut users, &[60_000], Duration::from_secs(60));
        println!("{name}: first {first:?}, second {second:?}");
        assert!(second <= first.mul_f64(1.02));
    }
}

#[test]
fn every_stream_arrives_exactly_once_over_bad_links() {
    for seed in 0..seeds() {
        let mut noise = Noise(seed * 77 + 5);
        let names = ["gprs-3+1", "umts-384", "lte", "wlan-lossy", "geo-sat"];
        let name = names[noise.below(names.len())];
        let (mut up, mut down) = hop(name);
        for link in [&mut up, &mut down] {
            link.loss = noise.unit() * 0.2;
            link.reorder = noise.unit() * 0.3;
            link.duplicate = noise.unit() * 0.05;
            link.corrupt = noise.unit() * 0.03;
        }
        let outage = [0, 5, 20, 40][noise.below(4)];
        let from = Duration::from_millis(1500 + noise.next() % 4000);
        let lost = vec![(from, from + Duration::from_secs(outage))];
        match noise.next() % 3 {
            0 => up.outages = lost,
            1 => down.outages = lost,
            _ => {
                up.outages = lost.clone();
                down.outages = lost;
            }
        }
        let profile = (noise.below(3) > 0).then_some(name);
        let mut pair = Pair::new(profile, up, down, seed + 1);
        let mut users = (User::default(), User::default());
        let sizes: Vec<usize> = (0..12)
            .map(|_| [0, 1, 900, 5000, 30_000, 60_000][noise.below(6)])
            .collect();
        let time = fetch(&mut pair, &mut users, &sizes, Duration::from_secs(900));
        println!(
            "seed {seed} {name} {outage} s: {time:?} book {}",
            pair.largest_book
        );
        // After a while nothing is pending: no stream and no byte remains on either side.
        pair.run_for(Duration::from_secs(60));
        for (side, connection) in [("agent", &pair.agent), ("gateway", &pair.gateway)] {
            assert_eq!(connection.streams.open_count(), (0, 0), "seed {seed}: {side}");
            assert_eq!(connection.streams.recv_buffered(), 0);
            assert_eq!(connection.streams.send_buffered(), 0);
            assert!(
                connection.state() == State::Open,
                "seed {seed}: {side} {:?}",
                connection.state()
            );
        }
        assert!(pair.largest_book < 6000);
    }
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let run = || {
        let (mut up, mut down) = hop("umts-384");
        up.loss = 0.05;
        down.loss = 0.05;
        let mut pair = Pair::new(Some("umts-384"), up, down, 7);
        let mut users = (User::default(), User::default());
        let time = fetch(
            &mut pair,
            &mut users,
            &[60_000, 900, 30_000],
            Duration::from_secs(100),
        );
        (time, pair.up.bytes, pair.down.bytes, pair.steps)
    };
    assert_eq!(run(), run());
}

#[test]
fn random_loss_costs_little_more_than_the_lost_packets() {
    for (name, size) in [("umts-384", 1_000_000), ("wlan-lossy", 20_000_000)] {
        let mut clean = 0.0;
        for (loss, least) in [(0.0, 0.9), (0.01, 0.95), (0.05, 0.93), (0.10, 0.88)] {
            let (up, mut down) = hop(name);
            down.loss = loss;
            let mut pair = Pair::new(Some(name), up, down, 3);
            let mut users = (User::default(), User::default());
            let time = fetch(&mut pair, &mut users, &[size], Duration::from_secs(300));
            let goodput = size as f64 * 8.0 / time.as_secs_f64() / pair.down.rate as f64;
            let stats = pair.gateway.stats();
            let again = stats.retransmitted_bytes as f64 / size as f64;
            println!(
                "{name} {loss}: goodput {goodput:.3}, again {again:.3}, spurious {}, queue drops {}",
                pair.agent.stats().spurious,
                pair.down.dropped
            );
            if loss == 0.0 {
                clean = goodput;
            }
            let reference = if loss == 0.0 { 1.0 } else { clean * (1.0 - loss) };
            assert!(
                goodput >= least * reference,
                "{name} {loss}: {goodput} of {reference}"
            );
            assert!(
                again <= loss / (1.0 - loss) + 0.012,
                "{name} {loss}: {again} sent again"
            );
        }
    }
}

/// A limit paces both directions: nothing is dropped, and no direction is faster than the limit.
#[test]
fn a_limited_session_is_paced_to_its_limit_in_both_directions() {
    const SIZE: usize = 1_000_000;
    let limit = BitRate::kbps(2000);
    for uploads in [false, true] {
        let (up, down) = (
            Link::new(20_000_000, 20, 200_000),
            Link::new(20_000_000, 20, 200_000),
        );
        let mut pair = Pair::new(None, up, down, 1);
        pair.run_for(Duration::from_secs(1));
        pair.gateway.limit_rate(pair.now, Some(limit));
        let before = pair.now;
        let mut users = (User::default(), User::default());
        if uploads {
            upload(&mut pair, &mut users, SIZE, Duration::from_secs(60));
        } else {
            fetch(&mut pair, &mut users, &[SIZE], Duration::from_secs(60));
        }
        let took = pair.now.saturating_since(before);
        let floor = ByteCount::new(SIZE as u64) / limit;
        println!("uploads {uploads}: {took:?}, at the limit {floor:?}");
        // The first flight and the bucket of the pacer are not limited; headers take a few per cent.
        assert!(took >= floor.mul_f64(0.9), "faster than the limit: {took:?}");
        assert!(took <= floor.mul_f64(1.15), "slower than the limit: {took:?}");
        assert_eq!(pair.up.dropped + pair.down.dropped, 0);
        pair.gateway.limit_rate(pair.now, None);
    }
}

/// Sends `size` bytes from the agent; returns once all have arrived.
fn upload(pair: &mut Pair, users: &mut (User, User), size: usize, limit: Duration) {
    let end = pair.now + limit;
    let id = users.0.send(pair.now, &mut pair.agent, 1, body(size, 1));
    while !users.1.finished.contains_key(&id) {
        assert!(pair.step(end), "{:?}", pair.gateway.stats());
        users.0.push(pair.now, &mut pair.agent);
        users.1.pull(pair.now, &mut pair.gateway);
    }
}
