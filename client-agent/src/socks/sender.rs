//! The only sender whose datagrams an association takes.
use std::net::{IpAddr, SocketAddr};

use longhaul_tcp_info::{UserId, peer::owns_datagram_port};
use tracing::debug;

/// Ports of other users that are refused before an association takes no further port: each one costs a look into the
/// kernel's table.
const MAX_REFUSED: u8 = 16;

/// The client of an association: its address, its user, and, once it has sent a datagram, its port.
#[derive(Debug)]
pub(super) struct Sender {
    ip: IpAddr,
    announced: Option<u16>,
    user: Option<UserId>,
    known: Option<SocketAddr>,
    refused: u8,
}

impl Sender {
    /// The client whose TCP connection comes from `ip` and belongs to `user`, and which sends from the port `announced`.
    pub(super) const fn new(ip: IpAddr, announced: Option<u16>, user: Option<UserId>) -> Self {
        Self {
            ip,
            announced,
            user,
            known: None,
            refused: 0,
        }
    }

    /// True if a datagram from this address is the client's. The first one decides about the port.
    pub(super) async fn is(&mut self, from: SocketAddr) -> bool {
        if let Some(known) = self.known {
            return known == from;
        }
        let is_announced = self.announced.is_none_or(|port| port == from.port());
        if from.ip().to_canonical() != self.ip || !is_announced || self.refused >= MAX_REFUSED {
            return false;
        }
        // On this computer, every user can send to the port.
        if let Some(user) = self.user
            && !owns_datagram_port(user, from).await
        {
            self.refused += 1;
            debug!(port = from.port(), "a datagram of another user was dropped");
            return false;
        }
        self.known = Some(from);
        true
    }

    /// Where the client receives datagrams, once it has sent one.
    pub(super) const fn known(&self) -> Option<SocketAddr> {
        self.known
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[tokio::test]
    async fn only_the_port_of_the_clients_user_is_taken_and_the_first_one_stays() {
        let sockets = [0; 2].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        let [first, second] = sockets.each_ref().map(|socket| socket.local_addr().unwrap());
        let mut sender = Sender::new(first.ip(), None, Some(UserId::own()));
        assert!(
            !sender.is("192.0.2.1:4000".parse().unwrap()).await,
            "another computer"
        );
        assert_eq!(sender.known(), None);
        assert!(sender.is(first).await && sender.is(first).await);
        assert!(!sender.is(second).await, "another port");
        assert_eq!(sender.known(), Some(first));

        let mut announced = Sender::new(first.ip(), Some(second.port()), None);
        assert!(!announced.is(first).await);
        assert!(announced.is(second).await);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn ports_of_other_users_are_refused() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let stranger = UserId::new(4_000_001);
        let mut sender = Sender::new(address.ip(), None, Some(stranger));
        for _ in 0..100 {
            assert!(!sender.is(address).await);
        }
        assert_eq!(sender.refused, MAX_REFUSED);
        drop(socket);
        let mut own = Sender::new(address.ip(), None, Some(UserId::own()));
        assert!(!own.is(address).await, "nobody owns the port");
    }
}
