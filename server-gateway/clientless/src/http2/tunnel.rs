//! Tunnels: many of them share one connection.
use std::io;

use bytes::BytesMut;
use h2::{Reason, RecvStream};
use http::Response;
use longhaul_gateway_core::tunnel_rules::{Activity, BEGINNING, class_after};
use tokio::{
    io::AsyncWriteExt as _,
    net::tcp::{OwnedReadHalf, OwnedWriteHalf},
};
use tracing::debug;

use super::{
    Http2Connection,
    exchange::{Respond, own},
    sender::BodySender,
};
use crate::{
    answer::Answer,
    connect::{self, TunnelRequest},
    fetch::ConnectionState,
};

/// Bytes that are read from the host at once.
const READ: usize = 16 * 1024;

/// Serves a tunnel to its end.
pub(super) async fn serve(
    connection: &Http2Connection,
    state: &ConnectionState,
    request: TunnelRequest,
    mut up: RecvStream,
    mut respond: Respond,
) {
    let gateway = &connection.shared.gateway;
    let _open = gateway.metrics.tunnel();
    let unanswered = connection.resets.begin();
    let opened = tokio::select! {
        opened = connect::open(state, &request) => opened,
        _ = std::future::poll_fn(|cx| respond.poll_reset(cx)) => return,
    };
    unanswered.answered();
    let (host, _slots) = match opened {
        Ok(opened) => opened,
        Err(failure) => {
            gateway.metrics.failure(failure.reason);
            return own(connection, respond, Answer::of_failure(&failure), false).await;
        }
    };
    let Ok(stream) = respond.send_response(Response::new(()), false) else {
        return;
    };
    let stall = connection.shared.config.idle_timeout;
    let mut down = BodySender::new(stream, connection.turns.clone(), stall, BEGINNING);
    let activity = Activity::begin();
    let (host_read, mut host_write) = host.into_split();
    let (metrics, limits) = (&gateway.metrics, request.client.limits);
    let carried = async {
        let count_up = |count| {
            metrics.tunnel_sent(count);
            connection.shared.count_up(limits, count)
        };
        let count_down = |count| {
            metrics.tunnel_received(count);
            connection.shared.count_down(limits, count)
        };
        tokio::try_join!(
            upwards(&mut up, &mut host_write, &activity, count_up),
            downwards(&host_read, &mut down, &activity, count_down)
        )
    };
    let idle = gateway.rules.load().tunnel_idle;
    let ended = tokio::select! {
        carried = carried => carried.map(drop),
        () = activity.idle(idle) => Err(io::ErrorKind::TimedOut.into()),
        () = connection.shared.access.removed(&request.admitted) => Err(io::ErrorKind::PermissionDenied.into()),
        () = gateway.quotas.until_reached(&limits) => Err(io::ErrorKind::QuotaExceeded.into()),
    };
    if let Err(error) = ended {
        debug!(%error, "a tunnel was broken off");
        // The client sees that the connection to the host did not end cleanly (RFC 9113 section 8.5).
        down.break_off(Reason::CONNECT_ERROR).await;
        // Fails if the host has already closed, which is harmless.
        let _gone = host_write.as_ref().set_zero_linger();
    }
}

/// Relays to the host. The end of the client's stream ends only this direction.
async fn upwards(
    up: &mut RecvStream,
    host: &mut OwnedWriteHalf,
    activity: &Activity,
    count_bytes: impl Fn(usize) -> io::Result<()>,
) -> io::Result<()> {
    while let Some(bytes) = up.data().await {
        let bytes = bytes.map_err(io::Error::other)?;
        let count = bytes.len();
        if host.write_all(&bytes).await.is_err() {
            // What the host has sent still arrives.
            return Ok(());
        }
        // What the host has not accepted keeps the client's window closed.
        up.flow_control()
            .release_capacity(count)
            .map_err(io::Error::other)?;
        count_bytes(count)?;
        activity.note();
    }
    // Fails if the host has already closed, which ends only this direction.
    let _gone = host.shutdown().await;
    Ok(())
}

/// Relays from the host.
async fn downwards(
    host: &OwnedReadHalf,
    down: &mut BodySender,
    activity: &Activity,
    count_bytes: impl Fn(usize) -> io::Result<()>,
) -> io::Result<()> {
    let mut carried = 0_u64;
    loop {
        tokio::select! {
            readable = host.readable() => readable?,
            () = down.cancelled() => return Err(io::ErrorKind::BrokenPipe.into()),
        }
        // Allocated only now: most tunnels are silent most of the time.
        let mut buffer = BytesMut::with_capacity(READ);
        let count = match host.try_read_buf(&mut buffer) {
            Ok(0) => return down.finish(),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        count_bytes(count)?;
        activity.note();
        down.class = class_after(carried);
        carried += count as u64;
        down.send(buffer.freeze()).await?;
    }
}
