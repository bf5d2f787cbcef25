//! Opening of a tunnel, through the gateway or directly.
use std::sync::Arc;

use longhaul_driver::{End, Priority, SendStream};
use longhaul_session::TunnelSecurity;
use longhaul_types::Pii;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

use crate::{
    counters::Counters,
    gateway::{
        Exchange, GatewayAnswer, GatewaySession, RequiredSessionState, ResponseStream, SendError, SendPhase,
    },
    pages::{BadRequest, Failure},
    upstream::{FallbackClock, Upstream, direct},
};

/// An open tunnel.
pub(super) enum OpenTunnel {
    Gateway(SendStream, ResponseStream),
    Direct(Box<dyn HostStream>),
}

/// A direct connection to a host, without the gateway.
pub(super) trait HostStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> HostStream for S {}

/// Opens the tunnel up to the host's TCP connection. This has no effect at the host and may be repeated.
pub(super) async fn open(
    upstream: &Upstream,
    counters: &Counters,
    host: &str,
    port: u16,
    security: TunnelSecurity,
) -> Result<OpenTunnel, Failure> {
    let _waiting = upstream.gateway.demand();
    let mut clock = upstream.fallback_clock();
    if upstream.goes_direct(host) {
        match open_direct(upstream, counters, host, port, security).await {
            Ok(opened) => return Ok(opened),
            Err(error) if direct::is_offline(&error) => clock.failed(error),
            Err(error) => return Err(clock.direct_failure(error)),
        }
    }
    loop {
        tokio::select! {
            biased;
            (session, _) = upstream.gateway.wait_for_session(RequiredSessionState::Open) => {
                if let Some(opened) = open_in(upstream, counters, &session, &mut clock, (host, port, security)).await? {
                    return Ok(opened);
                }
            }
            () = clock.until_due() => match open_direct(upstream, counters, host, port, security).await {
                Ok(opened) => return Ok(opened),
                Err(error) if direct::is_offline(&error) => clock.failed(error),
                Err(error) => return Err(clock.direct_failure(error)),
            },
            failure = clock.until_unavailable() => return Err(failure),
        }
    }
}

pub(super) async fn open_direct(
    upstream: &Upstream,
    counters: &Counters,
    host: &str,
    port: u16,
    security: TunnelSecurity,
) -> Result<OpenTunnel, longhaul_origin::FetchError> {
    debug!(host = ?Pii(host), "opening a tunnel directly");
    let owner = longhaul_origin::ConnectionOwner::Local;
    let stream: Box<dyn HostStream> = match security {
        TunnelSecurity::Untouched => Box::new(upstream.direct.connect_tcp(host, port, owner).await?.stream),
        TunnelSecurity::Tls => Box::new(upstream.direct.connect_tls(host, port, owner).await?.stream),
    };
    counters.direct_requests.increment();
    Ok(OpenTunnel::Direct(stream))
}

/// Opens the tunnel in one session; returns `None` if the session is lost.
async fn open_in(
    upstream: &Upstream,
    counters: &Counters,
    session: &Arc<GatewaySession>,
    clock: &mut FallbackClock,
    (host, port, security): (&str, u16, TunnelSecurity),
) -> Result<Option<OpenTunnel>, Failure> {
    let Some((mut exchange, up)) = send_open(session, host, port, security, &[]).await? else {
        return Ok(None);
    };
    loop {
        tokio::select! {
            biased;
            answer = exchange.answer() => {
                let Ok(answer) = answer else {
                    return Ok(None);
                };
                let down = accepted(answer)?;
                upstream.working_hosts.record(host, port);
                return Ok(Some(OpenTunnel::Gateway(up, down)));
            }
            () = clock.until_due() => match open_direct(upstream, counters, host, port, security).await {
                Ok(opened) => return Ok(Some(opened)),
                Err(error) if direct::is_offline(&error) => clock.failed(error),
                Err(error) => return Err(clock.direct_failure(error)),
            },
        }
    }
}

/// Sends `TunnelOpen` with the browser's first bytes; returns `None` if the session is lost.
pub(super) async fn send_open(
    session: &Arc<GatewaySession>,
    host: &str,
    port: u16,
    security: TunnelSecurity,
    first: &[u8],
) -> Result<Option<(Exchange, SendStream)>, Failure> {
    let sent = async {
        let (exchange, mut wire) = session.encode_tunnel(host, port, security)?;
        wire.extend_from_slice(first);
        let up = session
            .open_stream(Priority::NORMAL, SendPhase::Open, wire.into(), End::Open)
            .await?;
        Ok((exchange, up))
    };
    match sent.await {
        Ok(sent) => Ok(Some(sent)),
        Err(SendError::Lost(_)) => Ok(None),
        Err(SendError::HeaderTooLarge) => Err(Failure::Request(BadRequest::TargetTooLong)),
        Err(SendError::Busy) => Err(Failure::Request(BadRequest::Overloaded)),
    }
}

pub(super) fn accepted(answer: GatewayAnswer) -> Result<ResponseStream, Failure> {
    match answer {
        GatewayAnswer::Tunnel(down) => Ok(down),
        GatewayAnswer::Failed { reason, detail } => Err(Failure::Gateway { reason, detail }),
        GatewayAnswer::Head { .. } | GatewayAnswer::Promised { .. } | GatewayAnswer::Malformed => {
            Err(Failure::Gateway {
                reason: longhaul_session::FailureReason::Malformed,
                detail: "the gateway's answer to a tunnel is not valid".to_owned(),
            })
        }
    }
}
