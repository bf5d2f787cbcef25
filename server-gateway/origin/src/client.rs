//! The client: a request in, a response out.
use std::{error::Error, fmt, hash::RandomState, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, Method, Request, Response, Version,
    header::{CONTENT_TYPE, HOST},
    request::Parts,
};
use http_body::Body;
use http_body_util::Empty;
use hyper::body::Incoming;
use longhaul_http::framing::transfer_coding;
use longhaul_types::Pii;
use tokio::{net::TcpStream, task::yield_now};
use tokio_rustls::client::TlsStream;
use tracing::debug;

use crate::{
    body::{InUse, OriginBody},
    classify::request_failure,
    config::{Limits, OriginConfig, OriginConfigError, Timeouts},
    connection::{Connection, Opened, SendError, greet},
    connector::Connector,
    error::{BadUrl, FetchError},
    gate::{Gates, Turn},
    owner::{ConnectionOwner, Usage},
    pool::{Pool, PoolRules, Sharing},
    shares::Place,
    stats::OriginStats,
    target::{Host, Target},
    upload::Upload,
};

/// Fetches from origins. Clones share the pool, the DNS cache and the counters.
///
/// Must be made and used inside a tokio runtime with I/O and time.
#[derive(Clone)]
pub struct OriginClient(Inner);

#[derive(Clone)]
struct Inner {
    gates: Arc<Gates>,
    pool: Arc<Pool>,
    connector: Arc<Connector>,
    limits: Limits,
    timeouts: Timeouts,
    stats: Arc<OriginStats>,
    /// Keys the hashes of credentials.
    secret: RandomState,
}

/// A connection to a tunnel's host.
#[derive(Debug)]
pub struct Tunnel<S> {
    /// What carries the bytes.
    pub stream: S,
    /// Its place among the owner's connections, to be kept as long as the stream.
    pub place: Place<ConnectionOwner>,
}

impl OriginClient {
    /// Makes a client. Without a DNS server in the settings and in the system it still serves addresses and the hosts of
    /// `[fetch] resolve`; all other names fail with [`DnsFailure::NoServers`](crate::DnsFailure::NoServers).
    ///
    /// # Errors
    /// [`OriginConfigError`] when a certificate of `extra_ca` is unusable.
    pub fn new(config: OriginConfig) -> Result<Self, OriginConfigError> {
        let stats = Arc::new(OriginStats::default());
        let gates = Arc::new(Gates::new(config.limits, &config.timeouts));
        let connector = Arc::new(Connector::new(&config, Arc::clone(&stats))?);
        let rules = PoolRules {
            sharing: Sharing::ByOwnership,
            idle_per_host: config.limits.idle_per_host,
            idle: config.timeouts.pool_idle,
            streams: config.limits.streams_per_host,
        };
        Ok(Self(Inner {
            pool: Pool::new(rules, Arc::clone(&gates), Arc::clone(connector.places())),
            gates,
            connector,
            limits: config.limits,
            timeouts: config.timeouts,
            stats,
            secret: RandomState::new(),
        }))
    }

    /// A client with a pool of its own, of one unused connection to each host; all else is shared. For logins that are
    /// bound to connections (NTLM, Negotiate: RFC 4559): requests that follow each other use the same connection, and
    /// nobody else's do. The pool's connections close with the last clone.
    #[must_use]
    pub fn isolated(&self) -> Self {
        let inner = &self.0;
        let rules = PoolRules {
            sharing: Sharing::OneUser,
            idle_per_host: 1,
            idle: inner.timeouts.pool_idle,
            streams: inner.limits.streams_per_host,
        };
        let (gates, places) = (Arc::clone(&inner.gates), Arc::clone(inner.connector.places()));
        Self(Inner {
            pool: Pool::new(rules, gates, places),
            gates: Arc::clone(&inner.gates),
            connector: Arc::clone(&inner.connector),
            limits: inner.limits,
            timeouts: inner.timeouts,
            stats: Arc::clone(&inner.stats),
            secret: inner.secret.clone(),
        })
    }

    /// How long it keeps unused connections.
    pub fn pool_idle(&self) -> Duration {
        self.0.timeouts.pool_idle
    }

    /// Sends one request for `owner` and returns the response when its head is there; 1xx responses are skipped.
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
    pub async fn fetch<B>(
        &self,
        request: Request<B>,
        owner: ConnectionOwner,
    ) -> Result<Response<OriginBody>, FetchError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let inner = &self.0;
        inner.stats.request();
        let (parts, body) = request.into_parts();
        let target = Target::of(&parts.uri)?;
        let parts = outgoing(&target, parts)?;
        let usage = Usage::of(owner, &target, &parts, !body.is_end_stream(), &inner.secret);
        let mut turn = inner.gates.enter(&target, owner).await?;

        let replay = (parts.method.is_idempotent() && body.is_end_stream()).then(|| parts.clone());
        let request = Request::from_parts(parts, Upload::new(body));
        let failure = match inner.send(&target, &usage, request, &mut turn).await {
            Ok(answer) => return inner.receive(answer, &target, turn),
            Err(failure) => failure,
        };
        let (Some(parts), true) = (replay, failure.lost_with_pooled_connection) else {
            return Err(failure.error);
        };
        debug!(host = ?Pii(&target.host), "a pooled connection was dead; trying a new one");
        inner.stats.retry();
        let request = Request::from_parts(parts, Upload::new(Empty::new()));
        // Not one of the pool, which may have lost all its connections at once.
        let connection = inner.fresh(&target, &usage).await?;
        let answer = inner
            .send_on(connection, &target, request, &mut turn)
            .await
            .map_err(|failure| failure.settled().error)?;
        inner.receive(answer, &target, turn)
    }

    /// Opens a TCP connection for a tunnel: `[fetch] resolve`, DNS, guard, Happy Eyeballs and the connect timeout as for
    /// fetches, with Nagle's algorithm off. `host` may be a name, an IPv4 address, or an IPv6 address with or without
    /// brackets.
    ///
    /// What passes through is not counted in [`OriginStats`].
    ///
    /// # Errors
    /// [`FetchError`]; its [`fault`](FetchError::fault) says who can help.
    pub async fn connect_tcp(
        &self,
        host: &str,
        port: u16,
        owner: ConnectionOwner,
    ) -> Result<Tunnel<TcpStream>, FetchError> {
        if port == 0 {
            return Err(BadUrl::Port.into());
        }
        let host = Host::parse(host)?;
        let place = self.0.place(owner).await?;
        let stream = self.0.connector.tcp(&host, port, owner).await?;
        Ok(Tunnel { stream, place })
    }

    /// Opens a TLS connection for a tunnel, as [`Self::connect_tcp`] does a TCP connection, and as strict as for fetches.
    /// The host is offered HTTP/1.1 alone.
    ///
    /// # Errors
    /// [`FetchError`]; its [`fault`](FetchError::fault) says who can help.
    pub async fn connect_tls(
        &self,
        host: &str,
        port: u16,
        owner: ConnectionOwner,
    ) -> Result<Tunnel<TlsStream<TcpStream>>, FetchError> {
        let Tunnel { stream, place } = self.connect_tcp(host, port, owner).await?;
        let stream = self.0.connector.secure(&Host::parse(host)?, stream).await?;
        Ok(Tunnel { stream, place })
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

/// A request that got no response.
enum Unanswered {
    /// A connection of the pool was closed before it took anything of it.
    Unsent(Box<Request<Upload>>, SendFailure),
    Failed(SendFailure),
}

impl Unanswered {
    fn settled(self) -> SendFailure {
        match self {
            Self::Unsent(_, failure) | Self::Failed(failure) => failure,
        }
    }
}

/// A response's head, and what carries the rest.
struct Answer {
    response: Response<Incoming>,
    connection: Connection,
}

impl Inner {
    /// Sends a request on a connection of the pool or a new one. Repeats it only when the connection returned it without
    /// having begun to write it, so it is right for every method.
    async fn send(
        &self,
        target: &Target,
        usage: &Usage,
        mut request: Request<Upload>,
        turn: &mut Turn,
    ) -> Result<Answer, SendFailure> {
        loop {
            let connection = self.connection(target, usage).await?;
            let was_reused = connection.is_reused();
            match self.send_on(connection, target, request, turn).await {
                Ok(answer) => return Ok(answer),
                Err(Unanswered::Unsent(unsent, _)) if was_reused => request = *unsent,
                Err(failure) => return Err(failure.settled()),
            }
        }
    }

    /// A connection for a request: one of the pool, or whichever is there first, a new one or one that becomes free.
    async fn connection(&self, target: &Target, usage: &Usage) -> Result<Connection, FetchError> {
        if let Some(found) = self.pool.take(target, usage) {
            return Ok(found);
        }
        let mut freed = self.pool.wait(target, *usage);
        // A request that has just ended leaves its connection in a moment.
        yield_now().await;
        if let Ok(found) = freed.try_recv() {
            return Ok(found);
        }
        let mut opening = Box::pin(self.clone().open(target.clone(), usage.owner));
        tokio::select! {
            biased;
            Ok(found) = &mut freed => {
                // What has been begun serves the next request.
                let (this, target, owner) = (self.clone(), target.clone(), usage.owner);
                tokio::spawn(async move {
                    if let Ok((opened, place)) = opening.await {
                        this.pool.opened(&target, opened, place, owner, None);
                    }
                });
                Ok(found)
            }
            opened = &mut opening => self.use_for(target, opened?, usage),
        }
    }

    /// A connection of its own for a request.
    async fn fresh(&self, target: &Target, usage: &Usage) -> Result<Connection, FetchError> {
        let opened = self.clone().open(target.clone(), usage.owner).await?;
        self.use_for(target, opened, usage)
    }

    fn use_for(
        &self,
        target: &Target,
        (opened, place): (Opened, Arc<Place<ConnectionOwner>>),
        usage: &Usage,
    ) -> Result<Connection, FetchError> {
        let connection = self.pool.opened(target, opened, place, usage.owner, Some(usage));
        connection.ok_or(FetchError::Cancelled)
    }

    async fn open(
        self,
        target: Target,
        owner: ConnectionOwner,
    ) -> Result<(Opened, Arc<Place<ConnectionOwner>>), FetchError> {
        let place = Arc::new(self.place(owner).await?);
        let stream = self.connector.connect(&target, owner, Arc::clone(&place)).await?;
        Ok((greet(stream, &self.limits).await?, place))
    }

    /// A place for a connection, if need be that of an unused one.
    async fn place(&self, owner: ConnectionOwner) -> Result<Place<ConnectionOwner>, FetchError> {
        if let Some(place) = self.connector.places().try_acquire(owner) {
            return Ok(place);
        }
        self.pool.make_room(owner);
        self.connector.place(owner).await
    }

    async fn send_on(
        &self,
        mut connection: Connection,
        target: &Target,
        request: Request<Upload>,
        turn: &mut Turn,
    ) -> Result<Answer, Unanswered> {
        turn.connected(connection.is_h2());
        let was_reused = connection.is_reused();
        let watch = request.body().watch();
        watch.start();
        let sent = tokio::select! {
            biased;
            sent = connection.send(target, request) => sent,
            () = watch.stalled(self.timeouts.response_head) => {
                return Err(Unanswered::Failed(FetchError::ResponseTimeout.into()));
            }
        };
        let failed = |error: &hyper::Error| {
            let error = request_failure(error);
            SendFailure {
                lost_with_pooled_connection: was_reused && error == FetchError::Reset,
                error,
            }
        };
        match sent {
            Ok(response) => Ok(Answer { response, connection }),
            Err(SendError::Unsent(request, error)) => Err(Unanswered::Unsent(request, failed(&error))),
            Err(SendError::Failed(error)) => Err(Unanswered::Failed(failed(&error))),
        }
    }

    fn receive(
        &self,
        answer: Answer,
        target: &Target,
        turn: Turn,
    ) -> Result<Response<OriginBody>, FetchError> {
        let Answer { response, connection } = answer;
        if !response.body().is_end_stream() {
            // The library undoes `chunked` and hands on what is inside.
            transfer_coding(response.version(), response.headers()).map_err(|_| FetchError::Protocol)?;
        }
        let headers = response.headers();
        // The libraries' own bounds are of their buffers, which are larger than what they let through.
        let header_bytes: usize = headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len())
            .sum();
        if header_bytes > self.limits.header_bytes.as_usize() {
            return Err(FetchError::HeaderTooLarge);
        }
        if is_event_stream(headers) {
            turn.lasts();
        }
        let in_use = match connection {
            Connection::Http1(connection) => {
                self.pool.give_back(target, connection, turn);
                None
            }
            Connection::Http2(stream) => Some(InUse {
                _stream: stream.guard,
                _turn: turn,
            }),
        };
        let idle = self.timeouts.body_idle;
        Ok(response.map(|body| OriginBody::new(body, in_use, idle)))
    }
}

/// Event streams have no end (HTML standard, section 9.2).
fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| {
        let essence = kind.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("text/event-stream")
    })
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
