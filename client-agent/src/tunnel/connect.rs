//! The answer to a CONNECT request whose host is not accelerated.
use std::{sync::Arc, time::Duration};

use bytes::BytesMut;
use http::Response;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use longhaul_session::TunnelSecurity;
use tokio::{io::AsyncReadExt as _, time::timeout};
use tracing::debug;

use super::{
    open::{OpenTunnel, accepted, open, send_open},
    relay::{BUFFER, relay, relay_direct},
};
use crate::{
    connection::ConnectionScope,
    counters::Counters,
    gateway::{GatewaySession, RequiredSessionState, SendPhase},
    pages::{Failure, page_response},
    proxy_body::ProxyBody,
    upstream::Upstream,
};

/// Wait for the browser's first bytes before `TunnelOpen` is sent without them: in protocols where the server
/// sends first there are none.
const FIRST_BYTES: Duration = Duration::from_millis(50);

/// Answers a CONNECT request with a response without body, and starts the tunnel.
pub(crate) async fn connect(
    upstream: &Arc<Upstream>,
    counters: &Arc<Counters>,
    scope: &Arc<ConnectionScope>,
    (host, port): (String, u16),
    browser: OnUpgrade,
) -> Response<ProxyBody> {
    if upstream.working_hosts.contains(&host, port)
        && let Some((session, SendPhase::Open)) = upstream.gateway.usable_session(RequiredSessionState::Open)
    {
        tokio::spawn(
            TunnelToWorkingHost {
                upstream: Arc::clone(upstream),
                counters: Arc::clone(counters),
                scope: Arc::clone(scope),
                session,
                host,
                port,
            }
            .run(browser),
        );
        return established(counters);
    }
    let opened = match open(upstream, counters, &host, port, TunnelSecurity::Untouched).await {
        Ok(opened) => opened,
        Err(failure) => return refuse(counters, &failure),
    };
    let (tunnel_counters, scope) = (Arc::clone(counters), Arc::clone(scope));
    tokio::spawn(async move {
        let Ok(browser) = browser.await else {
            return;
        };
        scope.become_tunnel(false);
        let ended = match opened {
            OpenTunnel::Gateway(up, down) => relay(TokioIo::new(browser), up, down, &tunnel_counters).await,
            OpenTunnel::Direct(host) => relay_direct(TokioIo::new(browser), host, &tunnel_counters).await,
        };
        debug!(?ended, "tunnel ended");
    });
    established(counters)
}

fn established(counters: &Counters) -> Response<ProxyBody> {
    counters.tunnels.increment();
    Response::new(ProxyBody::empty())
}

/// Refuses a CONNECT request with an error page.
pub(crate) fn refuse(counters: &Counters, failure: &Failure) -> Response<ProxyBody> {
    counters.failures.increment();
    debug!(?failure, "tunnel refused");
    page_response(&failure.page())
}

/// A tunnel whose browser already has its 200.
struct TunnelToWorkingHost {
    upstream: Arc<Upstream>,
    counters: Arc<Counters>,
    scope: Arc<ConnectionScope>,
    session: Arc<GatewaySession>,
    host: String,
    port: u16,
}

impl TunnelToWorkingHost {
    async fn run(self, browser: OnUpgrade) {
        let Ok(browser) = browser.await else {
            return;
        };
        let mut browser = TokioIo::new(browser);
        let mut first = BytesMut::with_capacity(BUFFER);
        if let Ok(Ok(0) | Err(_)) = timeout(FIRST_BYTES, browser.read_buf(&mut first)).await {
            return;
        }
        self.scope.become_tunnel(!first.is_empty());
        let opened = match send_open(
            &self.session,
            &self.host,
            self.port,
            TunnelSecurity::Untouched,
            &first,
        )
        .await
        {
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
                self.upstream.working_hosts.record(&self.host, self.port);
                let ended = relay(browser, up, down, &self.counters).await;
                debug!(?ended, "tunnel ended");
            }
            // Dropping `browser` closes its connection; the next attempt gets an error page.
            failure => {
                debug!(?failure, "a tunnel to a host that worked recently failed");
                self.counters.failures.increment();
                self.upstream.working_hosts.forget(&self.host, self.port);
            }
        }
    }
}
