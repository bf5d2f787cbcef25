//! Upgrades of connections of accelerated hosts, mostly to WebSocket (RFC 9110 section 7.8): the request and
//! the following bytes go unchanged through a tunnel of their own; the gateway terminates TLS towards the
//! host.
//!
//! A request with a body is never treated as an upgrade. The protocol could change only after the whole body
//! (RFC 9110 section 7.8); until then the agent could mistake body bytes for the new protocol, and the host
//! could mistake them for the next request. A server may ignore `Upgrade`, so the agent answers such a
//! request as one without the field.
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Version, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use longhaul_origin::{HeadLimits, ResponseReader};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tracing::debug;

use crate::{
    connection::{ConnectionScope, InUse, has_body},
    counters::Counters,
    pages::{Failure, page_response},
    proxy_body::ProxyBody,
    tunnel,
    upstream::Upstream,
};

/// Maximum size of the body of a refusal to upgrade, which is an error page.
const MAX_REFUSAL: usize = 256 * 1024;

/// True if a request contains `Upgrade` and is allowed to upgrade its connection.
pub(super) fn is_wanted(request: &Request<Incoming>) -> bool {
    request.version() == Version::HTTP_11
        && longhaul_http::hop_by_hop::upgrade(request.headers()).is_some()
        && !has_body(request)
}

/// Answers an upgrade request.
pub(super) async fn answer(
    upstream: &Arc<Upstream>,
    counters: &Arc<Counters>,
    scope: &ConnectionScope,
    (name, port): (&str, u16),
    request: Request<Incoming>,
) -> Response<ProxyBody> {
    counters.requests.increment();
    let host = match tunnel::open_secure(upstream, counters, name, port).await {
        Ok(host) => host,
        Err(failure) => return refuse(counters, &failure),
    };
    match send_upgrade(host, request, scope.begin()).await {
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
    mut request: Request<Incoming>,
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
    let to_host = to_host(&request);
    expected.set(&to_host);
    let mut response = sender.send_request(to_host).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(refusal_response(response).await);
    }
    let host = hyper::upgrade::on(&mut response);
    tokio::spawn(async move {
        let (Ok(browser), Ok(host)) = tokio::join!(browser, host) else {
            return;
        };
        let (mut browser, mut host) = (TokioIo::new(browser), TokioIo::new(host));
        let ended = copy_bidirectional(&mut browser, &mut host).await;
        debug!(?ended, "an upgraded connection ended");
        drop(in_use);
    });
    Ok(response.map(|_| ProxyBody::empty()))
}

/// Copies the browser's request for the host; the request has no body.
fn to_host(request: &Request<Incoming>) -> Request<Empty<Bytes>> {
    let mut copy = Request::new(Empty::new());
    *copy.method_mut() = request.method().clone();
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *copy.uri_mut() = path.parse().unwrap_or_default();
    *copy.headers_mut() = request.headers().clone();
    // This field is for proxies.
    copy.headers_mut().remove(header::PROXY_AUTHORIZATION);
    // The field can only be 0; removing it avoids differing interpretations.
    copy.headers_mut().remove(header::CONTENT_LENGTH);
    copy
}

async fn refusal_response(response: Response<Incoming>) -> Response<ProxyBody> {
    let (mut parts, body) = response.into_parts();
    longhaul_http::hop_by_hop::strip_response(&mut parts.headers);
    parts.headers.remove(header::CONTENT_LENGTH);
    let body = Limited::new(body, MAX_REFUSAL).collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    Response::from_parts(parts, ProxyBody::full(body))
}

fn refuse(counters: &Counters, failure: &Failure) -> Response<ProxyBody> {
    counters.failures.increment();
    let page = failure.page();
    let mut response = page_response(&page);
    response.extensions_mut().insert(page);
    response
}
