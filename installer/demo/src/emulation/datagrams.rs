//! The hop between agent and gateway: datagrams through the link model.
use std::{
    collections::VecDeque,
    io,
    net::{Ipv4Addr, SocketAddr},
};

use longhaul_netem::{HopConfig, Link, Packet};
use longhaul_types::ByteCount;
use tokio::{net::UdpSocket, sync::mpsc, task::JoinSet};

use super::{SEED, clock::Clock};

/// IPv4 and UDP headers, which occupy the link, too.
const HEADERS: u64 = 28;
/// Buffer size, larger than any datagram of a session.
const MAX_DATAGRAM: usize = 2048;
/// Maximum number of agent addresses. The agent of the demonstration has one at a time; the oldest is removed.
const MAX_ADDRESSES: usize = 16;
/// Datagrams between socket and model; the model's task takes them at once.
const ENTRY: usize = 256;

/// A relay in front of the gateway; it ends when dropped.
#[derive(Debug)]
pub(crate) struct DatagramRelay {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

/// A datagram of the agent at `agent`, or to it.
#[derive(Clone, Debug)]
struct Datagram {
    agent: SocketAddr,
    data: Vec<u8>,
}

impl Packet for Datagram {
    fn len_on_link(&self) -> ByteCount {
        self.data.len_on_link() + ByteCount::new(HEADERS)
    }

    fn flip_bit(&mut self, bit: u64) {
        if let Some(bit) = bit.checked_sub(HEADERS * 8) {
            self.data.flip_bit(bit);
        }
    }
}

impl DatagramRelay {
    /// Starts a relay to `gateway`.
    ///
    /// # Errors
    /// No port is available.
    pub(crate) fn start(hop: HopConfig, gateway: SocketAddr) -> io::Result<Self> {
        let (front, sender) = open_socket()?;
        let address = front.local_addr()?;
        let (up, up_entry) = mpsc::channel(ENTRY);
        let (down, down_entry) = mpsc::channel(ENTRY);
        let mut addresses = Addresses {
            gateway,
            down,
            known: VecDeque::new(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(receive_agent(front, up));
        let link = Link::new(hop.up, SEED);
        tasks.spawn(carry(link, up_entry, move |datagram| addresses.send(&datagram)));
        let link = Link::new(hop.down, SEED + 1);
        tasks.spawn(carry(link, down_entry, move |datagram: Datagram| {
            // A full socket buffer loses the datagram, as a network would.
            let _lost = sender.send_to(&datagram.data, datagram.agent);
        }));
        Ok(Self {
            address,
            _tasks: tasks,
        })
    }

    /// Address for the agent's datagrams.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The gateway's side of the relay: a socket for each address of the agent, as a router with address translation
/// has.
struct Addresses {
    gateway: SocketAddr,
    down: mpsc::Sender<Datagram>,
    known: VecDeque<(SocketAddr, BackSocket)>,
}

struct BackSocket {
    sender: std::net::UdpSocket,
    /// Reads the gateway's datagrams.
    _reader: JoinSet<()>,
}

impl Addresses {
    fn send(&mut self, datagram: &Datagram) {
        if !self.known.iter().any(|(agent, _)| *agent == datagram.agent) {
            match BackSocket::open(datagram.agent, self.gateway, self.down.clone()) {
                Ok(back) => self.known.push_back((datagram.agent, back)),
                Err(error) => tracing::warn!(%error, "the emulated hop cannot open a socket"),
            }
            if self.known.len() > MAX_ADDRESSES {
                self.known.pop_front();
            }
        }
        let back = self.known.iter().find(|(agent, _)| *agent == datagram.agent);
        if let Some((_, back)) = back {
            let _lost = back.sender.send_to(&datagram.data, self.gateway);
        }
    }
}

impl BackSocket {
    fn open(agent: SocketAddr, gateway: SocketAddr, down: mpsc::Sender<Datagram>) -> io::Result<Self> {
        let (socket, sender) = open_socket()?;
        let mut reader = JoinSet::new();
        reader.spawn(receive_gateway(socket, agent, gateway, down));
        Ok(Self {
            sender,
            _reader: reader,
        })
    }
}

/// Opens a socket for receiving, and another handle of it for sending without waiting. tokio's own `try_send_to` fails
/// until the runtime has heard of the socket, which would lose the first datagram.
fn open_socket() -> io::Result<(UdpSocket, std::net::UdpSocket)> {
    let sender = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.set_nonblocking(true)?;
    Ok((UdpSocket::from_std(sender.try_clone()?)?, sender))
}

async fn receive_agent(front: UdpSocket, up: mpsc::Sender<Datagram>) {
    let mut buffer = [0; MAX_DATAGRAM];
    loop {
        // Errors are ICMP answers to earlier datagrams.
        let Ok((len, agent)) = front.recv_from(&mut buffer).await else {
            continue;
        };
        let data = buffer.get(..len).unwrap_or_default().to_vec();
        if up.send(Datagram { agent, data }).await.is_err() {
            return;
        }
    }
}

async fn receive_gateway(
    socket: UdpSocket,
    agent: SocketAddr,
    gateway: SocketAddr,
    down: mpsc::Sender<Datagram>,
) {
    let mut buffer = [0; MAX_DATAGRAM];
    loop {
        let Ok((len, from)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let data = buffer.get(..len).unwrap_or_default().to_vec();
        if from == gateway && down.send(Datagram { agent, data }).await.is_err() {
            return;
        }
    }
}

/// Carries packets through one direction of a link; packets that do not fit into its queue are lost.
async fn carry<P: Packet>(mut link: Link<P>, mut entry: mpsc::Receiver<P>, mut exit: impl FnMut(P)) {
    let clock = Clock::start();
    loop {
        tokio::select! {
            packet = entry.recv() => match packet {
                Some(packet) => {
                    link.enqueue(clock.now(), packet);
                }
                None => return,
            },
            () = clock.wait(link.next_event()) => {}
        }
        while let Some(delivery) = link.poll_deliver(clock.now()) {
            exit(delivery.packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use longhaul_netem::Profile;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::emulation::hop;

    /// Limit of waits for datagrams on the loopback interface, on a machine that swaps.
    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn rate_and_delay_are_those_of_the_profile() {
        let profile = Profile::named("umts-384").unwrap();
        let config = hop(profile);
        let (entry, packets) = mpsc::channel(100);
        let (arrived, mut arrivals) = mpsc::unbounded_channel();
        let agent = "127.0.0.1:9".parse().unwrap();
        tokio::spawn(carry(
            Link::new(config.down, SEED),
            packets,
            move |datagram: Datagram| {
                arrived.send((datagram, Instant::now())).unwrap();
            },
        ));
        let start = Instant::now();
        // 80 packets of 1,200 bytes fit into the queue of 120 kB.
        for number in 0..80 {
            let data = vec![number; 1172];
            entry.send(Datagram { agent, data }).await.unwrap();
        }
        let mut times = Vec::new();
        for number in 0..80 {
            let (datagram, at) = arrivals.recv().await.unwrap();
            assert_eq!(datagram.data[0], number, "the order is kept");
            times.push((at - start).as_secs_f64());
        }
        // 25 ms of serialisation, 125 ms of delay and up to 10 ms of jitter; timers have 1 ms.
        assert!((0.150..0.162).contains(&times[0]), "{}", times[0]);
        let rate = 79.0 * 1200.0 * 8.0 / (times[79] - times[0]);
        assert!((rate / 384_000.0 - 1.0).abs() < 0.02, "{rate} bit/s");
    }

    #[tokio::test(start_paused = true)]
    async fn datagrams_beyond_the_queue_and_the_mtu_are_lost() {
        let config = hop(Profile::named("dialup").unwrap());
        let (entry, packets) = mpsc::channel(100);
        let (arrived, mut arrivals) = mpsc::unbounded_channel();
        let agent = "127.0.0.1:9".parse().unwrap();
        tokio::spawn(carry(
            Link::new(config.down, SEED),
            packets,
            move |datagram: Datagram| {
                arrived.send(datagram.data.len()).unwrap();
            },
        ));
        let large = vec![0; 1473];
        entry.send(Datagram { agent, data: large }).await.unwrap();
        for _ in 0..40 {
            let data = vec![0; 972];
            entry.send(Datagram { agent, data }).await.unwrap();
        }
        drop(entry);
        let mut lengths = Vec::new();
        while let Ok(Some(length)) = timeout(Duration::from_secs(100), arrivals.recv()).await {
            lengths.push(length);
        }
        assert!(
            lengths.iter().all(|length| *length == 972),
            "1,501 bytes are too large"
        );
    }

    #[tokio::test]
    async fn datagrams_cross_the_relay_both_ways() {
        let gateway = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let profile = Profile::named("lan-fast").unwrap();
        let relay = DatagramRelay::start(hop(profile), gateway.local_addr().unwrap()).unwrap();
        let agents = [
            UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap(),
            UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap(),
        ];
        for agent in &agents {
            let start = Instant::now();
            agent.send_to(b"request", relay.address()).await.unwrap();
            let mut buffer = [0; 64];
            let (len, from) = timeout(LIMIT, gateway.recv_from(&mut buffer))
                .await
                .unwrap()
                .unwrap();
            assert_eq!(&buffer[..len], b"request");
            gateway.send_to(b"response", from).await.unwrap();
            let (len, from) = timeout(LIMIT, agent.recv_from(&mut buffer))
                .await
                .unwrap()
                .unwrap();
            assert_eq!((&buffer[..len], from), (&b"response"[..], relay.address()));
            assert!(
                start.elapsed() >= Duration::from_millis(5),
                "a round trip of the link"
            );
        }
    }
}
