//! Opening of connections: slot, TCP, TLS.
use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    asked::{self, Certificate},
    config::{OriginConfig, OriginConfigError},
    dial::Dialer,
    error::{BadUrl, FetchError, Limit, TlsDefect},
    owner::ConnectionOwner,
    shares::{FairShares, Place, Shares},
    stats::OriginStats,
    stream::{OriginStream, Socket},
    target::{Host, Scheme, Target},
    tls,
};

/// Opens connections to origins.
pub(crate) struct Connector {
    dialer: Dialer,
    /// Slots of the connections of fetches, idle ones included, and of tunnels.
    places: Arc<FairShares<ConnectionOwner>>,
    place_timeout: Duration,
    tls: TlsConnector,
    /// Offers only HTTP/1.1.
    tls_http1: TlsConnector,
    tls_timeout: Duration,
    stats: Arc<OriginStats>,
}

impl Connector {
    pub(crate) fn new(config: &OriginConfig, stats: Arc<OriginStats>) -> Result<Self, OriginConfigError> {
        let both = tls::client_config(&config.extra_ca, &config.deny_keys)?;
        let mut http1 = both.clone();
        http1.alpn_protocols = vec![b"http/1.1".to_vec()];
        let [tls, tls_http1] = [both, http1].map(|config| TlsConnector::from(Arc::new(config)));
        Ok(Self {
            dialer: Dialer::new(config, Arc::clone(&stats)),
            places: FairShares::new(Shares {
                total: config.limits.connections,
                per_owner: config.limits.connections_per_device,
                reserved: 0,
                // Equal to the waiting limit per host, so that a request never reaches this limit first.
                waiting: config.limits.waiting_per_host,
            }),
            place_timeout: config.timeouts.connect,
            tls,
            tls_http1,
            tls_timeout: config.timeouts.tls,
            stats,
        })
    }

    pub(crate) fn places(&self) -> &Arc<FairShares<ConnectionOwner>> {
        &self.places
    }

    /// Waits for a connection slot.
    pub(crate) async fn place(&self, owner: ConnectionOwner) -> Result<Place<ConnectionOwner>, FetchError> {
        let place = self.places.acquire_within(owner, self.place_timeout, None);
        place
            .await
            .map_err(|_| FetchError::Overloaded(Limit::Connections))
    }

    /// Opens a TCP connection for a tunnel.
    pub(crate) async fn tcp(
        &self,
        host: &Host,
        port: u16,
        owner: ConnectionOwner,
    ) -> Result<TcpStream, FetchError> {
        self.dialer.dial(host, port, owner).await
    }

    /// Starts TLS on a tunnel's connection.
    pub(crate) async fn secure(
        &self,
        host: &Host,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, FetchError> {
        self.greet(&self.tls_http1, host, stream).await
    }

    /// Opens a connection for fetches.
    pub(crate) async fn connect(
        &self,
        target: &Target,
        owner: ConnectionOwner,
        place: Arc<Place<ConnectionOwner>>,
    ) -> Result<OriginStream, FetchError> {
        let tcp = self.dialer.dial(&target.host, target.port, owner).await?;
        let socket = Socket::new(tcp, Arc::clone(&self.stats), place);
        match target.scheme {
            Scheme::Http => Ok(OriginStream::Plain(socket)),
            Scheme::Https => {
                let stream = self.greet(&self.tls, &target.host, socket).await?;
                Ok(OriginStream::Tls(Box::new(stream)))
            }
        }
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
            // A defect of the origin's certificate takes precedence: the browser must not offer a client
            // certificate to an origin that the defect shows to be an impostor.
            (Some(Some(defect)), Certificate::NotAsked) => Err(FetchError::Tls(defect)),
            (Some(Some(defect)), Certificate::Asked) if defect.is_of_certificate() => {
                Err(FetchError::Tls(defect))
            }
            (_, Certificate::Asked) => Err(FetchError::Tls(TlsDefect::ClientCertificate)),
            (_, Certificate::NotAsked) => greeted.map_err(|_| FetchError::Reset),
        }
    }
}
