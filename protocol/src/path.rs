//! Paths to the peer (transport.md section 8): a UDP address, or a link of another carrier.
//!
//! A carrier brings whole packets to the peer. A change of the carrier is a change of the path of the same
//! connection; keys, packet numbers and streams stay.
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

/// A link: its number, given by the driver, and its class. An endpoint never sees a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId {
    number: u64,
    class: PathClass,
}

impl LinkId {
    /// A link of this class.
    pub const fn new(number: u64, class: PathClass) -> Self {
        Self { number, class }
    }

    /// A link of an ordered carrier.
    pub const fn ordered(number: u64) -> Self {
        Self::new(number, PathClass::Ordered)
    }

    /// A link of a carrier that brings datagrams.
    pub const fn datagram(number: u64) -> Self {
        Self::new(number, PathClass::Datagram)
    }

    /// Class of the link.
    pub const fn class(self) -> PathClass {
        self.class
    }
}

/// Least packet in bytes that every link of the class [`PathClass::Datagram`] takes: a QUIC packet has at least 1,200
/// bytes, and at most 50 of them around a packet (transport.md section 8.5).
pub const LEAST_LINK_PAYLOAD: usize = 1_150;

/// The own end of a UDP path, from which its packets leave. The default is that of an endpoint with one socket whose source
/// addresses the operating system selects, such as an agent's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalEnd {
    /// Number of the socket.
    pub socket: u8,
    /// Address to which the peer sends, if the socket has several.
    pub ip: Option<IpAddr>,
}

/// A UDP path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UdpPath {
    /// The peer's address.
    pub remote: SocketAddr,
    /// The own end. A peer expects answers from the address to which it has sent.
    pub local: LocalEnd,
}

/// A way to bring packets to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// UDP datagrams.
    Udp(UdpPath),
    /// A link: a connection of another protocol that carries packets to one peer.
    Link(LinkId),
}

/// Properties of a path on which loss recovery depends (transport.md section 8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathClass {
    /// Packets can be lost and reordered, and their size is limited by the path MTU.
    Datagram,
    /// Every packet arrives, in order, until the path ends.
    Ordered,
}

impl Path {
    /// Class of the path.
    pub const fn class(self) -> PathClass {
        match self {
            Self::Udp(_) => PathClass::Datagram,
            Self::Link(link) => link.class,
        }
    }

    /// The peer's UDP address; `None` for a link.
    pub const fn udp(self) -> Option<SocketAddr> {
        match self {
            Self::Udp(path) => Some(path.remote),
            Self::Link(_) => None,
        }
    }

    /// Returns true if a change between the two paths is only a new port of a NAT: the network is the same
    /// (transport.md section 7.1). A peer that sends to another port or address of this end has left the earlier one
    /// because it does not work.
    pub(crate) fn is_same_network(self, other: Self) -> bool {
        match (self, other) {
            (Self::Udp(one), Self::Udp(two)) => one.remote.ip() == two.remote.ip() && one.local == two.local,
            (Self::Link(one), Self::Link(two)) => one == two,
            (Self::Udp(_), Self::Link(_)) | (Self::Link(_), Self::Udp(_)) => false,
        }
    }
}

impl From<SocketAddr> for UdpPath {
    fn from(remote: SocketAddr) -> Self {
        Self {
            remote,
            local: LocalEnd::default(),
        }
    }
}

impl From<SocketAddr> for Path {
    fn from(remote: SocketAddr) -> Self {
        Self::Udp(remote.into())
    }
}

impl From<UdpPath> for Path {
    fn from(path: UdpPath) -> Self {
        Self::Udp(path)
    }
}

impl From<LinkId> for Path {
    fn from(link: LinkId) -> Self {
        Self::Link(link)
    }
}

impl PartialEq<SocketAddr> for Path {
    fn eq(&self, address: &SocketAddr) -> bool {
        self.udp() == Some(*address)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(path) => write!(f, "udp {}", path.remote),
            Self::Link(LinkId { number, .. }) => write!(f, "link {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_port_of_the_same_address_is_the_same_network() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let udp = |text: &str| Path::from(address(text));
        let link = |number| Path::Link(LinkId::ordered(number));
        assert!(udp("192.0.2.1:1").is_same_network(udp("192.0.2.1:2")));
        assert!(!udp("192.0.2.1:1").is_same_network(udp("192.0.2.2:1")));
        assert!(!udp("192.0.2.1:1").is_same_network(link(1)));
        assert!(!link(1).is_same_network(link(2)));
        assert!(link(2).is_same_network(link(2)));
        let to_other_port = UdpPath {
            remote: address("192.0.2.1:1"),
            local: LocalEnd { socket: 1, ip: None },
        };
        assert!(!udp("192.0.2.1:1").is_same_network(to_other_port.into()));
    }
}
