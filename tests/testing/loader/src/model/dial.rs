//! Opening of a connection: name, TCP, the proxy's tunnel, TLS.
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use http::{HeaderMap, StatusCode};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::{
    framing::{FramingError, Part, ResponseDecoder},
    names::{NameError, Names},
};

/// A byte stream that carries requests.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Destination of the requests for one scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    pub(super) https: bool,
    /// As in the URL: IPv6 addresses in brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Origin {
    pub(super) fn of(url: &Url) -> Option<Self> {
        Some(Self {
            https: url.scheme() == "https",
            host: url.host_str()?.to_owned(),
            port: url.port_or_known_default()?,
        })
    }
}

/// The peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    /// The origin, directly or through a tunnel.
    Origin(Origin),
    /// The proxy, for http of any host.
    Proxy,
}

/// Route to a peer.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// Direct, by the addresses of its name.
    Names(Arc<Names>),
    /// Through the proxy.
    Proxy(SocketAddr),
}

/// A connection to open.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) connection: u64,
    pub(super) peer: Peer,
    pub(super) way: Way,
    pub(super) trust: Arc<ClientConfig>,
    pub(super) user_agent: Arc<str>,
    /// Time limit of each step.
    pub(super) idle: Duration,
}

/// Errors of opening a connection.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("the name {host} has no address: {reason}")]
    Name { host: String, reason: NameError },
    #[error("cannot connect to {to}: {reason}")]
    Connect { to: String, reason: String },
    #[error("the proxy responded to CONNECT with {status}{}", .description.as_deref().map(|description| format!(" ({description})")).unwrap_or_default())]
    Tunnel {
        status: StatusCode,
        description: Option<String>,
        /// The proxy reports that the name does not exist.
        no_such_name: bool,
    },
    #[error("the proxy did not respond to CONNECT: {0}")]
    Proxy(String),
    #[error("the TLS handshake with {host} failed: {reason}")]
    Tls { host: String, reason: String },
}

impl DialError {
    /// Returns true if the name does not exist.
    pub(super) fn no_such_name(&self) -> bool {
        match self {
            Self::Name { reason, .. } => matches!(reason, NameError::NotFound | NameError::Invalid),
            Self::Tunnel { no_such_name, .. } => *no_such_name,
            Self::Connect { .. } | Self::Proxy(_) | Self::Tls { .. } => false,
        }
    }
}

impl Dial {
    /// Opens the connection; `established` is called when TCP is connected.
    pub(super) async fn open<F: Future<Output = ()>>(
        &self,
        established: impl FnOnce() -> F,
    ) -> Result<Box<dyn Stream>, DialError> {
        let addresses = match (&self.way, &self.peer) {
            (Way::Proxy(proxy), _) => vec![*proxy],
            (Way::Names(names), Peer::Origin(origin)) => addresses(names, origin).await?,
            (Way::Names(_), Peer::Proxy) => Vec::new(),
        };
        let stream = self.connect(&addresses).await?;
        established().await;
        // Interactive requests must not be delayed until a segment is full.
        let _ = stream.set_nodelay(true);
        match (&self.peer, &self.way) {
            (Peer::Origin(origin), Way::Proxy(_)) => {
                let stream = self.tunnel(stream, origin).await?;
                self.tls(stream, origin).await
            }
            (Peer::Origin(origin), Way::Names(_)) if origin.https => self.tls(stream, origin).await,
            (Peer::Origin(_), Way::Names(_)) | (Peer::Proxy, _) => Ok(Box::new(stream)),
        }
    }

    fn to(&self) -> String {
        match (&self.peer, &self.way) {
            (_, Way::Proxy(proxy)) => format!("the proxy at {proxy}"),
            (Peer::Origin(origin), Way::Names(_)) => format!("{}:{}", origin.host, origin.port),
            (Peer::Proxy, Way::Names(_)) => "the proxy".to_owned(),
        }
    }

    async fn connect(&self, addresses: &[SocketAddr]) -> Result<TcpStream, DialError> {
        let mut reason = "no address".to_owned();
        for address in addresses {
            match timeout_at(self.deadline(), TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => reason = error.to_string(),
                Err(_) => reason = format!("no answer in {} s", self.idle.as_secs()),
            }
        }
        Err(DialError::Connect {
            to: self.to(),
            reason,
        })
    }

    /// `CONNECT` (RFC 9110 section 9.3.6).
    async fn tunnel(&self, mut stream: TcpStream, origin: &Origin) -> Result<TcpStream, DialError> {
        let authority = format!("{}:{}", origin.host, origin.port);
        let request = format!(
            "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {}\r\nProxy-Connection: keep-alive\r\n\r\n",
            self.user_agent
        );
        let answer = async {
            let broken = |error: io::Error| DialError::Proxy(error.to_string());
            stream.write_all(request.as_bytes()).await.map_err(broken)?;
            let mut decoder = ResponseDecoder::default();
            loop {
                let malformed = |error: FramingError| DialError::Proxy(error.to_string());
                if let Some(Part::Head(head)) = decoder.next().map_err(malformed)? {
                    // Bytes after a 2xx belong to the tunnel; TLS servers do not send first.
                    let clean = decoder.buffer().is_empty();
                    return Ok((head, clean));
                }
                if stream.read_buf(decoder.buffer()).await.map_err(broken)? == 0 {
                    return Err(malformed(FramingError::Truncated));
                }
            }
        };
        let late = |_| DialError::Proxy(format!("no data for {} s", self.idle.as_secs()));
        let (head, clean) = timeout_at(self.deadline(), answer).await.map_err(late)??;
        match head.status {
            status if status.is_success() && clean => Ok(stream),
            status if status.is_success() => {
                Err(DialError::Proxy("unexpected bytes before the tunnel".to_owned()))
            }
            status => {
                let (description, no_such_name) = proxy_error(&head.headers)
                    .map(|error| (Some(error.description), error.no_such_name))
                    .unwrap_or_default();
                Err(DialError::Tunnel {
                    status,
                    description,
                    no_such_name,
                })
            }
        }
    }

    async fn tls(&self, stream: TcpStream, origin: &Origin) -> Result<Box<dyn Stream>, DialError> {
        let failed = |reason: String| DialError::Tls {
            host: origin.host.clone(),
            reason,
        };
        let name = ServerName::try_from(origin.host.trim_matches(['[', ']']).to_owned());
        let name = name.map_err(|error| failed(error.to_string()))?;
        let connector = TlsConnector::from(Arc::clone(&self.trust));
        match timeout_at(self.deadline(), connector.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed(format!("no data for {} s", self.idle.as_secs()))),
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.idle
    }
}

async fn addresses(names: &Names, origin: &Origin) -> Result<Vec<SocketAddr>, DialError> {
    let at = |address: IpAddr| SocketAddr::new(address, origin.port);
    match Host::parse(&origin.host) {
        Ok(Host::Ipv4(address)) => Ok(vec![at(address.into())]),
        Ok(Host::Ipv6(address)) => Ok(vec![at(address.into())]),
        Ok(Host::Domain(name)) => {
            let found = names.lookup(&name).await.map_err(|reason| DialError::Name {
                host: name.clone(),
                reason,
            })?;
            Ok(found.into_iter().map(|address| at(address.into())).collect())
        }
        Err(_) => Err(DialError::Name {
            host: origin.host.clone(),
            reason: NameError::Invalid,
        }),
    }
}

/// An error response generated by the proxy.
pub(super) struct ProxyError {
    /// Description of the error by the proxy.
    pub(super) description: String,
    /// True if the name does not exist.
    pub(super) no_such_name: bool,
}

/// Parses the fields by which proxies report their own errors: `Proxy-Status` (RFC 9209), or Squid's
/// `X-Squid-Error`.
pub(super) fn proxy_error(headers: &HeaderMap) -> Option<ProxyError> {
    let text = |name| {
        headers
            .get(name)
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    // Origins may have proxies, too, which may add the field to the origin's own errors.
    let status = text("proxy-status")
        .filter(|description| description.starts_with("longhaul") || description.contains("error="));
    let description = status.or_else(|| text("x-squid-error"))?;
    let no_such_name = ["dns_error", "DnsNotFound", "ERR_DNS_FAIL"]
        .iter()
        .any(|error| description.contains(error));
    Some(ProxyError {
        description,
        no_such_name,
    })
}
