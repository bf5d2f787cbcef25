//! An accelerated connection: TLS with the browser, and HTTP/2 or HTTP/1.1 inside TLS.
use std::{convert::Infallible, io::Cursor, sync::Arc, time::Duration};

use http::{Method, Request, Response, Version, header};
use hyper::{body::Incoming, service::service_fn, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;
use longhaul_session::FailureReason;
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, join, split},
    sync::watch,
};

use super::{
    bypass_offer,
    first_bytes::{self, FirstBytes, Kind},
    handshake::{AcceptedClient, Peer, handshake_with},
    http2::{self, Cancels},
    requested_url::{Host, absolute, join_cookies},
    silent_client::SilentClient,
    upgrade,
};
use crate::{
    connection::{ConnectionScope, InUseBody, serve_http1},
    handles::Handles,
    https::{BypassReason, Program},
    pages::{BadRequest, Page, page_response},
    proxy_body::ProxyBody,
    request, tunnel,
};

/// Time that requests in progress have after their host becomes bypassed.
const ENDING_TIME: Duration = Duration::from_secs(5);

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
        } if name.as_ref().is_none_or(|name| *name == host.name) => {
            let config = https.tls_config(&host.name);
            match config.filter(|_| !https.is_bypassed_for(&host.name, peer.id)) {
                Some(config) => {
                    let (reader, writer) = split(browser);
                    let browser = join(Cursor::new(bytes).chain(reader), writer);
                    accelerate(handles, &outer, (host, peer), config, browser).await;
                }
                None => {
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
    let bypassed = handles.acceleration.https.until_bypassed(&host.name);
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
        http2::serve(stream, service, &cancels, bypassed, (&ending, ENDING_TIME)).await;
    } else {
        let service = service_fn(|request| {
            let (handles, scope, host) = (handles.clone(), Arc::clone(&scope), Arc::clone(&host));
            async move {
                let in_use = scope.begin();
                let response = answer(&handles, &scope, &host, request).await;
                Ok::<_, Infallible>(response.map(|body| InUseBody::new(body, in_use)))
            }
        });
        serve_http1(stream, service, bypassed, ENDING_TIME).await;
    }
}

/// Answers a request that comes before the browser is told that its host is bypassed. `None`: nothing has
/// reached the host, and the browser has to repeat the request on a new connection, which becomes a tunnel.
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
    let response = answer(handles, scope, host, request).await;
    (!requests_client_certificate(&response)).then_some(response)
}

async fn answer(
    handles: &Handles,
    scope: &Arc<ConnectionScope>,
    host: &Host,
    mut request: Request<Incoming>,
) -> Response<ProxyBody> {
    let https = &handles.acceleration.https;
    // Tunnels are opened only on the proxy connection itself.
    if *request.method() == Method::CONNECT {
        return page_response(&BadRequest::Malformed.page());
    }
    match absolute(host, &request) {
        Ok(uri) => *request.uri_mut() = uri,
        Err(status) => {
            let mut response = page_response(&BadRequest::Malformed.page());
            *response.status_mut() = status;
            return response;
        }
    }
    if request.version() == Version::HTTP_2 {
        join_cookies(request.headers_mut());
    }
    if let Some(answered) = bypass_offer::answer(https, host.name(), &request) {
        return answered;
    }
    let is_upgrade = upgrade::is_wanted(&request);
    let mut response = if is_upgrade {
        upgrade::answer(
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
    if requests_client_certificate(&response) {
        https.bypass(host.name(), BypassReason::RequestsClientCertificate);
    }
    if is_upgrade {
        return response;
    }
    if let Some(offer) = bypass_offer::offer(https, host.name(), &response) {
        return offer;
    }
    // `Alt-Svc` names routes that bypass the proxy, and ports whose certificates browsers would then compare.
    response.headers_mut().remove(header::ALT_SVC);
    response
}

/// True if there is no response because the host requests a certificate that only the browser has.
fn requests_client_certificate(response: &Response<ProxyBody>) -> bool {
    let page: Option<&Page> = response.extensions().get();
    page.is_some_and(|page| page.reason == Some(FailureReason::TlsClientCertificate))
}
