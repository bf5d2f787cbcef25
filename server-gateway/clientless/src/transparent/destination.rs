//! The destination of a connection that the system redirected to this gateway.
use std::net::SocketAddr;

use tokio::net::TcpStream;

use crate::dns::BoostedNames;

/// Where a client's connection was to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
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
        Self::between(local, original(stream, local), names)
    }

    /// The destination of a connection that arrived at this address, and was to go to `original` before it was redirected.
    fn between(local: SocketAddr, original: Option<SocketAddr>, names: &BoostedNames) -> Self {
        match original {
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
    use longhaul_settings::Environment;
    use tokio::net::TcpListener;

    use super::*;
    use longhaul_gateway_core::config::{SettingArgs, resolve, settings};

    #[test]
    fn a_redirected_connection_is_to_where_its_client_sent_it() {
        let flags = SettingArgs::default()
            .with(&settings::DNS_LISTEN, "192.0.2.1:53")
            .with(&settings::DNS_ADDRESSES, "192.0.2.1,2001:db8::1");
        let (config, _) = resolve(&flags, &Environment::new()).unwrap();
        let names = BoostedNames::new(&config.dns);
        let at = |text: &str| -> SocketAddr { text.parse().unwrap() };
        let local = at("10.0.0.1:3130");
        let of = |original: Option<&str>| Destination::between(local, original.map(at), &names);
        for elsewhere in [
            "198.51.100.1:80",
            "198.51.100.1:3130",
            "10.0.0.1:80",
            "[2001:db8::2]:443",
        ] {
            assert_eq!(of(Some(elsewhere)), Destination::Elsewhere(at(elsewhere)));
        }
        // Not redirected, or sent to an address to which names of this gateway lead.
        for gateway in [
            None,
            Some("10.0.0.1:3130"),
            Some("192.0.2.1:80"),
            Some("192.0.2.1:443"),
            Some("[2001:db8::1]:443"),
        ] {
            assert_eq!(of(gateway), Destination::Gateway, "{gateway:?}");
        }
    }

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
