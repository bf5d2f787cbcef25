//! The client: a request in, a response out.
use std::{error::Error, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, Version, header::HOST, request::Parts};
use http_body::Body;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::capture_connection},
    rt::{TokioExecutor, TokioTimer},
};
use longhaul_types::Pii;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tracing::debug;

use crate::{
    body::OriginBody,
    classify::request_failure,
    config::{Limits, OriginConfig, OriginConfigError, Timeouts},
    connector::Connector,
    dial::Dialer,
    error::{BadUrl, FetchError},
    gate::{Gates, Turn},
    stats::OriginStats,
    stream::ConnectionUse,
    target::{Host, Target},
    upload::Upload,
};

/// How often an HTTP/2 connection with open streams is checked for life, and how long the answer may take.
const H2_PING_INTERVAL: Duration = Duration::from_secs(20);
const H2_PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Fetches from origins. Clones share the pool, the DNS cache and the counters.
///
/// Must be made and used inside a tokio runtime with I/O and time.
#[derive(Clone)]
pub struct OriginClient(Arc<Inner>);

struct Inner {
    dialer: Arc<Dialer>,
    gates: Arc<Gates>,
    /// Keeps its connections for later requests.
    pooled: Client<Connector, Upload>,
    /// Opens a new connection for every request: for the second try after a dead connection of the pool, which a pool
    /// that lost all its connections at once would answer with another dead one.
    fresh: Client<Connector, Upload>,
    connector: Connector,
    limits: Limits,
    timeouts: Timeouts,
    stats: Arc<OriginStats>,
}

impl OriginClient {
    /// Makes a client. Without a DNS server in the settings and in the system it still serves addresses and the hosts of
    /// `[fetch] resolve`; all other names fail with [`DnsFailure::NoServers`](crate::DnsFailure::NoServers).
    ///
    /// # Errors
    /// [`OriginConfigError`] when a certificate of `extra_ca` is unusable.
    pub fn new(config: OriginConfig) -> Result<Self, OriginConfigError> {
        let stats = Arc::new(OriginStats::default());
        let gates = Arc::new(Gates::new(config.limits));
        let dialer = Arc::new(Dialer::new(&config, Arc::clone(&stats)));
        let connector = Connector::new(
            &config,
            Arc::clone(&dialer),
            Arc::clone(&gates),
            Arc::clone(&stats),
        )?;
        let fresh_limits = Limits {
            idle_per_host: 0,
            ..config.limits
        };
        Ok(Self(Arc::new(Inner {
            dialer,
            gates,
            pooled: http_client(connector.clone(), &config.limits, &config.timeouts),
            fresh: http_client(connector.clone(), &fresh_limits, &config.timeouts),
            connector,
            limits: config.limits,
            timeouts: config.timeouts,
            stats,
        })))
    }

    /// A client with a pool of its own, of one unused connection to each host; all else is shared. For logins that are
    /// bound to connections (NTLM, Negotiate: RFC 4559): requests that follow each other use the same connection, and
    /// nobody else's do. The pool's connections close with the last clone.
    #[must_use]
    pub fn isolated(&self) -> Self {
        let inner = &*self.0;
        let limits = Limits {
            idle_per_host: 1,
            ..inner.limits
        };
        let pooled = http_client(inner.connector.clone(), &limits, &inner.timeouts);
        Self(Arc::new(Inner {
            dialer: Arc::clone(&inner.dialer),
            gates: Arc::clone(&inner.gates),
            // A login that begins anew on a new connection must find that again. A pool of one has no second dead one.
            fresh: pooled.clone(),
            pooled,
            connector: inner.connector.clone(),
            limits: inner.limits,
            timeouts: inner.timeouts,
            stats: Arc::clone(&inner.stats),
        }))
    }

    /// How long it keeps unused connections.
    pub fn pool_idle(&self) -> Duration {
        self.0.timeouts.pool_idle
    }

    /// Sends one request and returns the response when its head is there; 1xx responses are skipped.
    ///
    /// The URL must be absolute. `Host` is made from it, whatever the request carries. All other fields go out as they
    /// are: leaving out the hop-by-hop ones is the caller's part. Redirects come back as they are.
    ///
    /// Nothing is sent twice, with one exception: a request with an idempotent method and no body is sent once more on a
    /// new connection when it was lost with a connection of the pool (RFC 9110 section 9.2.2, RFC 9112 section 9.3.1).
    ///
    /// Dropping the future cancels the request.
    ///
    /// # Errors
    /// [`FetchError`]; its [`fault`](FetchError::fault) says who can help.
    pub async fn fetch<B>(&self, request: Request<B>) -> Result<Response<OriginBody>, FetchError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let inner = &*self.0;
        inner.stats.request();
        let (parts, body) = request.into_parts();
        let target = Target::of(&parts.uri)?;
        let parts = outgoing(&target, parts)?;
        let mut turn = inner.gates.enter(&target).await?;

        let replay = (parts.method.is_idempotent() && body.is_end_stream()).then(|| parts.clone());
        let request = Request::from_parts(parts, Upload::new(body));
        let failure = match inner.send(&inner.pooled, request, &mut turn).await {
            Ok(response) => return inner.receive(response, turn),
            Err(failure) => failure,
        };
        let (Some(parts), true) = (replay, failure.lost_with_pooled_connection) else {
            return Err(failure.error);
        };
        debug!(host = ?Pii(&target.host), "a pooled connection was dead; trying a new one");
        inner.stats.retry();
        let request = Request::from_parts(parts, Upload::new(Empty::new()));
        let response = inner
            .send(&inner.fresh, request, &mut turn)
            .await
            .map_err(|failure| failure.error)?;
        inner.receive(response, turn)
    }

    /// Opens a TCP connection for a tunnel: `[fetch] resolve`, DNS, guard, Happy Eyeballs and the connect timeout as for
    /// fetches, with Nagle's algorithm off. `host` may be a name, an IPv4 address, or an IPv6 address with or without
    /// brackets.
    ///
    /// What passes through is not counted in [`OriginStats`], and the limits of connections do not apply: the tunnel is
    /// the caller's.
    ///
    /// # Errors
    /// [`FetchError`]; its [`fault`](FetchError::fault) says who can help.
    pub async fn connect_tcp(&self, host: &str, port: u16) -> Result<TcpStream, FetchError> {
        if port == 0 {
            return Err(BadUrl::Port.into());
        }
        self.0.dialer.dial(&Host::parse(host)?, port).await
    }

    /// Opens a TLS connection for a tunnel, as [`Self::connect_tcp`] does a TCP connection, and as strict as for fetches.
    /// The host is offered HTTP/1.1 alone.
    ///
    /// # Errors
    /// [`FetchError`]; its [`fault`](FetchError::fault) says who can help.
    pub async fn connect_tls(&self, host: &str, port: u16) -> Result<TlsStream<TcpStream>, FetchError> {
        let stream = self.connect_tcp(host, port).await?;
        self.0.connector.secure(&Host::parse(host)?, stream).await
    }

    /// The counters.
    pub fn stats(&self) -> &OriginStats {
        &self.0.stats
    }
}

impl fmt::Debug for OriginClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OriginClient")
            .field("stats", &self.0.stats)
            .finish_non_exhaustive()
    }
}

struct SendFailure {
    error: FetchError,
    lost_with_pooled_connection: bool,
}

impl Inner {
    async fn send(
        &self,
        client: &Client<Connector, Upload>,
        mut request: Request<Upload>,
        turn: &mut Turn,
    ) -> Result<Response<Incoming>, SendFailure> {
        let watch = request.body().watch();
        let mut connection = capture_connection(&mut request);
        let response = client.request(request);
        tokio::pin!(response);
        let answer = tokio::select! {
            biased;
            is_h2 = async {
                connection.wait_for_connection_metadata().await.as_ref().map(|found| found.is_negotiated_h2())
            } => {
                if let Some(is_h2) = is_h2 {
                    turn.connected(is_h2);
                }
                watch.start();
                tokio::select! {
                    biased;
                    answer = &mut response => answer,
                    () = watch.stalled(self.timeouts.response_head) => {
                        return Err(FetchError::ResponseTimeout.into());
                    }
                }
            }
            answer = &mut response => answer,
        };
        if let Ok(response) = &answer {
            // An origin nearby may have answered before this task heard of the connection.
            turn.answered(response.version() == Version::HTTP_2);
        }
        answer.map_err(|error| {
            let mut extensions = http::Extensions::new();
            if let Some(connected) = error.connect_info() {
                connected.get_extras(&mut extensions);
            }
            let was_reused = extensions
                .get::<ConnectionUse>()
                .is_some_and(ConnectionUse::is_reused);
            let error = request_failure(&error);
            SendFailure {
                lost_with_pooled_connection: was_reused && error == FetchError::Reset,
                error,
            }
        })
    }

    fn receive(
        &self,
        mut response: Response<Incoming>,
        turn: Turn,
    ) -> Result<Response<OriginBody>, FetchError> {
        if let Some(uses) = response.extensions_mut().remove::<ConnectionUse>() {
            uses.answered();
        }
        // The libraries' own bounds are of their buffers, which are larger than what they let through.
        let header_bytes: usize = response
            .headers()
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len())
            .sum();
        if header_bytes > self.limits.header_bytes.as_usize() {
            return Err(FetchError::HeaderTooLarge);
        }
        let idle = self.timeouts.body_idle;
        Ok(response.map(|body| OriginBody::new(body, turn, idle)))
    }
}

impl From<FetchError> for SendFailure {
    fn from(error: FetchError) -> Self {
        Self {
            error,
            lost_with_pooled_connection: false,
        }
    }
}

/// The head as it goes to the pool: the canonical URL, and no `Host` that could say something else (RFC 9112 section
/// 3.2.2).
fn outgoing(target: &Target, parts: Parts) -> Result<Parts, FetchError> {
    if parts.method == Method::CONNECT {
        return Err(BadUrl::Method.into());
    }
    let (mut outgoing, ()) = Request::new(()).into_parts();
    outgoing.uri = target.uri(parts.uri.path_and_query())?;
    outgoing.method = parts.method;
    outgoing.headers = parts.headers;
    outgoing.headers.remove(HOST);
    outgoing.version = Version::HTTP_11;
    Ok(outgoing)
}

fn http_client(connector: Connector, limits: &Limits, timeouts: &Timeouts) -> Client<Connector, Upload> {
    let header_bytes = limits.header_bytes.as_usize();
    let window = u32::try_from(limits.h2_window.bytes())
        .unwrap_or(u32::MAX)
        .clamp(0xffff, 0x7fff_ffff);
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(timeouts.pool_idle)
        .pool_max_idle_per_host(limits.idle_per_host)
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        // Repeats a request only when the connection returned it without having begun to write it, so it is right for
        // every method.
        .retry_canceled_requests(true)
        .set_host(true)
        // 8 KiB is the least that the library takes.
        .http1_max_buf_size(header_bytes.max(8192))
        .http1_max_headers(limits.header_fields)
        // RFC 9112 section 5.2: a proxy replaces the line folds of old servers by spaces.
        .http1_allow_obsolete_multiline_headers_in_responses(true)
        // Twice ours: the library calls what exceeds its bound a protocol error, without saying what was too large.
        .http2_max_header_list_size(u32::try_from(header_bytes.saturating_mul(2)).unwrap_or(u32::MAX))
        .http2_initial_stream_window_size((window / 2).max(0xffff))
        .http2_initial_connection_window_size(window)
        .http2_keep_alive_interval(H2_PING_INTERVAL)
        .http2_keep_alive_timeout(H2_PING_TIMEOUT)
        .build(connector)
}
