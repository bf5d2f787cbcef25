//! Gateway side of the carrier: accepts QUIC connections and opens links.
use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use longhaul_driver::{LinkAcceptor, QuicShare};
use longhaul_protocol::path::PathClass;
use longhaul_types::PublicKey;
use quinn::{
    AsyncUdpSocket, Connection, ConnectionError, Endpoint, EndpointConfig, Incoming, Runtime as _,
    ServerConfig, TokioRuntime, VarInt, crypto::rustls::QuicServerConfig,
};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};
use tracing::debug;

use super::{
    pump,
    settings::{self, GATEWAY_IDS},
    share::SharedSocket,
};
use crate::{
    BindError, Identity, KeyPin,
    limits::{Handshake, HandshakeLimits},
    upgrade::is_plausible,
};

/// Time for the handshake and the first packet: two round trips of the slowest links, with queues.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Connections that wait to be accepted, and the bytes that each and all of them may send meanwhile.
const WAITING: usize = 256;
const WAITING_BYTES: u64 = 8 * 1024;
const WAITING_BYTES_IN_ALL: u64 = 1024 * 1024;

/// What a gateway needs to accept QUIC connections on a UDP port.
pub struct QuicServer {
    config: ServerConfig,
    /// Key of stateless resets.
    reset: ring::hmac::Key,
    gateway: PublicKey,
    certificate: Option<KeyPin>,
}

impl std::fmt::Debug for QuicServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuicServer").finish_non_exhaustive()
    }
}

impl QuicServer {
    /// Only those who know `gateway`, the gateway's public key, open links.
    ///
    /// # Errors
    /// Certificate and key do not belong together.
    pub fn new(identity: Identity, gateway: PublicKey) -> Result<Self, BindError> {
        // A connection of a gateway that has restarted is reset at once, and not silent until it times out.
        let reset = blake3::derive_key("longhaul 1 quic reset", identity.key.secret_der());
        let reset = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &reset);
        let certificate = identity.pin();
        Ok(Self {
            config: server(identity)?,
            reset,
            gateway,
            certificate,
        })
    }

    /// Binds to `address`. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind(self, address: SocketAddr) -> Result<QuicListener, BindError> {
        let failed = |source| BindError::Udp { address, source };
        let socket = settings::bind(address).map_err(failed)?;
        let local = socket.local_addr().map_err(failed)?;
        let socket = TokioRuntime.wrap_udp_socket(socket).map_err(failed)?;
        self.on(local, socket).map_err(failed)
    }

    /// Uses the port of a gateway's sessions. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// The operating system does not know the address of the port.
    pub fn share(self, share: QuicShare) -> Result<QuicListener, BindError> {
        let address = SocketAddr::from(([0; 4], 0));
        let failed = |source| BindError::Udp { address, source };
        let local = share.local_addr().map_err(failed)?;
        self.on(local, Arc::new(SharedSocket::new(share))).map_err(failed)
    }

    fn on(self, local: SocketAddr, socket: Arc<dyn AsyncUdpSocket>) -> io::Result<QuicListener> {
        let config = EndpointConfig::new(Arc::new(self.reset));
        let endpoint = settings::endpoint(config, GATEWAY_IDS, Some(self.config), socket)?;
        Ok(QuicListener {
            endpoint,
            local,
            gateway: self.gateway,
            certificate: self.certificate,
        })
    }
}

/// Replaces the certificate of a QUIC port while it is in use.
#[derive(Clone, Debug)]
pub struct QuicRenewal(Endpoint);

impl QuicRenewal {
    /// New connections get this certificate.
    ///
    /// # Errors
    /// Certificate and key do not belong together; the port keeps what it has.
    pub fn renew(&self, identity: Identity) -> Result<(), BindError> {
        self.0.set_server_config(Some(server(identity)?));
        Ok(())
    }
}

/// A UDP port on which agents open links.
pub struct QuicListener {
    endpoint: Endpoint,
    local: SocketAddr,
    gateway: PublicKey,
    certificate: Option<KeyPin>,
}

impl std::fmt::Debug for QuicListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuicListener")
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}

impl QuicListener {
    /// Binds to `address`. Only those who know `gateway`, the gateway's public key, open links. Must be called in a
    /// tokio runtime.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind(address: SocketAddr, identity: Identity, gateway: PublicKey) -> Result<Self, BindError> {
        QuicServer::new(identity, gateway)?.bind(address)
    }

    /// Replaces the certificate later.
    pub fn renewal(&self) -> QuicRenewal {
        QuicRenewal(self.endpoint.clone())
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
        while let Some(incoming) = self.endpoint.accept().await {
            while connections.try_join_next().is_some() {}
            let peer = incoming.remote_address();
            let is_proved = incoming.remote_address_validated() || !incoming.may_retry();
            if !is_proved && limits.is_loaded(peer.ip()) {
                // It fails only for addresses that are proved.
                let _proved = incoming.retry();
                continue;
            }
            let Some(handshake) = limits.admit(Instant::now(), peer.ip()) else {
                debug!(%peer, "too many handshakes: the connection is refused");
                incoming.refuse();
                continue;
            };
            connections.spawn(serve(incoming, handshake, self.gateway, links.clone()));
        }
    }
}

fn server(identity: Identity) -> Result<ServerConfig, BindError> {
    let tls = identity.server_config(settings::ALPN)?;
    let crypto = QuicServerConfig::try_from(tls)
        .map_err(|error| BindError::Tls(rustls::Error::General(error.to_string())))?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config
        .transport_config(settings::transport())
        .max_incoming(WAITING)
        .incoming_buffer_size(WAITING_BYTES)
        .incoming_buffer_size_total(WAITING_BYTES_IN_ALL);
    Ok(config)
}

/// Errors of a connection that opens no link.
#[derive(Debug, thiserror::Error)]
enum NoLink {
    #[error(transparent)]
    Quic(#[from] ConnectionError),
    #[error("its first packet is no packet for this gateway")]
    Other,
}

/// Opens the connection and waits for its first packet, which only those who know the gateway's key can make.
async fn open(incoming: Incoming, gateway: &PublicKey) -> Result<(Connection, Vec<u8>), NoLink> {
    let connection = incoming.accept()?.await?;
    let first = connection.read_datagram().await?;
    if is_plausible(gateway, &first) {
        return Ok((connection, first.to_vec()));
    }
    connection.close(VarInt::from_u32(0), b"");
    Err(NoLink::Other)
}

async fn serve(incoming: Incoming, handshake: Handshake, gateway: PublicKey, links: LinkAcceptor) {
    let peer = incoming.remote_address();
    let opened = timeout(HANDSHAKE_TIME, open(incoming, &gateway)).await;
    drop(handshake);
    let (connection, first) = match opened {
        Ok(Ok(opened)) => opened,
        Ok(Err(reason)) => {
            debug!(%peer, %reason, "no link");
            return;
        }
        Err(_) => {
            debug!(%peer, "no link: the handshake takes too long");
            return;
        }
    };
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let Ok(end) = links.open(peer, PathClass::Datagram) else {
        return;
    };
    if end.input.deliver(first).await.is_err() {
        return;
    }
    if let Err(error) = pump::run(&connection, end, None).await {
        debug!(%peer, %error, "a link has ended");
    }
}
