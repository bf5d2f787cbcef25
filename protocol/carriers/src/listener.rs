//! Gateway side of the carrier: accepts TLS connections and opens links.
use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use longhaul_driver::LinkAcceptor;
use longhaul_protocol::path::PathClass;
use longhaul_types::PublicKey;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_tungstenite::{WebSocketStream, tungstenite::protocol::Role};
use tracing::{debug, warn};

use crate::{
    Identity, KeyPin,
    limits::HandshakeLimits,
    pump,
    tcp::TcpOptions,
    upgrade::{self, RequestHead},
};

/// Time for the TLS handshake and the request: two round trips of the slowest links, with queues.
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Time for the 404 and the end of its connection.
const REFUSAL_TIME: Duration = Duration::from_secs(2);
/// Pause after an error of accepting, such as too many open files: the error would occur again at once.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Errors of starting to listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The port cannot be used.
    #[error("TCP address {address} cannot be used: {source}")]
    Socket {
        /// The configured address.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The UDP port of QUIC cannot be used.
    #[error("UDP address {address} cannot be used: {source}")]
    Udp {
        /// The configured address.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Certificate and key cannot be used.
    #[error("certificate and key cannot be used: {0}")]
    Tls(#[from] rustls::Error),
}

/// A TCP port on which agents open links.
pub struct TlsListener {
    listener: TcpListener,
    local: SocketAddr,
    tls: TlsAcceptor,
    gateway: PublicKey,
    certificate: Option<KeyPin>,
}

impl std::fmt::Debug for TlsListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsListener")
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}

impl TlsListener {
    /// Binds to `address`. `gateway` is the gateway's public key, from which the path of links follows.
    ///
    /// # Errors
    /// See [`BindError`].
    pub async fn bind(
        address: SocketAddr,
        identity: Identity,
        gateway: PublicKey,
    ) -> Result<Self, BindError> {
        let certificate = identity.pin();
        let config = identity.server_config(b"http/1.1")?;
        let failed = |source| BindError::Socket { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            local,
            tls: TlsAcceptor::from(Arc::new(config)),
            gateway,
            certificate,
        })
    }

    /// The key of the certificate, for agents to compare; `None` if the certificate cannot be parsed.
    pub const fn certificate(&self) -> Option<KeyPin> {
        self.certificate
    }

    /// The local address.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Opens links until the future is dropped, which ends them.
    pub async fn run(self, links: LinkAcceptor) {
        let limits = HandshakeLimits::new(Instant::now());
        // Bounded by the limits of handshakes and, after them, of the driver's links.
        let mut connections = JoinSet::new();
        loop {
            let (tcp, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "the carrier's port accepts no connection");
                    sleep(ERROR_PAUSE).await;
                    continue;
                }
            };
            while connections.try_join_next().is_some() {}
            let Some(handshake) = limits.admit(Instant::now(), peer.ip()) else {
                debug!(%peer, "too many handshakes: the connection is refused");
                continue;
            };
            let (tls, gateway, links) = (self.tls.clone(), self.gateway, links.clone());
            connections.spawn(async move {
                let options = TcpOptions::of_accepted(&tcp);
                let opened = timeout(HANDSHAKE_TIME, open(tcp, &tls, &gateway)).await;
                drop(handshake);
                match opened {
                    Ok(Ok(opened)) => serve(opened, peer, &links, options).await,
                    Ok(Err(reason)) => debug!(%peer, %reason, "no link"),
                    Err(_) => debug!(%peer, "no link: the handshake takes too long"),
                }
            });
        }
    }
}

/// A connection inside TLS.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

/// A connection whose upgrade is complete.
pub(crate) struct Opened<S> {
    pub(crate) stream: S,
    /// Bytes after the request.
    pub(crate) rest: Vec<u8>,
    /// First packet.
    pub(crate) first: Option<Vec<u8>>,
}

impl<S> std::fmt::Debug for Opened<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}

/// Errors of a connection that opens no link.
#[derive(Debug, thiserror::Error)]
enum NoLink {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("another request")]
    Other,
}

async fn open(
    tcp: TcpStream,
    tls: &TlsAcceptor,
    gateway: &PublicKey,
) -> Result<Opened<TlsStream<TcpStream>>, NoLink> {
    let mut stream = tls.accept(tcp).await?;
    let mut head = Vec::with_capacity(2048);
    loop {
        let room = upgrade::MAX_HEAD.saturating_sub(head.len());
        let read = (&mut stream).take(room as u64).read_buf(&mut head).await?;
        if read == 0 && room > 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        match upgrade::parse_request(gateway, &head) {
            RequestHead::Partial => {}
            RequestHead::Other => {
                refuse(&mut stream).await;
                return Err(NoLink::Other);
            }
            RequestHead::Link {
                length,
                response,
                first,
            } => {
                stream.write_all(response.as_bytes()).await?;
                stream.flush().await?;
                let rest = head.split_off(length);
                return Ok(Opened { stream, rest, first });
            }
        }
    }
}

/// Answers as an ordinary server without this page.
async fn refuse(stream: &mut TlsStream<TcpStream>) {
    let answer = async {
        stream.write_all(upgrade::NOT_FOUND).await?;
        stream.shutdown().await
    };
    // The client may be gone.
    let _gone = timeout(REFUSAL_TIME, answer).await;
}

/// Serves a link to its end.
pub(crate) async fn serve<S: ByteStream>(
    Opened { stream, rest, first }: Opened<S>,
    peer: SocketAddr,
    links: &LinkAcceptor,
    options: TcpOptions,
) {
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let Ok(end) = links.open(peer, PathClass::Ordered) else {
        return;
    };
    if let Some(first) = first
        && end.input.deliver(first).await.is_err()
    {
        return;
    }
    let socket = WebSocketStream::from_partially_read(stream, rest, Role::Server, Some(pump::limits())).await;
    if let Err(error) = pump::run(socket, end, options).await {
        debug!(%peer, %error, "a link has ended");
    }
}
