//! The UDP sockets of a driver task: one of an agent, one for each listening address of a gateway.
use std::{future::poll_fn, io, net::SocketAddr, task::Poll};

use longhaul_protocol::path::UdpPath;

use crate::{
    batch::Batch,
    quic_share::QuicShare,
    socket::{SegmentationOffload, SessionSocket},
};

/// Maximum number of listening addresses of a gateway: each has buffers, and agents try few ports.
pub(crate) const MAX_LISTEN: usize = 8;

/// Sockets by their numbers. There is at least one.
#[derive(Debug)]
pub(crate) struct Sockets {
    first: SessionSocket,
    others: Vec<SessionSocket>,
    /// Number of the socket whose datagrams are looked for first, so that a busy one does not starve the others.
    next: usize,
}

impl From<SessionSocket> for Sockets {
    fn from(first: SessionSocket) -> Self {
        Self {
            first,
            others: Vec::new(),
            next: 0,
        }
    }
}

impl Sockets {
    /// Binds to the addresses of a gateway, of which those after the first [`MAX_LISTEN`] are ignored. The error names
    /// its address.
    pub(crate) fn listen(
        first: SocketAddr,
        others: &[SocketAddr],
        offload: SegmentationOffload,
    ) -> Result<Self, (SocketAddr, io::Error)> {
        let bind = |address: SocketAddr, number: u8| {
            let bound = SessionSocket::bind(address, offload);
            bound
                .map(|socket| socket.numbered(number))
                .map_err(|error| (address, error))
        };
        let numbers = 1..u8::try_from(MAX_LISTEN).unwrap_or(u8::MAX);
        Ok(Self {
            first: bind(first, 0)?,
            others: others
                .iter()
                .zip(numbers)
                .map(|(address, number)| bind(*address, number))
                .collect::<Result<_, _>>()?,
            next: 0,
        })
    }

    /// Shares the port of one of the listening addresses with QUIC.
    pub(crate) fn share_with_quic(&mut self, number: usize) -> Result<QuicShare, (SocketAddr, io::Error)> {
        let socket = self.get_mut(number);
        let address = socket.local_addr();
        socket.share_with_quic().map_err(|error| (address, error))
    }

    /// Local address of the first socket.
    pub(crate) const fn local_addr(&self) -> SocketAddr {
        self.first.local_addr()
    }

    #[cfg(test)]
    pub(crate) const fn counters(&self) -> crate::socket::SocketCounters {
        self.first.counters()
    }

    /// Local addresses, in the order of the numbers.
    pub(crate) fn local_addrs(&self) -> Vec<SocketAddr> {
        std::iter::once(&self.first)
            .chain(&self.others)
            .map(SessionSocket::local_addr)
            .collect()
    }

    /// Replaces the socket of an agent if it cannot send to these addresses.
    pub(crate) fn serve(&mut self, addresses: &[SocketAddr]) {
        self.first.serve(addresses);
    }

    /// Replaces the socket of an agent: see [`SessionSocket::rebind`].
    pub(crate) fn rebind(&mut self) {
        self.first.rebind();
    }

    fn len(&self) -> usize {
        1 + self.others.len()
    }

    fn get(&self, number: usize) -> &SessionSocket {
        match number.checked_sub(1) {
            Some(other) => self.others.get(other).unwrap_or(&self.first),
            None => &self.first,
        }
    }

    fn get_mut(&mut self, number: usize) -> &mut SessionSocket {
        let other = number.checked_sub(1);
        match other.and_then(|other| self.others.get_mut(other)) {
            Some(socket) => socket,
            None => &mut self.first,
        }
    }

    /// Maximum number of datagrams per call on this path.
    pub(crate) fn max_segments(&self, path: UdpPath) -> usize {
        self.get(path.local.socket.into()).max_segments()
    }

    /// Waits until a socket has datagrams; returns its number. Cancel safe.
    pub(crate) async fn readable(&self) -> io::Result<usize> {
        poll_fn(|context| {
            for step in 0..self.len() {
                let number = (self.next + step) % self.len();
                if let Poll::Ready(ready) = self.get(number).poll_readable(context) {
                    return Poll::Ready(ready.map(|()| number));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Receives what a socket has: see [`SessionSocket::receive`].
    pub(crate) fn receive(
        &mut self,
        number: usize,
        take: impl FnMut(UdpPath, &mut [u8]),
    ) -> io::Result<usize> {
        self.next = (number + 1) % self.len();
        self.get_mut(number).receive(take)
    }

    /// Waits until the socket of the batch takes datagrams. Cancel safe.
    pub(crate) async fn writable(&self, batch: &Batch) -> io::Result<()> {
        self.get(batch.path().local.socket.into()).writable().await
    }

    /// Sends a batch: see [`SessionSocket::send`].
    pub(crate) fn send(&mut self, batch: &mut Batch) -> io::Result<()> {
        self.get_mut(batch.path().local.socket.into()).send(batch)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    const OFFLOAD: SegmentationOffload = SegmentationOffload::WherePossible;

    #[tokio::test]
    async fn a_busy_socket_does_not_starve_the_others() {
        let mut sockets = Sockets::listen(HERE, &[HERE, HERE], OFFLOAD).unwrap();
        let mut peer = Sockets::from(SessionSocket::bind(HERE, OFFLOAD).unwrap());
        let to = sockets.local_addrs();
        let mut served = Vec::new();
        for _ in 0..6 {
            for address in &to {
                let mut batch = Batch::default();
                batch.restart((*address).into(), &[7; 100]);
                while let Err(error) = peer.send(&mut batch) {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    peer.writable(&batch).await.unwrap();
                }
            }
            let number = sockets.readable().await.unwrap();
            let mut from = None;
            // The kernel may have reported a socket whose datagram is on its way.
            if sockets
                .receive(number, |path, _| from = Some(path.local.socket))
                .is_ok()
            {
                assert_eq!(from.map(usize::from), Some(number));
                served.push(number);
            }
        }
        served.sort_unstable();
        served.dedup();
        assert_eq!(served, [0, 1, 2]);
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_named() {
        let taken = SessionSocket::bind(HERE, OFFLOAD).unwrap();
        let failed = Sockets::listen(HERE, &[taken.local_addr()], OFFLOAD);
        let (address, error) = failed.map(|_| ()).unwrap_err();
        assert_eq!(
            (address, error.kind()),
            (taken.local_addr(), io::ErrorKind::AddrInUse)
        );
    }
}
