//! The UDP sockets of an association: one for each address family that it uses.
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::net::UdpSocket;

/// Both sockets, each open once it is used.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
}

impl Sockets {
    /// Sends a datagram, unless the system cannot take it at once: then it is lost, as in any full queue.
    pub(super) async fn send(&mut self, payload: &[u8], to: SocketAddr) -> io::Result<()> {
        let (socket, any): (_, IpAddr) = match to {
            SocketAddr::V4(_) => (&mut self.v4, Ipv4Addr::UNSPECIFIED.into()),
            SocketAddr::V6(_) => (&mut self.v6, Ipv6Addr::UNSPECIFIED.into()),
        };
        let socket = match socket {
            Some(socket) => socket,
            None => socket.insert(UdpSocket::bind((any, 0)).await?),
        };
        match socket.try_send_to(payload, to) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // A new socket is not known to be writable yet.
                socket.writable().await?;
                socket.try_send_to(payload, to).map(drop)
            }
            sent => sent.map(drop),
        }
    }

    /// Receives a datagram; returns its length and source. Waits for ever while no socket is open. Cancel safe.
    pub(super) async fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let readable = async |socket: &Option<UdpSocket>| match socket {
            Some(socket) => socket.readable().await,
            None => std::future::pending().await,
        };
        loop {
            let socket = tokio::select! {
                ready = readable(&self.v4) => ready.map(|()| &self.v4)?,
                ready = readable(&self.v6) => ready.map(|()| &self.v6)?,
            };
            let Some(socket) = socket else { continue };
            match socket.try_recv_from(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return received.map(|(length, from)| (length, canonical(from))),
            }
        }
    }

    /// Closes both; the next datagram leaves from another port.
    pub(super) fn close(&mut self) {
        *self = Self::default();
    }
}

/// The address in the form in which it was sent to: sockets for both families show IPv4 addresses in mapped form.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}
