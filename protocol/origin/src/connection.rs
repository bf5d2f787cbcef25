//! HTTP connections to origins, with the state that earlier requests left on them.
use std::{sync::Arc, time::Duration};

use http::{
    HeaderValue, Request, Response, StatusCode, Uri,
    header::{HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION},
    uri::PathAndQuery,
};
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use longhaul_proxy::{ProxyError, login_wanted};
use tokio::{task::JoinHandle, time::Instant};

use crate::{
    classify::request_failure,
    config::Limits,
    dial::Forwarding,
    error::FetchError,
    http2_life::Http2Life,
    owner::{ConnectionOwner, Ownership},
    pool::StreamGuard,
    response_reader::{ExpectedResponse, HeadLimits, OldHttp, ResponseReader},
    shares::Slot,
    stream::OriginStream,
    target::{Scheme, Target},
    upload::Upload,
};

/// Interval of the HTTP/2 PINGs while streams are open.
const H2_PING_INTERVAL: Duration = Duration::from_secs(20);
/// Time limit for the answer. An origin that computes a response may be too busy for PINGs, and gets as much time as for the
/// response.
const H2_PING_TIMEOUT: Duration = Duration::from_secs(300);

/// A newly opened connection.
pub(crate) enum Opened {
    /// With the place where the next request is announced to the reader of responses.
    Http1(http1::SendRequest<Upload>, Arc<ExpectedResponse>),
    /// With the task that ends when the connection ends.
    Http2(http2::SendRequest<Upload>, JoinHandle<hyper::Result<()>>),
}

/// A newly opened connection with its slot.
pub(crate) struct NewConnection {
    pub(crate) opened: Opened,
    /// The connection leads to a proxy.
    pub(crate) forwarding: Option<Forwarding>,
    pub(crate) life: Arc<Http2Life>,
    pub(crate) slot: Arc<Slot<ConnectionOwner>>,
    /// Generation of the rules by which it was opened.
    pub(crate) generation: u64,
}

/// HTTP/1.1 connection, idle or in use by one request.
pub(crate) struct Http1 {
    pub(crate) sender: http1::SendRequest<Upload>,
    pub(crate) expected: Arc<ExpectedResponse>,
    /// The connection leads to a proxy.
    pub(crate) forwarding: Option<Forwarding>,
    pub(crate) ownership: Ownership,
    /// The owner of the last request.
    pub(crate) user: ConnectionOwner,
    /// True if the origin has answered on this connection.
    pub(crate) has_answered: bool,
    /// When the origin last answered.
    pub(crate) answered_at: Instant,
    /// For how long the origin keeps the connection idle, if it says so.
    pub(crate) usable_for: Option<Duration>,
    /// The connection's slot among all connections.
    pub(crate) slot: Arc<Slot<ConnectionOwner>>,
    /// Generation of the rules by which it was opened.
    pub(crate) generation: u64,
}

/// Share of one request in an HTTP/2 connection.
pub(crate) struct Http2Stream {
    pub(crate) sender: http2::SendRequest<Upload>,
    pub(crate) life: Arc<Http2Life>,
    /// The connection was idle for so long that it may have died without a sign.
    pub(crate) is_at_risk: bool,
    pub(crate) guard: StreamGuard,
}

/// Errors of a request without a response.
pub(crate) enum SendError {
    /// The connection was closed before it took any part of the request.
    Unsent(hyper::Error),
    Failed(hyper::Error),
    /// The proxy wants other credentials.
    Proxy(ProxyError),
}

impl From<TrySendError<Request<Upload>>> for SendError {
    fn from(mut error: TrySendError<Request<Upload>>) -> Self {
        match error.take_message() {
            Some(_) => Self::Unsent(error.into_error()),
            None => Self::Failed(error.into_error()),
        }
    }
}

/// Connection of one request.
pub(crate) enum Connection {
    Http1(Http1),
    Http2(Http2Stream),
}

impl Connection {
    pub(crate) fn is_h2(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    /// True if the origin has answered on this connection before. Only then may a failure mean that the
    /// connection was already dead.
    pub(crate) fn is_reused(&self) -> bool {
        match self {
            Self::Http1(connection) => connection.has_answered,
            Self::Http2(stream) => stream.life.has_answered(),
        }
    }

    /// Returns the state of an HTTP/2 connection that may have died without a sign.
    pub(crate) fn life_at_risk(&self) -> Option<Arc<Http2Life>> {
        match self {
            Self::Http2(stream) if stream.is_at_risk => Some(Arc::clone(&stream.life)),
            Self::Http1(_) | Self::Http2(_) => None,
        }
    }

    /// Sends a request with an absolute URL.
    pub(crate) async fn send(
        &mut self,
        target: &Target,
        mut request: Request<Upload>,
    ) -> Result<Response<Incoming>, SendError> {
        match self {
            Self::Http1(connection) => {
                match &connection.forwarding {
                    Some(forwarding) => absolute_form(&mut request, target, forwarding),
                    None => origin_form(&mut request, target),
                }
                connection.expected.set(&request);
                let response = connection.sender.try_send_request(request).await?;
                connection.has_answered = true;
                connection.answered_at = Instant::now();
                if let Some(forwarding) = &connection.forwarding
                    && response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED
                {
                    let offers = response.headers().get_all(PROXY_AUTHENTICATE).iter();
                    let had_credentials = forwarding.authorization.is_some();
                    let error = login_wanted(offers.map(HeaderValue::as_bytes), had_credentials);
                    return Err(SendError::Proxy(error));
                }
                Ok(response)
            }
            Self::Http2(stream) => {
                let response = stream.sender.try_send_request(request).await?;
                stream.life.answered();
                Ok(response)
            }
        }
    }
}

/// Starts HTTP on a connection.
pub(crate) async fn open_http(
    stream: OriginStream,
    target: &Target,
    limits: &Limits,
) -> Result<Opened, FetchError> {
    let failed = |error: hyper::Error| request_failure(&error);
    if stream.is_h2() {
        let (sender, connection) = http2_builder(limits)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(failed)?;
        return Ok(Opened::Http2(sender, tokio::spawn(connection)));
    }
    let stream = ResponseReader::new(stream, head_limits(target, limits));
    let expected = stream.expected();
    let (mut sender, connection) = http1_builder(limits)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(failed)?;
    tokio::spawn(async move {
        let _ended = connection.await;
    });
    sender.ready().await.map_err(failed)?;
    Ok(Opened::Http1(sender, expected))
}

/// Limits of heads, and whether a host may answer without one: by Chromium's rules.
fn head_limits(target: &Target, limits: &Limits) -> HeadLimits {
    let is_default_port = target.port == target.scheme.default_port();
    HeadLimits {
        bytes: limits.header_bytes.as_usize(),
        fields: limits.header_fields,
        old_http: match target.scheme {
            _ if is_default_port => OldHttp::Accepted,
            Scheme::Http => OldHttp::IcyOnly,
            Scheme::Https => OldHttp::Refused,
        },
        end_may_be_missing: target.scheme == Scheme::Http,
    }
}

fn http1_builder(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // Larger than the heads that the reader of responses passes on, which alone has the limits. 8 KiB is the minimum
        // that the library accepts.
        .max_buf_size(limits.header_bytes.as_usize().max(8192) * 2)
        .max_headers(limits.header_fields + 2);
    builder
}

fn http2_builder(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let header_bytes = limits.header_bytes.as_usize();
    let window = u32::try_from(limits.h2_window.bytes())
        .unwrap_or(u32::MAX)
        .clamp(0xffff, 0x7fff_ffff);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        // Twice our limit: the library reports a header section above its limit as a protocol error, without
        // the cause.
        .max_header_list_size(u32::try_from(header_bytes.saturating_mul(2)).unwrap_or(u32::MAX))
        .initial_stream_window_size((window / 2).max(0xffff))
        .initial_connection_window_size(window)
        .keep_alive_interval(H2_PING_INTERVAL)
        .keep_alive_timeout(H2_PING_TIMEOUT);
    builder
}

/// Prepares a request for a proxy, which forwards it: the URL stays absolute.
fn absolute_form(request: &mut Request<Upload>, target: &Target, forwarding: &Forwarding) {
    let fields = request.headers_mut();
    if let Ok(host) = HeaderValue::try_from(target.authority()) {
        fields.insert(HOST, host);
    }
    match &forwarding.authorization {
        Some(value) => fields.insert(PROXY_AUTHORIZATION, value.clone()),
        None => fields.remove(PROXY_AUTHORIZATION),
    };
}

/// Converts the request to origin form (RFC 9112 section 3.2.1): path and query in the request line, the host
/// in `Host`.
fn origin_form(request: &mut Request<Upload>, target: &Target) {
    let path = request
        .uri()
        .path_and_query()
        .cloned()
        .unwrap_or_else(|| PathAndQuery::from_static("/"));
    if let Ok(host) = HeaderValue::try_from(target.authority()) {
        request.headers_mut().insert(HOST, host);
    }
    *request.uri_mut() = Uri::from(path);
}
