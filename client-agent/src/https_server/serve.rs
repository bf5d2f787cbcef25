//! An accelerated connection: TLS with the browser, and HTTP/2 or HTTP/1.1 inside TLS.
use std::{convert::Infallible, io, io::Cursor, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header, uri::Scheme,
};
use hyper::{body::Incoming, service::service_fn, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;
use longhaul_session::FailureReason;
use longhaul_types::Pii;
use rustls::{AlertDescription, ServerConfig};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, join, split},
    sync::watch,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::{
    bypass_offer,
    first_bytes::{self, FirstBytes, Kind},
    http2::{self, Cancels},
    silent_client::SilentClient,
    upgrade,
};
use crate::{
    connection::{ConnectionScope, InUseBody, serve_http1},
    handles::Handles,
    https::{BypassReason, Https, Program, ProgramId},
    pages::{BadRequest, Page, page_response},
    proxy_body::ProxyBody,
    request, tunnel,
};

/// Timeout of the TLS handshake for a browser on the same machine.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time after which a connection without a request counts as one that the browser keeps open for later.
const FIRST_REQUEST_TIME: Duration = Duration::from_secs(5);
/// Time that requests in progress have after their host becomes bypassed.
const ENDING_TIME: Duration = Duration::from_secs(5);

/// The host of a connection.
#[derive(Clone, Debug)]
pub(super) struct Host {
    name: String,
    port: u16,
}

impl Host {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self) -> (&str, u16) {
        (&self.name, self.port)
    }
}

/// The program of a connection.
#[derive(Clone, Debug)]
struct Peer {
    id: ProgramId,
    name: Option<String>,
}

impl Peer {
    fn bypass(&self, https: &Https, host: &Host, why: BypassReason) {
        https.bypass_for((&host.name, self.id), self.name.clone(), why);
    }
}

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

/// A client that has accepted the agent's certificate.
struct AcceptedClient<S> {
    stream: S,
    is_h2: bool,
    /// True if its first request has begun.
    has_begun: bool,
}

/// Performs the TLS handshake with a client and waits for its first byte of HTTP. If the client does not
/// accept the agent's certificate, the host is bypassed for its program, whose next connection is then a tunnel.
async fn handshake_with<S>(
    https: &Https,
    (host, peer): (&Host, &Peer),
    config: Arc<ServerConfig>,
    browser: S,
) -> Option<AcceptedClient<impl AsyncRead + AsyncWrite + Unpin + Send + 'static>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = https.begin_handshake(&host.name, peer.id);
    let accepted = timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(config).accept(browser));
    let rejection = match accepted.await {
        Ok(Ok(mut stream)) => {
            let mut first = BytesMut::new();
            match timeout(FIRST_REQUEST_TIME, stream.read_buf(&mut first)).await {
                Ok(Ok(0)) => Rejection::ByClose,
                // The connection ends, and the client opens another one, which is a tunnel.
                Ok(Ok(_)) | Err(_) if !https.has_authority() => Rejection::No,
                Ok(Err(error)) => Rejection::of(&error),
                // A client that keeps the connection open for later has accepted the certificate as well.
                Ok(Ok(_)) | Err(_) => {
                    if let Some(handshake) = handshake {
                        handshake.accepted();
                    }
                    https.accepted(&host.name, peer.id);
                    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    let (reader, writer) = split(stream);
                    return Some(AcceptedClient {
                        is_h2,
                        has_begun: !first.is_empty(),
                        stream: join(Cursor::new(first).chain(reader), writer),
                    });
                }
            }
        }
        Ok(Err(error)) => {
            debug!(host = ?Pii(&host.name), %error, "a TLS handshake with a client failed");
            Rejection::of(&error)
        }
        Err(_) => Rejection::No,
    };
    match (rejection, handshake) {
        (Rejection::ByAlert, _) => peer.bypass(https, host, BypassReason::RefusedByClient),
        (Rejection::ByClose, Some(handshake)) => {
            if handshake.was_rejection().await {
                peer.bypass(https, host, BypassReason::LeftByClient);
            }
        }
        (Rejection::ByClose, None) | (Rejection::No, _) => {}
    }
    None
}

/// Form in which a client that ends the connection rejects the agent's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rejection {
    /// By a TLS alert.
    ByAlert,
    /// By closing the connection, which may have other reasons.
    ByClose,
    /// The client does not reject the certificate.
    No,
}

impl Rejection {
    fn of(error: &io::Error) -> Self {
        let inner = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match (inner, error.kind()) {
            // RFC 8446 section 6.1: the client cancels for a reason unrelated to TLS.
            (
                Some(rustls::Error::AlertReceived(
                    AlertDescription::UserCanceled | AlertDescription::CloseNotify,
                )),
                _,
            ) => Self::No,
            // Every other alert counts as rejection of the certificate: few clients send the specific one.
            (Some(rustls::Error::AlertReceived(_)), _) => Self::ByAlert,
            (
                None,
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe,
            ) => Self::ByClose,
            _ => Self::No,
        }
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

/// Returns the requested URL. Requests for other hosts than the connection's are rejected (RFC 9110 section
/// 7.4).
fn absolute(host: &Host, request: &Request<Incoming>) -> Result<Uri, StatusCode> {
    let authority_text = match request.uri().authority() {
        Some(authority) => authority.as_str().to_owned(),
        None => {
            let mut hosts = request.headers().get_all(header::HOST).iter();
            let authority_text = hosts
                .next()
                .and_then(|authority_text| authority_text.to_str().ok());
            let authority_text = authority_text
                .filter(|_| hosts.next().is_none())
                .ok_or(StatusCode::BAD_REQUEST)?;
            authority_text.to_owned()
        }
    };
    let authority: http::uri::Authority = authority_text.parse().map_err(|_| StatusCode::BAD_REQUEST)?;
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    if !name.eq_ignore_ascii_case(&host.name) || authority.port_u16().unwrap_or(443) != host.port {
        return Err(StatusCode::MISDIRECTED_REQUEST);
    }
    let mut parts = request.uri().clone().into_parts();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = Some(authority);
    parts
        .path_and_query
        .get_or_insert(http::uri::PathAndQuery::from_static("/"));
    Uri::from_parts(parts).map_err(|_| StatusCode::BAD_REQUEST)
}

/// Joins cookie fields: HTTP/2 may split cookies into several fields, which other versions interpret
/// differently (RFC 9113 section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let all: Vec<&[u8]> = headers
        .get_all(header::COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if all.len() < 2 {
        return;
    }
    if let Ok(joined) = HeaderValue::from_maybe_shared(Bytes::from(all.join(&b"; "[..]))) {
        headers.insert(header::COOKIE, joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_cookie_fields_become_one() {
        let mut headers = HeaderMap::new();
        for cookie in ["a=1", "b=2", "c=3"] {
            headers.append(header::COOKIE, HeaderValue::from_static(cookie));
        }
        join_cookies(&mut headers);
        assert_eq!(headers.get_all(header::COOKIE).iter().count(), 1);
        assert_eq!(headers[header::COOKIE], "a=1; b=2; c=3");
    }
}
