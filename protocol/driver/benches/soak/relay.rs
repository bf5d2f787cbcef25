//! The hop: the testbed's link model between two sockets, changed every few seconds.
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use longhaul_netem::{
    Capacity, GilbertElliott, Link, LinkConfig, Loss, Outage, OutageSchedule, Probability, Reordering,
    WhileOut,
};
use longhaul_types::{BitRate, ByteCount, Timestamp};
use tokio::{net::UdpSocket, sync::mpsc, task::JoinHandle};

use crate::random::Random;

/// IPv4 and UDP headers, which the link also carries.
const HEADERS: usize = 28;
/// Buffer size, larger than any datagram of a session.
const MAX_DATAGRAM: usize = 2048;

/// Event in addition to the faults of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Nothing,
    /// The agent's datagrams come from another port from now on.
    Rebound,
    AgentRestart,
    GatewayRestart,
}

/// A new set of faults.
struct Phase {
    seed: u64,
    length: Duration,
    rebinds: bool,
}

#[derive(Debug, Default)]
struct Counters {
    phases: AtomicU64,
    rebindings: AtomicU64,
    restarts: AtomicU64,
    outages: AtomicU64,
    lost: AtomicU64,
    corrupted: AtomicU64,
    duplicated: AtomicU64,
    passed: AtomicU64,
}

/// A running relay; it ends when dropped.
pub(crate) struct Relay {
    address: SocketAddr,
    phases: mpsc::UnboundedSender<Phase>,
    counters: Arc<Counters>,
    task: JoinHandle<()>,
}

impl Relay {
    pub(crate) async fn start(gateway: SocketAddr, seed: u64) -> Self {
        let front = bind().await;
        let address = front.local_addr().unwrap();
        let (phases, changes) = mpsc::unbounded_channel();
        let counters = Arc::new(Counters::default());
        let hop = Hop {
            gateway,
            agent: None,
            front,
            back: bind().await,
            started: Instant::now(),
            links: links(seed, Timestamp::ZERO, Duration::from_secs(10), &counters),
            counters: Arc::clone(&counters),
        };
        let task = tokio::spawn(hop.run(changes));
        Self {
            address,
            phases,
            counters,
            task,
        }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins another phase; returns the event of the phase.
    pub(crate) fn change(&self, seed: u64, length: Duration) -> Event {
        let event = match seed % 10 {
            0 | 1 => Event::Rebound,
            2 => Event::AgentRestart,
            3 => Event::GatewayRestart,
            _ => Event::Nothing,
        };
        count(&self.counters.phases, 1);
        match event {
            Event::Nothing => {}
            Event::Rebound => count(&self.counters.rebindings, 1),
            Event::AgentRestart | Event::GatewayRestart => count(&self.counters.restarts, 1),
        }
        let phase = Phase {
            seed,
            length,
            rebinds: event == Event::Rebound,
        };
        assert!(self.phases.send(phase).is_ok(), "the relay ended");
        event
    }

    pub(crate) fn report(&self) -> String {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let c = &self.counters;
        format!(
            "hop: {} datagrams, {} lost, {} damaged, {} doubled, {} outages, {} rebindings, {} restarts in {} phases",
            read(&c.passed),
            read(&c.lost),
            read(&c.corrupted),
            read(&c.duplicated),
            read(&c.outages),
            read(&c.rebindings),
            read(&c.restarts),
            read(&c.phases)
        )
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

async fn bind() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap()
}

struct Links {
    down: Link<Vec<u8>>,
    up: Link<Vec<u8>>,
}

/// Both directions with faults that `seed` determines, for a phase that begins at `now`.
fn links(seed: u64, now: Timestamp, length: Duration, counters: &Counters) -> Links {
    let mut random = Random::new(seed);
    let rate = random.scaled(500_000, 6);
    let delay = Duration::from_millis(random.between(2, 150));
    let outages = if random.happens(300) {
        let longest = u64::try_from(length.as_millis()).unwrap() / 2;
        let outage = Outage {
            start: now + Duration::from_millis(random.between(0, longest)),
            length: Duration::from_millis(random.between(200, longest)),
            behaviour: if random.happens(500) {
                WhileOut::Hold
            } else {
                WhileOut::Drop
            },
        };
        count(&counters.outages, 1);
        vec![outage]
    } else {
        Vec::new()
    };
    let mut direction = |rate: u64| {
        let queue = ByteCount::new((rate / 8 / 4).max(20_000));
        let mut config = LinkConfig::new(Capacity::Rate(BitRate::bps(rate)), delay, queue);
        config.jitter = Duration::from_millis(random.between(0, 10));
        let share = |random: &mut Random, most: u64| {
            let share = if random.happens(500) {
                random.between(0, most)
            } else {
                0
            };
            Probability::per_mille(u16::try_from(share).unwrap())
        };
        config.loss = if random.happens(300) {
            Loss::Bursts(GilbertElliott {
                p_gb: Probability::per_mille(5),
                p_bg: Probability::per_mille(200),
                loss_good: Probability::ZERO,
                loss_bad: Probability::per_mille(700),
            })
        } else {
            Loss::Random(share(&mut random, 50))
        };
        config.reordering = Some(Reordering {
            share: share(&mut random, 50),
            extra_delay: Duration::from_millis(20),
            max_distance: 30,
        });
        config.duplication = share(&mut random, 20);
        config.corruption = share(&mut random, 10);
        config.outages = OutageSchedule::new(outages.clone()).unwrap();
        config
    };
    let (down, up) = (direction(rate), direction((rate / 4).max(100_000)));
    Links {
        down: Link::new(down, seed),
        up: Link::new(up, !seed),
    }
}

struct Hop {
    gateway: SocketAddr,
    /// Source address of the agent's newest session.
    agent: Option<SocketAddr>,
    front: UdpSocket,
    back: UdpSocket,
    started: Instant,
    links: Links,
    counters: Arc<Counters>,
}

impl Hop {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.started.elapsed()
    }

    async fn run(mut self, mut changes: mpsc::UnboundedReceiver<Phase>) {
        let (mut from_agent, mut from_gateway) = ([0; MAX_DATAGRAM], [0; MAX_DATAGRAM]);
        loop {
            self.deliver().await;
            let next = [self.links.down.next_event(), self.links.up.next_event()];
            let wait = next
                .into_iter()
                .flatten()
                .min()
                .map(|at| at.saturating_since(self.now()).max(Duration::from_millis(1)));
            tokio::select! {
                phase = changes.recv() => {
                    let Some(phase) = phase else { return };
                    self.change(&phase).await;
                }
                received = self.front.recv_from(&mut from_agent) => {
                    let Ok((len, agent)) = received else { continue };
                    self.agent = Some(agent);
                    let now = self.now();
                    self.links.up.enqueue(now, on_link(&from_agent[..len]));
                }
                received = self.back.recv_from(&mut from_gateway) => {
                    let Ok((len, _)) = received else { continue };
                    let now = self.now();
                    self.links.down.enqueue(now, on_link(&from_gateway[..len]));
                }
                () = tokio::time::sleep(wait.unwrap_or(Duration::from_secs(1))), if wait.is_some() => {}
            }
        }
    }

    /// Begins a phase. Datagrams in flight are lost.
    async fn change(&mut self, phase: &Phase) {
        for link in [&self.links.down, &self.links.up] {
            let stats = link.stats();
            count(&self.counters.passed, stats.delivered.packets);
            count(&self.counters.corrupted, stats.corrupted.packets);
            count(&self.counters.duplicated, stats.duplicated.packets);
            count(&self.counters.lost, stats.dropped_total().packets);
        }
        self.links = links(phase.seed, self.now(), phase.length, &self.counters);
        if phase.rebinds {
            self.back = bind().await;
        }
    }

    async fn deliver(&mut self) {
        let now = self.now();
        while let Some(delivery) = self.links.up.poll_deliver(now) {
            // Errors come from ICMP answers to earlier datagrams: the gateway is down.
            let _lost = self.back.send_to(&delivery.packet[HEADERS..], self.gateway).await;
        }
        while let Some(delivery) = self.links.down.poll_deliver(now) {
            if let Some(agent) = self.agent {
                let _lost = self.front.send_to(&delivery.packet[HEADERS..], agent).await;
            }
        }
    }
}

/// A datagram with space for its headers.
fn on_link(datagram: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; HEADERS];
    packet.extend_from_slice(datagram);
    packet
}
