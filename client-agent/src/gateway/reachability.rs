//! A look for the reason why the gateway does not answer: a route to it, and an ICMP error of its port.
//!
//! The session's socket cannot see ICMP errors: only a connected socket gets them, and a connected socket could
//! not follow the computer from one network to another. So a second socket is connected to the gateway and
//! sends a datagram of one byte, which every gateway drops (docs/protocol/transport.md section 1).
use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    net::{UdpSocket, lookup_host},
    time::{sleep, timeout},
};

use crate::trouble::{Tried, Trouble};

/// Time without an answer before the first look: most links have answered by then, so that the datagram is
/// rarely sent.
pub(super) const FIRST_LOOK: Duration = Duration::from_millis(500);
/// Time between two looks: 29 bytes each, less than 3 byte/s.
pub(super) const NEXT_LOOK: Duration = Duration::from_secs(10);
/// Time for an ICMP error to arrive: the round trip of the slowest links, with a queue.
const ICMP_TIME: Duration = Duration::from_secs(5);
/// Contents of the datagram: a kind that the transport does not define.
const PROBE: [u8; 1] = [0];

/// Maximum number of addresses of one name that are tried.
pub(super) const MAX_ADDRESSES: usize = 8;

/// Looks up the addresses of a gateway, `HOST:PORT`.
pub(super) async fn look_up(gateway: &str, limit: Duration) -> Result<Vec<SocketAddr>, Trouble> {
    if let Ok(literal) = gateway.parse() {
        return Ok(vec![literal]);
    }
    let error = match timeout(limit, lookup_host(gateway)).await {
        Ok(Ok(addresses)) => return Ok(addresses.take(MAX_ADDRESSES).collect()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer from the name servers".to_owned(),
    };
    Err(Trouble::of_name_lookup(gateway, &error, has_route().await))
}

/// Waits for `pause`, then looks. Returns `None` if nothing was found. Cancel safe.
pub(super) async fn look(remote: SocketAddr, pause: Duration) -> Option<Trouble> {
    sleep(pause).await;
    match timeout(ICMP_TIME, send_probe(remote)).await {
        Ok(Err(error)) => conclude(&error),
        Ok(Ok(())) | Err(_) => None,
    }
}

/// Waits for `pause`, then looks for a route to `remote`. Returns `None` if there is one. Cancel safe.
pub(super) async fn look_for_route(remote: SocketAddr, pause: Duration) -> Option<Trouble> {
    sleep(pause).await;
    missing_route(remote).await
}

/// Returns the trouble if this computer has no route to `remote`. Nothing is sent.
pub(super) async fn missing_route(remote: SocketAddr) -> Option<Trouble> {
    match connected(remote).await {
        Ok(_) => None,
        Err(error) => conclude(&error),
    }
}

/// Drops the addresses to which this computer has no route; returns the trouble with the last one.
pub(super) async fn drop_unreachable(addresses: &mut Vec<SocketAddr>) -> Option<Trouble> {
    let mut missing = None;
    let mut reachable = Vec::with_capacity(addresses.len());
    for address in std::mem::take(addresses) {
        match missing_route(address).await {
            Some(trouble) => missing = Some(trouble),
            None => reachable.push(address),
        }
    }
    *addresses = reachable;
    missing
}

/// True if this computer has a route to any other network. Nothing is sent.
pub(super) async fn has_route() -> bool {
    // Addresses for documentation (RFC 5737, RFC 3849): a default route covers them, a local network does not.
    let outside: [SocketAddr; 2] = [
        (Ipv4Addr::new(192, 0, 2, 1), 9).into(),
        (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9).into(),
    ];
    for address in outside {
        if connected(address).await.is_ok() {
            return true;
        }
    }
    false
}

async fn connected(remote: SocketAddr) -> io::Result<UdpSocket> {
    let local: SocketAddr = match remote {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(local).await?;
    socket.connect(remote).await?;
    Ok(socket)
}

/// Sends the probe and waits for an error. A gateway answers nothing.
async fn send_probe(remote: SocketAddr) -> io::Result<()> {
    let socket = connected(remote).await?;
    socket.send(&PROBE).await?;
    let mut answer = [0; 16];
    socket.recv(&mut answer).await.map(|_| ())
}

fn conclude(error: &io::Error) -> Option<Trouble> {
    let kind = error.kind();
    // Windows reports a closed port as a reset.
    if matches!(
        kind,
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
    ) {
        return Some(Trouble::PortClosed(Tried::UDP));
    }
    let is_offline = matches!(
        kind,
        io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::AddrNotAvailable
    );
    is_offline.then(|| Trouble::Offline(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_closed_port_is_told_from_silence() {
        let silent = UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
        let address = silent.local_addr().unwrap();
        assert_eq!(missing_route(address).await, None);
        let probe = timeout(Duration::from_millis(300), send_probe(address)).await;
        assert!(probe.is_err(), "a bound socket that never answers");
        drop(silent);
        assert_eq!(
            look(address, Duration::ZERO).await,
            Some(Trouble::PortClosed(Tried::UDP))
        );
    }

    #[test]
    fn errors_without_a_route_mean_offline() {
        let kind = |kind| conclude(&io::Error::from(kind)).map(|trouble| trouble.kind());
        assert_eq!(kind(io::ErrorKind::NetworkUnreachable), Some("offline"));
        assert_eq!(kind(io::ErrorKind::HostUnreachable), Some("offline"));
        assert_eq!(kind(io::ErrorKind::PermissionDenied), None);
    }
}
