//! One connection of a client.
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, Uri, header, request::Parts, uri};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::{Body as _, Incoming},
    server::conn::{http1, http2},
    service::{Service, service_fn},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, Sleep, sleep_until, timeout},
};

use crate::{
    Announcement, KeepAlive, Scheme, address::normalised, cork::Cork, hosting::Site, response,
    statistics::Turn,
};

/// Maximum time from the start of a connection to its first request: Apache's `Timeout`.
pub(crate) const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time for which a closed connection is read until the client closes it, too: nginx's
/// `lingering_time`.
const LINGERING: Duration = Duration::from_secs(30);
/// Maximum number of header lines of a request.
const MAX_HEADERS: usize = 256;
/// Maximum bytes of a request's header section; on HTTP/2 each field counts 32 bytes more (RFC 9113 section
/// 6.5.2).
const MAX_HEADER_LIST: u32 = 64 * 1024;
/// Maximum number of concurrent streams of a connection, the default of nginx.
const MAX_STREAMS: u32 = 128;
/// Maximum bytes of a request's body, which is read and discarded. Pages upload a few kilobytes.
const MAX_REQUEST_BODY: u64 = 64 * 1024 * 1024;

/// HTTP version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// Progress of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    begun: u64,
    answered: u64,
    /// Bytes received, on HTTP/1.
    received: u64,
}

/// State of a connection that its requests use.
struct Exchange {
    site: Arc<Site>,
    protocol: Protocol,
    scheme: Scheme,
    progress: Mutex<Progress>,
}

/// The unannounced end of a connection: the request after the last response is not answered.
#[derive(Debug, thiserror::Error)]
#[error("the connection has ended after its last response")]
struct NotAnswered;

/// Serves the requests of a connection until it ends.
pub(crate) async fn serve<S>(stream: S, protocol: Protocol, scheme: Scheme, site: Arc<Site>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let exchange = Arc::new(Exchange {
        site,
        protocol,
        scheme,
        progress: Mutex::default(),
    });
    match protocol {
        Protocol::Http1 => serve_http1(stream, exchange).await,
        Protocol::Http2 => serve_http2(stream, exchange).await,
    }
}

async fn serve_http1<S>(stream: S, exchange: Arc<Exchange>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let cork = Cork::new(stream);
    let mut builder = http1::Builder::new();
    builder
        .max_headers(MAX_HEADERS)
        // The end of the stream that `stop_reading` simulates must not interrupt a response.
        .half_close(true)
        .timer(TokioTimer::new());
    let connection = builder.serve_connection(TokioIo::new(cork.clone()), answering(Arc::clone(&exchange)));
    let result = {
        let mut connection = pin!(connection);
        let mut idle = pin!(Idle::new(exchange.site.options.keep_alive_timeout));
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(result) = connection.as_mut().poll(cx) {
                    return Poll::Ready(result);
                }
                let drained = cork.poll_drain(cx);
                if let Poll::Ready(Err(error)) = drained {
                    tracing::debug!(%error, "a client has disconnected");
                    return Poll::Ready(Ok(()));
                }
                let mut progress = exchange.progress();
                progress.received = cork.received();
                let expired = idle.as_mut().poll_expired(cx, progress, drained.is_pending());
                if expired || exchange.is_spent(Announcement::Silent, progress) {
                    if cork.is_stopped() {
                        return Poll::Pending;
                    }
                    cork.stop_reading();
                    continue;
                }
                return Poll::Pending;
            }
        })
        .await
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection broke or ended with a request unanswered");
    }
    let _ended = poll_fn(|cx| cork.poll_end(cx)).await;
    let _lingered = timeout(LINGERING, poll_fn(|cx| cork.poll_discard(cx))).await;
}

async fn serve_http2<S>(stream: S, exchange: Arc<Exchange>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_LIST)
        .timer(TokioTimer::new());
    let connection = builder.serve_connection(TokioIo::new(stream), answering(Arc::clone(&exchange)));
    let mut connection = pin!(connection);
    let mut idle = pin!(Idle::new(exchange.site.options.keep_alive_timeout));
    let mut closing = false;
    let result = poll_fn(|cx| {
        loop {
            if let Poll::Ready(result) = connection.as_mut().poll(cx) {
                return Poll::Ready(result);
            }
            let progress = exchange.progress();
            let spent = exchange.is_spent(Announcement::Silent, progress)
                || exchange.is_spent(Announcement::Announced, progress);
            let expired = idle.as_mut().poll_expired(cx, progress, false);
            if closing || !(spent || expired) {
                return Poll::Pending;
            }
            connection.as_mut().graceful_shutdown();
            closing = true;
        }
    })
    .await;
    if let Err(error) = result {
        tracing::debug!(%error, "an HTTP/2 connection broke");
    }
}

fn answering(
    exchange: Arc<Exchange>,
) -> impl Service<
    Request<Incoming>,
    Response = Response<Full<Bytes>>,
    Error = NotAnswered,
    Future = impl Future<Output = Result<Response<Full<Bytes>>, NotAnswered>> + Send + 'static,
> {
    service_fn(move |request| Arc::clone(&exchange).answer(request))
}

impl Exchange {
    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, NotAnswered> {
        let number = self.begin();
        let _answered = Answered(&self);
        let last = self.site.options.close_after.is_some_and(|close| {
            close.announcement == Announcement::Announced && number >= u64::from(close.responses.max(1))
        });
        let beyond = self.site.options.close_after.is_some_and(|close| {
            close.announcement == Announcement::Silent && number > u64::from(close.responses.max(1))
        });
        if beyond && self.protocol == Protocol::Http1 {
            return Err(NotAnswered);
        }
        let exchange = self.site.exchanges.begin();
        let (parts, body) = request.into_parts();
        let read = discard(body).await;
        let think_time = self.site.options.think_time;
        if !think_time.is_zero() {
            sleep_until(Instant::now() + think_time).await;
        }
        let turn = if number == 1 { Turn::First } else { Turn::Later };
        let url = absolute(&parts, self.scheme).map(|url| url.to_string());
        let mut response = self.respond(parts, read, turn);
        exchange.answered(url.unwrap_or_default(), response.body().size_hint().lower());
        let close = last || self.site.options.keep_alive == KeepAlive::Off;
        if close && self.protocol == Protocol::Http1 {
            let fields = response.headers_mut();
            fields.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    fn respond(&self, mut parts: Parts, body: RequestBody, turn: Turn) -> Response<Full<Bytes>> {
        let target = absolute(&parts, self.scheme);
        let host = target.as_ref().and_then(Uri::host).map(normalised);
        let host = host.filter(|host| self.site.hosts.contains(host));
        let refusal = match (&target, &host, body) {
            (None, ..) => Some(StatusCode::BAD_REQUEST),
            (_, _, RequestBody::TooLarge) => Some(StatusCode::PAYLOAD_TOO_LARGE),
            (Some(_), None, RequestBody::Read) => Some(StatusCode::MISDIRECTED_REQUEST),
            (Some(_), Some(_), RequestBody::Read) => None,
        };
        let stored = match (refusal, target) {
            (None, Some(target)) => {
                parts.uri = target;
                self.site.content.answer(&parts, self.scheme)
            }
            (refusal, _) => response::refusal(refusal.unwrap_or(StatusCode::BAD_REQUEST)),
        };
        let response = response::live(&parts, stored, self.site.options.compression);
        let length = response.body().size_hint().lower();
        let host = host.as_deref();
        self.site.counters.answered(host, turn, response.status(), length);
        response
    }

    fn progress(&self) -> Progress {
        *self.progress.lock()
    }

    /// Counts a request and returns its number, from 1.
    fn begin(&self) -> u64 {
        let mut progress = self.progress.lock();
        progress.begun += 1;
        progress.begun
    }

    /// Returns true if the connection has sent all the responses after which it is closed with this
    /// announcement.
    fn is_spent(&self, announcement: Announcement, progress: Progress) -> bool {
        self.site.options.close_after.is_some_and(|close| {
            close.announcement == announcement && progress.answered >= u64::from(close.responses.max(1))
        })
    }
}

/// Counts a request as answered when its response has been created, or when the client has cancelled it.
struct Answered<'a>(&'a Exchange);

impl Drop for Answered<'_> {
    fn drop(&mut self) {
        let mut progress = self.0.progress.lock();
        progress.answered += 1;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestBody {
    Read,
    TooLarge,
}

/// Reads a request's body completely, as a server does for an application.
async fn discard(mut body: Incoming) -> RequestBody {
    let mut length = 0_u64;
    while let Some(Ok(frame)) = body.frame().await {
        length += frame.data_ref().map_or(0, |data| data.len() as u64);
        if length > MAX_REQUEST_BODY {
            return RequestBody::TooLarge;
        }
    }
    RequestBody::Read
}

/// Returns the target of a request in absolute form (RFC 9110 section 7.1).
fn absolute(parts: &Parts, scheme: Scheme) -> Option<Uri> {
    let authority = match parts.uri.authority() {
        Some(authority) => authority.clone(),
        None => {
            let mut hosts = parts.headers.get_all(header::HOST).iter();
            let host = hosts.next().filter(|_| hosts.next().is_none())?;
            uri::Authority::try_from(host.as_bytes()).ok()?
        }
    };
    if authority.as_str().contains('@') {
        return None;
    }
    let path = parts.uri.path_and_query().map_or("/", uri::PathAndQuery::as_str);
    Uri::builder()
        .scheme(scheme.as_str())
        .authority(authority)
        .path_and_query(path)
        .build()
        .ok()
}

/// Maximum idle time of a connection.
struct Idle {
    limit: Duration,
    seen: Progress,
    timer: Pin<Box<Sleep>>,
}

impl Idle {
    fn new(limit: Duration) -> Self {
        Self {
            limit,
            seen: Progress::default(),
            timer: Box::pin(sleep_until(Instant::now() + FIRST_REQUEST_TIMEOUT)),
        }
    }

    /// Returns true if the connection has been idle for too long; `sending` means that a response is not
    /// completely sent.
    fn poll_expired(mut self: Pin<&mut Self>, cx: &mut Context<'_>, now: Progress, sending: bool) -> bool {
        let limit = if now.answered == 0 {
            FIRST_REQUEST_TIMEOUT
        } else {
            self.limit
        };
        let busy = sending || now.begun > now.answered;
        if busy || now != self.seen {
            self.seen = now;
            self.timer.as_mut().reset(Instant::now() + limit);
        }
        // The timer is polled also while the connection is busy: it must wake the task after a reset.
        self.timer.as_mut().poll(cx).is_ready() && !busy
    }
}
