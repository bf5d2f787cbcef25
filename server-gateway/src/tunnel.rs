//! Tunnels (CONNECT): relays bytes between a pair of streams and a TCP connection.
use std::{io, sync::Arc};

use bytes::BytesMut;
use longhaul_driver::{EarlyData, End, OpenOptions, SendStream};
use longhaul_gateway_core::{
    admin::metrics::Metrics,
    failure::Failure,
    gateway::Gateway,
    origin_reports::OriginReports,
    quota::reached::QuotaState,
    tunnel_rules::{Activity, BEGINNING, check_peer, check_port, class_after},
};
use longhaul_origin::{ConnectionOwner, Slot};
use longhaul_session::{
    ERROR_QUOTA, FailureReason, FetchId, Message, TunnelAccept, TunnelFailed, TunnelOpen, TunnelSecurity,
    encode,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, WriteHalf, split},
    net::{TcpStream, tcp::OwnedWriteHalf},
};
use tokio_rustls::client::TlsStream;
use tracing::debug;

use crate::session::{context::SessionContext, incoming::Incoming};

/// Read size from the host, in bytes.
const READ: usize = 16 * 1024;
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
    let activity = Activity::begin();
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
        let class = class_after(carried);
        if class == class_after(before) {
            continue;
        }
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
