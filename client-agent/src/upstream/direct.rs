//! Direct fetches without the gateway, used while no gateway answers.
//!
//! Direct connections come from this machine, so destinations treat them as this machine's user: routers,
//! printers and other services of the user's network and of the machine itself, which trust local clients.
//! Browsers prevent foreign pages from reading such services by host name; therefore no name may resolve to
//! them (DNS rebinding), and no direct connection may lead back to the agent. The guard checks the address of
//! the actual connection:
//!
//! * the agent's own ports: always rejected;
//! * loopback, link-local, metadata and similar addresses: only if `direct.allow` contains them;
//! * private addresses: if the browser named the address itself, or `direct.allow` contains it; also by a name for what
//!   detects a login page of the network, and while one is in the way.
//!
//! With an HTTP proxy (`carrier.proxy`), names and public addresses are reached through it. It looks the names up, so
//! that its own rules decide where they may lead; its network is as open to pages as through a browser without Longhaul.
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use longhaul_origin::{
    Cidr, DnsServers, FetchError, Guard, OriginClient, OriginConfig, OriginConfigError, Timeouts,
};
use longhaul_proxy::{HttpProxy, ProxyError};

/// Time for which a connection to a login page stays open: for the pictures of the page.
const KEPT_AT_PORTAL: Duration = Duration::from_secs(2);

/// Creates the client of an agent with these ports.
///
/// # Errors
/// The TLS library rejects its own defaults.
pub fn client(
    allow: &[Cidr],
    own: &[SocketAddr],
    proxy: Option<HttpProxy>,
) -> Result<OriginClient, OriginConfigError> {
    OriginClient::new(config(allow, own, proxy))
}

/// Settings of the client of an agent with these ports.
pub fn config(allow: &[Cidr], own: &[SocketAddr], proxy: Option<HttpProxy>) -> OriginConfig {
    OriginConfig {
        proxy,
        dns: DnsServers::Library,
        guard: guard(allow, own),
        ..OriginConfig::default()
    }
}

/// Settings of the client for what detects a login page of the network, and for that page. A login page is in the
/// network's own range of private addresses, often by a name. What the network answers before the login must not be used
/// after it: no connection is kept.
pub fn config_at_portal(allow: &[Cidr], own: &[SocketAddr], proxy: Option<HttpProxy>) -> OriginConfig {
    let config = config(allow, own, proxy);
    OriginConfig {
        guard: config.guard.permitting_private_names(),
        timeouts: Timeouts {
            pool_idle: KEPT_AT_PORTAL,
            ..config.timeouts
        },
        ..config
    }
}

fn guard(allow: &[Cidr], own: &[SocketAddr]) -> Guard {
    Guard::new(allow.iter().copied(), own_addresses(own))
        .refusing_ports(own.iter().map(SocketAddr::port))
        .permitting_private_literals()
}

/// Addresses besides loopback at which the agent's ports can be reached. The machine may get other addresses
/// later; then the password protects the ports, which is required for ports beyond loopback.
fn own_addresses(own: &[SocketAddr]) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = own.iter().map(SocketAddr::ip).collect();
    if addresses.iter().any(IpAddr::is_unspecified) {
        let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
        addresses.extend(interfaces.iter().map(if_addrs::Interface::ip));
    }
    addresses
}

/// True if the failure indicates that this machine has no Internet access, and nothing was sent.
pub fn is_offline(error: &FetchError) -> bool {
    matches!(
        error,
        FetchError::ConnectTimeout
            | FetchError::DnsFailed(_)
            | FetchError::Proxy(ProxyError::NotReached(_) | ProxyError::Silent)
            | FetchError::Unreachable
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_refuses_the_agents_ports_and_permits_allowed_addresses() {
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
        let at_portal = config_at_portal(&[], &own, None).guard;
        let named = |address: &str| Destination {
            address: address.parse().unwrap(),
            port: 80,
            is_literal: false,
        };
        assert!(guarded.check_destination(named("10.0.0.1")).is_err());
        assert!(at_portal.check_destination(named("10.0.0.1")).is_ok());
        for refused in ["127.0.0.1", "169.254.169.254", "169.254.0.1", "::1"] {
            assert!(at_portal.check_destination(named(refused)).is_err(), "{refused}");
        }
        // On all interfaces, including loopback.
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
