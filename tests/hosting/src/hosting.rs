//! The server of all hosts.
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

/// Where to listen. Port 0 takes a free one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// For HTTP.
    pub plain: Vec<SocketAddr>,
    /// For HTTP over TLS.
    pub tls: Vec<SocketAddr>,
}

/// A server that cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostingError {
    /// An address cannot be listened on.
    #[error("the pages cannot be served: cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Its certificates cannot be made.
    #[error(transparent)]
    Tls(#[from] AuthorityError),
}

/// A running server of all hosts of a [`Content`]. It ends, and its connections with it, when dropped.
///
/// * Hosts are told apart by `Host` or `:authority`; a host that the content does not have is answered 421
///   (RFC 9110 section 15.5.20). One listener on the unspecified address serves hosts at as many addresses as they have.
/// * `Date` is that of now, and a recorded `Expires` keeps its distance from it: caches see the lifetime that the
///   origin meant, not that of a recording of years ago. `Age`, `Last-Modified` and `ETag` stay as recorded.
/// * GET and HEAD with a condition that a recorded validator fulfils are answered 304.
/// * `Alt-Svc` goes with the hop-by-hop fields: the alternatives of recorded hosts do not exist here.
/// * After the last response of a connection the server sends FIN, and reads on for a while as servers do.
#[derive(Debug)]
pub struct Hosting {
    plain: Vec<SocketAddr>,
    tls: Vec<SocketAddr>,
    counters: Arc<Counters>,
    exchanges: Arc<ExchangeLog>,
    _tasks: JoinSet<()>,
}

/// What every connection needs.
pub(crate) struct Site {
    pub(crate) content: Arc<dyn Content>,
    /// In lower case, without ports.
    pub(crate) hosts: BTreeSet<String>,
    pub(crate) options: HostingOptions,
    pub(crate) counters: Arc<Counters>,
    pub(crate) exchanges: Arc<ExchangeLog>,
}

/// How many requests a server is answering, for those that watch it from another thread.
#[derive(Clone, Debug)]
pub struct OpenRequests(Arc<ExchangeLog>);

impl OpenRequests {
    /// As many as there are now.
    pub fn count(&self) -> u64 {
        self.0.open()
    }
}

impl Hosting {
    /// Serves `content` at the given addresses with the authority's certificates, from tasks of the current runtime.
    ///
    /// # Errors
    /// An address cannot be listened on, or TLS cannot be set up.
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
        let acceptor = TlsAcceptor::from(authority.server(options.http2)?);
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

    /// Where it serves HTTP, in the order of [`Listen::plain`].
    pub fn plain(&self) -> &[SocketAddr] {
        &self.plain
    }

    /// Where it serves HTTP over TLS, in the order of [`Listen::tls`].
    pub fn tls(&self) -> &[SocketAddr] {
        &self.tls
    }

    /// What it has done so far.
    pub fn statistics(&self) -> HostingStatistics {
        self.counters.snapshot()
    }

    /// The requests that it is answering.
    pub fn open_requests(&self) -> OpenRequests {
        OpenRequests(Arc::clone(&self.exchanges))
    }

    /// What it has answered since the start or the last call, in the order of answering; at most 20,000 exchanges.
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
