//! Tunnels for the connections that the agent has accepted as HTTPS of an accelerated host.
use std::sync::Arc;

use bytes::Bytes;
use longhaul_session::TunnelSecurity;
use tokio::io::{AsyncRead, AsyncWrite, duplex};
use tracing::debug;

use super::{
    open::{OpenTunnel, open},
    prepared::relay_after,
    relay::{BUFFER, relay, relay_direct},
};
use crate::{connection::ConnectionScope, counters::Counters, pages::Failure, upstream::Upstream};

/// Relays a connection whose browser already has its 200 and has sent the bytes `first`.
pub(crate) async fn tunnel_accepted<B>(
    upstream: &Arc<Upstream>,
    counters: &Counters,
    scope: &ConnectionScope,
    (host, port): (&str, u16),
    browser: B,
    first: Bytes,
) where
    B: AsyncRead + AsyncWrite + Unpin,
{
    scope.become_tunnel(!first.is_empty());
    counters.tunnels.increment();
    let ended = match open(upstream, counters, host, port, TunnelSecurity::Untouched).await {
        Ok(OpenTunnel::Gateway(up, down)) => relay_after(browser, first, up, down, counters).await,
        Ok(OpenTunnel::Direct(stream)) => relay_direct(browser, &first, stream, counters).await,
        // Dropping `browser` closes its connection.
        Err(failure) => {
            counters.failures.increment();
            debug!(?failure, "a tunnel failed");
            return;
        }
    };
    debug!(?ended, "tunnel ended");
}

/// Opens a tunnel in which the gateway terminates TLS towards the host, and returns it as one stream.
pub(crate) async fn open_secure(
    upstream: &Arc<Upstream>,
    counters: &Arc<Counters>,
    host: &str,
    port: u16,
) -> Result<impl AsyncRead + AsyncWrite + Send + Unpin + use<>, Failure> {
    let opened = open(upstream, counters, host, port, TunnelSecurity::Tls).await?;
    counters.tunnels.increment();
    let (near, far) = duplex(BUFFER);
    let counters = Arc::clone(counters);
    tokio::spawn(async move {
        let ended = match opened {
            OpenTunnel::Gateway(up, down) => relay(far, up, down, &counters).await,
            OpenTunnel::Direct(host) => relay_direct(far, &[], host, &counters).await,
        };
        debug!(?ended, "tunnel ended");
    });
    Ok(near)
}
