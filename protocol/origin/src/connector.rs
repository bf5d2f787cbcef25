//! Opening of connections: slot, TCP, TLS.
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use hickory_resolver::proto::rr::{Name, Record, RecordType};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    chains,
    client_certificate_request::{self, CertificateRequest},
    config::{OriginConfig, OriginConfigError},
    dial::Forwarding,
    dns::NoRecords,
    error::{BadUrl, FetchError, Limit, TlsDefect},
    http2_life::Http2Life,
    http11_hosts::Http11Hosts,
    owner::ConnectionOwner,
    rules::Rules,
    shares::{FairShares, Shares, Slot},
    stats::OriginStats,
    stream::{OriginStream, Socket},
    target::{Host, Scheme, Target},
    tls,
};

/// Opens connections to origins.
pub(crate) struct Connector {
    rules: ArcSwap<Rules>,
    /// Generation of the newest rules, for the pools.
    generation: Arc<AtomicU64>,
    /// Slots of the connections of fetches, idle ones included, and of tunnels.
    slots: Arc<FairShares<ConnectionOwner>>,
    slot_timeout: Duration,
    stats: Arc<OriginStats>,
    http11_hosts: Arc<Http11Hosts>,
}

/// The versions of HTTP that are offered to an `https` origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    /// HTTP/2 and HTTP/1.1; only HTTP/1.1 to hosts that require it.
    Any,
    Http11,
}

impl Connector {
    pub(crate) fn new(config: OriginConfig, stats: Arc<OriginStats>) -> Result<Self, OriginConfigError> {
        Ok(Self {
            slots: FairShares::new(Shares {
                total: config.limits.connections,
                per_owner: config.limits.connections_per_device,
                reserved: 0,
                // Equal to the waiting limit per host, so that a request never reaches this limit first.
                waiting: config.limits.waiting_per_host,
            }),
            slot_timeout: config.timeouts.connect,
            generation: Arc::default(),
            rules: ArcSwap::from_pointee(Rules::new(config, &stats)?),
            stats,
            http11_hosts: Arc::default(),
        })
    }

    /// Replaces the settings for connections that are opened from now on.
    pub(crate) fn reconfigure(&self, config: OriginConfig) -> Result<(), OriginConfigError> {
        let rules = Arc::new(self.rules.load().changed(config, &self.stats)?);
        let generation = rules.generation;
        // The rules first: a connection with the new generation must obey the new rules.
        self.rules.store(rules);
        self.generation.store(generation, Relaxed);
        Ok(())
    }

    /// The rules in force.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.rules.load_full()
    }

    /// Generation of the newest rules.
    pub(crate) fn generation(&self) -> &Arc<AtomicU64> {
        &self.generation
    }

    /// The hosts that are asked over HTTP/1.1.
    pub(crate) fn http11_hosts(&self) -> &Arc<Http11Hosts> {
        &self.http11_hosts
    }

    pub(crate) fn slots(&self) -> &Arc<FairShares<ConnectionOwner>> {
        &self.slots
    }

    /// Waits for a connection slot.
    pub(crate) async fn slot(&self, owner: ConnectionOwner) -> Result<Slot<ConnectionOwner>, FetchError> {
        let slot = self.slots.acquire_within(owner.share(), self.slot_timeout, None);
        slot.await.map_err(|_| FetchError::Overloaded(Limit::Connections))
    }

    /// Opens a TCP connection for a tunnel.
    pub(crate) async fn tcp(
        &self,
        host: &Host,
        port: u16,
        owner: ConnectionOwner,
    ) -> Result<TcpStream, FetchError> {
        self.rules().dialer.dial(host, port, owner).await
    }

    /// The addresses to which connections of a host go.
    pub(crate) async fn addresses(
        &self,
        host: &Host,
        port: u16,
        owner: ConnectionOwner,
    ) -> Result<Vec<SocketAddr>, FetchError> {
        self.rules().dialer.addresses(host, port, owner).await
    }

    /// The records of a name.
    pub(crate) async fn records(
        &self,
        name: &Name,
        kind: RecordType,
        owner: ConnectionOwner,
    ) -> Result<Vec<Record>, NoRecords> {
        self.rules().dns.records(name, kind, owner).await
    }

    /// Opens a TLS connection for a tunnel, which offers only HTTP/1.1.
    pub(crate) async fn secure(
        &self,
        host: &Host,
        port: u16,
        owner: ConnectionOwner,
    ) -> Result<TlsStream<TcpStream>, FetchError> {
        let rules = self.rules();
        dial_tls(&rules, &rules.tls.http1, (host, port), owner, |tcp| tcp).await
    }

    /// Opens a connection for fetches by these rules.
    pub(crate) async fn connect(
        &self,
        rules: &Rules,
        target: &Target,
        versions: Versions,
        owner: ConnectionOwner,
        (life, slot): (&Arc<Http2Life>, &Arc<Slot<ConnectionOwner>>),
    ) -> Result<(OriginStream, Option<Forwarding>), FetchError> {
        let (host, port) = (&target.host, target.port);
        let socket = |tcp| Socket::new(tcp, Arc::clone(&self.stats), Arc::clone(life), Arc::clone(slot));
        match target.scheme {
            Scheme::Http => {
                let (tcp, forwarding) = rules.dialer.dial_http(host, port, owner).await?;
                Ok((OriginStream::Plain(socket(tcp)), forwarding))
            }
            Scheme::Https => {
                let is_remembered = self.http11_hosts.contains(target);
                let tls = match (versions, is_remembered) {
                    (Versions::Any, false) => &rules.tls.any_version,
                    (Versions::Http11, _) | (_, true) => &rules.tls.http1,
                };
                let mut opened = dial_tls(rules, tls, (host, port), owner, socket).await;
                if is_remembered && opened.as_ref().is_err_and(is_of_versions) {
                    // The host speaks no HTTP/1.1 any more.
                    self.http11_hosts.forget(target);
                    opened = dial_tls(rules, &rules.tls.any_version, (host, port), owner, socket).await;
                }
                Ok((OriginStream::Tls(Box::new(opened?)), None))
            }
        }
    }
}

/// True if a TLS handshake may have failed because of the offered versions of HTTP.
fn is_of_versions(error: &FetchError) -> bool {
    matches!(
        error,
        FetchError::Tls(TlsDefect::Other | TlsDefect::Closed) | FetchError::Reset
    )
}

/// Opens a TLS connection. If the origin does not show all certificates of its chain, completes the chain and opens
/// another connection.
async fn dial_tls<S>(
    rules: &Rules,
    tls: &TlsConnector,
    (host, port): (&Host, u16),
    owner: ConnectionOwner,
    socket: impl Fn(TcpStream) -> S,
) -> Result<TlsStream<S>, FetchError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let tcp = rules.dialer.dial(host, port, owner).await?;
    let (connected, unverified) = chains::observe(handshake(rules, tls, host, socket(tcp))).await;
    match (connected, unverified) {
        (Err(error), Some(chain)) => {
            let dialer = (&rules.dialer, rules.timeouts().tls);
            if !rules.tls.chains.complete(&chain, dialer, owner).await {
                return Err(error);
            }
            let tcp = rules.dialer.dial(host, port, owner).await?;
            handshake(rules, tls, host, socket(tcp)).await
        }
        (connected, _) => connected,
    }
}

async fn handshake<S>(
    rules: &Rules,
    tls: &TlsConnector,
    host: &Host,
    stream: S,
) -> Result<TlsStream<S>, FetchError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let name = tls::server_name(host).ok_or(FetchError::BadUrl(BadUrl::Host))?;
    let (connected, certificate) =
        client_certificate_request::observe(timeout(rules.timeouts().tls, tls.connect(name, stream))).await;
    let connected = connected.map_err(|_| FetchError::Tls(TlsDefect::Timeout))?;
    let failed = connected.as_ref().err().map(tls::defect_of);
    match (failed, certificate) {
        // A defect of the origin's certificate takes precedence: the browser must not offer a client
        // certificate to an origin that the defect shows to be an impostor.
        (Some(Some(defect)), CertificateRequest::None) => Err(FetchError::Tls(defect)),
        (Some(Some(defect)), CertificateRequest::Received) if defect.is_of_certificate() => {
            Err(FetchError::Tls(defect))
        }
        (_, CertificateRequest::Received) => Err(FetchError::Tls(TlsDefect::ClientCertificate)),
        (_, CertificateRequest::None) => connected.map_err(|_| FetchError::Tls(TlsDefect::Closed)),
    }
}
