//! Server of all hosts of a content.
use std::{collections::BTreeSet, io, net::SocketAddr, sync::Arc};

use tokio::{net::TcpStream, sync::Semaphore, task::JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::{
    AuthorityError, Content, HostingOptions, HostingStatistics, Scheme, TestAuthority,
    address::normalised,
    connection::{self, Protocol},
    exchanges::{Exchange, ExchangeLog},
    listening::{self, ListenError},
    statistics::Counters,
};

/// Addresses to listen on. Port 0 selects a free port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// Addresses for HTTP.
    pub plain: Vec<SocketAddr>,
    /// Addresses for HTTP over TLS.
    pub tls: Vec<SocketAddr>,
}

/// Errors of starting a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostingError {
    /// Listening on an address failed.
    #[error("the pages cannot be served: cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Its certificates cannot be created.
    #[error(transparent)]
    Tls(#[from] AuthorityError),
}

/// A running server of all hosts of a [`Content`]. It ends, with its connections, when dropped.
///
/// * The host is identified by `Host` or `:authority`; requests for a host that the content does not have are
///   answered with 421 (RFC 9110 section 15.5.20). One listener on the unspecified address serves hosts at
///   any number of addresses.
/// * `Date` is the current time, and a recorded `Expires` keeps its distance from `Date`: caches use the
///   lifetime that the origin intended, although the recording is years old. `Age`, `Last-Modified` and
///   `ETag` stay as recorded.
/// * GET and HEAD with a condition that a recorded validator fulfils are answered with 304.
/// * `Alt-Svc` is removed with the hop-by-hop fields: the alternatives of recorded hosts do not exist here.
/// * After the last response of a connection the server sends FIN, and continues to read for a while, as
///   common servers do.
#[derive(Debug)]
pub struct Hosting {
    plain: Vec<SocketAddr>,
    tls: Vec<SocketAddr>,
    counters: Arc<Counters>,
    exchanges: Arc<ExchangeLog>,
    _tasks: JoinSet<()>,
}

/// State shared by all connections.
pub(crate) struct Site {
    pub(crate) content: Arc<dyn Content>,
    /// Hosts in lower case, without ports.
    pub(crate) hosts: BTreeSet<String>,
    pub(crate) options: HostingOptions,
    pub(crate) counters: Arc<Counters>,
    pub(crate) exchanges: Arc<ExchangeLog>,
}

/// Number of requests that a server is answering, readable from other threads.
#[derive(Clone, Debug)]
pub struct OpenRequests(Arc<ExchangeLog>);

impl OpenRequests {
    /// Returns the current number.
    pub fn count(&self) -> u64 {
        self.0.open()
    }
}

impl Hosting {
    /// Serves `content` at the given addresses with the authority's certificates, from tasks of the current
    /// runtime.
    ///
    /// # Errors
    /// Listening on an address fails, or TLS cannot be configured.
    pub async fn start(
        content: Arc<dyn Content>,
        listen: &Listen,
        authority: &TestAuthority,
        options: HostingOptions,
    ) -> Result<Self, HostingError> {
        let counters = Arc::new(Counters::default());
        let exchanges = Arc::new(ExchangeLog::default());
        let site = Arc::new(Site {
            hosts: content.hosts().iter().map(|host| normalised(host)).collect(),
            content,
            options,
            counters: Arc::clone(&counters),
            exchanges: Arc::clone(&exchanges),
        });
        let turns = Arc::new(Semaphore::new(
            options.max_connections.clamp(1, Semaphore::MAX_PERMITS),
        ));
        let acceptor = TlsAcceptor::from(authority.server_for_any_name(options.http2)?);
        let mut hosting = Self {
            plain: Vec::new(),
            tls: Vec::new(),
            counters,
            exchanges,
            _tasks: JoinSet::new(),
        };
        for address in &listen.plain {
            let (listener, local) = listening::listen(*address).await?;
            hosting.plain.push(local);
            let site = Arc::clone(&site);
            let serve = move |stream| serve_plain(stream, Arc::clone(&site));
            let accepting = listening::accept(listener, Arc::clone(&turns), serve);
            hosting._tasks.spawn(accepting);
        }
        for address in &listen.tls {
            let (listener, local) = listening::listen(*address).await?;
            hosting.tls.push(local);
            let (site, acceptor) = (Arc::clone(&site), acceptor.clone());
            let serve = move |stream| serve_tls(stream, acceptor.clone(), Arc::clone(&site));
            let accepting = listening::accept(listener, Arc::clone(&turns), serve);
            hosting._tasks.spawn(accepting);
        }
        Ok(hosting)
    }

    /// Addresses for HTTP, in the order of [`Listen::plain`].
    pub fn plain(&self) -> &[SocketAddr] {
        &self.plain
    }

    /// Addresses for HTTP over TLS, in the order of [`Listen::tls`].
    pub fn tls(&self) -> &[SocketAddr] {
        &self.tls
    }

    /// Returns the counters.
    pub fn statistics(&self) -> HostingStatistics {
        self.counters.snapshot()
    }

    /// Returns a handle to the number of open requests.
    pub fn open_requests(&self) -> OpenRequests {
        OpenRequests(Arc::clone(&self.exchanges))
    }

    /// Returns the exchanges since the start or the last call, in the order of their responses; at most
    /// 20,000.
    pub fn take_exchanges(&self) -> Vec<Exchange> {
        self.exchanges.take()
    }
}

impl From<ListenError> for HostingError {
    fn from(ListenError { address, source }: ListenError) -> Self {
        Self::Listen { address, source }
    }
}

async fn serve_plain(stream: TcpStream, site: Arc<Site>) {
    site.counters.connected();
    connection::serve(stream, Protocol::Http1, Scheme::Http, site).await;
}

async fn serve_tls(stream: TcpStream, acceptor: TlsAcceptor, site: Arc<Site>) {
    site.counters.connected();
    match tokio::time::timeout(connection::FIRST_REQUEST_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            let protocol = match stream.get_ref().1.alpn_protocol() {
                Some(b"h2") => Protocol::Http2,
                _ => Protocol::Http1,
            };
            connection::serve(stream, protocol, Scheme::Https, site).await;
        }
        Ok(Err(error)) => {
            site.counters.handshake_failed();
            tracing::debug!(%error, "a TLS handshake failed");
        }
        Err(_) => site.counters.handshake_failed(),
    }
}
