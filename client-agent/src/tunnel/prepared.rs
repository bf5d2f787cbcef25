//! A tunnel whose client can be told that it is open.
use std::{io, sync::Arc, time::Duration};

use bytes::BytesMut;
use longhaul_driver::SendStream;
use longhaul_session::TunnelSecurity;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite},
    time::timeout,
};
use tracing::debug;

use super::{
    local::LocalTunnel,
    observed::Observed,
    open::{OpenTunnel, accepted, open, open_direct, send_open},
    relay::{BUFFER, relay, relay_direct},
};
use crate::{
    connection::ConnectionScope,
    counters::Counters,
    gateway::{GatewaySession, RequiredSessionState, ResponseStream, SendPhase},
    holdout::Visit,
    pages::Failure,
    upstream::{Asker, Upstream},
};

/// Wait for the client's first bytes before `TunnelOpen` is sent without them: in protocols where the server
/// sends first there are none.
const FIRST_BYTES: Duration = Duration::from_millis(50);

/// A tunnel that is open, or towards a host to which tunnels were opened recently: then its client may be told so at
/// once, and its first bytes travel with `TunnelOpen`.
pub(crate) struct PreparedTunnel {
    upstream: Arc<Upstream>,
    counters: Arc<Counters>,
    scope: Arc<ConnectionScope>,
    host: String,
    port: u16,
    state: State,
    /// Measures the time to the host's first bytes.
    visit: Option<Visit>,
}

enum State {
    Open(Box<OpenTunnel>),
    WorkingHost(Arc<GatewaySession>),
}

/// Prepares a tunnel for a client of `scope`; the caller counts failures.
pub(crate) async fn prepare(
    upstream: &Arc<Upstream>,
    counters: &Arc<Counters>,
    scope: &Arc<ConnectionScope>,
    (host, port): (String, u16),
    asker: Asker,
) -> Result<PreparedTunnel, Failure> {
    let mut local = LocalTunnel::new(upstream, counters, (&host, port), asker);
    let (state, visit) = match local.before_gateway().await? {
        Some(opened) => (State::Open(Box::new(opened)), None),
        None => match through_gateway(upstream, counters, (&host, port)).await {
            Ok(opened) => opened,
            Err(failure) => (
                State::Open(Box::new(local.instead_of_gateway(failure).await?)),
                None,
            ),
        },
    };
    counters.tunnels.increment();
    Ok(PreparedTunnel {
        upstream: Arc::clone(upstream),
        counters: Arc::clone(counters),
        scope: Arc::clone(scope),
        host,
        port,
        state,
        visit,
    })
}

/// Opens a tunnel through the gateway, or finds that it need not be open yet. A paused host, and one of a visit that is held
/// out, is reached directly.
async fn through_gateway(
    upstream: &Arc<Upstream>,
    counters: &Arc<Counters>,
    (host, port): (&str, u16),
) -> Result<(State, Option<Visit>), Failure> {
    let visit = (!upstream.goes_direct(host))
        .then(|| {
            upstream
                .hold_out
                .begin_tunnel(host, upstream.permits_hold_out(host))
        })
        .flatten();
    let (held_out, visit) = open_held_out(upstream, counters, (host, port), visit).await;
    let session = upstream.gateway.usable_session(RequiredSessionState::Open);
    let state = match (held_out, session) {
        (Some(direct), _) => State::Open(Box::new(direct)),
        (None, Some((session, SendPhase::Open)))
            if upstream.working_hosts.contains(host, port) && !upstream.goes_direct(host) =>
        {
            State::WorkingHost(session)
        }
        _ => {
            let opened = open(upstream, counters, host, port, TunnelSecurity::Untouched).await?;
            State::Open(Box::new(opened))
        }
    };
    Ok((state, visit))
}

/// Opens a tunnel directly if its visit is held out. If that fails, the tunnel takes the usual way, and its time does not
/// count.
async fn open_held_out(
    upstream: &Upstream,
    counters: &Counters,
    (host, port): (&str, u16),
    visit: Option<Visit>,
) -> (Option<OpenTunnel>, Option<Visit>) {
    if !visit.as_ref().is_some_and(Visit::is_direct) {
        return (None, visit);
    }
    match open_direct(upstream, counters, host, port, TunnelSecurity::Untouched).await {
        Ok(opened) => (Some(opened), visit),
        Err(error) => {
            debug!(%error, "a held-out tunnel goes through the gateway");
            (None, None)
        }
    }
}

impl PreparedTunnel {
    /// Relays the bytes of the client, who has been told that the tunnel is open and has sent the bytes `first`.
    pub(crate) async fn run<C>(self, client: C, first: BytesMut)
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        self.scope.become_tunnel(!first.is_empty());
        self.relay(client, first).await;
    }

    /// [`Self::run`] for a client whose connection may remain one of HTTP.
    pub(super) async fn relay<C>(self, client: C, first: BytesMut)
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        let opened = match self.state {
            State::Open(opened) => *opened,
            State::WorkingHost(ref session) => {
                let session = Arc::clone(session);
                return self.run_to_working_host(&session, client, first).await;
            }
        };
        let ended = match opened {
            OpenTunnel::Gateway(up, down) => {
                let client = Observed::new(client, self.visit);
                relay_after(client, first, up, down, &self.counters).await
            }
            OpenTunnel::Direct(host) => {
                let client = Observed::new(client, self.visit);
                relay_direct(client, &first, host, &self.counters).await
            }
        };
        debug!(?ended, "tunnel ended");
    }

    async fn run_to_working_host<C>(self, session: &Arc<GatewaySession>, mut client: C, mut first: BytesMut)
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        if first.is_empty() {
            first.reserve(BUFFER);
            // A client that ends its direction at once may wait for what the host says.
            if let Ok(Err(_)) = timeout(FIRST_BYTES, client.read_buf(&mut first)).await {
                return;
            }
        }
        let (host, port) = (&self.host, self.port);
        let opened = match send_open(session, host, port, TunnelSecurity::Untouched, &first).await {
            Ok(Some((mut exchange, up))) => match exchange.answer().await {
                Ok(answer) => accepted(answer).map(|down| Some((up, down))),
                Err(_) => Ok(None),
            },
            Ok(None) => Ok(None),
            Err(failure) => Err(failure),
        };
        self.counters.tunnel_bytes.add(first.len() as u64);
        match opened {
            Ok(Some((up, down))) => {
                self.upstream.working_hosts.record(host, port);
                let ended = relay(Observed::new(client, self.visit), up, down, &self.counters).await;
                debug!(?ended, "tunnel ended");
            }
            // Dropping `client` closes its connection; the next attempt is told the reason.
            failure => {
                debug!(?failure, "a tunnel to a host that worked recently failed");
                self.counters.failures.increment();
                self.upstream.working_hosts.forget(host, port);
            }
        }
    }
}

/// Relays a tunnel through the gateway whose client has already sent `first`.
pub(super) async fn relay_after<C>(
    client: C,
    first: impl Into<bytes::Bytes>,
    mut up: SendStream,
    down: ResponseStream,
    counters: &Counters,
) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let first = first.into();
    if !first.is_empty() {
        counters.tunnel_bytes.add(first.len() as u64);
        // A host that takes nothing may have sent something.
        let _stopped = up.write(first).await;
    }
    relay(client, up, down, counters).await
}
