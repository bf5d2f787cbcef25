//! An HTTP/1.1 client with a browser's connection limits: direct or through an HTTP proxy, https through
//! CONNECT.
use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use longhaul_types::ByteCount;
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

/// Maximum number of connections per host, as in browsers with HTTP/1.1.
const PER_HOST: usize = 6;
/// Maximum number of concurrent requests: the number of connections that Chromium opens through one proxy.
const IN_ALL: usize = 32;
/// Idle timeout. It must permit links with outages of 40 s and round trips of seconds.
const IDLE: Duration = Duration::from_secs(120);
/// Maximum size of a body as transferred.
const MAX_BODY: usize = 64 * 1024 * 1024;
/// Maximum number of header lines of a response.
const MAX_HEADERS: usize = 512;

type Sender = http1::SendRequest<Empty<Bytes>>;

/// Route of requests to their origin.
#[derive(Clone, Debug)]
pub enum Route {
    /// Connections to the origin itself.
    Direct,
    /// Through the HTTP proxy at this address.
    Proxy(SocketAddr),
}

/// A `GET` to send.
#[derive(Clone, Debug)]
pub struct Request {
    /// URL of the request.
    pub url: Url,
    /// Header fields except `Host`, which is derived from the URL.
    pub headers: HeaderMap,
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status.
    pub status: StatusCode,
    /// Header fields.
    pub headers: HeaderMap,
    /// The body as transferred, with its content coding.
    pub body: Bytes,
}

/// Errors of fetching a complete response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The URL has no host, or one that a request cannot contain.
    #[error("the URL cannot be requested over HTTP")]
    Url,
    /// The connection could not be opened.
    #[error("cannot connect to {0}: {1}")]
    Connect(String, #[source] io::Error),
    /// The proxy refused the tunnel for https.
    #[error("the proxy answered CONNECT with {0}")]
    Tunnel(StatusCode),
    /// The TLS handshake failed, for example because the certificate is not trusted.
    #[error("TLS with the origin failed: {0}")]
    Tls(#[source] io::Error),
    /// The connection broke, or the peer violated HTTP.
    #[error("{0}")]
    Http(String),
    /// No data arrived for two minutes.
    #[error("no data arrived for {} s", IDLE.as_secs())]
    Idle,
    /// The body exceeds the size limit.
    #[error("the body is over the limit of {} MiB", MAX_BODY / (1024 * 1024))]
    TooLarge,
}

/// HTTP client. It keeps connections and reuses them.
#[derive(Debug)]
pub struct Client {
    route: Route,
    trust: Arc<ClientConfig>,
    hosts: Mutex<BTreeMap<String, Arc<HostPool>>>,
    in_all: Semaphore,
    received: AtomicU64,
}

#[derive(Debug)]
struct HostPool {
    free: Semaphore,
    idle: Mutex<Vec<Sender>>,
}

/// Certificates that are not usable.
#[derive(Debug, thiserror::Error)]
#[error("TLS cannot be set up: {0}")]
pub struct TrustError(#[from] rustls::Error);

/// Returns a TLS configuration that trusts the web's certificate authorities and `extra`.
///
/// # Errors
/// An element of `extra` is not a certificate.
pub fn client_trust(extra: &[CertificateDer<'static>]) -> Result<Arc<ClientConfig>, TrustError> {
    let mut roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    for certificate in extra {
        roots.add(certificate.clone())?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

impl Client {
    /// Returns a client that sends by `route` and verifies certificates by `trust`.
    pub fn new(route: Route, trust: Arc<ClientConfig>) -> Self {
        Self {
            route,
            trust,
            hosts: Mutex::default(),
            in_all: Semaphore::new(IN_ALL),
            received: AtomicU64::new(0),
        }
    }

    /// Bytes of bodies so far, as transferred.
    pub fn received(&self) -> ByteCount {
        ByteCount::new(self.received.load(Relaxed))
    }

    /// Sends one `GET` and reads the complete response. Redirects are not followed.
    ///
    /// # Errors
    /// The response did not arrive completely. A request on a reused connection that the other end had closed
    /// is repeated on a new one.
    pub async fn get(&self, request: &Request) -> Result<Response, FetchError> {
        let pool = self.pool(&request.url);
        let _host_turn = pool.free.acquire().await;
        let _turn = self.in_all.acquire().await;
        loop {
            let kept = pool.take_idle();
            let reused = kept.is_some();
            let mut sender = match kept {
                Some(sender) => sender,
                None => timeout(IDLE, self.connect(&request.url))
                    .await
                    .map_err(|_| FetchError::Idle)??,
            };
            let message = self.message(request)?;
            match timeout(IDLE, sender.send_request(message))
                .await
                .map_err(|_| FetchError::Idle)?
            {
                Ok(response) => {
                    let response = self.read_body(response).await?;
                    if sender.ready().await.is_ok() {
                        pool.idle.lock().push(sender);
                    }
                    return Ok(response);
                }
                Err(_) if reused => {}
                Err(error) => return Err(FetchError::Http(describe(&error))),
            }
        }
    }

    /// The target is absolute only towards a proxy and for http (RFC 9112 section 3.2).
    fn message(&self, request: &Request) -> Result<http::Request<Empty<Bytes>>, FetchError> {
        let url = &request.url;
        let absolute = matches!(self.route, Route::Proxy(_)) && url.scheme() == "http";
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let origin_form = format!("{}{query}", url.path());
        let target = if absolute {
            format!("http://{}{origin_form}", authority(url))
        } else {
            origin_form
        };
        let target: Uri = target.parse().map_err(|_| FetchError::Url)?;
        let mut message = http::Request::new(Empty::new());
        *message.method_mut() = Method::GET;
        *message.uri_mut() = target;
        let host = authority(url).parse().map_err(|_| FetchError::Url)?;
        message.headers_mut().insert(header::HOST, host);
        message.headers_mut().extend(request.headers.clone());
        Ok(message)
    }

    async fn connect(&self, url: &Url) -> Result<Sender, FetchError> {
        let https = url.scheme() == "https";
        let stream = match self.route {
            Route::Proxy(proxy) => dial(proxy, "the proxy").await?,
            Route::Direct => {
                let target = (
                    url.host_str().unwrap_or_default(),
                    url.port_or_known_default().unwrap_or(80),
                );
                let stream = TcpStream::connect(target).await;
                stream.map_err(|error| FetchError::Connect("the origin".to_owned(), error))?
            }
        };
        // Interactive requests must not wait for a full segment.
        let _ = stream.set_nodelay(true);
        match (&self.route, https) {
            (_, false) => handshake(stream).await,
            (Route::Direct, true) => self.tls(stream, url).await,
            (Route::Proxy(_), true) => {
                let tunnel = open_tunnel(stream, url).await?;
                self.tls(tunnel, url).await
            }
        }
    }

    async fn tls(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        url: &Url,
    ) -> Result<Sender, FetchError> {
        let name = match url.host() {
            Some(Host::Domain(name)) => ServerName::try_from(name.to_owned()).map_err(|_| FetchError::Url)?,
            Some(Host::Ipv4(address)) => ServerName::from(std::net::IpAddr::from(address)),
            Some(Host::Ipv6(address)) => ServerName::from(std::net::IpAddr::from(address)),
            None => return Err(FetchError::Url),
        };
        let connector = TlsConnector::from(Arc::clone(&self.trust));
        let stream = connector.connect(name, stream).await.map_err(FetchError::Tls)?;
        handshake(stream).await
    }

    async fn read_body(&self, response: http::Response<Incoming>) -> Result<Response, FetchError> {
        let (head, mut incoming) = response.into_parts();
        let mut body = Vec::new();
        while let Some(frame) = timeout(IDLE, incoming.frame())
            .await
            .map_err(|_| FetchError::Idle)?
        {
            let frame = frame.map_err(|error| FetchError::Http(describe(&error)))?;
            if let Some(data) = frame.data_ref() {
                if body.len() + data.len() > MAX_BODY {
                    return Err(FetchError::TooLarge);
                }
                self.received
                    .fetch_add(u64::try_from(data.len()).unwrap_or(u64::MAX), Relaxed);
                body.extend_from_slice(data);
            }
        }
        Ok(Response {
            status: head.status,
            headers: head.headers,
            body: Bytes::from(body),
        })
    }

    fn pool(&self, url: &Url) -> Arc<HostPool> {
        let key = format!("{}://{}", url.scheme(), authority(url));
        let mut hosts = self.hosts.lock();
        let pool = hosts.entry(key).or_insert_with(|| {
            Arc::new(HostPool {
                free: Semaphore::new(PER_HOST),
                idle: Mutex::default(),
            })
        });
        Arc::clone(pool)
    }
}

impl HostPool {
    fn take_idle(&self) -> Option<Sender> {
        let mut idle = self.idle.lock();
        while let Some(sender) = idle.pop() {
            if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }
}

async fn dial(address: SocketAddr, what: &str) -> Result<TcpStream, FetchError> {
    let stream = TcpStream::connect(address).await;
    stream.map_err(|error| FetchError::Connect(format!("{what} at {address}"), error))
}

async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<Sender, FetchError> {
    let handshake = http1::Builder::new()
        .max_headers(MAX_HEADERS)
        .handshake(TokioIo::new(stream))
        .await;
    let (sender, connection) = handshake.map_err(|error| FetchError::Http(describe(&error)))?;
    tokio::spawn(connection.with_upgrades());
    Ok(sender)
}

async fn open_tunnel(
    stream: TcpStream,
    url: &Url,
) -> Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static, FetchError> {
    let port = url.port_or_known_default().unwrap_or(443);
    let authority = format!("{}:{port}", url.host_str().unwrap_or_default());
    let mut sender = handshake(stream).await?;
    let connect = http::Request::builder()
        .method(Method::CONNECT)
        .uri(&authority)
        .header(header::HOST, &authority)
        .body(Empty::new())
        .map_err(|_| FetchError::Url)?;
    let answer = sender
        .send_request(connect)
        .await
        .map_err(|error| FetchError::Http(describe(&error)))?;
    if !answer.status().is_success() {
        return Err(FetchError::Tunnel(answer.status()));
    }
    let upgraded = hyper::upgrade::on(answer).await;
    upgraded
        .map(TokioIo::new)
        .map_err(|error| FetchError::Http(describe(&error)))
}

/// Host, and port unless it is the scheme's default.
fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// hyper's message with its cause, which describes the failure.
fn describe(error: &hyper::Error) -> String {
    let cause = std::error::Error::source(error)
        .map(|cause| format!(": {cause}"))
        .unwrap_or_default();
    let what = if error.is_incomplete_message() {
        "the connection was closed before the end"
    } else {
        ""
    };
    if what.is_empty() {
        format!("{error}{cause}")
    } else {
        what.to_owned()
    }
}
