//! The way around the gateway, for the time when none answers.
//!
//! It connects from this machine, and what it reaches takes it for this machine's user: routers, printers and other services
//! of the user's network, and of the machine itself, which trust whoever comes from there. A browser keeps foreign pages
//! from reading those by the name in the address, so no name may lead there (rebinding); and nothing leads back into the
//! agent. The guard judges the address that is connected to:
//!
//! * the agent's own ports: never;
//! * loopback, link-local, metadata and the like: only what `direct.allow` names;
//! * private addresses: where the browser named the address itself, else what `direct.allow` names.
use std::net::{IpAddr, SocketAddr};

use longhaul_origin::{Cidr, FetchError, Guard, OriginClient, OriginConfig, OriginConfigError};

/// Makes the client of an agent with these ports.
///
/// # Errors
/// The TLS library refuses its own defaults.
pub fn client(allow: &[Cidr], own: &[SocketAddr]) -> Result<OriginClient, OriginConfigError> {
    OriginClient::new(OriginConfig {
        guard: guard(allow, own),
        ..OriginConfig::default()
    })
}

fn guard(allow: &[Cidr], own: &[SocketAddr]) -> Guard {
    Guard::new(allow.iter().copied(), own_addresses(own))
        .refusing_ports(own.iter().map(SocketAddr::port))
        .permitting_private_literals()
}

/// Where the ports can be reached besides at loopback addresses. A machine may get other addresses later; then the password
/// is in the way that ports beyond loopback need.
fn own_addresses(own: &[SocketAddr]) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = own.iter().map(SocketAddr::ip).collect();
    if addresses.iter().any(IpAddr::is_unspecified) {
        let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
        addresses.extend(interfaces.iter().map(if_addrs::Interface::ip));
    }
    addresses
}

/// Whether the failure looks as if this machine had no way to the Internet at all, and nothing was sent.
pub fn is_offline(error: &FetchError) -> bool {
    matches!(
        error,
        FetchError::ConnectTimeout | FetchError::DnsFailed(_) | FetchError::Unreachable
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_knows_the_agents_ports_and_what_is_allowed() {
        use longhaul_origin::Destination;
        let own = ["127.0.0.1:3128", "127.0.0.1:3129"].map(|address| address.parse().unwrap());
        let permits = |guard: &Guard, address: &str| {
            let address: SocketAddr = address.parse().unwrap();
            let destination = Destination {
                address: address.ip(),
                port: address.port(),
                is_literal: true,
            };
            guard.check_destination(destination).is_ok()
        };
        let guarded = guard(&[], &own);
        for refused in ["127.0.0.1:80", "[::1]:3129", "0.0.0.0:3129", "169.254.0.1:80"] {
            assert!(!permits(&guarded, refused), "{refused}");
        }
        assert!(permits(&guarded, "192.168.1.1:80") && permits(&guarded, "1.1.1.1:3129"));
        let allowing = guard(&["127.0.0.0/8".parse().unwrap()], &own);
        assert!(permits(&allowing, "127.0.0.1:80") && !permits(&allowing, "127.0.0.1:3129"));
        assert!(!permits(&allowing, "[::1]:80"));
        // On all interfaces, loopback's own among them.
        let everywhere = guard(&[], &["0.0.0.0:3128".parse().unwrap()]);
        let ours = if_addrs::get_if_addrs().unwrap_or_default();
        for interface in ours {
            assert!(!permits(
                &everywhere,
                &SocketAddr::new(interface.ip(), 3128).to_string()
            ));
        }
    }

    #[test]
    fn only_failures_of_the_local_network_count_as_offline() {
        assert!(is_offline(&FetchError::Unreachable));
        assert!(!is_offline(&FetchError::Refused));
        assert!(!is_offline(&FetchError::DnsNotFound));
    }
}
