//! A UDP socket, which sends and receives in batches.
//!
//! Datagrams of one size to one destination are passed to the kernel in one call (GSO, generic segmentation
//! offload), and datagrams that the kernel has joined are received in one call (GRO). Both save processor
//! time and change nothing on the wire.
use std::{
    io::{self, IoSliceMut},
    net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6},
    sync::Arc,
    task::{Context, Poll},
};

use longhaul_protocol::{
    path::{LocalEnd, UdpPath},
    wire::is_quic,
};
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{io::Interest, net::UdpSocket};
use tracing::{debug, warn};

use crate::{
    batch::Batch,
    quic_share::{self, QuicQueue, QuicShare},
};

/// Size of a receive buffer: the largest UDP datagram, so that joined segments (GRO) fit.
const RECV_BUFFER: usize = 64 * 1024;
/// Maximum number of messages received in one call. Messages of one busy peer are joined segments, so a few
/// empty the kernel's buffer; with many peers, the cost of a call is small compared with that of the packets.
const RECV_MESSAGES: usize = if BATCH_SIZE < 8 { BATCH_SIZE } else { 8 };
/// Size of the kernel's buffers: 100 Mbit/s for 160 ms, the longest time for which a busy machine with two
/// cores was observed not to run this process.
const SOCKET_BUFFER: usize = 2 * 1024 * 1024;

/// Use of the kernel's segmentation offload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentationOffload {
    /// Use the offload where kernel and path support it; not used again after a refusal.
    #[default]
    WherePossible,
    /// Use one call for each datagram, for drivers with a faulty offload.
    Off,
}

/// Counters of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SocketCounters {
    /// Calls that sent datagrams.
    pub(crate) send_calls: u64,
    /// Datagrams sent.
    pub(crate) sent: u64,
}

/// A bound UDP socket.
#[derive(Debug)]
pub(crate) struct SessionSocket {
    io: Arc<UdpSocket>,
    state: UdpSocketState,
    offload: SegmentationOffload,
    local: SocketAddr,
    /// Number of the socket in its paths.
    number: u8,
    /// Paths contain the address to which the peer has sent.
    names_addresses: bool,
    /// Takes the packets of QUIC, if the port is shared.
    quic: Option<QuicQueue>,
    buffers: Vec<Vec<u8>>,
    meta: Vec<RecvMeta>,
    counters: SocketCounters,
}

impl SessionSocket {
    /// Binds to `local`. A wildcard IPv6 address also receives IPv4.
    pub(crate) fn bind(local: SocketAddr, offload: SegmentationOffload) -> io::Result<Self> {
        let (io, state) = open(local)?;
        let local = io.local_addr()?;
        Ok(Self {
            io: Arc::new(io),
            state,
            offload,
            local,
            number: 0,
            names_addresses: false,
            quic: None,
            buffers: (0..RECV_MESSAGES).map(|_| vec![0; RECV_BUFFER]).collect(),
            meta: vec![RecvMeta::default(); RECV_MESSAGES],
            counters: SocketCounters::default(),
        })
    }

    /// Gives the socket its number among the sockets of a gateway, whose packets leave from the address to which the
    /// peer has sent. A socket with a wildcard address has to be told this address.
    pub(crate) fn numbered(mut self, number: u8) -> Self {
        self.number = number;
        self.names_addresses = self.local.ip().is_unspecified();
        self
    }

    /// Shares the port: packets of QUIC go to the share from now on.
    pub(crate) fn share_with_quic(&mut self) -> io::Result<QuicShare> {
        let gso = self.offload == SegmentationOffload::WherePossible;
        let (queue, share) = quic_share::share(Arc::clone(&self.io), gso)?;
        self.quic = Some(queue);
        Ok(share)
    }

    /// Replaces the socket by one with a new port on the same local address. Datagrams that are on the way to
    /// the old port are lost. If the system provides no socket, the old one stays in use.
    pub(crate) fn rebind(&mut self) {
        self.reopen(self.local.ip());
    }

    /// Replaces a socket for IPv4 by one for both families if one of these addresses needs it.
    pub(crate) fn serve(&mut self, addresses: &[SocketAddr]) {
        if self.local.is_ipv4() && addresses.iter().any(SocketAddr::is_ipv6) {
            self.reopen(Ipv6Addr::UNSPECIFIED.into());
        }
    }

    fn reopen(&mut self, ip: IpAddr) {
        let opened = open(SocketAddr::new(ip, 0)).and_then(|(io, state)| {
            let local = io.local_addr()?;
            Ok((io, state, local))
        });
        match opened {
            Ok((io, state, local)) => (self.io, self.state, self.local) = (Arc::new(io), state, local),
            Err(error) => warn!(%error, "no new socket after a network change; the old one stays in use"),
        }
    }

    pub(crate) const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    #[cfg(test)]
    pub(crate) const fn counters(&self) -> SocketCounters {
        self.counters
    }

    /// Completes when the socket has datagrams, for one task that waits for them.
    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_recv_ready(context)
    }

    #[cfg(test)]
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.io.readable().await
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.io.writable().await
    }

    /// Maximum number of datagrams per call; 1 without segmentation offload.
    pub(crate) fn max_segments(&self) -> usize {
        match self.offload {
            SegmentationOffload::WherePossible => self.state.max_gso_segments().max(1),
            SegmentationOffload::Off => 1,
        }
    }

    /// Receives the available datagrams and passes each one to `take` with its path. Returns their number.
    pub(crate) fn receive(&mut self, mut take: impl FnMut(UdpPath, &mut [u8])) -> io::Result<usize> {
        let Self {
            io,
            state,
            buffers,
            meta,
            number,
            names_addresses,
            quic,
            ..
        } = self;
        let received = {
            let mut buffers = buffers.iter_mut();
            let mut slices: [IoSliceMut<'_>; RECV_MESSAGES] =
                std::array::from_fn(|_| IoSliceMut::new(buffers.next().map_or(&mut [], Vec::as_mut_slice)));
            io.try_io(Interest::READABLE, || {
                state.recv((&**io).into(), &mut slices, meta)
            })?
        };
        let mut datagrams = 0;
        for (buffer, meta) in buffers.iter_mut().zip(meta.iter()).take(received) {
            // A datagram from port 0 cannot be answered, and the kernel's error would count against
            // segmentation offload.
            if meta.addr.port() == 0 {
                continue;
            }
            let ip = meta.dst_ip.filter(|_| *names_addresses);
            let path = UdpPath {
                remote: unmapped(meta.addr),
                local: LocalEnd {
                    socket: *number,
                    ip: ip.map(|ip| ip.to_canonical()),
                },
            };
            let stride = meta.stride.max(1);
            for datagram in buffer[..meta.len].chunks_mut(stride) {
                match quic {
                    Some(quic) if is_quic(datagram) => quic.push(meta, datagram),
                    Some(_) | None => {
                        datagrams += 1;
                        take(path, datagram);
                    }
                }
            }
        }
        Ok(datagrams)
    }

    /// Sends the rest of a batch. After an error other than `WouldBlock`, the batch is empty: unsent
    /// datagrams are lost, as in the network.
    pub(crate) fn send(&mut self, batch: &mut Batch) -> io::Result<()> {
        let path = batch.path();
        let mut outcome = Ok(());
        while !batch.is_empty() {
            let segments = batch.segments().min(self.max_segments());
            match self.try_send(path, batch.front(segments), batch.segment_size()) {
                Ok(()) => {
                    self.counters.send_calls += 1;
                    self.counters.sent += segments as u64;
                    batch.advance(segments);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                Err(error) if segments > 1 => {
                    // The device cannot split the batch (EIO, EINVAL: quinn-udp turns the offload off), or a
                    // datagram is too large for the interface: send each datagram separately. The number of
                    // datagrams causes no other error.
                    debug!(%error, segments, "the operating system refused a batch of datagrams");
                    outcome = self.send_singly(path, batch, segments);
                    if let Err(error) = &outcome
                        && error.kind() == io::ErrorKind::WouldBlock
                    {
                        return outcome;
                    }
                }
                Err(error) => {
                    batch.advance(segments);
                    outcome = Err(error);
                }
            }
        }
        outcome
    }

    fn send_singly(&mut self, path: UdpPath, batch: &mut Batch, segments: usize) -> io::Result<()> {
        let mut outcome = Ok(());
        for _ in 0..segments {
            match self.try_send(path, batch.front(1), batch.segment_size()) {
                Ok(()) => {
                    self.counters.send_calls += 1;
                    self.counters.sent += 1;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                Err(error) => outcome = Err(error),
            }
            batch.advance(1);
        }
        outcome
    }

    fn try_send(&mut self, path: UdpPath, contents: &[u8], segment_size: usize) -> io::Result<()> {
        let mut transmit = quinn_udp::Transmit {
            destination: self.destination(path.remote),
            ecn: None,
            contents,
            segment_size: Some(segment_size),
            src_ip: path.local.ip.map(|ip| self.mapped(ip)),
        };
        let sent = self.attempt(&transmit);
        let refusal = sent.as_ref().err().map(io::Error::kind);
        let is_refused = matches!(
            refusal,
            Some(
                io::ErrorKind::InvalidInput
                    | io::ErrorKind::NetworkUnreachable
                    | io::ErrorKind::AddrNotAvailable
            )
        );
        if !is_refused || transmit.src_ip.take().is_none() {
            return sent;
        }
        // The address was removed from this host, or it is a broadcast address.
        let sent = self.attempt(&transmit);
        if sent.is_ok() {
            debug!(address = ?path.local.ip, "an answer leaves from another address: this one is not the host's");
            if refusal == Some(io::ErrorKind::InvalidInput) {
                // quinn-udp takes this error for one of segmentation offload, and has switched that off.
                self.state = UdpSocketState::new((&*self.io).into())?;
            }
        }
        sent
    }

    fn attempt(&self, transmit: &quinn_udp::Transmit<'_>) -> io::Result<()> {
        self.io.try_io(Interest::WRITABLE, || {
            self.state.try_send((&*self.io).into(), transmit)
        })
    }

    /// The address of a peer as a socket of this family writes it.
    const fn destination(&self, remote: SocketAddr) -> SocketAddr {
        match remote {
            // With its scope: a link-local address means nothing without it (RFC 4007 section 6).
            SocketAddr::V6(_) => remote,
            SocketAddr::V4(v4) => SocketAddr::new(self.mapped(IpAddr::V4(*v4.ip())), v4.port()),
        }
    }

    /// The address as a socket of this family writes it.
    const fn mapped(&self, ip: IpAddr) -> IpAddr {
        match (self.local, ip) {
            (SocketAddr::V6(_), IpAddr::V4(v4)) => IpAddr::V6(v4.to_ipv6_mapped()),
            _ => ip,
        }
    }
}

/// Opens a socket bound to `local`. A wildcard IPv6 address also receives IPv4.
fn open(local: SocketAddr) -> io::Result<(UdpSocket, UdpSocketState)> {
    let domain = if local.is_ipv6() {
        Domain::IPV6
    } else {
        Domain::IPV4
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if local.is_ipv6() {
        socket.set_only_v6(!local.ip().is_unspecified())?;
    }
    socket.bind(&local.into())?;
    socket.set_nonblocking(true)?;
    // Smaller buffers only cost packets in bursts, so a refusal is not an error.
    let _refused = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _refused = socket.set_send_buffer_size(SOCKET_BUFFER);
    let io = UdpSocket::from_std(socket.into())?;
    let state = UdpSocketState::new((&io).into())?;
    Ok((io, state))
}

/// Converts IPv4-mapped IPv6 addresses, which a dual-stack socket reports, to IPv4. Other addresses keep their scope,
/// without which a link-local address leads nowhere.
fn unmapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => address,
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => (v4, v6.port()).into(),
            None => SocketAddrV6::new(*v6.ip(), v6.port(), 0, v6.scope_id()).into(),
        },
    }
}

#[cfg(test)]
mod tests;
