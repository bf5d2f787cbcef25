//! The packets of QUIC on a UDP port of a gateway that its sessions and QUIC share (docs/protocol/transport.md
//! section 8.6).
//!
//! The driver task reads the socket and passes the packets of QUIC on, in a queue with a limit: QUIC reads them in tasks
//! of its own, so that neither a flood of its packets nor the work for its handshakes holds up the sessions. Both send on
//! the same socket, each with its own state of the kernel's segmentation offload.
use std::{
    fmt, io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use parking_lot::Mutex;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use tokio::{io::Interest, net::UdpSocket, sync::mpsc};

/// Packets that wait for QUIC: 100 ms at 100 Mbit/s, at most 1.5 MiB.
const WAITING: usize = 1024;
/// Largest packet that QUIC takes; each of its packets fits a link with an MTU of 1,500 bytes.
const LARGEST: usize = 1472;

/// A packet of QUIC as it was received.
#[derive(Debug)]
struct QuicPacket {
    bytes: Box<[u8]>,
    meta: RecvMeta,
}

/// Number of packets of QUIC that were dropped, because they were too many or too large.
#[derive(Clone, Debug, Default)]
pub struct QuicDrops(Arc<AtomicU64>);

impl QuicDrops {
    /// The number up to now.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The driver task's end.
#[derive(Debug)]
pub(crate) struct QuicQueue {
    packets: mpsc::Sender<QuicPacket>,
    drops: QuicDrops,
}

impl QuicQueue {
    /// Passes a packet on, or drops it. `received` describes the call that received it.
    pub(crate) fn push(&self, received: &RecvMeta, packet: &[u8]) {
        let meta = RecvMeta {
            len: packet.len(),
            stride: packet.len(),
            ..*received
        };
        if packet.len() > LARGEST {
            return self.drops.add();
        }
        let Ok(place) = self.packets.try_reserve() else {
            return self.drops.add();
        };
        place.send(QuicPacket {
            bytes: packet.into(),
            meta,
        });
    }
}

/// The share of QUIC in a UDP port of a gateway.
pub struct QuicShare {
    io: Arc<UdpSocket>,
    state: UdpSocketState,
    has_offload: bool,
    packets: Mutex<mpsc::Receiver<QuicPacket>>,
    drops: QuicDrops,
}

impl fmt::Debug for QuicShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicShare")
            .field("io", &self.io)
            .finish_non_exhaustive()
    }
}

/// Makes both ends of the share of a socket.
pub(crate) fn share(io: Arc<UdpSocket>, has_offload: bool) -> io::Result<(QuicQueue, QuicShare)> {
    let state = UdpSocketState::new((&*io).into())?;
    let (sender, packets) = mpsc::channel(WAITING);
    let drops = QuicDrops::default();
    let queue = QuicQueue {
        packets: sender,
        drops: drops.clone(),
    };
    let share = QuicShare {
        io,
        state,
        has_offload,
        packets: Mutex::new(packets),
        drops,
    };
    Ok((queue, share))
}

impl QuicShare {
    /// Receives packets, one in each buffer, for one task that waits for them. Never ready again once the driver task has
    /// ended.
    pub fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [io::IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<usize> {
        let mut packets = self.packets.lock();
        let mut received = 0;
        for (buffer, meta) in buffers.iter_mut().zip(meta.iter_mut()) {
            let packet = if received == 0 {
                ready!(packets.poll_recv(context))
            } else {
                packets.try_recv().ok()
            };
            let Some(packet) = packet else { break };
            // What does not fit is cut off, as by the kernel.
            let length = packet.bytes.len().min(buffer.len());
            buffer[..length].copy_from_slice(&packet.bytes[..length]);
            *meta = RecvMeta {
                len: length,
                stride: length,
                ..packet.meta
            };
            received += 1;
        }
        if received == 0 {
            return Poll::Pending;
        }
        Poll::Ready(received)
    }

    /// Sends one packet, or several of one size.
    ///
    /// # Errors
    /// `WouldBlock` while the socket takes none. Other errors of sending are lost packets.
    pub fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.io.try_io(Interest::WRITABLE, || {
            self.state.send((&*self.io).into(), transmit)
        })
    }

    /// Waits until the socket takes packets. Cancel safe.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub async fn writable(&self) -> io::Result<()> {
        self.io.writable().await
    }

    /// The local address.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Maximum number of packets of one size in a call; 1 without segmentation offload.
    pub fn max_segments(&self) -> usize {
        if self.has_offload {
            self.state.max_gso_segments().max(1)
        } else {
            1
        }
    }

    /// True if the network may fragment packets.
    pub fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    /// Counts the packets that were dropped.
    pub fn drops(&self) -> QuicDrops {
        self.drops.clone()
    }
}
