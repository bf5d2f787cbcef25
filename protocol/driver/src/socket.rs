//! The UDP socket, which sends and receives in batches.
//!
//! Datagrams of one size to one destination are passed to the kernel in one call (GSO, generic segmentation
//! offload), and datagrams that the kernel has joined are received in one call (GRO). Both save processor
//! time and change nothing on the wire.
use std::{
    io::{self, IoSliceMut},
    net::SocketAddr,
};

use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{io::Interest, net::UdpSocket};
use tracing::{debug, warn};

use crate::batch::Batch;

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
    io: UdpSocket,
    state: UdpSocketState,
    offload: SegmentationOffload,
    local: SocketAddr,
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
            io,
            state,
            offload,
            local,
            buffers: (0..RECV_MESSAGES).map(|_| vec![0; RECV_BUFFER]).collect(),
            meta: vec![RecvMeta::default(); RECV_MESSAGES],
            counters: SocketCounters::default(),
        })
    }

    /// Replaces the socket by one with a new port on the same local address. Datagrams that are on the way to
    /// the old port are lost. If the system provides no socket, the old one stays in use.
    pub(crate) fn rebind(&mut self) {
        let opened = open(SocketAddr::new(self.local.ip(), 0)).and_then(|(io, state)| {
            let local = io.local_addr()?;
            Ok((io, state, local))
        });
        match opened {
            Ok((io, state, local)) => (self.io, self.state, self.local) = (io, state, local),
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

    /// Receives the available datagrams and passes each one to `take`. Returns their number.
    pub(crate) fn receive(&mut self, mut take: impl FnMut(SocketAddr, &mut [u8])) -> io::Result<usize> {
        let Self {
            io,
            state,
            buffers,
            meta,
            ..
        } = self;
        let received = {
            let mut buffers = buffers.iter_mut();
            let mut slices: [IoSliceMut<'_>; RECV_MESSAGES] =
                std::array::from_fn(|_| IoSliceMut::new(buffers.next().map_or(&mut [], Vec::as_mut_slice)));
            io.try_io(Interest::READABLE, || {
                state.recv((&*io).into(), &mut slices, meta)
            })?
        };
        let mut datagrams = 0;
        for (buffer, meta) in buffers.iter_mut().zip(meta.iter()).take(received) {
            // A datagram from port 0 cannot be answered, and the kernel's error would count against
            // segmentation offload.
            if meta.addr.port() == 0 {
                continue;
            }
            let stride = meta.stride.max(1);
            for datagram in buffer[..meta.len].chunks_mut(stride) {
                datagrams += 1;
                take(unmapped(meta.addr), datagram);
            }
        }
        Ok(datagrams)
    }

    /// Sends the rest of a batch. After an error other than `WouldBlock`, the batch is empty: unsent
    /// datagrams are lost, as in the network.
    pub(crate) fn send(&mut self, batch: &mut Batch) -> io::Result<()> {
        let destination = self.mapped(batch.remote());
        let mut outcome = Ok(());
        while !batch.is_empty() {
            let segments = batch.segments().min(self.max_segments());
            match self.try_send(destination, batch.front(segments), batch.segment_size()) {
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
                    outcome = self.send_singly(destination, batch, segments);
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

    fn send_singly(&mut self, destination: SocketAddr, batch: &mut Batch, segments: usize) -> io::Result<()> {
        let mut outcome = Ok(());
        for _ in 0..segments {
            match self.try_send(destination, batch.front(1), batch.segment_size()) {
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

    fn try_send(&self, destination: SocketAddr, contents: &[u8], segment_size: usize) -> io::Result<()> {
        let transmit = quinn_udp::Transmit {
            destination,
            ecn: None,
            contents,
            segment_size: Some(segment_size),
            src_ip: None,
        };
        self.io.try_io(Interest::WRITABLE, || {
            self.state.try_send((&self.io).into(), &transmit)
        })
    }

    fn mapped(&self, remote: SocketAddr) -> SocketAddr {
        match (self.local, remote) {
            (SocketAddr::V6(_), SocketAddr::V4(v4)) => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            _ => remote,
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

/// Converts IPv4-mapped IPv6 addresses, which a dual-stack socket reports, to IPv4.
fn unmapped(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, net::Ipv4Addr};

    use super::*;

    fn socket(offload: SegmentationOffload) -> SessionSocket {
        SessionSocket::bind((Ipv4Addr::LOCALHOST, 0).into(), offload).unwrap()
    }

    fn datagram(number: usize, size: usize) -> Vec<u8> {
        let mut datagram = vec![u8::try_from(number).unwrap(); size];
        datagram[..4].copy_from_slice(&u32::try_from(number).unwrap().to_be_bytes());
        datagram
    }

    fn batch(to: SocketAddr, datagrams: &[Vec<u8>]) -> Batch {
        let mut batch = Batch::default();
        batch.restart(to, &datagrams[0]);
        for datagram in &datagrams[1..] {
            assert!(batch.takes(to, datagram.len()));
            batch.push(datagram);
        }
        batch
    }

    async fn send(socket: &mut SessionSocket, mut batch: Batch) {
        while let Err(error) = socket.send(&mut batch) {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            socket.writable().await.unwrap();
        }
    }

    async fn receive(socket: &mut SessionSocket, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut all = Vec::new();
        while all.len() < count {
            socket.readable().await.unwrap();
            let received = socket.receive(|from, datagram| all.push((from, datagram.to_vec())));
            if let Err(error) = received {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            }
        }
        all
    }

    #[tokio::test]
    async fn a_batch_arrives_whole_and_in_order_with_fewer_calls() {
        let mut sender = socket(SegmentationOffload::WherePossible);
        let mut receiver = socket(SegmentationOffload::WherePossible);
        let mut datagrams: Vec<_> = (0..40).map(|number| datagram(number, 1300)).collect();
        datagrams.push(datagram(40, 200));
        let to = receiver.local_addr();
        let at_once = sender.max_segments();
        send(&mut sender, batch(to, &datagrams)).await;
        let all = receive(&mut receiver, datagrams.len()).await;
        assert!(all.iter().all(|(from, _)| *from == sender.local_addr()));
        assert_eq!(
            all.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(),
            datagrams
        );
        let counters = sender.counters();
        assert_eq!(counters.sent, 41);
        if at_once > 1 {
            assert!(
                counters.send_calls <= 41_u64.div_ceil(at_once as u64),
                "{counters:?}"
            );
        } else {
            eprintln!("no segmentation offload in this kernel: the number of calls is not tested");
        }
    }

    #[tokio::test]
    async fn without_offload_each_datagram_has_its_call() {
        let mut sender = socket(SegmentationOffload::Off);
        let mut receiver = socket(SegmentationOffload::WherePossible);
        let datagrams: Vec<_> = (0..10).map(|number| datagram(number, 900)).collect();
        send(&mut sender, batch(receiver.local_addr(), &datagrams)).await;
        let all = receive(&mut receiver, datagrams.len()).await;
        assert_eq!(
            all.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(),
            datagrams
        );
        assert_eq!(
            sender.counters(),
            SocketCounters {
                send_calls: 10,
                sent: 10
            }
        );
    }

    #[tokio::test]
    async fn a_refused_batch_is_sent_one_datagram_at_a_time() {
        let mut sender = socket(SegmentationOffload::WherePossible);
        let mut receiver = socket(SegmentationOffload::WherePossible);
        // 64 KiB exceed a datagram: the kernel refuses the batch, but not its datagrams.
        let datagrams: Vec<_> = (0..3).map(|number| datagram(number, 30_000)).collect();
        send(&mut sender, batch(receiver.local_addr(), &datagrams)).await;
        let all = receive(&mut receiver, datagrams.len()).await;
        assert_eq!(
            all.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(),
            datagrams
        );
        assert_eq!(sender.counters().sent, 3);
    }

    #[tokio::test]
    async fn a_replaced_socket_has_another_port_and_the_same_address() {
        let mut sender = socket(SegmentationOffload::WherePossible);
        let mut receiver = socket(SegmentationOffload::WherePossible);
        let before = sender.local_addr();
        sender.rebind();
        assert_ne!(sender.local_addr().port(), before.port());
        assert_eq!(sender.local_addr().ip(), before.ip());
        let datagrams = [datagram(1, 500)];
        send(&mut sender, batch(receiver.local_addr(), &datagrams)).await;
        let all = receive(&mut receiver, 1).await;
        assert_eq!(all, [(sender.local_addr(), datagrams[0].clone())]);
        send(&mut receiver, batch(sender.local_addr(), &datagrams)).await;
        assert_eq!(receive(&mut sender, 1).await.len(), 1);
    }

    #[tokio::test]
    async fn peers_are_not_merged() {
        let mut senders = [(); 3].map(|()| socket(SegmentationOffload::WherePossible));
        let mut receivers = [(); 2].map(|()| socket(SegmentationOffload::WherePossible));
        let mut expected: BTreeMap<(usize, SocketAddr), Vec<Vec<u8>>> = BTreeMap::new();
        for round in 0..4 {
            for (index, sender) in senders.iter_mut().enumerate() {
                for (at, receiver) in receivers.iter().enumerate() {
                    let number = round * 16 + index * 4 + at;
                    let datagrams: Vec<_> = (0..3).map(|step| datagram(number + step, 1000)).collect();
                    send(sender, batch(receiver.local_addr(), &datagrams)).await;
                    expected
                        .entry((at, sender.local_addr()))
                        .or_default()
                        .extend(datagrams);
                }
            }
        }
        let mut seen: BTreeMap<(usize, SocketAddr), Vec<Vec<u8>>> = BTreeMap::new();
        for (at, receiver) in receivers.iter_mut().enumerate() {
            for (from, bytes) in receive(receiver, 4 * 3 * 3).await {
                seen.entry((at, from)).or_default().push(bytes);
            }
        }
        assert_eq!(seen, expected);
    }
}
