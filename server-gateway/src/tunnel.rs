//! Tunnels (CONNECT): relays bytes between a pair of streams and a TCP connection.
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::BytesMut;
use longhaul_driver::{EarlyData, End, OpenOptions, Priority, SendStream};
use longhaul_origin::{ConnectionOwner, Slot, Tunnel};
use longhaul_session::{
    ERROR_QUOTA, FailureReason, FetchId, Message, TunnelAccept, TunnelFailed, TunnelOpen, TunnelSecurity,
    class, encode,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, WriteHalf, split},
    net::{TcpStream, tcp::OwnedWriteHalf},
    time::Instant,
};
use tokio_rustls::client::TlsStream;
use tracing::debug;

use crate::{
    admin::metrics::Metrics,
    config::PortSet,
    failure::Failure,
    gateway::Gateway,
    origin_reports::OriginReports,
    quota::reached::QuotaState,
    session::{context::SessionContext, incoming::Incoming},
};

/// Class of a tunnel's first bytes (docs/protocol/session.md section 2): behind a page of megabytes, the host
/// would time out before the TLS handshake has crossed the hop.
pub(crate) const BEGINNING: Priority = class::RENDER;
/// Number of bytes in that class: a handshake with its certificates takes 3 to 6 KB.
const HANDSHAKE: u64 = 8 * 1024;
/// Class after that, because tunnels are often interactive.
const CLASS: Priority = class::OBJECT;
/// Read size from the host, in bytes.
const READ: usize = 16 * 1024;
/// Number of bytes towards the agent after which the tunnel is bulk, so that a download does not delay pages.
const LONG: u64 = 4 * 1024 * 1024;
/// Class of a tunnel that has carried so many bytes towards its client.
pub(crate) const fn class_after(carried: u64) -> Priority {
    match carried {
        0..HANDSHAKE => BEGINNING,
        HANDSHAKE..LONG => CLASS,
        LONG.. => class::BULK,
    }
}

/// Stream error code towards the agent if the host's connection failed.
const ERROR_HOST: u64 = 3;

/// Serves one tunnel until it ends.
pub(crate) async fn serve(context: Arc<SessionContext>, open: TunnelOpen, incoming: Incoming) {
    let _open = context.gateway.metrics.tunnel();
    let Some(mut registration) = context.register(open.id) else {
        let failure = Failure::new(FailureReason::Malformed, "the tunnel's number is in use");
        return fail(&context, open.id, failure).await;
    };
    tokio::select! {
        biased;
        () = registration.cancelled() => {}
        () = run(&context, open, incoming) => {}
    }
}

async fn run(context: &SessionContext, open: TunnelOpen, incoming: Incoming) {
    let id = open.id;
    let owner = ConnectionOwner::Device(context.device);
    let (host, _place) = match connect(&context.gateway, owner, &open, &incoming).await {
        Ok(connected) => connected,
        Err(failure) => return fail(context, id, failure).await,
    };
    let mut wire = Vec::new();
    // An id fits any envelope.
    let _fits = encode(&Message::TunnelAccept(TunnelAccept { id }), &mut wire);
    let options = OpenOptions {
        class: BEGINNING,
        early: EarlyData::Allowed,
        total: None,
    };
    let Ok(down) = context.session.open(options, wire.into(), End::Open).await else {
        return;
    };
    let metrics = &context.gateway.metrics;
    let reports = &context.page_loads.context().origin_reports;
    let _open = reports.open();
    let activity = Activity::new();
    let carried = async {
        match host {
            HostStream::Untouched(host) => {
                let (read, write) = host.into_split();
                tokio::join!(
                    upwards(incoming, write, &activity, (metrics, &context.quota)),
                    downwards(read, down, &activity, (metrics, reports, &context.quota))
                );
            }
            HostStream::Tls(host) => {
                let (read, write) = split(*host);
                tokio::join!(
                    upwards(incoming, write, &activity, (metrics, &context.quota)),
                    downwards(read, down, &activity, (metrics, reports, &context.quota))
                );
            }
        }
    };
    let idle = context.gateway.rules.load().tunnel_idle;
    tokio::select! {
        () = carried => {}
        () = activity.idle(idle) => debug!("tunnel was silent for too long"),
    }
}

/// A connection to a tunnel's host.
enum HostStream {
    Untouched(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl HostStream {
    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Untouched(host) => host,
            Self::Tls(host) => host.get_ref().0,
        }
    }
}

/// The sending half of a connection to a tunnel's host.
trait ToHost: AsyncWrite + Unpin {
    /// Makes the connection end abruptly instead of cleanly.
    fn break_off(&self);
}

impl ToHost for OwnedWriteHalf {
    fn break_off(&self) {
        // Fails if the host has already closed, which is harmless.
        let _gone = self.as_ref().set_zero_linger();
    }
}

impl ToHost for WriteHalf<TlsStream<TcpStream>> {
    /// Without the closing TLS alert the data does not look complete.
    fn break_off(&self) {}
}

async fn connect(
    gateway: &Gateway,
    owner: ConnectionOwner,
    open: &TunnelOpen,
    incoming: &Incoming,
) -> Result<(HostStream, Slot<ConnectionOwner>), Failure> {
    if incoming.was_early() {
        return Err(Failure::new(
            FailureReason::TooEarly,
            "a tunnel must wait for the handshake",
        ));
    }
    check_port(&gateway.rules.load().tunnel_ports, open.port)?;
    let (host, slot) = match open.security {
        TunnelSecurity::Untouched => {
            let tunnel = gateway.origin.connect_tcp(&open.host, open.port, owner).await?;
            (HostStream::Untouched(tunnel.stream), tunnel.slot)
        }
        TunnelSecurity::Tls => {
            let tunnel = gateway.origin.connect_tls(&open.host, open.port, owner).await?;
            (HostStream::Tls(Box::new(tunnel.stream)), tunnel.slot)
        }
    };
    check_peer(gateway, host.tcp())?;
    Ok((host, slot))
}

/// Connects to the host of a tunnel that the gateway does not encrypt; `ports` are those that it may reach.
pub(crate) async fn connect_untouched(
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

fn check_port(ports: &PortSet, port: u16) -> Result<(), Failure> {
    if ports.contains(port) {
        return Ok(());
    }
    let detail = format!("this gateway opens no tunnels to port {port}");
    Err(Failure::new(FailureReason::TargetRefused, detail))
}

/// Refuses the gateway's own ports, also if the operator allowed loopback addresses for origins.
fn check_peer(gateway: &Gateway, host: &TcpStream) -> Result<(), Failure> {
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

/// Relays from the agent to the host. The end of the agent's stream closes only the sending half towards the
/// host.
async fn upwards(
    mut incoming: Incoming,
    mut host: impl ToHost,
    activity: &Activity,
    (metrics, quota): (&Metrics, &QuotaState),
) {
    loop {
        let bytes = tokio::select! {
            biased;
            _ = quota.until_reached() => return host.break_off(),
            bytes = incoming.bytes() => bytes,
        };
        match bytes {
            Ok(Some(bytes)) => {
                // TLS buffers data until a flush.
                if host.write_all(&bytes).await.is_err() || host.flush().await.is_err() {
                    // The remaining data from the host is still relayed.
                    return;
                }
                metrics.tunnel_sent(bytes.len());
                activity.note();
            }
            Ok(None) => {
                // Fails if the host has already closed, which is harmless.
                let _gone = host.shutdown().await;
                return;
            }
            Err(_) => {
                // The agent cancelled: end the host's connection abruptly.
                host.break_off();
                return;
            }
        }
    }
}

/// Relays from the host to the agent.
async fn downwards(
    mut host: impl AsyncRead + Unpin,
    mut down: SendStream,
    activity: &Activity,
    (metrics, reports, quota): (&Metrics, &OriginReports, &QuotaState),
) {
    let mut buffer = BytesMut::new();
    let mut carried = 0_u64;
    loop {
        buffer.reserve(READ);
        let read: io::Result<usize> = tokio::select! {
            biased;
            _ = quota.until_reached() => return down.cancel(ERROR_QUOTA),
            read = host.read_buf(&mut buffer) => read,
            _ = down.stopped() => return,
        };
        let Ok(count) = read else {
            // What the host sent before crosses the hop first. Fails if the session has ended, which is harmless.
            let _gone = down.break_off(ERROR_HOST).await;
            return;
        };
        if count == 0 {
            // Fails if the session has ended, which is harmless.
            let _gone = down.finish().await;
            return;
        }
        metrics.tunnel_received(count);
        activity.note();
        if down.write(buffer.split().freeze()).await.is_err() {
            return;
        }
        reports.tunnelled(count as u64);
        let before = carried;
        carried += count as u64;
        let crosses = |limit: u64| before < limit && carried >= limit;
        let class = match () {
            () if crosses(LONG) => class::BULK,
            () if crosses(HANDSHAKE) => CLASS,
            () => continue,
        };
        if down.set_priority(class).await.is_err() {
            return;
        }
    }
}

pub(crate) async fn fail(context: &SessionContext, id: FetchId, failure: Failure) {
    let Failure { reason, detail } = failure;
    context.gateway.metrics.failure(reason);
    let failed = Message::TunnelFailed(TunnelFailed { id, reason, detail });
    let _gone = context.send_alone(&failed).await;
}

/// Time of the last transfer in either direction.
pub(crate) struct Activity {
    start: Instant,
    last_millis: AtomicU64,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            last_millis: AtomicU64::new(0),
        }
    }

    pub(crate) fn note(&self) {
        let millis = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_millis.store(millis, Relaxed);
    }

    /// Returns once nothing was transferred for `limit`.
    pub(crate) async fn idle(&self, limit: Duration) {
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
