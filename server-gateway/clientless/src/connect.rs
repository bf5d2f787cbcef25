//! Tunnels of clients, opened by CONNECT.
use std::{io, time::Duration};

use bytes::{Bytes, BytesMut};
use longhaul_gateway_core::{
    failure::Failure,
    tunnel_rules::{Activity, BEGINNING, class_after, connect_untouched},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split},
    time::{Instant, sleep, timeout},
};
use tracing::debug;

use super::{
    access::Admitted,
    answer::{Answer, AnswerBody},
    client::ClientlessClient,
    fetch::ConnectionState,
    idle_read::read_arrived,
    stream::ClientStream,
};

#[cfg(test)]
mod tests;

/// Bytes that are read at once.
const READ: usize = 16 * 1024;
/// Time for the last bytes of a connection.
const LINGER: Duration = Duration::from_secs(2);
/// Time in which the last bytes of a connection that is broken off must advance: some retransmissions on a slow link.
const STUCK: Duration = Duration::from_secs(10);
/// Interval of looks at these bytes.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of a client that are read after the last response, so that the client reads the response.
const MAX_LINGER: usize = 1024 * 1024;
const OPENED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// How a tunnel begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TunnelKind {
    /// The client has asked for it by CONNECT, and waits for the answer.
    Asked,
    /// The client does not know of it, and has sent a request of HTTP or of another protocol.
    Relayed,
    /// The client does not know of it, and has begun TLS.
    Tls,
}

/// A request for a tunnel.
pub(super) struct TunnelRequest {
    pub(super) client: ClientlessClient,
    pub(super) admitted: Admitted,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) kind: TunnelKind,
}

/// Serves a tunnel to its end. `first` is what the client sent behind its request.
pub(super) async fn serve<S: ClientStream>(
    connection: &ConnectionState,
    request: TunnelRequest,
    mut stream: S,
    first: Bytes,
) {
    let gateway = &connection.shared.gateway;
    let _open = gateway.metrics.tunnel();
    let opened = open(connection, &request).await;
    let (host, _slots) = match opened {
        Ok(opened) => opened,
        Err(failure) => {
            gateway.metrics.failure(failure.reason);
            if request.kind == TunnelKind::Tls {
                // A text would not be TLS.
                return break_off(stream);
            }
            return refuse(stream, &failure).await;
        }
    };
    let begun = async {
        if request.kind == TunnelKind::Asked {
            stream.write_all(OPENED).await?;
        }
        stream.flush().await
    };
    if begun.await.is_err() {
        return stream.break_off();
    }
    let (activity, urgency) = (Activity::begin(), stream.urgency());
    let (mut client_read, mut client_write) = split(stream);
    let (mut host_read, mut host_write) = host.into_split();
    let (metrics, limits) = (&gateway.metrics, request.client.limits);
    let up = relay((first, &mut client_read), &mut host_write, &activity, |count| {
        metrics.tunnel_sent(count);
        connection.shared.count_up(limits, count)
    });
    let mut carried = 0;
    urgency.set(BEGINNING, u64::MAX);
    let down = relay(
        (Bytes::new(), &mut host_read),
        &mut client_write,
        &activity,
        |count| {
            metrics.tunnel_received(count);
            carried += count as u64;
            urgency.set(class_after(carried), u64::MAX);
            connection.shared.count_down(limits, count)
        },
    );
    let idle = gateway.rules.load().tunnel_idle;
    let ended = tokio::select! {
        carried = async { tokio::try_join!(up, down) } => carried.map(drop),
        () = activity.idle(idle) => Err(io::ErrorKind::TimedOut.into()),
        () = connection.shared.access.removed(&request.admitted) => Err(io::ErrorKind::PermissionDenied.into()),
        () = gateway.quotas.until_reached(&limits) => Err(io::ErrorKind::QuotaExceeded.into()),
    };
    if let Err(error) = ended {
        debug!(%error, "a tunnel was broken off");
        // Fails if the host has already closed, which is harmless.
        let _gone = host_write.as_ref().set_zero_linger();
        drop((host_read, host_write));
        let client = client_read.unsplit(client_write);
        if error.kind() == io::ErrorKind::PermissionDenied {
            return client.break_off();
        }
        tokio::select! {
            () = break_off_behind(client) => {}
            () = connection.shared.access.removed(&request.admitted) => {}
        }
    }
}

/// Connects to the host, within the limits of the client.
pub(super) async fn open(
    connection: &ConnectionState,
    request: &TunnelRequest,
) -> Result<(tokio::net::TcpStream, impl Sized + use<>), Failure> {
    let gateway = &connection.shared.gateway;
    let slot = connection.slot(&request.client).await?;
    let owner = request.client.connection_owner();
    let ports = &connection.shared.config.ports;
    let tunnel = connect_untouched(gateway, ports, owner, (&request.host, request.port)).await?;
    Ok((tunnel.stream, (slot, tunnel.slot)))
}

/// Ends a connection abruptly.
pub(super) fn break_off<S: ClientStream>(stream: S) {
    stream.break_off();
    drop(stream);
}

/// Ends a connection abruptly once its client has what was written to it: what waits in the kernel would be dropped.
pub(super) async fn break_off_behind<S: ClientStream>(stream: S) {
    let (mut before, mut since) = (u64::MAX, Instant::now());
    loop {
        let pending = stream.pending();
        if pending == 0 || since.elapsed() > STUCK {
            break;
        }
        if pending != before {
            (before, since) = (pending, Instant::now());
        }
        sleep(LOOK).await;
    }
    stream.break_off();
}

async fn refuse<S: ClientStream>(mut stream: S, failure: &Failure) {
    let answer = Answer::of_failure(failure);
    let AnswerBody::Whole(text) = answer.body else {
        return;
    };
    let status = answer.status;
    let head = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        status.as_u16(),
        status.canonical_reason().unwrap_or_default(),
        text.len()
    );
    let whole = [head.as_bytes(), &text].concat();
    if stream.write_all(&whole).await.is_ok() {
        close(stream).await;
    }
}

/// Ends a connection. What the client still sends is read for a moment: otherwise the system would reset the
/// connection, and the client might not read the last response.
pub(super) async fn close<S: ClientStream>(mut stream: S) {
    let ending = async {
        stream.shutdown().await?;
        let (mut buffer, mut read) = (vec![0; READ], 0);
        while read < MAX_LINGER {
            match stream.read(&mut buffer).await? {
                0 => break,
                count => read += count,
            }
        }
        Ok::<_, io::Error>(())
    };
    let _ended = timeout(LINGER, ending).await;
}

/// Relays bytes until the end of the source, or until the receiver takes nothing more, which ends only this direction.
/// `first` is what was read of the source.
async fn relay(
    (first, from): (Bytes, &mut (impl AsyncRead + Unpin)),
    to: &mut (impl AsyncWrite + Unpin),
    activity: &Activity,
    mut count: impl FnMut(usize) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = BytesMut::from(first);
    loop {
        if !buffer.is_empty() {
            let bytes = std::mem::take(&mut buffer);
            if to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
                return Ok(());
            }
            count(bytes.len())?;
            activity.note();
        }
        if read_arrived(from, &mut buffer).await? == 0 {
            // Fails if the receiver is gone, which ends only this direction.
            let _gone = to.shutdown().await;
            return Ok(());
        }
    }
}
