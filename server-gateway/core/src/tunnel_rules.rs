//! What the tunnels of devices and those of clients without an agent share: the hosts and ports that they reach, priority
//! classes, and the time of silence after which they end.
use std::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use longhaul_driver::Priority;
use longhaul_origin::{ConnectionOwner, Tunnel};
use longhaul_session::{FailureReason, class};
use tokio::{net::TcpStream, time::Instant};

use crate::{config::PortSet, failure::Failure, gateway::Gateway};

/// Class of a tunnel's first bytes (docs/protocol/session.md section 2): behind a page of megabytes, the host
/// would time out before the TLS handshake has crossed the hop.
pub const BEGINNING: Priority = class::RENDER;
/// Number of bytes in that class: a handshake with its certificates takes 3 to 6 KB.
const HANDSHAKE: u64 = 8 * 1024;
/// Class after that, because tunnels are often interactive.
const CLASS: Priority = class::OBJECT;
/// Number of bytes towards the agent after which the tunnel is bulk, so that a download does not delay pages.
const LONG: u64 = 4 * 1024 * 1024;
/// Class of a tunnel that has carried so many bytes towards its client.
pub const fn class_after(carried: u64) -> Priority {
    match carried {
        0..HANDSHAKE => BEGINNING,
        HANDSHAKE..LONG => CLASS,
        LONG.. => class::BULK,
    }
}

/// Connects to the host of a tunnel that the gateway does not encrypt; `ports` are those that it may reach.
///
/// # Errors
/// Returns the failure if the target is refused or no connection can be opened.
pub async fn connect_untouched(
    gateway: &Gateway,
    ports: &PortSet,
    owner: ConnectionOwner,
    (host, port): (&str, u16),
) -> Result<Tunnel<TcpStream>, Failure> {
    check_port(ports, port)?;
    let tunnel = gateway.origin.connect_tcp(host, port, owner).await?;
    check_peer(gateway, &tunnel.stream)?;
    Ok(tunnel)
}

/// Refuses a port that tunnels must not reach.
///
/// # Errors
/// It does so as [`FailureReason::TargetRefused`].
pub fn check_port(ports: &PortSet, port: u16) -> Result<(), Failure> {
    if ports.contains(port) {
        return Ok(());
    }
    let detail = format!("this gateway opens no tunnels to port {port}");
    Err(Failure::new(FailureReason::TargetRefused, detail))
}

/// Refuses the gateway's own ports, also if the operator allowed loopback addresses for origins.
///
/// # Errors
/// It does so as [`FailureReason::AddressRefused`].
pub fn check_peer(gateway: &Gateway, host: &TcpStream) -> Result<(), Failure> {
    // An error means that the connection has ended.
    let (Ok(local), Ok(peer)) = (host.local_addr(), host.peer_addr()) else {
        return Ok(());
    };
    if gateway
        .own_ports
        .iter()
        .any(|own| reaches(*own, local.ip(), peer))
    {
        return Err(Failure::new(
            FailureReason::AddressRefused,
            "the address is the gateway's own",
        ));
    }
    Ok(())
}

/// True if a connection from `local` to `peer` reaches the listener `own`. A listener on all addresses is reached at each
/// address of this machine, from which the kernel also connects to it.
fn reaches(own: SocketAddr, local: IpAddr, peer: SocketAddr) -> bool {
    let (local, ip) = (local.to_canonical(), peer.ip().to_canonical());
    let is_here = ip.is_loopback() || ip.is_unspecified() || ip == local;
    own.port() == peer.port() && (own.ip().to_canonical() == ip || own.ip().is_unspecified() && is_here)
}

/// Time of the last transfer in either direction.
pub struct Activity {
    start: Instant,
    last_millis: AtomicU64,
}

impl Activity {
    /// The tunnel begins now.
    pub fn begin() -> Self {
        Self {
            start: Instant::now(),
            last_millis: AtomicU64::new(0),
        }
    }

    /// Notes a transfer.
    pub fn note(&self) {
        let millis = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_millis.store(millis, Relaxed);
    }

    /// Returns once nothing was transferred for `limit`.
    pub async fn idle(&self, limit: Duration) {
        loop {
            let silent = self
                .start
                .elapsed()
                .saturating_sub(Duration::from_millis(self.last_millis.load(Relaxed)));
            let Some(left) = limit.checked_sub(silent).filter(|left| !left.is_zero()) else {
                return;
            };
            tokio::time::sleep(left).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_reached_only_on_this_machine() {
        let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
        let at = |text: &str| -> SocketAddr { text.parse().unwrap() };
        for (own, local, peer, expected) in [
            // Another host with the port of a listener of the gateway.
            ("0.0.0.0:443", "192.0.2.1", "198.51.100.1:443", false),
            ("[::]:443", "192.0.2.1", "198.51.100.1:443", false),
            ("[::]:443", "192.0.2.1", "192.0.2.1:443", true),
            ("[::]:443", "::ffff:192.0.2.1", "192.0.2.1:443", true),
            ("0.0.0.0:443", "127.0.0.1", "127.0.0.2:443", true),
            ("0.0.0.0:443", "192.0.2.1", "192.0.2.1:444", false),
            ("192.0.2.1:443", "192.0.2.7", "192.0.2.1:443", true),
            ("192.0.2.1:443", "192.0.2.7", "192.0.2.2:443", false),
        ] {
            assert_eq!(
                reaches(at(own), ip(local), at(peer)),
                expected,
                "{own} {local} {peer}"
            );
        }
    }
}
