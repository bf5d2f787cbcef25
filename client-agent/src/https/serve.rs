//! An accelerated connection: TLS with the browser, and HTTP/2 or HTTP/1.1 in it.
use std::{convert::Infallible, io, io::Cursor, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, Version, header, uri::Scheme};
use hyper::{body::Incoming, server::conn::http2, service::service_fn, upgrade::OnUpgrade};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use longhaul_types::Pii;
use rustls::{AlertDescription, ServerConfig};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, join, split},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::{
    Why,
    first_bytes::{self, FirstBytes, Kind},
    unaccelerated, upgrade,
};
use crate::{
    listener::{ConnectionScope, serve_http1},
    pages::BadRequest,
    request::{self, Context, ProxyBody, page_response},
    tunnel,
};

/// How long a browser on the same machine may take for its part of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// Requests of a connection at a time; Chromium asks for up to 100 of servers that allow them.
const MAX_STREAMS: u32 = 128;
/// As for HTTP/1.1: refused in words above 64 KiB, and not read above this.
const MAX_HEAD: u32 = 128 * 1024;
/// How much a browser may send ahead of what is taken: an upload to a slow link must not fill the memory.
const WINDOW: u32 = 256 * 1024;
/// How long requests under way have when a host is left alone from now on.
const ENDING: Duration = Duration::from_secs(5);

/// The host that a connection is for.
#[derive(Clone, Debug)]
pub(super) struct Host {
    name: String,
    port: u16,
}

impl Host {
    fn name(&self) -> &str {
        &self.name
    }
}

/// Serves a connection to a host that is to be accelerated, from the browser's first byte on.
pub(crate) async fn serve(context: Arc<Context>, name: String, port: u16, browser: OnUpgrade) {
    let Ok(browser) = browser.await else { return };
    let mut browser = TokioIo::new(browser);
    let Ok(FirstBytes { bytes, kind }) = first_bytes::read(&mut browser).await else {
        return;
    };
    let host = Host { name, port };
    match kind {
        Kind::Gone => {}
        Kind::Hello {
            name,
            speaks_http: true,
        } if name.as_ref().is_none_or(|name| *name == host.name) => match context.https.config(&host.name) {
            Some(config) => {
                let (reader, writer) = split(browser);
                let browser = join(Cursor::new(bytes).chain(reader), writer);
                accelerate(context, host, config, browser).await;
            }
            None => tunnel::carry(&context, &host.name, host.port, browser, bytes).await,
        },
        Kind::Hello { .. } | Kind::Other => {
            context.https.spare(&host.name, Why::NotHttp);
            tunnel::carry(&context, &host.name, host.port, browser, bytes).await;
        }
    }
}

async fn accelerate<S>(context: Arc<Context>, host: Host, config: Arc<ServerConfig>, browser: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = match timeout(HANDSHAKE, TlsAcceptor::from(config).accept(browser)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            debug!(host = ?Pii(&host.name), %error, "no TLS with a client");
            if refuses_certificate(&error) {
                context.https.spare(&host.name, Why::RefusedByClient);
            }
            return;
        }
        Err(_) => return,
    };
    context.counters.accelerated.one();
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let scope = Arc::new(ConnectionScope::new());
    let (context, host) = (&context, Arc::new(host));
    let service = service_fn(|request| {
        let (context, scope, host) = (Arc::clone(context), Arc::clone(&scope), Arc::clone(&host));
        async move { Ok::<_, Infallible>(answer(&context, &scope, &host, request).await) }
    });
    let spared = context.https.0.hosts.spared(&host.name);
    if is_h2 {
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEAD)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW * 4)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = spared => {
                connection.as_mut().graceful_shutdown();
                match timeout(ENDING, connection).await {
                    Ok(ended) => ended,
                    Err(_) => return,
                }
            }
        };
        debug!(?ended, "an accelerated connection ended");
    } else {
        serve_http1(stream, service, spared, ENDING).await;
    }
}

/// Whether the client says that it does not accept our certificate.
fn refuses_certificate(error: &io::Error) -> bool {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(
        inner,
        Some(rustls::Error::AlertReceived(
            AlertDescription::UnknownCA
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::AccessDenied
        ))
    )
}

async fn answer(
    context: &Arc<Context>,
    scope: &Arc<ConnectionScope>,
    host: &Host,
    mut request: Request<Incoming>,
) -> Response<ProxyBody> {
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
    if let Some(answered) = unaccelerated::answer(context, host.name(), &request) {
        return answered;
    }
    if upgrade::is_wanted(&request) {
        return upgrade::answer(context, &host.name, host.port, request).await;
    }
    let mut response = request::answer(context, scope, request).await;
    if let Some(offer) = unaccelerated::offer(context, host.name(), &response) {
        return offer;
    }
    // It names ways past the proxy, and ports whose certificates browsers would then compare.
    response.headers_mut().remove(header::ALT_SVC);
    response
}

/// The URL that is asked for. Other hosts than the connection's are not answered on it (RFC 9110 section 7.4).
fn absolute(host: &Host, request: &Request<Incoming>) -> Result<Uri, StatusCode> {
    let said = match request.uri().authority() {
        Some(authority) => authority.as_str().to_owned(),
        None => {
            let mut hosts = request.headers().get_all(header::HOST).iter();
            let said = hosts.next().and_then(|said| said.to_str().ok());
            let said = said
                .filter(|_| hosts.next().is_none())
                .ok_or(StatusCode::BAD_REQUEST)?;
            said.to_owned()
        }
    };
    let authority: http::uri::Authority = said.parse().map_err(|_| StatusCode::BAD_REQUEST)?;
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

/// HTTP/2 may send a cookie a field, which other versions take for something else (RFC 9113 section 8.2.3).
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
    fn cookies_of_many_fields_become_one() {
        let mut headers = HeaderMap::new();
        for cookie in ["a=1", "b=2", "c=3"] {
            headers.append(header::COOKIE, HeaderValue::from_static(cookie));
        }
        join_cookies(&mut headers);
        assert_eq!(headers.get_all(header::COOKIE).iter().count(), 1);
        assert_eq!(headers[header::COOKIE], "a=1; b=2; c=3");
    }
}
