//! The attachment of this computer to a network: the way to the gateway.
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tokio::{net::UdpSocket, time::sleep};

use super::network_id::NetworkId;

/// Length of the longest hardware address (that of Infiniband has 20 bytes).
const MAX_HARDWARE_ADDRESS: usize = 32;
/// Port of the datagram that makes the kernel resolve the router's hardware address: the discard service (RFC 863).
const DISCARD: u16 = 9;
/// Number of looks for the hardware address, and the time between two: a neighbour answers within some
/// milliseconds, and the dial waits for it.
const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(15);

/// Kind of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InterfaceKind {
    Wired,
    Wireless,
    /// Another kind of hardware, by the kernel's number.
    Other(u16),
}

/// The way to the gateway: the kind of the interface, and the hardware address of the router, or of the gateway
/// itself if it is a neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    kind: InterfaceKind,
    router: Vec<u8>,
}

impl Attachment {
    /// Finds the attachment through which packets to `gateway` leave; `None` if the network has no hardware address
    /// by which to recognise it (modems, tunnels, loopback), or if this system does not report it.
    pub(crate) async fn find(gateway: IpAddr) -> Option<Self> {
        for look in 0..LOOKS {
            match look_up(gateway) {
                Lookup::Found(attachment) => return Some(attachment),
                Lookup::Unresolved(neighbour) => {
                    if look == 0 {
                        resolve(neighbour).await;
                    }
                }
                Lookup::Unknown => return None,
            }
            sleep(BETWEEN_LOOKS).await;
        }
        None
    }

    /// Identity of the network. Without the secret, nothing can be concluded from it.
    pub(crate) fn id(&self, secret: &[u8; 32]) -> NetworkId {
        let (kind, number) = match self.kind {
            InterfaceKind::Wired => (1, 0),
            InterfaceKind::Wireless => (2, 0),
            InterfaceKind::Other(number) => (3, number),
        };
        let mut hasher = blake3::Hasher::new_keyed(secret);
        hasher
            .update(&[kind])
            .update(&number.to_be_bytes())
            .update(&self.router);
        let mut id = [0; NetworkId::LENGTH];
        id.copy_from_slice(&hasher.finalize().as_bytes()[..NetworkId::LENGTH]);
        NetworkId::new(id)
    }

    #[cfg(test)]
    pub(crate) const fn new(kind: InterfaceKind, router: Vec<u8>) -> Self {
        Self { kind, router }
    }
}

/// Result of one look.
enum Lookup {
    Found(Attachment),
    /// The kernel has not asked the neighbour for its hardware address yet.
    Unresolved(IpAddr),
    Unknown,
}

#[cfg(target_os = "linux")]
fn look_up(gateway: IpAddr) -> Lookup {
    use super::netlink;

    /// `ARPHRD_ETHER`
    const ETHERNET: u16 = 1;
    let Ok(Some(route)) = netlink::route_to(gateway) else {
        return Lookup::Unknown;
    };
    let Ok(Some(interface)) = netlink::interface(route.interface) else {
        return Lookup::Unknown;
    };
    let kind = match interface.hardware {
        ETHERNET if is_wireless(&interface.name) => InterfaceKind::Wireless,
        ETHERNET => InterfaceKind::Wired,
        // Loopback, point-to-point links and tunnels, which have no hardware addresses.
        256.. => return Lookup::Unknown,
        other => InterfaceKind::Other(other),
    };
    let neighbour = route.router.unwrap_or(gateway);
    match netlink::hardware_address(route.interface, neighbour) {
        Ok(Some(router)) if is_hardware_address(&router) => Lookup::Found(Attachment { kind, router }),
        Ok(Some(_)) | Err(_) => Lookup::Unknown,
        Ok(None) => Lookup::Unresolved(neighbour),
    }
}

/// Name of the interface through which packets to `gateway` leave; `None` if this system does not report it.
#[cfg(target_os = "linux")]
pub(super) fn interface_towards(gateway: IpAddr) -> Option<String> {
    use super::netlink;

    let route = netlink::route_to(gateway).ok()??;
    Some(netlink::interface(route.interface).ok()??.name)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn interface_towards(_gateway: IpAddr) -> Option<String> {
    None
}

#[cfg(not(target_os = "linux"))]
fn look_up(_gateway: IpAddr) -> Lookup {
    Lookup::Unknown
}

fn is_hardware_address(address: &[u8]) -> bool {
    (1..=MAX_HARDWARE_ADDRESS).contains(&address.len()) && address.iter().any(|byte| *byte != 0)
}

#[cfg(target_os = "linux")]
fn is_wireless(interface: &str) -> bool {
    // A name is no path: the kernel permits no slash in it.
    let about = std::path::Path::new("/sys/class/net").join(interface);
    !interface.contains('/') && (about.join("phy80211").exists() || about.join("wireless").exists())
}

/// Makes the kernel ask for a neighbour's hardware address. The datagram does not leave the local network.
async fn resolve(neighbour: IpAddr) {
    if let Ok(socket) = UdpSocket::bind(wildcard(neighbour)).await {
        // Without the answer the network is unknown, nothing else.
        let _unsent = socket.send_to(&[0], SocketAddr::new(neighbour, DISCARD)).await;
    }
}

/// Returns the local address from which packets to `remote` leave. Nothing is sent.
///
/// # Errors
/// This computer has no route to `remote`.
pub(crate) async fn source_towards(remote: SocketAddr) -> io::Result<IpAddr> {
    let socket = UdpSocket::bind(wildcard(remote.ip())).await?;
    socket.connect(remote).await?;
    Ok(socket.local_addr()?.ip())
}

fn wildcard(family: IpAddr) -> SocketAddr {
    match family {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_depend_on_secret_kind_and_router() {
        let at = |kind, router: &[u8]| Attachment::new(kind, router.to_vec());
        let home = at(InterfaceKind::Wired, &[2, 0, 0, 0, 0, 1]);
        assert_eq!(home.id(&[1; 32]), home.id(&[1; 32]));
        let others = [
            home.id(&[2; 32]),
            at(InterfaceKind::Wireless, &[2, 0, 0, 0, 0, 1]).id(&[1; 32]),
            at(InterfaceKind::Wired, &[2, 0, 0, 0, 0, 2]).id(&[1; 32]),
            at(InterfaceKind::Other(32), &[2, 0, 0, 0, 0, 1]).id(&[1; 32]),
        ];
        assert!(others.iter().all(|id| *id != home.id(&[1; 32])));
    }

    #[tokio::test]
    async fn loopback_is_no_network_to_remember() {
        assert_eq!(Attachment::find(Ipv4Addr::LOCALHOST.into()).await, None);
        let source = source_towards((Ipv4Addr::LOCALHOST, 9).into()).await.unwrap();
        assert_eq!(source, IpAddr::from(Ipv4Addr::LOCALHOST));
    }
}
