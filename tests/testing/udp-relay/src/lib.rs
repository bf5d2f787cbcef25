//! The hop between one agent and a gateway for tests: relays datagrams over loopback, at no rate and without delay of its
//! own, and drops those of the directions that the test blocks.
//!
//! `longhaul-netem` is the model of a link with a rate, and the relay of the end-to-end tests (`tests/src/relay.rs`)
//! paces, copies and injects datagrams of several agents.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::{
    net::{ToSocketAddrs, UdpSocket},
    sync::watch,
    task::{JoinHandle, spawn},
};

/// Maximum UDP payload.
const MAX_DATAGRAM: usize = 65_536;

/// The directions in which datagrams pass; those of the others are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// Datagrams pass in both directions.
    Open,
    /// Datagrams pass from the agent to the gateway.
    UpOnly,
    /// No datagram passes.
    Blocked,
}

/// A running relay; it ends when dropped.
#[derive(Debug)]
pub struct UdpRelay {
    address: SocketAddr,
    passage: watch::Sender<Passage>,
    relaying: JoinHandle<()>,
}

impl Drop for UdpRelay {
    fn drop(&mut self) {
        self.relaying.abort();
    }
}

impl UdpRelay {
    /// Starts an open relay to a gateway on loopback. Requires a tokio runtime.
    ///
    /// # Errors
    /// No port is free, or the gateway's address is none.
    pub async fn start(gateway: impl ToSocketAddrs) -> io::Result<Self> {
        let near = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let far = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        far.connect(gateway).await?;
        let address = near.local_addr()?;
        let passage = watch::Sender::new(Passage::Open);
        let relaying = spawn(relay(near, far, passage.subscribe()));
        Ok(Self {
            address,
            passage,
            relaying,
        })
    }

    /// The address that stands for the gateway.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets what passes from now on.
    pub fn set(&self, passage: Passage) {
        self.passage.send_replace(passage);
    }
}

/// Relays datagrams between the newest address that sent to `near`, and the peer of `far`.
async fn relay(near: UdpSocket, far: UdpSocket, passage: watch::Receiver<Passage>) {
    let (mut up, mut down) = (vec![0; MAX_DATAGRAM], vec![0; MAX_DATAGRAM]);
    let mut agent = None;
    loop {
        tokio::select! {
            Ok((length, from)) = near.recv_from(&mut up) => {
                agent = Some(from);
                let now = *passage.borrow();
                if now != Passage::Blocked {
                    let _lost = far.send(&up[..length]).await;
                }
            }
            Ok(length) = far.recv(&mut down) => {
                let now = *passage.borrow();
                if let (Some(agent), Passage::Open) = (agent, now) {
                    let _lost = near.send_to(&down[..length], agent).await;
                }
            }
            else => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn received(socket: &UdpSocket) -> Vec<u8> {
        let mut buffer = [0; 100];
        let (length, _) = socket.recv_from(&mut buffer).await.unwrap();
        buffer[..length].to_vec()
    }

    #[tokio::test]
    async fn datagrams_pass_in_both_directions() {
        let gateway = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let relay = UdpRelay::start(gateway.local_addr().unwrap()).await.unwrap();
        let agent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        agent.send_to(b"question", relay.address()).await.unwrap();
        let mut buffer = [0; 100];
        let (length, from) = gateway.recv_from(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..length], b"question");
        gateway.send_to(b"answer", from).await.unwrap();
        assert_eq!(received(&agent).await, b"answer");
    }
}
