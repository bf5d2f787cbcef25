//! The port with TLS: a secure web proxy with HTTP/2 or HTTP/1.1.
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use rustls::ServerConfig;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::{
    Clientless,
    access::Peer,
    certificate::{Certificate, HTTP2},
    connection::{self, Arriving},
    connections::{Connections, Place},
    http2,
    listen::{ClientlessError, Port},
    stream::PacedStream,
};
use crate::config::ClientlessConfig;

/// Time for the TLS handshake: some round trips of the slowest links, and some kilobytes of certificates.
const HANDSHAKE_TIME: Duration = Duration::from_secs(60);
/// Bytes that the TLS layer buffers for a client that does not read. What it has can no longer be overtaken.
const TLS_BUFFER: usize = 32 * 1024;
/// The open port.
#[derive(Debug)]
pub(super) struct SecurePort {
    port: Port,
    certificate: Certificate,
    handshakes: Arc<Connections>,
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
    pub(super) async fn open(config: &ClientlessConfig) -> Result<Option<Self>, ClientlessError> {
        if config.tls.is_none() {
            return Ok(None);
        }
        let certificate = Certificate::new(config)?;
        let Some(port) = Port::open("tls", config.tls).await? else {
            return Ok(None);
        };
        Ok(Some(Self {
            port,
            certificate,
            handshakes: Connections::in_handshake(),
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

    /// Prepares the handshake of a connection; `None` if there are too many.
    pub(super) fn handshake(&self, stream: PacedStream, address: IpAddr) -> Option<Handshake> {
        let place = self.handshakes.enter(address)?;
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
        let mut stream = match timeout(HANDSHAKE_TIME, accepting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return debug!(%error, "a TLS handshake failed"),
            Err(_) => return debug!("a TLS handshake takes too long"),
        };
        drop(self.place);
        let tls = stream.get_mut().1;
        tls.set_buffer_limit(Some(TLS_BUFFER));
        if tls.alpn_protocol() == Some(HTTP2) {
            http2::serve(shared, stream, peer).await;
        } else {
            connection::serve(shared, (stream, Arriving::default()), peer).await;
        }
    }
}
