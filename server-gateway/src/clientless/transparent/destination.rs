//! The destination of a connection that the system redirected to this gateway.
use std::net::SocketAddr;

use tokio::net::TcpStream;

use crate::clientless::dns::BoostedNames;

/// Where a client's connection was to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::clientless) enum Destination {
    /// To this address; the system redirected it.
    Elsewhere(SocketAddr),
    /// To this gateway.
    Gateway,
}

impl Destination {
    /// The destination of an accepted connection. `names` lead to addresses that are the gateway's, even if the system
    /// redirects connections from them to another port.
    pub(super) fn of(stream: &TcpStream, names: &BoostedNames) -> Self {
        let Ok(local) = stream.local_addr() else {
            return Self::Gateway;
        };
        let local = SocketAddr::new(local.ip().to_canonical(), local.port());
        match original(stream, local) {
            Some(original) if original != local && names.addresses().all(|own| own != original.ip()) => {
                Self::Elsewhere(original)
            }
            Some(_) | None => Self::Gateway,
        }
    }
}

/// The destination in the system's list of translated connections; `None` if the connection is not in it.
#[cfg(target_os = "linux")]
fn original(stream: &TcpStream, local: SocketAddr) -> Option<SocketAddr> {
    use nix::sys::socket::{SockaddrIn, SockaddrIn6, getsockopt, sockopt};

    if local.is_ipv4() {
        let address = getsockopt(stream, sockopt::OriginalDst).ok()?;
        Some(SockaddrIn::from(address).into())
    } else {
        let address: SocketAddr =
            SockaddrIn6::from(getsockopt(stream, sockopt::Ip6tOriginalDst).ok()?).into();
        // Without the zone and the flow label, which are not a part of the destination.
        Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
    }
}

#[cfg(not(target_os = "linux"))]
const fn original(_: &TcpStream, _: SocketAddr) -> Option<SocketAddr> {
    None
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_connection_that_nobody_redirected_is_to_the_gateway() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address).await else {
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let to = if address == "[::1]:0" { "::1" } else { "127.0.0.1" };
            let _client = TcpStream::connect((to, port)).await.unwrap();
            let (accepted, _) = listener.accept().await.unwrap();
            assert_eq!(
                Destination::of(&accepted, &BoostedNames::default()),
                Destination::Gateway,
                "{address}"
            );
        }
    }
}
