//! The hop as a test wants it: a UDP relay between agent and gateway that paces, drops everything for a while, keeps
//! copies of what passes, and adds datagrams of its own.
use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use anyhow::{Context, Result};
use bytes::Bytes;
use longhaul_types::BitRate;
use tokio::{
    net::UdpSocket,
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, timeout},
};

/// The queue in front of a slow direction: 256 KiB of full datagrams, as the modems of such links have.
const QUEUE: usize = 180;
/// Copies of passing datagrams kept per direction.
const KEPT: usize = 512;
/// Agents behind one relay: each new session of an agent comes from a port of its own.
const MAX_AGENTS: usize = 64;
/// Larger than any datagram of a session.
const MAX_DATAGRAM: usize = 65_535;
/// Step of the pacing.
const TICK: Duration = Duration::from_millis(1);

/// A direction of the hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the gateway to the agent.
    Down,
    /// From the agent to the gateway.
    Up,
}

/// Treatment of the datagrams of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// They pass.
    Open,
    /// They are lost.
    Blocked,
    /// One of so many is lost, at random.
    LosesOneIn(u64),
    /// Those that look like QUIC pass (RFC 9000 section 17), and all others are lost.
    OnlyQuic,
}

impl Passage {
    /// Decides about a datagram; `number` counts those of its direction.
    fn permits(self, number: u64, datagram: &[u8]) -> bool {
        match self {
            Self::Open => true,
            Self::Blocked => false,
            // SplitMix64: the same losses in each run.
            Self::LosesOneIn(many) => {
                let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                !(mixed ^ (mixed >> 31)).is_multiple_of(many.max(1))
            }
            Self::OnlyQuic => match datagram {
                [first, version @ ..] if first & 0xc0 == 0xc0 => {
                    version.starts_with(&[0, 0, 0, 1]) || version.starts_with(&[0, 0, 0, 0])
                }
                [first, ..] => first & 0xc0 == 0x40,
                [] => false,
            },
        }
    }
}

#[derive(Debug)]
struct Lane {
    passage: Mutex<Passage>,
    /// Datagrams that have reached the end of the queue.
    count: AtomicU64,
    copies: Mutex<VecDeque<Bytes>>,
    passed: watch::Sender<u64>,
    queue: mpsc::Sender<Datagram>,
}

#[derive(Debug)]
struct Datagram {
    socket: Arc<UdpSocket>,
    to: SocketAddr,
    bytes: Bytes,
}

#[derive(Debug)]
struct Hop {
    gateway: SocketAddr,
    /// Where agents send to.
    front: Arc<UdpSocket>,
    /// One socket per agent, as a NAT has one port per flow.
    backs: Mutex<BTreeMap<SocketAddr, Arc<UdpSocket>>>,
    newest: watch::Sender<Option<SocketAddr>>,
    down: Lane,
    up: Lane,
}

/// A running relay; it ends when dropped.
#[derive(Debug)]
pub struct Relay {
    hop: Arc<Hop>,
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Relay {
    /// Starts a relay to a gateway on loopback; `rate` paces each direction.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(gateway: SocketAddr, rate: Option<BitRate>) -> Result<Self> {
        let front = Arc::new(UdpSocket::bind(("127.0.0.1", 0)).await.context("a free port")?);
        let address = front.local_addr()?;
        let (down_queue, down_waiting) = mpsc::channel(QUEUE);
        let (up_queue, up_waiting) = mpsc::channel(QUEUE);
        let hop = Arc::new(Hop {
            gateway,
            front,
            backs: Mutex::new(BTreeMap::new()),
            newest: watch::Sender::new(None),
            down: Lane::new(down_queue),
            up: Lane::new(up_queue),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(pace(Arc::clone(&hop), Direction::Down, down_waiting, rate));
        tasks.spawn(pace(Arc::clone(&hop), Direction::Up, up_waiting, rate));
        tasks.spawn(serve(Arc::clone(&hop)));
        Ok(Self {
            hop,
            address,
            _tasks: tasks,
        })
    }

    /// The address that stands for the gateway.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens or blocks a direction.
    pub fn set(&self, direction: Direction, passage: Passage) {
        *self.hop.lane(direction).passage.lock() = passage;
    }

    /// Bytes of datagrams that passed so far.
    pub fn passed(&self, direction: Direction) -> u64 {
        *self.hop.lane(direction).passed.borrow()
    }

    /// Waits until so many bytes have passed since the start.
    ///
    /// # Errors
    /// It takes longer than `limit`.
    pub async fn has_passed(&self, direction: Direction, bytes: u64, limit: Duration) -> Result<()> {
        let mut passed = self.hop.lane(direction).passed.subscribe();
        let reached = timeout(limit, passed.wait_for(|passed| *passed >= bytes)).await;
        reached.with_context(|| format!("{} of {bytes} bytes passed", self.passed(direction)))??;
        Ok(())
    }

    /// Forgets the ports of all agents, as a NAT does whose mappings expire: what the gateway still sends to them is
    /// lost, and the next datagram of an agent gets a new port.
    pub fn rebind(&self) {
        self.hop.backs.lock().clear();
    }

    /// Copies of the newest datagrams, the oldest of them first.
    pub fn copies(&self, direction: Direction) -> Vec<Bytes> {
        self.hop.lane(direction).copies.lock().iter().cloned().collect()
    }

    /// Where the agent's newest session sends from, once it has sent something.
    ///
    /// # Errors
    /// It sends nothing within `limit`.
    pub async fn agent(&self, limit: Duration) -> Result<SocketAddr> {
        let mut newest = self.hop.newest.subscribe();
        let agent = timeout(limit, newest.wait_for(Option::is_some))
            .await
            .context("no agent came")??;
        agent.context("an agent")
    }

    /// Sends a datagram as if it had come over the hop: from the very address that the session's own come from.
    /// Pacing and passage do not apply to it.
    ///
    /// # Errors
    /// No agent has come yet, or this machine cannot send.
    pub async fn inject(&self, direction: Direction, datagram: &[u8]) -> Result<()> {
        let agent = (*self.hop.newest.borrow()).context("no agent came yet")?;
        match direction {
            Direction::Down => self.hop.front.send_to(datagram, agent).await?,
            Direction::Up => {
                let back = self
                    .hop
                    .backs
                    .lock()
                    .get(&agent)
                    .cloned()
                    .context("a known agent")?;
                back.send_to(datagram, self.hop.gateway).await?
            }
        };
        Ok(())
    }
}

impl Lane {
    fn new(queue: mpsc::Sender<Datagram>) -> Self {
        Self {
            passage: Mutex::new(Passage::Open),
            count: AtomicU64::new(0),
            copies: Mutex::new(VecDeque::new()),
            passed: watch::Sender::new(0),
            queue,
        }
    }

    /// Puts a datagram into the queue. A full one loses it, as a link's does.
    fn enqueue(&self, datagram: Datagram) {
        // What is lost at random is lost on the link.
        let passage = *self.passage.lock();
        if matches!(passage, Passage::LosesOneIn(_)) || passage.permits(0, &datagram.bytes) {
            let _full = self.queue.try_send(datagram);
        }
    }

    async fn send(&self, datagram: Datagram) {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        if !self.passage.lock().permits(number, &datagram.bytes) {
            return;
        }
        // Errors are those of an ICMP answer to an earlier datagram: the receiver is gone for now.
        let _lost = datagram.socket.send_to(&datagram.bytes, datagram.to).await;
        let size = u64::try_from(datagram.bytes.len()).unwrap_or(u64::MAX);
        let mut copies = self.copies.lock();
        if copies.len() == KEPT {
            copies.pop_front();
        }
        copies.push_back(datagram.bytes);
        drop(copies);
        self.passed.send_modify(|passed| *passed += size);
    }
}

impl Hop {
    const fn lane(&self, direction: Direction) -> &Lane {
        match direction {
            Direction::Down => &self.down,
            Direction::Up => &self.up,
        }
    }
}

/// Takes what agents send.
async fn serve(hop: Arc<Hop>) {
    let mut answers = JoinSet::new();
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        let Ok((length, agent)) = hop.front.recv_from(&mut buffer).await else {
            continue;
        };
        let known = hop.backs.lock().get(&agent).cloned();
        let back = match known {
            Some(back) => back,
            None => {
                if hop.backs.lock().len() >= MAX_AGENTS {
                    continue;
                }
                let Ok(back) = UdpSocket::bind(("127.0.0.1", 0)).await else {
                    continue;
                };
                let back = Arc::new(back);
                hop.backs.lock().insert(agent, Arc::clone(&back));
                answers.spawn(answer(Arc::clone(&hop), agent, Arc::clone(&back)));
                hop.newest.send_replace(Some(agent));
                back
            }
        };
        let bytes = Bytes::copy_from_slice(&buffer[..length]);
        hop.up.enqueue(Datagram {
            socket: back,
            to: hop.gateway,
            bytes,
        });
    }
}

/// Takes what the gateway sends to one agent.
async fn answer(hop: Arc<Hop>, agent: SocketAddr, back: Arc<UdpSocket>) {
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        match back.recv_from(&mut buffer).await {
            Ok((length, from)) if from == hop.gateway => {
                let newest = hop.backs.lock().get(&agent).cloned();
                if newest.is_none_or(|newest| !Arc::ptr_eq(&newest, &back)) {
                    return;
                }
                let bytes = Bytes::copy_from_slice(&buffer[..length]);
                hop.down.enqueue(Datagram {
                    socket: Arc::clone(&hop.front),
                    to: agent,
                    bytes,
                });
            }
            Ok(_) | Err(_) => {}
        }
    }
}

/// Sends a direction's datagrams at its rate.
async fn pace(
    hop: Arc<Hop>,
    direction: Direction,
    mut queue: mpsc::Receiver<Datagram>,
    rate: Option<BitRate>,
) {
    let lane = hop.lane(direction);
    let Some(rate) = rate else {
        while let Some(datagram) = queue.recv().await {
            lane.send(datagram).await;
        }
        return;
    };
    let bits_per_second = u128::from(rate.as_bps().max(1));
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut free_at = Instant::now();
    while let Some(datagram) = queue.recv().await {
        while Instant::now() < free_at {
            ticks.tick().await;
        }
        // The headers of IPv4 and UDP take their share of a link.
        let bits = 8 * (u128::try_from(datagram.bytes.len()).unwrap_or(u128::MAX) + 28);
        let takes = u64::try_from(bits * 1_000_000_000 / bits_per_second).unwrap_or(u64::MAX);
        free_at = free_at.max(Instant::now() - TICK) + Duration::from_nanos(takes);
        lane.send(datagram).await;
    }
}
