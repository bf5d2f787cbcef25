use longhaul_session::class;
use longhaul_types::{LinkProfile, Priority};

use super::*;

/// The pace of a named link that is not measured.
fn named(link: &str) -> Arc<Pace> {
    let profile: LinkProfile = link.parse().unwrap();
    Pace::of(Some(profile.down), false).unwrap()
}

fn urgency(class: Priority, left: u64) -> Arc<Urgency> {
    let urgency = Urgency::default();
    urgency.set(class, left);
    Arc::new(urgency)
}

/// Writes a turn as a connection does.
async fn write(pace: &Arc<Pace>) -> usize {
    let bytes = Arc::clone(pace).turn(Arc::default()).await;
    pace.written(bytes);
    bytes
}

#[tokio::test(start_paused = true)]
async fn all_connections_together_keep_the_rate_of_the_link() {
    for link in ["gprs-3+1", "umts-384", "lte"] {
        let pace = named(link);
        let start = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..6 {
            let pace = Arc::clone(&pace);
            tasks.spawn(async move {
                let mut bytes = 0;
                for _ in 0..50 {
                    bytes += write(&pace).await;
                }
                bytes
            });
        }
        let bytes: usize = tasks.join_all().await.into_iter().sum();
        let profile: LinkProfile = link.parse().unwrap();
        #[expect(clippy::cast_precision_loss, reason = "a test")]
        let used = bytes as f64 * 8.0 / start.elapsed().as_secs_f64() / profile.down.as_bps() as f64;
        assert!((0.90..0.96).contains(&used), "{link}: {used}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_costs_no_time() {
    let pace = named("gprs-3+1");
    let start = Instant::now();
    for _ in 0..100 {
        let permitted = Arc::clone(&pace).turn(Arc::default()).await;
        pace.written(permitted / 10);
        pace.give_back(permitted - permitted / 10);
    }
    let time = pace.state.lock().control.limit().time(PACKET);
    let elapsed = start.elapsed();
    assert!(elapsed > time * 8 && elapsed < time * 12, "{elapsed:?}");
    assert_eq!(pace.state.lock().permitted, 0);
}

#[tokio::test(start_paused = true)]
async fn the_most_urgent_and_shortest_is_next_and_nobody_waits_for_ever() {
    let pace = named("gprs-3+1");
    let _first = Arc::clone(&pace).turn(Arc::default()).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = tokio::task::JoinSet::new();
    let mut wait = |class: Priority, left: u64| {
        let (pace, order) = (Arc::clone(&pace), Arc::clone(&order));
        tasks.spawn(async move {
            pace.turn(urgency(class, left)).await;
            order.lock().push((class.number(), left));
        });
    };
    for (class, left) in [
        (class::BULK, 1),
        (class::OBJECT, 500),
        (class::PAGE, 900),
        (class::OBJECT, 20),
    ] {
        wait(class, left);
    }
    for left in 100..104 {
        wait(class::PAGE, left);
    }
    tasks.join_all().await;
    let page = class::PAGE.number();
    let expected = [
        (page, 100),
        (page, 101),
        (page, 102),
        (page, 103),
        (page, 900),
        (class::OBJECT.number(), 20),
        // The eighth turn.
        (class::BULK.number(), 1),
        (class::OBJECT.number(), 500),
    ];
    assert_eq!(*order.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_its_place_does_not_hold_up_others() {
    let pace = named("gprs-3+1");
    let _first = Arc::clone(&pace).turn(Arc::default()).await;
    let gone = tokio::spawn(Arc::clone(&pace).turn(urgency(class::PAGE, 1)));
    tokio::task::yield_now().await;
    gone.abort();
    let _second = Arc::clone(&pace).turn(urgency(class::BULK, 1)).await;
    assert!(pace.state.lock().turns.is_empty());
}

/// What the kernel says of a new connection with this round trip.
fn handshake(millis: u64) -> TcpInfo {
    TcpInfo {
        shortest_round_trip: Some(Duration::from_millis(millis)),
        ..TcpInfo::default()
    }
}

async fn connection() -> Arc<Link> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    Arc::new(Link::new(tokio::net::TcpStream::connect(address).await.unwrap()))
}

#[tokio::test]
async fn the_connections_of_an_unknown_client_share_the_first_flight_and_those_of_a_near_one_are_free() {
    let near = Pace::of(None, true).unwrap();
    near.add(&connection().await, &handshake(5));
    assert!(near.is_free());
    let far = Pace::of(None, true).unwrap();
    let links = [connection().await, connection().await];
    for link in &links {
        far.add(link, &handshake(600));
    }
    assert!(!far.is_free());
    for link in links.iter().cycle().take(4) {
        assert_eq!(Arc::clone(&far).turn(Arc::clone(&link.urgency)).await, PACKET);
        far.written(PACKET);
    }
    let state = far.state.lock();
    assert!(!state.has_room(state.control.limit()));
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_which_the_client_takes_nothing_does_not_hold_up_others() {
    let pace = Pace::of(None, true).unwrap();
    let (stuck, other) = (connection().await, connection().await);
    pace.add(&stuck, &handshake(600));
    pace.add(&other, &handshake(600));
    for _ in 0..4 {
        let bytes = Arc::clone(&pace).turn(Arc::clone(&stuck.urgency)).await;
        stuck.count(bytes);
        pace.written(bytes);
    }
    let start = Instant::now();
    // Its client has taken nothing, because nothing was sent really.
    assert_eq!(Arc::clone(&pace).turn(Arc::clone(&other.urgency)).await, PACKET);
    assert!(start.elapsed() >= Duration::from_millis(600) * STUCK_ROUND_TRIPS);
    assert!(stuck.urgency.is_stuck() && !other.urgency.is_stuck());
    // It stays stuck until its client takes something.
    tokio::time::advance(Duration::from_secs(30)).await;
    pace.look();
    assert!(stuck.urgency.is_stuck() && !other.urgency.is_stuck());
}

/// A connection whose client reads, and the client.
async fn accepted() -> (Arc<Link>, tokio::net::TcpStream) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, accepted) = tokio::join!(tokio::net::TcpStream::connect(address), listener.accept());
    let (client, stream) = (client.unwrap(), accepted.unwrap().0);
    stream.writable().await.unwrap();
    (Arc::new(Link::new(stream)), client)
}

/// Writes so many bytes, and waits until they are acknowledged.
fn write_acknowledged(link: &Link, bytes: usize) {
    assert_eq!(link.tcp().try_write(&vec![0; bytes]).unwrap(), bytes);
    link.count(bytes);
    while tcp_info(&*link.tcp()).is_ok_and(|info| info.unsent_bytes + info.flight_bytes > 0) {
        std::thread::yield_now();
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_client_acknowledged_during_a_pause_has_no_round_trip() {
    let (link, _client) = accepted().await;
    let pace = Pace::of(None, true).unwrap();
    pace.add(&link, &handshake(5));
    write_acknowledged(&link, 1000);
    // The acknowledgement arrives at once, and is looked at much later.
    tokio::time::advance(Duration::from_secs(30)).await;
    pace.look();
    let state = pace.state.lock();
    let Control::Governed(governor) = &state.control else {
        panic!("not measured");
    };
    assert!(governor.last_round_trip() < Duration::from_secs(1));
    assert!(governor.limit().is_free());
}

#[tokio::test(start_paused = true)]
async fn what_arrived_during_a_pause_is_no_part_of_the_first_flight() {
    for (pause, is_read) in [(Duration::ZERO, true), (PAUSE, true), (PAUSE * 60, false)] {
        let (link, _client) = accepted().await;
        let pace = Pace::of(None, true).unwrap();
        pace.add(&link, &handshake(600));
        write_acknowledged(&link, 1000);
        tokio::time::advance(pause).await;
        pace.state.lock().look(pause, Instant::now());
        // A near client is free at once, unless its first flight is being measured already.
        pace.add(&connection().await, &handshake(5));
        assert_eq!(!pace.is_free(), is_read, "{pause:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn links_without_a_rate_are_measured_and_those_above_50_mbit_have_no_pace() {
    let none = Some(BitRate::bps(0));
    assert!(Pace::of(none, false).is_none());
    assert!(matches!(
        Pace::of(none, true).unwrap().state.lock().control,
        Control::Governed(_)
    ));
    let at_most = Pace::of(Some(BitRate::bps(FASTEST)), true).unwrap();
    assert!(matches!(at_most.state.lock().control, Control::Fixed(_)));
    assert!(Pace::of(Some(BitRate::bps(FASTEST + 1)), true).is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_permitted_and_what_is_written_take_up_room_together() {
    let pace = Pace::of(None, true).unwrap();
    let link = connection().await;
    pace.add(&link, &handshake(600));
    for _ in 0..2 {
        let bytes = Arc::clone(&pace).turn(Arc::clone(&link.urgency)).await;
        pace.written(bytes);
    }
    for _ in 0..2 {
        Arc::clone(&pace).turn(Arc::clone(&link.urgency)).await;
    }
    let state = pace.state.lock();
    let both = (state.outstanding, state.permitted);
    assert_eq!(both, (2 * PACKET as u64, 2 * PACKET as u64));
    // The first flight has four packets.
    assert!(!state.has_room(state.control.limit()));
}

#[tokio::test(start_paused = true)]
async fn connections_are_held_back_by_the_rate_or_by_what_is_outstanding() {
    let pace = Pace::of(None, true).unwrap();
    pace.add(&connection().await, &handshake(600));
    let mut state = pace.state.lock();
    let (now, later) = (Instant::now(), Instant::now() + LATE);
    let window = 4 * PACKET as u64;
    for (waits, free, outstanding, is_held_back) in [
        (false, later, window, false),
        (true, now, 0, false),
        (true, later, 0, true),
        (true, now, window, true),
        (true, later, window, true),
    ] {
        let rank = waits.then(|| state.turns.enter(&Urgency::default()));
        (state.free, state.outstanding) = (free, outstanding);
        assert_eq!(state.is_held_back(now), is_held_back, "{waits} {outstanding}");
        if let Some(rank) = rank {
            state.turns.leave(rank);
        }
    }
}

#[test]
fn no_time_is_taken_for_never() {
    assert_eq!(micros(Duration::from_millis(3)), 3000);
    assert!(micros(Duration::MAX) < u64::MAX);
}

#[test]
fn what_is_written_is_no_longer_left() {
    let (mut turns, short) = (Turns::default(), urgency(class::OBJECT, 500));
    let other = turns.enter(&urgency(class::OBJECT, 100));
    short.written(450);
    let rank = turns.enter(&short);
    assert!(turns.is_next(rank) && !turns.is_next(other));
}

#[test]
fn pieces_take_20_ms_of_the_link() {
    for (rate, least, most) in [
        (1_000.0, PACKET, PACKET),
        (300_000.0, 5_999, 6_000),
        (10_000_000.0, 16_384, 16_384),
    ] {
        let piece = Limit::of_rate(rate * limit::HEADERS).piece();
        assert!((least..=most).contains(&piece), "{rate}: {piece}");
    }
}
