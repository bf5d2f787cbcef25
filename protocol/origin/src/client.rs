//! The client of origin servers.
mod exchange;
mod repeat;

use std::{error::Error, fmt, hash::RandomState, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use hickory_resolver::proto::rr::{Name, Record, RecordType};
use http::{Request, Response};
use http_body::Body;
use longhaul_http::expectation::is_continue_expected;
use tokio::{net::TcpStream, task::yield_now};
use tokio_rustls::client::TlsStream;

use self::exchange::outgoing;
use crate::{
    body::OriginBody,
    config::{Limits, OriginConfig, OriginConfigError},
    connection::{Connection, NewConnection, open_http},
    connector::{Connector, Versions},
    continuation::Continuation,
    dns::NoRecords,
    error::{BadUrl, FetchError},
    host_scheduler::HostSchedulers,
    owner::{ConnectionOwner, RequestProperties},
    pool::Pool,
    pool_rules::{PoolRules, Sharing},
    shares::Slot,
    stats::OriginStats,
    target::{Host, Target},
    upload::Upload,
};

/// HTTP client that fetches from origins. Clones share the pool, the DNS cache and the counters.
///
/// The client must be created and used inside a tokio runtime with I/O and time.
#[derive(Clone)]
pub struct OriginClient(Inner);

#[derive(Clone)]
struct Inner {
    schedulers: Arc<HostSchedulers>,
    pool: Arc<Pool>,
    connector: Arc<Connector>,
    limits: Limits,
    pool_idle: Duration,
    stats: Arc<OriginStats>,
    /// Key of the hashes of credentials.
    secret: RandomState,
}

/// Connection to the host of a tunnel.
#[derive(Debug)]
pub struct Tunnel<S> {
    /// The byte stream to the host.
    pub stream: S,
    /// The connection's slot in the owner's share; keep it as long as the stream.
    pub slot: Slot<ConnectionOwner>,
}

impl OriginClient {
    /// Creates a client. Without a DNS server in the settings and in the system, the client still reaches
    /// addresses and the hosts of `[fetch] resolve`; all other names fail with
    /// [`DnsFailure::NoServers`](crate::DnsFailure::NoServers).
    ///
    /// # Errors
    /// [`OriginConfigError`] if a certificate of `extra_ca` is unusable.
    pub fn new(config: OriginConfig) -> Result<Self, OriginConfigError> {
        let stats = Arc::new(OriginStats::default());
        let schedulers = Arc::new(HostSchedulers::new(config.limits, &config.timeouts));
        let rules = PoolRules {
            sharing: Sharing::ByOwnership,
            idle_per_host: config.limits.idle_per_host,
            idle: config.timeouts.pool_idle,
            streams: config.limits.streams_per_host,
        };
        let (limits, timeouts) = (config.limits, config.timeouts);
        let connector = Arc::new(Connector::new(config, Arc::clone(&stats))?);
        Ok(Self(Inner {
            pool: Pool::new(rules, Arc::clone(&schedulers), &connector),
            schedulers,
            connector,
            limits,
            pool_idle: timeouts.pool_idle,
            stats,
            secret: RandomState::new(),
        }))
    }

    /// Returns a client with its own pool, which keeps one idle connection per host, and which shares all
    /// other state. For logins that are bound to connections (NTLM, Negotiate: RFC 4559): consecutive
    /// requests use the same connection, and requests of other clients do not use it. The connections of the
    /// pool close when the last clone is dropped.
    #[must_use]
    pub fn isolated(&self) -> Self {
        let inner = &self.0;
        let rules = PoolRules {
            sharing: Sharing::OneUser,
            idle_per_host: 1,
            idle: inner.pool_idle,
            streams: inner.limits.streams_per_host,
        };
        Self(Inner {
            pool: Pool::new(rules, Arc::clone(&inner.schedulers), &inner.connector),
            schedulers: Arc::clone(&inner.schedulers),
            connector: Arc::clone(&inner.connector),
            limits: inner.limits,
            pool_idle: inner.pool_idle,
            stats: Arc::clone(&inner.stats),
            secret: inner.secret.clone(),
        })
    }

    /// Time for which the client keeps idle connections.
    pub fn pool_idle(&self) -> Duration {
        self.0.pool_idle
    }

    /// Replaces the settings of this client and its clones, except [`Limits`], `connect` for the wait for a
    /// connection, and `pool_idle`. They apply to requests and connections that begin from now on. A pooled
    /// connection that was opened by other rules (guard, `resolve`, name servers, certificates) carries no
    /// further request.
    ///
    /// # Errors
    /// As [`OriginClient::new`]; then nothing changes.
    pub fn reconfigure(&self, config: OriginConfig) -> Result<(), OriginConfigError> {
        let host_wait = config.timeouts.host_wait;
        self.0.connector.reconfigure(config)?;
        self.0.schedulers.set_wait(host_wait);
        Ok(())
    }

    /// Sends one request for `owner` and returns the response when its head has arrived; 1xx responses are
    /// skipped.
    ///
    /// The URL must be absolute. The client derives `Host` from the URL and replaces any `Host` field of the
    /// request. All other fields are sent unchanged: the caller must remove hop-by-hop fields. Redirects are
    /// returned, not followed.
    ///
    /// A request that the origin did not process is sent once more, at most three times: HTTP/2 says so by
    /// `REFUSED_STREAM`, `HTTP_1_1_REQUIRED` and `GOAWAY` (RFC 9113 section 8.7). The client remembers hosts that require
    /// HTTP/1.1. A request with an idempotent method is also sent once more if it was lost with a pooled connection (RFC 9110
    /// section 9.2.2), and over HTTP/1.1 if the origin's HTTP/2 cannot be understood. Any request is sent once more after
    /// 421 (Misdirected Request). A body of which more than 256 KiB was sent is not sent again.
    ///
    /// The request may demand a [`ConnectionUse`](crate::ConnectionUse) by an extension; each response has one.
    ///
    /// Dropping the future cancels the request.
    ///
    /// # Errors
    /// [`FetchError`]; [`fault`](FetchError::fault) returns the party that must act.
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
        let connection_use = parts.extensions.get().copied().unwrap_or_default();
        let target = Target::of(&parts.uri)?;
        let mut request = Request::from_parts(outgoing(&target, parts)?, ());
        let continuation =
            (is_continue_expected(request.headers()) && !body.is_end_stream()).then(Continuation::default);
        let upload = match &continuation {
            None => Upload::new(body),
            Some(continuation) => {
                continuation.listen(&mut request);
                Upload::new(continuation.hold(body))
            }
        };
        let (parts, ()) = request.into_parts();
        let properties = RequestProperties::of(owner, &target, &parts, &upload, &inner.secret);
        let properties = properties.requiring(connection_use);
        let permit = inner.schedulers.enter(&target, owner).await?;
        let response = inner
            .exchange(&target, &properties, (parts, upload), permit)
            .await?;
        let end = continuation.and_then(|continuation| continuation.answered());
        Ok(response.map(|body| body.ending(end)))
    }

    /// Opens a TCP connection for a tunnel. `[fetch] resolve`, DNS, address guard, Happy Eyeballs and connect
    /// timeout apply as for fetches; Nagle's algorithm is off. `host` is a name, an IPv4 address, or an IPv6
    /// address with or without brackets.
    ///
    /// [`OriginStats`] does not count the bytes of the tunnel.
    ///
    /// # Errors
    /// [`FetchError`]; [`fault`](FetchError::fault) returns the party that must act.
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
        let slot = self.0.slot(owner).await?;
        let stream = self.0.connector.tcp(&host, port, owner).await?;
        Ok(Tunnel { stream, slot })
    }

    /// Returns the addresses to which [`Self::connect_tcp`] connects, of which there is at least one: what `[fetch] resolve`
    /// or DNS says, without what the address guard rejects.
    ///
    /// # Errors
    /// [`FetchError`]; [`fault`](FetchError::fault) returns the party that must act.
    pub async fn addresses(
        &self,
        host: &str,
        port: u16,
        owner: ConnectionOwner,
    ) -> Result<Vec<SocketAddr>, FetchError> {
        let host = Host::parse(host)?;
        self.0.connector.addresses(&host, port, owner).await
    }

    /// Looks up the records of any type of a name, for clients whose questions are forwarded. `[fetch] resolve` and the address
    /// guard do not apply: nothing connects to what is found.
    ///
    /// # Errors
    /// There are none, or the look-up failed.
    pub async fn records(
        &self,
        name: &Name,
        kind: RecordType,
        owner: ConnectionOwner,
    ) -> Result<Vec<Record>, NoRecords> {
        self.0.connector.records(name, kind, owner).await
    }

    /// Opens a TLS connection for a tunnel as [`Self::connect_tcp`] opens a connection, with the certificate
    /// checks of fetches. The client offers only HTTP/1.1 (ALPN).
    ///
    /// # Errors
    /// [`FetchError`]; [`fault`](FetchError::fault) returns the party that must act.
    pub async fn connect_tls(
        &self,
        host: &str,
        port: u16,
        owner: ConnectionOwner,
    ) -> Result<Tunnel<TlsStream<TcpStream>>, FetchError> {
        if port == 0 {
            return Err(BadUrl::Port.into());
        }
        let host = Host::parse(host)?;
        let slot = self.0.slot(owner).await?;
        let stream = self.0.connector.secure(&host, port, owner).await?;
        Ok(Tunnel { stream, slot })
    }

    /// Returns the addresses to which datagrams for a host may be sent, best first, and never none. `[fetch] resolve`, DNS
    /// and address guard apply as for connections.
    ///
    /// # Errors
    /// [`FetchError`]; [`fault`](FetchError::fault) returns the party that must act.
    pub async fn datagram_addresses(
        &self,
        host: &str,
        port: u16,
        owner: ConnectionOwner,
    ) -> Result<Vec<SocketAddr>, FetchError> {
        if port == 0 {
            return Err(BadUrl::Port.into());
        }
        let host = Host::parse(host)?;
        self.0
            .connector
            .rules()
            .dialer
            .addresses(&host, port, owner)
            .await
    }

    /// The counters of the client and its clones.
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

impl Inner {
    /// Returns a pooled connection, or else the first to become available of a new connection and a
    /// connection that becomes idle.
    async fn connection(
        &self,
        target: &Target,
        properties: &RequestProperties,
    ) -> Result<Connection, FetchError> {
        if let Some(found) = self.pool.take(target, properties) {
            return Ok(found);
        }
        let mut freed = self.pool.wait(target, *properties);
        // A request that has just ended is about to return its connection.
        yield_now().await;
        if let Ok(found) = freed.try_recv() {
            return Ok(found);
        }
        let opening = self.clone().open(target.clone(), properties.owner, Versions::Any);
        let mut opening = Box::pin(opening);
        tokio::select! {
            biased;
            Ok(found) = &mut freed => {
                // The connection that is being opened serves the next request.
                let (this, target, owner) = (self.clone(), target.clone(), properties.owner);
                tokio::spawn(async move {
                    if let Ok(new) = opening.await {
                        this.pool.opened(&target, new, owner, None);
                    }
                });
                Ok(found)
            }
            opened = &mut opening => self.use_for(target, opened?, properties),
        }
    }

    /// Opens a new connection for a request.
    async fn fresh(
        &self,
        target: &Target,
        properties: &RequestProperties,
        versions: Versions,
    ) -> Result<Connection, FetchError> {
        let opening = self.clone().open(target.clone(), properties.owner, versions);
        let opened = opening.await?;
        self.use_for(target, opened, properties)
    }

    fn use_for(
        &self,
        target: &Target,
        new: NewConnection,
        properties: &RequestProperties,
    ) -> Result<Connection, FetchError> {
        let connection = self.pool.opened(target, new, properties.owner, Some(properties));
        connection.ok_or(FetchError::Cancelled)
    }

    async fn open(
        self,
        target: Target,
        owner: ConnectionOwner,
        versions: Versions,
    ) -> Result<NewConnection, FetchError> {
        let slot = Arc::new(self.slot(owner).await?);
        let (rules, life) = (self.connector.rules(), Arc::default());
        let (stream, forwarding) = self
            .connector
            .connect(&rules, &target, versions, owner, (&life, &slot))
            .await?;
        Ok(NewConnection {
            forwarding,
            opened: open_http(stream, &target, &self.limits).await?,
            life,
            slot,
            generation: rules.generation,
        })
    }

    /// Returns a connection slot; if none is free, closes an idle connection first.
    async fn slot(&self, owner: ConnectionOwner) -> Result<Slot<ConnectionOwner>, FetchError> {
        if let Some(slot) = self.connector.slots().try_acquire(owner.share()) {
            return Ok(slot);
        }
        self.pool.make_room(owner);
        self.connector.slot(owner).await
    }
}
