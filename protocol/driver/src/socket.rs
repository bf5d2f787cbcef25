//! The UDP socket: batches in, datagrams out.
use std::{
    io::{self, IoSliceMut},
    net::SocketAddr,
};

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{io::Interest, net::UdpSocket};

/// Space for one receive call: the largest UDP datagram, so that coalesced segments (GRO) fit.
const RECV_BUFFER: usize = 64 * 1024;
/// Kernel buffers. 100 Mbit/s for 160 ms, the longest that this process was seen to be off a busy 2-core machine.
const SOCKET_BUFFER: usize = 2 * 1024 * 1024;

/// A bound UDP socket.
#[derive(Debug)]
pub(crate) struct SessionSocket {
    io: UdpSocket,
    state: UdpSocketState,
    buffers: Vec<Vec<u8>>,
    meta: Vec<RecvMeta>,
}

impl SessionSocket {
    /// Binds to `local`. A wildcard IPv6 address takes IPv4 as well.
    pub(crate) fn bind(local: SocketAddr) -> io::Result<Self> {
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
        // Smaller buffers cost packets in bursts but nothing else, so a refusal is no error.
        let _refused = socket.set_recv_buffer_size(SOCKET_BUFFER);
        let _refused = socket.set_send_buffer_size(SOCKET_BUFFER);
        let io = UdpSocket::from_std(socket.into())?;
        let state = UdpSocketState::new((&io).into())?;
        Ok(Self {
            io,
            state,
            buffers: (0..BATCH_SIZE).map(|_| vec![0; RECV_BUFFER]).collect(),
            meta: vec![RecvMeta::default(); BATCH_SIZE],
        })
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.io.readable().await
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.io.writable().await
    }

    /// Receives what is there and hands each datagram to `take`. Returns how many there were.
    pub(crate) fn receive(&mut self, mut take: impl FnMut(SocketAddr, &mut [u8])) -> io::Result<usize> {
        let Self {
            io,
            state,
            buffers,
            meta,
        } = self;
        let received = {
            let mut slices: Vec<IoSliceMut<'_>> =
                buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
            io.try_io(Interest::READABLE, || {
                state.recv((&*io).into(), &mut slices, meta)
            })?
        };
        let mut datagrams = 0;
        for (buffer, meta) in buffers.iter_mut().zip(meta.iter()).take(received) {
            let stride = meta.stride.max(1);
            for datagram in buffer[..meta.len].chunks_mut(stride) {
                datagrams += 1;
                take(unmapped(meta.addr), datagram);
            }
        }
        Ok(datagrams)
    }

    /// Sends a datagram.
    pub(crate) fn send(&self, remote: SocketAddr, contents: &[u8]) -> io::Result<()> {
        let destination = self.mapped(remote)?;
        let transmit = Transmit {
            destination,
            ecn: None,
            contents,
            segment_size: None,
            src_ip: None,
        };
        self.io.try_io(Interest::WRITABLE, || {
            self.state.try_send((&self.io).into(), &transmit)
        })
    }

    fn mapped(&self, remote: SocketAddr) -> io::Result<SocketAddr> {
        match (self.io.local_addr()?, remote) {
            (SocketAddr::V6(_), SocketAddr::V4(v4)) => {
                Ok(SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()))
            }
            _ => Ok(remote),
        }
    }
}

/// IPv4 as IPv4, also where a socket for both families reports it mapped into IPv6.
fn unmapped(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
