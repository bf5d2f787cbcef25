//! An accelerated connection: TLS with the browser, and HTTP/2 or HTTP/1.1 inside TLS.
use std::{convert::Infallible, io::Cursor, sync::Arc};

use http::{Method, Request, Response, Version, header};
use hyper::{body::Incoming, service::service_fn, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;
use longhaul_types::Pii;
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, join, split},
    sync::watch,
};
use tracing::debug;

use super::{
    bypass_offer,
    first_bytes::{self, FirstBytes, Kind},
    handshake::{AcceptedClient, Peer, handshake_with, incompatibility},
    http2::{self, Cancels},
    incompatible_host::{Answer, Repeatable, ending_time},
    requested_url::{Host, absolute, join_cookies},
    silent_client::SilentClient,
};
use crate::{
    connection::{ConnectionScope, InUseBody, serve_http1},
    handles::Handles,
    https::{BypassReason, Program},
    pages::{BadRequest, page_response},
    proxy_body::ProxyBody,
    request, tunnel,
};

/// Serves a connection to a host that is to be accelerated, from the browser's first byte.
pub(crate) async fn serve(
    handles: Handles,
    outer: Arc<ConnectionScope>,
    (name, port): (String, u16),
    program: Program,
    browser: OnUpgrade,
) {
    let Ok(browser) = browser.await else { return };
    // Until its first request, the connection has the same timeout as the head of a request.
    outer.expect_first_bytes();
    let mut browser = TokioIo::new(browser);
    let Ok(FirstBytes { bytes, kind }) = first_bytes::read(&mut browser).await else {
        return;
    };
    let host = Host { name, port };
    let https = &handles.acceleration.https;
    let (upstream, counters) = (&handles.upstream, &handles.counters);
    let hello = match kind {
        Kind::Hello { shape, .. } => Some(shape),
        Kind::Other | Kind::Slow | Kind::Gone => None,
    };
    let peer = Peer {
        id: program.id(hello),
        name: program.name(),
    };
    match kind {
        Kind::Gone => {}
        Kind::Hello {
            name,
            speaks_http: true,
            ..
        } if host.is_named_by(name.as_deref()) => {
            let config = https.tls_config(&host.name);
            let config = config.filter(|_| !https.is_bypassed_for(&host.name, peer.id));
            let error = config.as_ref().and_then(|config| incompatibility(config, &bytes));
            match (config, error) {
                (Some(config), None) => {
                    let (reader, writer) = split(browser);
                    let browser = join(Cursor::new(bytes).chain(reader), writer);
                    accelerate(handles, &outer, (host, peer), config, browser).await;
                }
                (config, error) => {
                    if let (Some(_), Some(error)) = (config, error) {
                        debug!(host = ?Pii(&host.name), %error, "the agent cannot answer a ClientHello");
                        peer.bypass(https, &host, BypassReason::IncompatibleClient);
                    }
                    tunnel::tunnel_accepted(upstream, counters, &outer, host.address(), browser, bytes).await;
                }
            }
        }
        Kind::Hello { .. } | Kind::Other => {
            peer.bypass(https, &host, BypassReason::NotHttp);
            tunnel::tunnel_accepted(upstream, counters, &outer, host.address(), browser, bytes).await;
        }
        Kind::Slow => {
            // The client may still speak its host's protocol. The side that sends first decides.
            let (https, slow_host) = (https.clone(), host.clone());
            let listens = bytes
                .is_empty()
                .then_some(move || peer.bypass(&https, &slow_host, BypassReason::NotHttp));
            let browser = SilentClient::new(browser, listens);
            tunnel::tunnel_accepted(upstream, counters, &outer, host.address(), browser, bytes).await;
        }
    }
}

async fn accelerate<S>(
    handles: Handles,
    outer: &ConnectionScope,
    (host, peer): (Host, Peer),
    config: Arc<ServerConfig>,
    browser: S,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(AcceptedClient {
        stream,
        is_h2,
        has_begun,
    }) = handshake_with(&handles.acceleration.https, (&host, &peer), config, browser).await
    else {
        return;
    };
    handles.counters.accelerated.increment();
    let scope = Arc::new(outer.inner());
    scope.expect_requests(is_h2, has_begun);
    let (handles, host) = (&handles, Arc::new(host));
    let https = &handles.acceleration.https;
    let bypassed = async {
        https.until_bypassed(&host.name).await;
        ending_time(https, &host.name)
    };
    if is_h2 {
        // Set once the browser knows that this connection accepts no more requests.
        let ending = watch::Sender::new(false);
        let cancels = Cancels::new();
        let service = service_fn(|request| {
            let (handles, scope, host) = (handles.clone(), Arc::clone(&scope), Arc::clone(&host));
            let (mut ended, unanswered) = (ending.subscribe(), cancels.begin());
            async move {
                let in_use = scope.begin();
                let response = answer_if_accelerated(&handles, &scope, &host, request).await;
                let response = unanswered.answered(response);
                if !handles.acceleration.https.accelerates(&host.name) {
                    // The browser must not follow a redirection on this connection, nor repeat a request.
                    let _ended = ended.wait_for(|is_ending| *is_ending).await;
                }
                // Nothing has reached the host, which REFUSED_STREAM signals: the browser repeats the request
                // on a new connection (RFC 9113 section 8.7).
                let refused = || h2::Error::from(h2::Reason::REFUSED_STREAM);
                let response = response.ok_or_else(refused)?;
                Ok(response.map(|body| InUseBody::new(body, in_use)))
            }
        });
        http2::serve(stream, service, &cancels, bypassed, &ending).await;
    } else {
        let service = service_fn(|request| {
            let (handles, scope, host) = (handles.clone(), Arc::clone(&scope), Arc::clone(&host));
            async move {
                let in_use = scope.begin();
                let response = match answer(&handles, &scope, &host, request).await {
                    Answer::Response(response) => *response,
                    // Only HTTP/2 can refuse a request.
                    Answer::Repeated => page_response(&BadRequest::Malformed.page()),
                };
                Ok::<_, Infallible>(response.map(|body| InUseBody::new(body, in_use)))
            }
        });
        serve_http1(stream, service, bypassed).await;
    }
}

/// Answers a request that comes before the browser is told that its host is bypassed. `None`: the browser has to
/// repeat the request on a new connection, which becomes a tunnel.
async fn answer_if_accelerated(
    handles: &Handles,
    scope: &Arc<ConnectionScope>,
    host: &Host,
    request: Request<Incoming>,
) -> Option<Response<ProxyBody>> {
    let is_late = !handles.acceleration.https.accelerates(host.name());
    if is_late && !bypass_offer::is_request(&request) {
        return None;
    }
    match answer(handles, scope, host, request).await {
        Answer::Response(response) => Some(*response),
        Answer::Repeated => None,
    }
}

async fn answer(
    handles: &Handles,
    scope: &Arc<ConnectionScope>,
    host: &Host,
    mut request: Request<Incoming>,
) -> Answer {
    let https = &handles.acceleration.https;
    // Tunnels are opened only on the proxy connection itself.
    if *request.method() == Method::CONNECT {
        return finished(page_response(&BadRequest::Malformed.page()));
    }
    match absolute(host, &request) {
        Ok(uri) => *request.uri_mut() = uri,
        Err(status) => {
            let mut response = page_response(&BadRequest::Malformed.page());
            *response.status_mut() = status;
            return finished(response);
        }
    }
    if request.version() == Version::HTTP_2 {
        join_cookies(request.headers_mut());
    }
    if let Some(answered) = bypass_offer::answer(https, host.name(), &request) {
        return finished(answered);
    }
    let is_upgrade = tunnel::is_wanted(&request);
    let repeatable = Repeatable::of(&request, is_upgrade);
    let mut response = if is_upgrade {
        tunnel::upgrade_secure(
            &handles.upstream,
            &handles.counters,
            scope,
            host.address(),
            request,
        )
        .await
    } else {
        request::answer(handles, scope, request).await
    };
    if !is_upgrade {
        if let Some(offer) = bypass_offer::offer(https, host.name(), &response) {
            return finished(offer);
        }
        // `Alt-Svc` names routes that bypass the proxy, and ports whose certificates browsers would then compare.
        response.headers_mut().remove(header::ALT_SVC);
    }
    repeatable.repeated(https, host.name(), response)
}

fn finished(response: Response<ProxyBody>) -> Answer {
    Answer::Response(Box::new(response))
}
