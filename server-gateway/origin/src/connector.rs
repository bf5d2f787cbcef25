//! Opens connections for the pool: a place, TCP, TLS.
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tower_service::Service;

use crate::{
    asked::{self, Certificate},
    config::{OriginConfig, OriginConfigError},
    dial::Dialer,
    error::{BadUrl, FetchError, TlsDefect},
    gate::Gates,
    stats::OriginStats,
    stream::{OriginStream, Socket},
    target::{Host, Scheme, Target},
    tls,
};

/// Opens connections to origins.
#[derive(Clone)]
pub(crate) struct Connector(Arc<Inner>);

struct Inner {
    dialer: Arc<Dialer>,
    gates: Arc<Gates>,
    places: Arc<Semaphore>,
    place_timeout: Duration,
    tls: TlsConnector,
    /// The same for HTTP/1.1 alone.
    tls_http1: TlsConnector,
    tls_timeout: Duration,
    stats: Arc<OriginStats>,
}

impl Connector {
    pub(crate) fn new(
        config: &OriginConfig,
        dialer: Arc<Dialer>,
        gates: Arc<Gates>,
        stats: Arc<OriginStats>,
    ) -> Result<Self, OriginConfigError> {
        let both = tls::client_config(&config.extra_ca, &config.deny_keys)?;
        let mut http1 = both.clone();
        http1.alpn_protocols = vec![b"http/1.1".to_vec()];
        let [tls, tls_http1] = [both, http1].map(|config| TlsConnector::from(Arc::new(config)));
        Ok(Self(Arc::new(Inner {
            dialer,
            gates,
            places: Arc::new(Semaphore::new(config.limits.connections)),
            place_timeout: config.timeouts.connect,
            tls,
            tls_http1,
            tls_timeout: config.timeouts.tls,
            stats,
        })))
    }
}

impl Connector {
    /// TLS over a connection that is a tunnel's.
    pub(crate) async fn secure(
        &self,
        host: &Host,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, FetchError> {
        let inner = &*self.0;
        inner.greet(&inner.tls_http1, host, stream).await
    }
}

impl Inner {
    async fn connect(&self, uri: &Uri) -> Result<OriginStream, FetchError> {
        let target = Target::of(uri)?;
        let place = timeout(self.place_timeout, Arc::clone(&self.places).acquire_owned())
            .await
            .map_err(|_| FetchError::Overloaded)?
            .map_err(|_| FetchError::Cancelled)?;
        let tcp = self.dialer.dial(&target.host, target.port).await?;
        let socket = Socket::new(tcp, Arc::clone(&self.stats), place);
        match target.scheme {
            Scheme::Http => Ok(OriginStream::plain(socket)),
            Scheme::Https => self.handshake(&target, socket).await,
        }
    }

    async fn handshake(&self, target: &Target, socket: Socket) -> Result<OriginStream, FetchError> {
        let stream = self.greet(&self.tls, &target.host, socket).await?;
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(OriginStream::tls(
            stream,
            is_h2.then(|| self.gates.h2_opened(target)),
        ))
    }

    async fn greet<S>(&self, tls: &TlsConnector, host: &Host, stream: S) -> Result<TlsStream<S>, FetchError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = tls::server_name(host).ok_or(FetchError::BadUrl(BadUrl::Host))?;
        let (greeted, certificate) = asked::noted(timeout(self.tls_timeout, tls.connect(name, stream))).await;
        let greeted = greeted.map_err(|_| FetchError::Tls(TlsDefect::Timeout))?;
        let failed = greeted.as_ref().err().map(tls::defect_of);
        match (failed, certificate) {
            // What is wrong with the origin's own certificate comes first: nothing is given to whom it shows to be another.
            (Some(Some(defect)), Certificate::NotAsked) => Err(FetchError::Tls(defect)),
            (Some(Some(defect)), Certificate::Asked) if defect.is_of_certificate() => {
                Err(FetchError::Tls(defect))
            }
            (_, Certificate::Asked) => Err(FetchError::Tls(TlsDefect::ClientCertificate)),
            (_, Certificate::NotAsked) => greeted.map_err(|_| FetchError::Reset),
        }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<OriginStream>;
    type Error = FetchError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, FetchError>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), FetchError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.connect(&uri).await.map(TokioIo::new) })
    }
}
