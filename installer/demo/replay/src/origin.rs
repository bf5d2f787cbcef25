//! The local origin: one HTTP server that answers for every host of a recording, and for hosts that the caller adds.
use std::{
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use url::Url;

use crate::{
    connections::serve_connections,
    page::{Expectation, Oracle, decode},
    tls::{TestAuthority, TlsError},
    warc::Recording,
};

/// Maximum number of concurrent connections. The gateway opens six per host, and recorded pages have up to 40
/// hosts.
const MAX_CONNECTIONS: usize = 1024;
/// Maximum number of header lines of a request.
const MAX_HEADERS: usize = 256;

/// A host with responses that are not recorded.
pub trait VirtualHost: std::fmt::Debug + Send + Sync {
    /// The host's name.
    fn name(&self) -> &str;

    /// Answers a request for `path`.
    fn answer(
        &self,
        method: &Method,
        path: &str,
        if_none_match: Option<&HeaderValue>,
    ) -> Response<Full<Bytes>>;

    /// Returns the response that a first `GET` of `path` must bring.
    fn expect(&self, path: &str) -> Expectation;
}

/// Content of the local origin.
#[derive(Debug)]
pub struct Content {
    hosts: Vec<Box<dyn VirtualHost>>,
    recording: Option<Recording>,
}

/// Errors of starting the origin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OriginError {
    /// No port is available.
    #[error("cannot listen on this machine: {0}")]
    Listen(#[from] io::Error),
    /// The certificates cannot be created.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A running origin; dropping it stops the origin.
#[derive(Debug)]
pub struct Origin {
    http: SocketAddr,
    https: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Content {
    /// The responses of a recording, if there is one.
    pub fn new(recording: Option<Recording>) -> Self {
        Self {
            hosts: Vec::new(),
            recording,
        }
    }

    /// Adds a host, which takes precedence over the recording.
    #[must_use]
    pub fn with_host(mut self, host: impl VirtualHost + 'static) -> Self {
        self.hosts.push(Box::new(host));
        self
    }

    fn host(&self, url: &Url) -> Option<&dyn VirtualHost> {
        let host = self.hosts.iter().find(|host| url.host_str() == Some(host.name()));
        host.map(AsRef::as_ref)
    }

    /// The recording.
    pub fn recording(&self) -> Option<&Recording> {
        self.recording.as_ref()
    }

    fn answer(
        &self,
        method: &Method,
        url: &Url,
        if_none_match: Option<&HeaderValue>,
    ) -> Response<Full<Bytes>> {
        if let Some(host) = self.host(url) {
            return host.answer(method, url.path(), if_none_match);
        }
        let exchange = self
            .recording
            .as_ref()
            .and_then(|recording| recording.answer(method, url));
        let Some(exchange) = exchange else {
            return empty(StatusCode::NOT_FOUND);
        };
        let mut response = Response::new(Full::new(exchange.response.body.clone()));
        *response.status_mut() = exchange.response.status;
        *response.headers_mut() = exchange.response.headers.clone();
        response
    }
}

impl Oracle for Content {
    fn expect(&self, url: &Url) -> Expectation {
        if let Some(host) = self.host(url) {
            return host.expect(url.path());
        }
        let Some(recording) = &self.recording else {
            return Expectation::Unknown;
        };
        let Some(exchange) = recording.answer(&Method::GET, url) else {
            return Expectation::Missing;
        };
        let encodings = exchange.response.headers.get_all(header::CONTENT_ENCODING).iter();
        let encodings: Vec<_> = encodings.filter_map(|value| value.to_str().ok()).collect();
        // A body that is damaged in the recording cannot be compared.
        let body = decode(&encodings.join(","), &exchange.response.body).ok();
        Expectation::Answer {
            status: exchange.response.status,
            body: body.map(Bytes::from),
        }
    }
}

impl Origin {
    /// Serves `content` over http and https on two ports of the loopback interface.
    ///
    /// # Errors
    /// No port is available, or the certificates cannot be created.
    pub async fn start(content: Arc<Content>, authority: &TestAuthority) -> Result<Self, OriginError> {
        let http = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let https = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let mut origin = Self {
            http: http.local_addr()?,
            https: https.local_addr()?,
            _tasks: JoinSet::new(),
        };
        let acceptor = TlsAcceptor::from(authority.server()?);
        origin._tasks.spawn(accept(http, Arc::clone(&content), None));
        origin._tasks.spawn(accept(https, content, Some(acceptor)));
        Ok(origin)
    }

    /// Address of the http server.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// Address of the https server.
    pub fn https(&self) -> SocketAddr {
        self.https
    }
}

async fn accept(listener: TcpListener, content: Arc<Content>, tls: Option<TlsAcceptor>) {
    serve_connections(listener, MAX_CONNECTIONS, |stream| {
        let (content, tls) = (Arc::clone(&content), tls.clone());
        async move {
            serve_connection(stream, content, tls).await;
        }
    })
    .await;
}

async fn serve_connection(stream: TcpStream, content: Arc<Content>, tls: Option<TlsAcceptor>) {
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve(stream, content, "http").await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                serve(stream, content, "https").await;
            }
        }
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, content: Arc<Content>, scheme: &'static str) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(&content, &request, scheme);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut server = http1::Builder::new();
    server
        .max_headers(MAX_HEADERS)
        .timer(hyper_util::rt::TokioTimer::new());
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection of the local origin failed");
    }
}

fn respond(content: &Content, request: &Request<Incoming>, scheme: &str) -> Response<Full<Bytes>> {
    let host = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let host = request
        .uri()
        .authority()
        .map(http::uri::Authority::as_str)
        .or(host)
        .unwrap_or_default();
    let target = request
        .uri()
        .path_and_query()
        .map_or("/", http::uri::PathAndQuery::as_str);
    let Ok(url) = Url::parse(&format!("{scheme}://{host}{target}")) else {
        return empty(StatusCode::BAD_REQUEST);
    };
    content.answer(
        request.method(),
        &url,
        request.headers().get(header::IF_NONE_MATCH),
    )
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
