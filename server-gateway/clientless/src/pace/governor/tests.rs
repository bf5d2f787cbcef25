//! The governor on virtual time, with six connections (unless said) that share one bottleneck.
mod rules;

use std::collections::VecDeque;

use super::{super::meter::Arrived, *};

/// Time of a step.
const STEP: f64 = 0.001;

/// The way to the client.
#[derive(Clone, Copy)]
struct Way {
    /// Bytes of IP packets a second that the bottleneck carries to the client, and from it.
    down: f64,
    up: f64,
    round_trip: f64,
    /// Acknowledgements arrive at multiples of this time only.
    thinning: f64,
    /// Time between the requests of 500 bytes that the client sends in the way of acknowledgements, and how many at a time.
    requests: (f64, u32),
}

fn way(kbit: f64, round_trip: f64) -> Way {
    Way {
        down: kbit * 125.0,
        up: kbit * 125.0 / 3.0,
        round_trip,
        thinning: 0.0,
        requests: (f64::INFINITY, 0),
    }
}

#[derive(Default)]
struct Connection {
    written: u64,
    acked: u64,
    /// What the governor knows to be acknowledged.
    read: u64,
    /// Bytes that TCP lets be outstanding: an initial window, and slow start.
    window: f64,
    marks: VecDeque<(u64, f64)>,
}

struct Acknowledgement {
    at: f64,
    connection: usize,
    acked: u64,
}

struct Simulation {
    now: f64,
    way: Way,
    governor: Governor,
    connections: Vec<Connection>,
    acknowledgements: VecDeque<Acknowledgement>,
    acked_at: f64,
    /// When both directions of the bottleneck have carried what was sent, and the pace what was permitted.
    down_free: f64,
    up_free: f64,
    pace_free: f64,
    next_look: f64,
    next_request: f64,
    has_more: bool,
    queues: Vec<f64>,
    sent: f64,
}

/// Figures of a part of a simulation.
#[derive(Debug)]
struct Figures {
    /// Share of the bottleneck's rate.
    used: f64,
    /// 95th percentile of the queue that packets met, seconds.
    queue: f64,
}

impl Simulation {
    fn new(way: Way, connections: usize) -> Self {
        let mut governor = Governor::new();
        governor.handshake(Duration::ZERO, Duration::from_secs_f64(way.round_trip));
        let connection = || Connection {
            window: 10.0 * PACKET,
            ..Connection::default()
        };
        Self {
            now: 0.0,
            way,
            governor,
            connections: (0..connections).map(|_| connection()).collect(),
            acknowledgements: VecDeque::new(),
            acked_at: 0.0,
            down_free: 0.0,
            up_free: 0.0,
            pace_free: 0.0,
            next_look: 0.0,
            next_request: 0.0,
            has_more: true,
            queues: Vec::new(),
            sent: 0.0,
        }
    }

    fn run(&mut self, time: f64) -> Figures {
        let end = self.now + time;
        self.queues.clear();
        self.sent = 0.0;
        while self.now < end {
            self.now += STEP;
            self.arrive();
            if self.now >= self.next_request {
                self.up_free =
                    self.up_free.max(self.now) + 500.0 * f64::from(self.way.requests.1) / self.way.up;
                self.next_request = self.now + self.way.requests.0;
            }
            if self.now >= self.next_look {
                self.look();
                self.next_look = self.now + self.governor.interval().as_secs_f64();
            }
            while self.has_more && self.write() {}
        }
        self.queues.sort_by(f64::total_cmp);
        Figures {
            used: self.sent / time / self.way.down,
            queue: self
                .queues
                .get(self.queues.len() * 95 / 100)
                .copied()
                .unwrap_or(0.0),
        }
    }

    fn arrive(&mut self) {
        while let Some(next) = self.acknowledgements.pop_front_if(|next| next.at <= self.now) {
            let connection = &mut self.connections[next.connection];
            connection.window += as_bytes(next.acked - connection.acked);
            connection.acked = next.acked;
            self.acked_at = next.at;
        }
    }

    fn outstanding(&self) -> u64 {
        self.connections.iter().map(|one| one.written - one.read).sum()
    }

    fn has_room(&self) -> bool {
        let outstanding = self.outstanding();
        outstanding == 0 || self.governor.limit().has_room(outstanding + 1448)
    }

    fn look(&mut self) {
        let is_held_back = self.has_more && (self.pace_free > self.now || !self.has_room());
        let mut reading = Reading {
            is_held_back,
            ..Reading::default()
        };
        for one in &mut self.connections {
            let mut arrived = Arrived {
                bytes: one.acked - one.read,
                at: Duration::from_secs_f64(self.acked_at),
                round_trip: None,
            };
            one.read = one.acked;
            while let Some((_, at)) = one.marks.pop_front_if(|(sent, _)| *sent <= one.acked) {
                arrived.round_trip = Some((Duration::from_secs_f64((self.acked_at - at).max(0.0)), 1448));
            }
            reading.add(&arrived);
        }
        reading.outstanding = self.outstanding();
        self.governor.read(Duration::from_secs_f64(self.now), &reading);
    }

    /// Writes a packet of the connection with the least outstanding; returns false if none may be written.
    fn write(&mut self) -> bool {
        let limit = self.governor.limit();
        if limit.rate.is_some() && self.pace_free > self.now || !self.has_room() {
            return false;
        }
        let outstanding = |one: &Connection| one.written - one.acked;
        let least = (0..self.connections.len()).min_by_key(|index| outstanding(&self.connections[*index]));
        let Some(index) = least.filter(|index| {
            let one = &self.connections[*index];
            as_bytes(outstanding(one)) + PACKET <= one.window
        }) else {
            return false;
        };
        let packet = PACKET * HEADERS;
        self.pace_free = self.pace_free.max(self.now - 0.2) + limit.rate.map_or(0.0, |rate| packet / rate);
        self.queues.push((self.down_free - self.now).max(0.0));
        self.down_free = self.down_free.max(self.now) + packet / self.way.down;
        self.up_free = self.up_free.max(self.down_free + self.way.round_trip / 2.0) + 52.0 / self.way.up;
        let mut at = self.up_free + self.way.round_trip / 2.0;
        if self.way.thinning > 0.0 {
            at = (at / self.way.thinning).ceil() * self.way.thinning;
        }
        self.sent += packet;
        let one = &mut self.connections[index];
        one.written += 1448;
        one.marks.push_back((one.written, self.now));
        self.acknowledgements.push_back(Acknowledgement {
            at,
            connection: index,
            acked: one.written,
        });
        true
    }
}

/// Checks the part of a link that is used, at least, and the queue, at most.
#[track_caller]
fn check(figures: &Figures, used: f64, queue: f64) {
    assert!(figures.used > used && figures.queue < queue, "{figures:?}");
}

#[test]
fn the_queue_of_a_slow_link_stays_short_from_the_start() {
    for (kbit, round_trip, first, later) in [
        (40.0, 1.0, 0.8, 0.4),
        (39.6, 0.66, 0.5, 0.25),
        (200.0, 0.48, 0.3, 0.2),
        (384.0, 0.26, 0.25, 0.1),
    ] {
        for connections in [1, 6] {
            let mut simulation = Simulation::new(way(kbit, round_trip), connections);
            check(&simulation.run(20.0), 0.9, first);
            check(&simulation.run(180.0), 0.95, later);
        }
    }
}

#[test]
fn the_first_flight_finds_the_rate() {
    for (kbit, round_trip) in [(200.0, 0.48), (384.0, 0.26), (1000.0, 0.2), (2000.0, 0.15)] {
        for connections in [1, 6] {
            let mut simulation = Simulation::new(way(kbit, round_trip), connections);
            simulation.run(1.0);
            check(&simulation.run(3.0), 0.85, 0.45);
        }
    }
}

#[test]
fn a_fast_link_is_used_and_a_near_one_not_bound_at_all() {
    let mut far = Simulation::new(way(10_000.0, 0.6), 6);
    far.run(1.3);
    // The first flight is the only delay.
    assert!(far.governor.limit().is_free());
    far.run(30.0);
    check(&far.run(60.0), 0.95, 0.2);
    let mut lte = Simulation::new(way(12_000.0, 0.063), 6);
    lte.run(10.0);
    check(&lte.run(60.0), 0.95, 0.1);
    let near = Simulation::new(way(100_000.0, 0.001), 6);
    assert!(near.governor.limit().is_free());
}

#[test]
fn delayed_acknowledgements_and_requests_before_them_cost_no_rate() {
    let thinned = Way {
        thinning: 0.1,
        ..way(200.0, 0.48)
    };
    check(&Simulation::new(thinned, 6).run(60.0), 0.9, 0.25);
    let asked = Way {
        up: 13_400.0 / 8.0,
        requests: (2.5, 1),
        ..way(39.6, 0.66)
    };
    check(&Simulation::new(asked, 6).run(60.0), 0.9, 0.5);
    // Bursts that take up most of what the client may send: the queue is there, and not in the way of data.
    let bursts = Way {
        requests: (1.6, 4),
        ..asked
    };
    check(&Simulation::new(bursts, 6).run(60.0), 0.9, 0.4);
    let faster = Way {
        up: 60_000.0 / 8.0,
        requests: (0.57, 6),
        ..way(200.0, 0.48)
    };
    check(&Simulation::new(faster, 6).run(60.0), 0.9, 0.5);
}

#[test]
fn a_rate_that_changes_tenfold_is_found_again() {
    for (before, after) in [(384.0, 38.4), (38.4, 384.0), (4000.0, 400.0), (400.0, 4000.0)] {
        let mut simulation = Simulation::new(way(before, 0.3), 6);
        simulation.run(30.0);
        simulation.way = way(after, 0.3);
        // What waits takes longer or shorter now.
        simulation.down_free =
            simulation.now + (simulation.down_free - simulation.now).max(0.0) * before / after;
        assert!(simulation.run(20.0).used > 0.5, "{before} {after}");
        check(&simulation.run(40.0), 0.9, 0.45);
    }
}

#[test]
fn a_longer_way_is_not_taken_for_a_queue_for_long() {
    let mut simulation = Simulation::new(way(384.0, 0.26), 6);
    simulation.run(30.0);
    simulation.way.round_trip = 0.8;
    check(&simulation.run(20.0), 0.5, 1.1);
    check(&simulation.run(60.0), 0.75, 0.4);
}

#[test]
fn a_client_that_asks_for_little_keeps_its_rate() {
    let mut simulation = Simulation::new(way(384.0, 0.26), 6);
    simulation.run(20.0);
    for _ in 0..20 {
        simulation.has_more = false;
        simulation.run(2.0);
        simulation.has_more = true;
        simulation.run(0.4);
        let rate = simulation.governor.limit().rate.unwrap() / simulation.way.down;
        assert!((0.6..2.1).contains(&rate), "{rate}");
    }
    check(&simulation.run(5.0), 0.9, 0.4);
}

#[test]
fn nothing_is_concluded_from_a_pause() {
    let mut simulation = Simulation::new(way(384.0, 0.26), 6);
    simulation.run(20.0);
    let before = simulation.governor.best_rate();
    // The client has read for half a minute.
    simulation.now += 30.0;
    let reading = Reading {
        outstanding: 1448,
        is_after_pause: true,
        ..Reading::default()
    };
    simulation
        .governor
        .read(Duration::from_secs_f64(simulation.now), &reading);
    assert_eq!(simulation.governor.queue(), None);
    let figures = simulation.run(5.0);
    assert!(figures.used > 0.8, "{figures:?}");
    assert!(simulation.governor.best_rate() > 0.8 * before);
}

#[test]
fn no_measurement_holds_a_client_back_for_good() {
    let mut governor = Governor::new();
    governor.handshake(Duration::ZERO, Duration::from_millis(600));
    governor.found(Duration::from_secs(1), 10.0);
    let limit = governor.decide(Duration::from_secs(20));
    assert!(limit.rate >= Some(LEAST_GAIN * SLOWEST * HEADERS), "{limit:?}");
    assert!(limit.window >= Some(2.0 * PACKET), "{limit:?}");
}
