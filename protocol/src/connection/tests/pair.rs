//! Two connections and the simulated hop between them.
use super::*;

/// xorshift64*: tests need repeatable noise, not quality.
#[derive(Clone)]
pub(super) struct Noise(pub(super) u64);

impl Noise {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize_of(self.next() % bound as u64)
    }
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
    pub(super) fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.unit() < p
    }
}

#[derive(Clone)]
pub(super) struct Link {
    pub(super) rate: u64,
    pub(super) delay: Duration,
    pub(super) queue: u64,
    /// Larger packets are lost.
    pub(super) mtu: u64,
    pub(super) loss: f64,
    pub(super) reorder: f64,
    pub(super) duplicate: f64,
    pub(super) corrupt: f64,
    /// Start and end of periods in which packets are lost.
    pub(super) outages: Vec<(Duration, Duration)>,
    /// Number of a packet that is lost, counted from 1.
    pub(super) lose_nth: Option<u64>,
    pub(super) carried: u64,
    pub(super) free_at: Timestamp,
    pub(super) busy: Duration,
    pub(super) bytes: u64,
    pub(super) first: Option<Timestamp>,
    pub(super) dropped: u64,
}

impl Link {
    pub(super) fn new(rate: u64, delay_ms: u64, queue: u64) -> Self {
        Self {
            rate,
            delay: Duration::from_millis(delay_ms),
            queue,
            mtu: 1500,
            loss: 0.0,
            reorder: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
            outages: Vec::new(),
            lose_nth: None,
            carried: 0,
            free_at: Timestamp::ZERO,
            busy: Duration::ZERO,
            bytes: 0,
            first: None,
            dropped: 0,
        }
    }

    pub(super) fn carry(
        &mut self,
        now: Timestamp,
        datagram: Vec<u8>,
        noise: &mut Noise,
    ) -> Vec<(Timestamp, Vec<u8>)> {
        let size = datagram.len() as u64 + IP_UDP_HEADERS;
        let waiting = ByteCount::new(0) + BitRate::bps(self.rate) * self.free_at.saturating_since(now);
        if size > self.mtu || waiting.bytes() + size > self.queue {
            self.dropped += 1;
            return Vec::new();
        }
        let takes = ByteCount::new(size) / BitRate::bps(self.rate);
        self.first.get_or_insert(now);
        self.free_at = self.free_at.max(now) + takes;
        self.busy += takes;
        self.bytes += size;
        let since = now.saturating_since(Timestamp::ZERO);
        let out = self
            .outages
            .iter()
            .any(|(from, to)| since >= *from && since < *to);
        self.carried += 1;
        if out || self.lose_nth == Some(self.carried) || noise.chance(self.loss) {
            return Vec::new();
        }
        let mut at = self.free_at + self.delay;
        if noise.chance(self.reorder) {
            at += Duration::from_micros(noise.next() % 30_000);
        }
        let mut datagram = datagram;
        if noise.chance(self.corrupt) {
            let index = noise.below(datagram.len());
            datagram[index] ^= 1 << (noise.next() % 8);
        }
        if noise.chance(self.duplicate) {
            return vec![(at, datagram.clone()), (at + Duration::from_millis(3), datagram)];
        }
        vec![(at, datagram)]
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Flying(std::cmp::Reverse<(Timestamp, u64)>, pub(super) bool, Vec<u8>);

pub(super) struct Pair {
    pub(super) now: Timestamp,
    pub(super) agent: Connection,
    pub(super) gateway: Connection,
    pub(super) up: Link,
    pub(super) down: Link,
    pub(super) noise: Noise,
    pub(super) flying: BinaryHeap<Flying>,
    pub(super) sequence: u64,
    pub(super) steps: u64,
    pub(super) events: Vec<(Timestamp, bool, Event)>,
    pub(super) largest_book: usize,
    pub(super) from: Path,
    /// The agent does not run: it neither sends nor receives.
    pub(super) suspended: bool,
}

pub(super) fn keys() -> SessionKeys {
    SessionKeys {
        agent_to_gateway: PacketKey::new(&[1; 32]),
        gateway_to_agent: PacketKey::new(&[2; 32]),
        exporter: Zeroizing::new([3; 32]),
    }
}

impl Pair {
    pub(super) fn new(profile: Option<&str>, up: Link, down: Link, seed: u64) -> Self {
        let profile: Option<LinkProfile> = profile.map(|name| name.parse().expect("known"));
        Self::with(
            TransportConfig::agent(profile),
            TransportConfig::gateway(),
            up,
            down,
            seed,
        )
    }

    pub(super) fn with(
        config: TransportConfig,
        server: TransportConfig,
        up: Link,
        down: Link,
        seed: u64,
    ) -> Self {
        let now = Timestamp::ZERO + Duration::from_secs(1);
        let from = Path::from(std::net::SocketAddr::from(([192, 0, 2, 1], 4000)));
        let to = Path::from(std::net::SocketAddr::from(([192, 0, 2, 2], 4001)));
        let mut agent = Connection::agent(&config, None, to, config.profile, now);
        agent.init_frames(now, 1000, &mut Vec::new());
        let parameters = config.parameters();
        let validated = Validation::Validated;
        let gateway = Connection::gateway(&server, keys(), None, 9, parameters, from, validated, now);
        agent.handshake_done(now, keys(), 77, server.parameters(), EarlyOutcome::Rejected);
        Self {
            now,
            agent,
            gateway,
            up,
            down,
            noise: Noise(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            flying: BinaryHeap::new(),
            sequence: 0,
            steps: 0,
            events: Vec::new(),
            largest_book: 0,
            from,
            suspended: false,
        }
    }

    pub(super) fn flush(&mut self) {
        for up in [true, false] {
            if up && self.suspended {
                continue;
            }
            loop {
                let mut datagram = Vec::new();
                let from = if up { &mut self.agent } else { &mut self.gateway };
                if from.poll_transmit(self.now, &mut datagram).is_none() {
                    assert!(datagram.is_empty());
                    break;
                }
                assert!(datagram.len() <= 1472);
                let link = if up { &mut self.up } else { &mut self.down };
                for (at, datagram) in link.carry(self.now, datagram, &mut self.noise) {
                    self.sequence += 1;
                    self.flying
                        .push(Flying(std::cmp::Reverse((at, self.sequence)), up, datagram));
                }
            }
            while let Some(event) = if up {
                self.agent.poll_event()
            } else {
                self.gateway.poll_event()
            } {
                self.events.push((self.now, up, event));
            }
        }
        let book = self
            .agent
            .stats()
            .bookkeeping
            .0
            .max(self.gateway.stats().bookkeeping.0);
        self.largest_book = self.largest_book.max(book);
    }

    /// Advances to the next event; returns `false` if there is none before `until`.
    pub(super) fn step(&mut self, until: Timestamp) -> bool {
        self.flush();
        let agent = self.agent.poll_timeout().filter(|_| !self.suspended);
        let timers = [agent, self.gateway.poll_timeout()];
        let flight = self.flying.peek().map(|flying| flying.0.0.0);
        let Some(next) = timers.into_iter().flatten().chain(flight).min() else {
            return false;
        };
        if next > until {
            self.now = until;
            return false;
        }
        self.steps += 1;
        assert!(self.steps < 30_000_000, "the simulation spins");
        self.now = self.now.max(next);
        while self.flying.peek().is_some_and(|flying| flying.0.0.0 <= self.now) {
            let Flying(_, up, mut datagram) = self.flying.pop().expect("peeked");
            if self.suspended && !up {
                continue;
            }
            let (length, to) = if up {
                (IndexLength::Gateway, &mut self.gateway)
            } else {
                (IndexLength::Agent, &mut self.agent)
            };
            let Ok((header, header_len)) = ShortHeader::parse(&datagram, length) else {
                continue;
            };
            let remote = if up {
                self.from
            } else {
                Path::from(std::net::SocketAddr::from(([192, 0, 2, 2], 4001)))
            };
            to.handle_short(self.now, remote, header, header_len, &mut datagram);
        }
        for (is_suspended, connection) in [(self.suspended, &mut self.agent), (false, &mut self.gateway)] {
            if is_suspended {
                continue;
            }
            if connection.poll_timeout().is_some_and(|at| at <= self.now) {
                connection.handle_timeout(self.now);
            }
        }
        true
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.step(until) {}
    }
}

pub(super) fn hop(name: &str) -> (Link, Link) {
    let profile: LinkProfile = name.parse().expect("known");
    let one_way = u64::try_from(profile.rtt.as_millis()).expect("short") / 2;
    let queue = (profile.down.as_bps() / 4).max(120_000);
    (
        Link::new(profile.up.as_bps(), one_way, 120_000),
        Link::new(profile.down.as_bps(), one_way, queue),
    )
}
