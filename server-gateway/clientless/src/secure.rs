//! The port with TLS: a secure web proxy with HTTP/2 or HTTP/1.1.
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use longhaul_carriers::PemIdentity;
use longhaul_gateway_core::{
    config::ClientlessConfig,
    connections::{Connections, Place, Standing},
};
use rustls::ServerConfig;
use tokio::{net::TcpStream, sync::watch, time::timeout};
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::{
    Clientless,
    access::Peer,
    certificate::{Certificate, HTTP2},
    connection::{self, Arriving},
    entrance::Entrance,
    http2,
    listen::{ClientlessError, Port},
    shared_port::{Arrival, LinkUpgrades, SharedPort},
    stream::{PacedStream, SecuredStream},
};

/// Time for the TLS handshake: some round trips of the slowest links, and some kilobytes of certificates.
pub(super) const HANDSHAKE_TIME: Duration = Duration::from_secs(60);
/// Bytes that the TLS layer buffers for a client that does not read. What it has can no longer be overtaken.
const TLS_BUFFER: usize = 32 * 1024;
/// The open port.
#[derive(Debug)]
pub(super) struct SecurePort {
    port: Port,
    certificate: Certificate,
    handshakes: Arc<Connections>,
    /// Set if agents open links on the port, too.
    shared: Option<LinkUpgrades>,
}

/// A connection whose handshake has not begun.
pub(super) struct Handshake {
    stream: PacedStream,
    config: Arc<ServerConfig>,
    place: Place,
}

impl SecurePort {
    /// Opens the port, if it is configured.
    ///
    /// # Errors
    /// See [`ClientlessError`].
    pub(super) async fn open(
        config: &ClientlessConfig,
        shared: Option<SharedPort>,
    ) -> Result<Option<Self>, ClientlessError> {
        if config.tls.is_none() {
            return Ok(None);
        }
        let certificate = Certificate::new(config)?;
        let address = shared.as_ref().map(|shared| shared.address).or(config.tls);
        let Some(port) = Port::open("clientless.tls", address).await? else {
            return Ok(None);
        };
        Ok(Some(Self {
            port,
            certificate,
            handshakes: Connections::in_handshake(),
            shared: shared.map(|shared| shared.upgrades),
        }))
    }

    pub(super) const fn local_addr(&self) -> SocketAddr {
        self.port.local_addr()
    }

    pub(super) const fn port(&self) -> &Port {
        &self.port
    }

    /// Reads the certificate again when it changes, as long as the future exists.
    pub(super) async fn look(&self) {
        self.certificate.look().await;
    }

    /// The certificate, and its changes.
    pub(super) fn watch_certificate(&self) -> watch::Receiver<PemIdentity> {
        self.certificate.watch()
    }

    /// Prepares a connection to a port on which agents open links, too. Returns its service; `None` if there are too many.
    pub(super) fn arrival(
        &self,
        upgrades: &LinkUpgrades,
        (stream, peer): (TcpStream, SocketAddr),
        entrance: &Arc<Entrance>,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        let Some(candidate) = upgrades.admit(peer.ip()) else {
            debug!(%peer, "too many handshakes: the connection is refused");
            return None;
        };
        let arrival = Arrival {
            stream,
            peer,
            config: self.certificate.config(),
            handshakes: Arc::clone(&self.handshakes),
        };
        Some(arrival.serve(candidate, upgrades.clone(), Arc::clone(entrance)))
    }

    /// Set if agents open links on the port, too.
    pub(super) const fn shared(&self) -> Option<&LinkUpgrades> {
        self.shared.as_ref()
    }

    /// Prepares the handshake of a connection; `None` if there are too many.
    pub(super) fn handshake(
        &self,
        stream: PacedStream,
        (address, standing): (IpAddr, Standing),
    ) -> Option<Handshake> {
        let place = self.handshakes.enter(address, standing)?;
        Some(Handshake {
            stream,
            config: self.certificate.config(),
            place,
        })
    }
}

impl Handshake {
    /// Performs the handshake, and serves the connection to its end.
    pub(super) async fn serve(self, shared: Arc<Clientless>, peer: Peer) {
        let accepting = TlsAcceptor::from(self.config).accept(self.stream);
        let stream = match timeout(HANDSHAKE_TIME, accepting).await {
            Ok(Ok(stream)) => Box::new(stream),
            Ok(Err(error)) => return debug!(%error, "a TLS handshake failed"),
            Err(_) => return debug!("a TLS handshake takes too long"),
        };
        drop(self.place);
        serve(shared, (stream, Arriving::default()), peer).await;
    }
}

/// Serves a connection after its handshake. With HTTP/2 nothing was read of it.
pub(super) async fn serve(
    shared: Arc<Clientless>,
    (mut stream, arriving): (SecuredStream, Arriving),
    peer: Peer,
) {
    let tls = stream.get_mut().1;
    tls.set_buffer_limit(Some(TLS_BUFFER));
    if tls.alpn_protocol() == Some(HTTP2) {
        Box::pin(http2::serve(shared, stream, peer)).await;
    } else {
        Box::pin(connection::serve(shared, (stream, arriving), peer)).await;
    }
}
