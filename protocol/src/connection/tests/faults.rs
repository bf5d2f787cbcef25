//! Outages, lost tails, address changes, slow readers, cancelled streams, closing.
use super::*;
use crate::streams::ReadError;

fn outage(name: &str, both: bool, from: f64, seconds: f64) -> Pair {
    let (mut up, mut down) = hop(name);
    let lost = vec![(
        Duration::from_secs_f64(from),
        Duration::from_secs_f64(from + seconds),
    )];
    if both {
        up.outages = lost.clone();
    }
    down.outages = lost;
    Pair::new(Some(name), up, down, 5)
}

#[test]
fn an_outage_ends_within_a_second_and_a_round_trip_and_costs_few_probes() {
    for name in ["gprs-3+1", "umts-384", "geo-sat"] {
        for both in [true, false] {
            for seconds in [5.0, 20.0, 40.0] {
                let mut pair = outage(name, both, 4.0, seconds);
                let mut users = (User::default(), User::default());
                let size = usize_of(pair.down.rate / 8 * 12);
                let id = users.0.send(pair.now, &mut pair.agent, 1, body(400, 1));
                let mut sent_at_stall = None;
                let restored = Timestamp::ZERO + Duration::from_secs_f64(4.0 + seconds);
                let (mut before, mut useful) = (0, None);
                while users.0.finished.is_empty() {
                    assert!(
                        pair.step(Timestamp::ZERO + Duration::from_secs(400)),
                        "{name} {seconds}"
                    );
                    for request in users.1.pull(pair.now, &mut pair.gateway) {
                        assert_eq!(request, id);
                        users.1.send(pair.now, &mut pair.gateway, 3, body(size, 2));
                    }
                    users.1.push(pair.now, &mut pair.gateway);
                    users.0.pull(pair.now, &mut pair.agent);
                    // A packet larger than feedback carries data.
                    let got = pair.agent.stats().bytes_received;
                    if pair.now >= restored && got > before + 200 {
                        useful.get_or_insert(pair.now);
                    }
                    before = got;
                    if pair.gateway.state() == State::Stalled && sent_at_stall.is_none() {
                        sent_at_stall = Some((pair.now, pair.gateway.stats().bytes_sent));
                    }
                    if pair.now < restored
                        && let Some((_, bytes)) = sent_at_stall
                    {
                        let probes = pair.gateway.stats().bytes_sent - bytes;
                        assert!(probes <= 4096, "{name} {seconds}: {probes} bytes of probes");
                    }
                }
                let total = pair.now.saturating_since(Timestamp::ZERO).as_secs_f64() - 1.0;
                let again = pair.gateway.stats().retransmitted_bytes;
                let wait = useful.expect("data").saturating_since(restored);
                let rtt =
                    pair.up.delay + pair.down.delay + ByteCount::new(2600) / BitRate::bps(pair.down.rate);
                println!(
                    "{name} {seconds} s both {both}: useful after {wait:?}, {total:.2} s for 12 s of data, again {again}, stalled {:?}",
                    sent_at_stall.map(|(at, _)| at.saturating_since(Timestamp::ZERO).as_secs_f64() - 4.0)
                );
                assert!(
                    users
                        .0
                        .received
                        .values()
                        .next()
                        .is_some_and(|got| *got == body(size, 2))
                );
                assert!(
                    wait <= Duration::from_secs(1) + rtt + Duration::from_millis(100),
                    "{name} {seconds}: {wait:?}"
                );
                if seconds > 10.0 {
                    // A gateway that still receives the agent's PINGs continues to probe without a stall.
                    assert_eq!(
                        both,
                        pair.events.iter().any(|(_, up, e)| !up && *e == Event::Stalled)
                    );
                    assert_eq!(
                        both,
                        pair.events.iter().any(|(_, up, e)| !up && *e == Event::Resumed)
                    );
                    assert!(
                        pair.events.iter().any(|(_, up, e)| *up && *e == Event::Stalled),
                        "the agent notices too"
                    );
                }
            }
        }
    }
}

#[test]
fn a_lost_tail_costs_about_a_round_trip() {
    for name in ["umts-384", "geo-sat", "gprs-3+1"] {
        let (up, down) = hop(name);
        let rtt = up.delay + down.delay;
        let mut clean = Pair::new(Some(name), up.clone(), down.clone(), 1);
        let mut users = (User::default(), User::default());
        let base = fetch(&mut clean, &mut users, &[20_000], Duration::from_secs(60));
        let packet = ByteCount::new(1280) / BitRate::bps(down.rate);
        for lost in 2..=clean.down.carried {
            let mut pair = Pair::new(Some(name), up.clone(), down.clone(), 1);
            let mut users = (User::default(), User::default());
            pair.down.lose_nth = Some(lost);
            let time = fetch(&mut pair, &mut users, &[20_000], Duration::from_secs(60));
            println!("{name} packet {lost}: {base:?} then {time:?}");
            let extra = time.saturating_sub(base);
            // The packet is transmitted twice, its report once.
            let limit =
                rtt + Duration::from_millis(60).max(packet * 2) + packet * 3 + Duration::from_millis(50);
            assert!(extra <= limit, "{name} packet {lost}: {extra:?} over {limit:?}");
            assert_eq!(pair.gateway.stats().packets_lost, 1);
        }
    }
}

#[test]
fn a_lost_request_costs_one_probe_timeout() {
    let (mut up, down) = hop("umts-384");
    up.lose_nth = Some(1);
    let mut pair = Pair::new(Some("umts-384"), up, down, 1);
    let mut users = (User::default(), User::default());
    let time = fetch(&mut pair, &mut users, &[900], Duration::from_secs(60));
    println!("{time:?}");
    assert!(time <= Duration::from_millis(260 * 3 + 130 + 200 + 150));
}

#[test]
fn a_new_address_is_followed_and_challenged() {
    let (up, down) = hop("umts-384");
    let mut pair = Pair::new(Some("umts-384"), up, down, 1);
    let mut users = (User::default(), User::default());
    fetch(&mut pair, &mut users, &[60_000], Duration::from_secs(60));
    pair.from = Path::from(std::net::SocketAddr::from(([198, 51, 100, 7], 999)));
    fetch(&mut pair, &mut users, &[60_000], Duration::from_secs(60));
    assert_eq!(pair.gateway.path.remote, pair.from);
    assert_eq!(pair.gateway.path.budget(), u64::MAX, "the challenge was answered");
    assert!(pair.events.iter().any(|(_, up, e)| !up && *e == Event::Moved));
}

#[test]
fn an_unread_stream_bounds_memory_and_continues_when_read() {
    for loss in [0.0, 0.1] {
        let config = TransportConfig {
            receive_buffer: ByteCount::kib(64),
            ..TransportConfig::agent(Some("lte".parse().expect("known")))
        };
        let (up, mut down) = hop("lte");
        down.loss = loss;
        let mut pair = Pair::with(config, TransportConfig::gateway(), up, down, 9);
        let mut server = User::default();
        let data = body(400_000, 4);
        for _ in 0..3 {
            server.send(pair.now, &mut pair.gateway, 3, data.clone());
        }
        let end = pair.now + Duration::from_secs(120);
        let mut pause = pair.now;
        let mut got: BTreeMap<StreamId, Vec<u8>> = BTreeMap::new();
        let mut finished = 0;
        let mut largest = 0;
        while finished < 3 {
            assert!(
                pair.step(end),
                "{:?} {:?}",
                pair.agent.stats(),
                pair.gateway.stats()
            );
            server.push(pair.now, &mut pair.gateway);
            largest = largest.max(pair.agent.stats().receive_buffered.bytes());
            while let Some(id) = pair.agent.accept() {
                got.insert(id, Vec::new());
            }
            // The user reads everything, then nothing for two seconds.
            if pair.now < pause {
                continue;
            }
            let mut read = 0;
            for (id, bytes) in &mut got {
                while let Ok(outcome) = pair.agent.read(pair.now, *id) {
                    match outcome {
                        ReadOutcome::Data(data) => {
                            read += data.len();
                            bytes.extend_from_slice(&data);
                        }
                        ReadOutcome::Finished => finished += 1,
                        ReadOutcome::Blocked => break,
                    }
                }
            }
            if read > 30_000 {
                pause = pair.now + Duration::from_secs(2);
            }
        }
        println!("largest {largest}");
        assert!(largest <= 3 * 64 * 1024, "{largest}");
        assert!(got.values().all(|bytes| *bytes == data));
    }
}

#[test]
fn streams_that_nobody_reads_further_do_not_stop_the_others() {
    const VIDEOS: usize = 8;
    let (up, down) = hop("lte");
    let agent = TransportConfig::agent(Some("lte".parse().expect("known")));
    let mut pair = Pair::with(agent, TransportConfig::gateway(), up, down, 9);
    let mut server = User::default();
    let video = body(12_000_000, 4);
    for _ in 0..VIDEOS {
        server.send(pair.now, &mut pair.gateway, 3, video.clone());
    }
    let mut got: BTreeMap<StreamId, usize> = BTreeMap::new();
    let mut page = None;
    let (mut buffered, mut unchanged_since) = (0, pair.now);
    let end = pair.now + Duration::from_secs(300);
    loop {
        assert!(pair.step(end), "{:?}", pair.agent.stats());
        server.push(pair.now, &mut pair.gateway);
        while let Some(id) = pair.agent.accept() {
            got.insert(id, 0);
        }
        for (id, bytes) in &mut got {
            // Players read the beginning of their videos, then wait.
            while (*bytes < 200_000 || page.is_some_and(|(page, _)| page == *id))
                && let Ok(ReadOutcome::Data(data)) = pair.agent.read(pair.now, *id)
            {
                *bytes += data.len();
            }
        }
        let now_buffered = pair.agent.stats().receive_buffered.bytes();
        if now_buffered != buffered {
            (buffered, unchanged_since) = (now_buffered, pair.now);
        }
        match page {
            None if pair.now.saturating_since(unchanged_since) > Duration::from_secs(5)
                && got.len() == VIDEOS =>
            {
                let id = server.send(pair.now, &mut pair.gateway, 3, body(100_000, 5));
                page = Some((id, pair.now));
            }
            Some((id, since)) if got.get(&id) == Some(&100_000) => {
                let time = pair.now.saturating_since(since);
                assert!(time < Duration::from_secs(1), "{time:?}, {buffered} bytes wait");
                return;
            }
            _ => {}
        }
    }
}

#[test]
fn a_ping_that_waits_for_the_pacer_is_asked_for_once() {
    let (up, down) = hop("lte");
    let mut pair = Pair::new(Some("lte"), up, down, 11);
    let (mut agent, mut gateway) = (User::default(), User::default());
    agent.send(pair.now, &mut pair.agent, 3, body(10_000_000, 6));
    let (least, most) = (Duration::from_secs(1), Duration::from_secs(10));
    let is_waiting = |pair: &Pair| {
        let gateway = &pair.gateway;
        pair.now > Timestamp::ZERO + least
            && gateway.controller.sender_has_backlog()
            && !gateway.sent_packets.is_awaiting()
            && gateway.stats().measured_srtt.is_some()
    };
    while !is_waiting(&pair) {
        assert!(pair.step(Timestamp::ZERO + most), "no backlog");
        agent.push(pair.now, &mut pair.agent);
        gateway.pull(pair.now, &mut pair.gateway);
    }
    // The agent falls silent in the middle of its upload, and the gateway may send nothing for 8 s.
    let begin = pair.now;
    let gateway = &mut pair.gateway;
    gateway.pacer.set_rate(begin, BitRate::bps(10_000).into());
    gateway.pacer.drain(begin);
    gateway.pacer.on_sent(ByteCount::new(10_000));
    let (mut now, mut steps) = (begin, 0);
    while now < begin + Duration::from_secs(7) {
        while gateway.poll_transmit(now, &mut Vec::new()).is_some() {}
        now = now.max(gateway.poll_timeout().expect("a timer"));
        gateway.handle_timeout(now);
        steps += 1;
        assert!(steps < 1_000, "{:?}", gateway.stats());
    }
}

#[test]
fn randomly_cancelled_and_stopped_streams_leave_no_state() {
    for seed in 0..seeds() {
        chaos(seed);
    }
}

fn chaos(seed: u64) {
    let mut noise = Noise(seed * 991 + 17);
    let (mut up, mut down) = hop(["umts-384", "lte", "edge"][noise.below(3)]);
    for link in [&mut up, &mut down] {
        link.loss = noise.unit() * 0.2;
        link.reorder = noise.unit() * 0.2;
    }
    let small = TransportConfig {
        stream_window: ByteCount::kib(64),
        largest_stream_window: ByteCount::kib(64),
        max_streams: 64,
        receive_buffer: ByteCount::kib(100),
        send_buffer: ByteCount::kib(32),
        send_buffer_total: ByteCount::kib(64),
        ..TransportConfig::agent(None)
    };
    let mut pair = Pair::with(small.clone(), small, up, down, seed + 1);
    let mut intact: BTreeMap<(bool, StreamId), Bytes> = BTreeMap::new();
    let mut writing: BTreeMap<(bool, StreamId), Bytes> = BTreeMap::new();
    let mut got: BTreeMap<(bool, StreamId), Vec<u8>> = BTreeMap::new();
    let mut opened = 0;
    let end = pair.now + Duration::from_secs(1200);
    loop {
        let idle = opened == 120
            && writing.is_empty()
            && [&pair.agent, &pair.gateway]
                .iter()
                .all(|c| c.streams.open_count() == (0, 0));
        if idle {
            break;
        }
        assert!(
            pair.step(end),
            "seed {seed}: {} writing, {:?} {:?}\n{:?}\n{:?}",
            writing.len(),
            pair.agent.streams.open_count(),
            pair.gateway.streams.open_count(),
            pair.agent.stats(),
            pair.gateway.stats()
        );
        for up in [true, false] {
            let now = pair.now;
            let connection = if up { &mut pair.agent } else { &mut pair.gateway };
            while opened < 120 && noise.chance(0.2) {
                let Ok(id) = connection.open(
                    Priority::new([0, 1, 2, 3, 3, 5, 6, 7][noise.below(8)]),
                    EarlyData::Allowed,
                ) else {
                    break;
                };
                opened += 1;
                let data = body(noise.below(40_000), seed + id.0);
                if noise.chance(0.5) {
                    connection.announce(id, data.len() as u64);
                }
                intact.insert((up, id), data.clone());
                writing.insert((up, id), data);
            }
            writing.retain(|(side, id), data| {
                if *side != up {
                    return true;
                }
                if noise.chance(0.003) {
                    connection.cancel(*id, 7);
                    intact.remove(&(up, *id));
                    return false;
                }
                match connection.write(now, *id, data.clone()) {
                    Ok(taken) => *data = data.slice(taken..),
                    Err(WriteError::Blocked) => return true,
                    Err(WriteError::Stopped(9)) => return false,
                    Err(error) => panic!("seed {seed} {id}: {error}"),
                }
                data.is_empty().then(|| connection.finish(*id).expect("open"));
                !data.is_empty()
            });
            while let Some(id) = connection.accept() {
                got.insert((!up, id), Vec::new());
            }
            got.retain(|(side, id), bytes| {
                if *side == up {
                    return true;
                }
                if noise.chance(0.002) {
                    connection.stop(*id, 9);
                    intact.remove(&(!up, *id));
                    return false;
                }
                loop {
                    match connection.read(now, *id) {
                        Ok(ReadOutcome::Data(data)) => bytes.extend_from_slice(&data),
                        Ok(ReadOutcome::Blocked) => return true,
                        Ok(ReadOutcome::Finished) => {
                            if let Some(data) = intact.remove(&(!up, *id)) {
                                assert!(*bytes == data, "seed {seed}: stream {id} differs");
                            }
                            return false;
                        }
                        Err(ReadError::Cancelled(error)) => {
                            assert!(error == 7, "seed {seed}: {error}");
                            return false;
                        }
                        Err(error) => panic!("seed {seed} {id}: {error}"),
                    }
                }
            });
        }
    }
    assert!(
        intact.is_empty(),
        "seed {seed}: {:?} never arrived",
        intact.keys()
    );
    assert_eq!(
        pair.agent.streams.recv_buffered() + pair.gateway.streams.recv_buffered(),
        0
    );
    assert_eq!(
        pair.agent.streams.send_buffered() + pair.gateway.streams.send_buffered(),
        0
    );
}

#[test]
fn urgent_data_waits_at_most_for_one_packet_and_the_queue() {
    let (up, down) = hop("umts-384");
    let mut pair = Pair::new(Some("umts-384"), up, down, 1);
    let mut server = User::default();
    let mut client = User::default();
    server.send(pair.now, &mut pair.gateway, 5, body(4_000_000, 1));
    let until = pair.now + Duration::from_secs(30);
    while pair.step(until) {
        server.push(pair.now, &mut pair.gateway);
        client.pull(pair.now, &mut pair.agent);
    }
    let at = pair.now;
    let urgent = server.send(at, &mut pair.gateway, 1, body(2000, 2));
    while !client.finished.contains_key(&urgent) {
        assert!(pair.step(at + Duration::from_secs(5)));
        server.push(pair.now, &mut pair.gateway);
        client.pull(pair.now, &mut pair.agent);
    }
    let took = pair.now.saturating_since(at);
    println!("{took:?}, queue {:?}", pair.agent.stats().queue_delay);
    assert!(took <= Duration::from_millis(130 + 300 + 90), "{took:?}");
}

#[test]
fn an_agent_keeps_to_the_address_that_it_dialled() {
    let (up, down) = hop("umts-384");
    let mut pair = Pair::new(Some("umts-384"), up, down, 1);
    let dialled = pair.agent.path.remote;
    let mut datagram = Vec::new();
    pair.gateway.ping_due = true;
    assert!(pair.gateway.poll_transmit(pair.now, &mut datagram).is_some());
    let (header, header_len) = ShortHeader::parse(&datagram, IndexLength::Agent).expect("short");
    let elsewhere = Path::from(std::net::SocketAddr::from(([203, 0, 113, 5], 7)));
    pair.agent
        .handle_short(pair.now, elsewhere, header, header_len, &mut datagram);
    assert_eq!(pair.agent.stats().packets_received, 1, "it authenticates");
    assert_eq!(pair.agent.path.remote, dialled);
}

#[test]
fn the_first_packet_from_a_new_address_is_padded_to_allow_a_reply() {
    let (up, down) = hop("gprs-3+1");
    let mut pair = Pair::new(Some("gprs-3+1"), up, down, 1);
    let mut users = (User::default(), User::default());
    fetch(&mut pair, &mut users, &[3_000], Duration::from_secs(60));
    // Pending data stays out of the padded packet, because the last DATA frame would extend over the padding.
    users.0.send(pair.now, &mut pair.agent, 1, body(100, 7));
    pair.agent.network_changed(pair.now);
    let mut datagram = Vec::new();
    assert!(pair.agent.poll_transmit(pair.now, &mut datagram).is_some());
    assert_eq!(datagram.len(), 400);
    pair.run_for(Duration::from_secs(20));
    assert!(users.1.pull(pair.now, &mut pair.gateway).len() == 1);
    assert!(users.1.received.values().any(|got| *got == body(100, 7)));
}
