//! A link between two sockets in virtual time.
use std::{
    io::{self, IoSliceMut},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use parking_lot::Mutex;
use quinn::{
    AsyncUdpSocket, UdpPoller,
    udp::{RecvMeta, Transmit},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

pub(super) const AGENT: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 1));
pub(super) const GATEWAY: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 443));

type Packet = (Instant, Vec<u8>);

/// One direction of a link.
#[derive(Clone, Debug)]
pub(super) struct Direction {
    entrance: mpsc::UnboundedSender<Packet>,
    exit: Arc<Mutex<mpsc::UnboundedReceiver<Packet>>>,
    sizes: Arc<Mutex<Vec<usize>>>,
    is_blocked: Arc<AtomicBool>,
    largest: usize,
}

/// Creates a direction with this delay, which loses packets above `largest` bytes of UDP payload.
pub(super) fn lane(delay: Duration, largest: usize) -> Direction {
    let (entrance, mut entered) = mpsc::unbounded_channel::<Packet>();
    let (leave, exit) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some((sent, packet)) = entered.recv().await {
            sleep_until(sent + delay).await;
            if leave.send((sent, packet)).is_err() {
                return;
            }
        }
    });
    Direction {
        entrance,
        exit: Arc::new(Mutex::new(exit)),
        sizes: Arc::default(),
        is_blocked: Arc::default(),
        largest,
    }
}

impl Direction {
    /// The UDP payloads of the packets that were sent since the last call, in bytes.
    pub(super) fn take_sizes(&self) -> Vec<usize> {
        std::mem::take(&mut self.sizes.lock())
    }

    /// Loses all packets from now on.
    pub(super) fn block(&self) {
        self.is_blocked.store(true, Relaxed);
    }

    fn send(&self, packet: &[u8]) {
        self.sizes.lock().push(packet.len());
        if packet.len() <= self.largest && !self.is_blocked.load(Relaxed) {
            let _ended = self.entrance.send((Instant::now(), packet.to_vec()));
        }
    }
}

/// Both directions.
#[derive(Debug)]
pub(super) struct VirtualLink {
    pub(super) up: Direction,
    pub(super) down: Direction,
}

impl VirtualLink {
    /// The sockets of the agent and of the gateway.
    pub(super) fn sockets(&self) -> (Arc<dyn AsyncUdpSocket>, Arc<dyn AsyncUdpSocket>) {
        let end = |out: &Direction, back: &Direction, local, remote| {
            Arc::new(VirtualSocket {
                out: out.clone(),
                back: back.clone(),
                local,
                remote,
            })
        };
        (
            end(&self.up, &self.down, AGENT, GATEWAY),
            end(&self.down, &self.up, GATEWAY, AGENT),
        )
    }
}

/// One end of a link as a socket of the QUIC library.
#[derive(Debug)]
struct VirtualSocket {
    out: Direction,
    back: Direction,
    local: SocketAddr,
    remote: SocketAddr,
}

impl AsyncUdpSocket for VirtualSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Writable)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let segment = transmit.segment_size.unwrap_or(transmit.contents.len());
        for packet in transmit.contents.chunks(segment) {
            self.out.send(packet);
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let Some((_, packet)) = ready!(self.back.exit.lock().poll_recv(context)) else {
            return Poll::Pending;
        };
        buffers[0][..packet.len()].copy_from_slice(&packet);
        meta[0] = RecvMeta {
            addr: self.remote,
            len: packet.len(),
            stride: packet.len(),
            ..RecvMeta::default()
        };
        Poll::Ready(Ok(1))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

/// The socket always takes packets.
#[derive(Debug)]
struct Writable;

impl UdpPoller for Writable {
    fn poll_writable(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
