//! Upgrades of connections, mostly to WebSocket (RFC 9110 section 7.8): the request and the following bytes go unchanged
//! through a tunnel of their own. Towards an accelerated host the gateway terminates TLS.
//!
//! A request with a body is never treated as an upgrade. The protocol could change only after the whole body
//! (RFC 9110 section 7.8); until then the agent could mistake body bytes for the new protocol, and the host
//! could mistake them for the next request. A server may ignore `Upgrade`, so the agent answers such a
//! request as one without the field.
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Request, Response, StatusCode, Version, header, uri::PathAndQuery};
use http_body_util::Empty;
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use longhaul_http::{
    hop_by_hop,
    target::{self, Scheme, Target},
    url_credentials,
};
use longhaul_origin::{HeadLimits, ResponseReader};
use tokio::io::{AsyncRead, AsyncWrite, duplex};
use tracing::debug;

use super::{accepted::open_secure, connect::refuse, prepared::prepare, relay::BUFFER, relay_local};
use crate::{
    connection::{ConnectionScope, InUse, has_body},
    counters::Counters,
    pages::{BadRequest, Failure},
    proxy_body::ProxyBody,
    upstream::{Asker, Upstream},
};

/// True if a request contains `Upgrade` and is allowed to upgrade its connection.
pub(crate) fn is_wanted(request: &Request<Incoming>) -> bool {
    request.version() == Version::HTTP_11
        && hop_by_hop::upgrade(request.headers()).is_some()
        && !has_body(request)
}

/// True if a request for an `http` URL asks for a WebSocket. Any other protocol is ignored, as servers may: programs offer
/// HTTP/2 in each request, and want the response.
pub(crate) fn is_websocket(request: &Request<Incoming>) -> bool {
    let is_named = |protocol: &str| protocol.eq_ignore_ascii_case("websocket");
    request.uri().scheme_str() == Some(Scheme::Http.name())
        && is_wanted(request)
        && hop_by_hop::upgrade(request.headers()).is_some_and(is_named)
}

/// Answers an upgrade request of a connection whose TLS the agent terminates.
pub(crate) async fn upgrade_secure(
    upstream: &Arc<Upstream>,
    counters: &Arc<Counters>,
    scope: &ConnectionScope,
    (name, port): (&str, u16),
    request: Request<Incoming>,
) -> Response<ProxyBody> {
    counters.requests.increment();
    let path = request.uri().path_and_query().cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    match open_secure(upstream, counters, name, port).await {
        Ok(host) => exchange(counters, host, (request, path), scope.begin()).await,
        Err(failure) => refuse(counters, &failure),
    }
}

/// Answers a request to the proxy for a WebSocket of an `http` URL, for which most clients send CONNECT.
pub(crate) async fn upgrade_plain(
    upstream: &Arc<Upstream>,
    counters: &Arc<Counters>,
    scope: &Arc<ConnectionScope>,
    mut request: Request<Incoming>,
) -> Response<ProxyBody> {
    counters.requests.increment();
    let target = match target::absolute(request.uri()) {
        Ok(target) => target,
        Err(error) => return refuse(counters, &Failure::Request(BadRequest::Target(error))),
    };
    let asker = Asker::of(scope.client().user(), request.method(), request.headers());
    if let Err(error) = address(&mut request, &target) {
        return refuse(counters, &Failure::Request(error));
    }
    let Target { host, port, path, .. } = target;
    match prepare(upstream, counters, scope, (host, port), asker).await {
        Ok(tunnel) => {
            let (near, far) = duplex(BUFFER);
            tokio::spawn(tunnel.relay(far, BytesMut::new()));
            exchange(counters, near, (request, path), scope.begin()).await
        }
        Err(failure) => refuse(counters, &failure),
    }
}

/// Replaces the fields of a request to the proxy by those for the host.
fn address(request: &mut Request<Incoming>, target: &Target) -> Result<(), BadRequest> {
    let uri = request.uri().clone();
    let headers = request.headers_mut();
    url_credentials::move_to_fields(&uri, headers);
    hop_by_hop::strip_request(headers);
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    target.set_host(headers).map_err(BadRequest::Target)
}

/// Sends an upgrade request to its host and relays the new protocol, or the host's refusal.
async fn exchange<S>(
    counters: &Counters,
    host: S,
    request: (Request<Incoming>, PathAndQuery),
    in_use: Option<InUse>,
) -> Response<ProxyBody>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    match send_upgrade(host, request, in_use).await {
        Ok(response) => response,
        Err(error) => {
            debug!(%error, "an upgrade request got no response");
            let reason = longhaul_session::FailureReason::ConnectionReset;
            let detail = error.to_string();
            refuse(counters, &Failure::Gateway { reason, detail })
        }
    }
}

async fn send_upgrade<S>(
    host: S,
    (mut request, path): (Request<Incoming>, PathAndQuery),
    in_use: Option<InUse>,
) -> Result<Response<ProxyBody>, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let host = ResponseReader::new(host, HeadLimits::default());
    let expected = host.expected();
    let (mut sender, connection) = http1::handshake(TokioIo::new(host)).await?;
    tokio::spawn(connection.with_upgrades());
    let browser = hyper::upgrade::on(&mut request);
    let to_host = to_host(&request, path);
    expected.set(&to_host);
    let mut response = sender.send_request(to_host).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(refusal_response(response));
    }
    let host = hyper::upgrade::on(&mut response);
    tokio::spawn(async move {
        let (Ok(browser), Ok(host)) = tokio::join!(browser, host) else {
            return;
        };
        let ended = relay_local(TokioIo::new(browser), TokioIo::new(host), |_| {}).await;
        debug!(?ended, "an upgraded connection ended");
        drop(in_use);
    });
    Ok(response.map(|_| ProxyBody::empty()))
}

/// Copies the browser's request for the host; the request has no body.
fn to_host(request: &Request<Incoming>, path: PathAndQuery) -> Request<Empty<Bytes>> {
    let mut copy = Request::new(Empty::new());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = path.into();
    *copy.headers_mut() = request.headers().clone();
    // This field is for proxies.
    copy.headers_mut().remove(header::PROXY_AUTHORIZATION);
    // The field can only be 0; removing it avoids differing interpretations.
    copy.headers_mut().remove(header::CONTENT_LENGTH);
    copy
}

/// The host's refusal. Its body may have no end, and what asked for the upgrade does not wait for it.
fn refusal_response(response: Response<Incoming>) -> Response<ProxyBody> {
    let (mut parts, body) = response.into_parts();
    hop_by_hop::strip_response(&mut parts.headers);
    Response::from_parts(parts, ProxyBody::host(body))
}
