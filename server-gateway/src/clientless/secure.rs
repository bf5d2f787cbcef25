//! The port with TLS: a secure web proxy with HTTP/2 or HTTP/1.1.
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use rustls::ServerConfig;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::{
    Clientless,
    access::Peer,
    certificate::{Certificate, HTTP2},
    connection,
    connections::{Connections, Place},
    http2,
    listen::{ClientlessError, Port},
};
use crate::config::ClientlessConfig;

/// Time for the TLS handshake: some round trips of the slowest links, and some kilobytes of certificates.
const HANDSHAKE_TIME: Duration = Duration::from_secs(60);
/// Bytes that the TLS layer buffers for a client that does not read. What it has can no longer be overtaken.
const TLS_BUFFER: usize = 32 * 1024;
/// Part of a second whose bytes may wait in the kernel's buffer, for the same reason.
const UNSENT_PART: u64 = 10;
const LEAST_UNSENT: u64 = 16 * 1024;
/// The same for an unknown link: 100 ms at 10 Mbit/s.
const USUAL_UNSENT: u64 = 128 * 1024;

/// The open port.
#[derive(Debug)]
pub(super) struct SecurePort {
    port: Port,
    certificate: Certificate,
    handshakes: Arc<Connections>,
    unsent: u32,
}

/// A connection whose handshake has not begun.
pub(super) struct Handshake {
    stream: TcpStream,
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
        let unsent = config.link.map_or(USUAL_UNSENT, |link| {
            let bytes = link.down.as_bps() / u64::from(u8::BITS) / UNSENT_PART;
            bytes.clamp(LEAST_UNSENT, USUAL_UNSENT)
        });
        Ok(Some(Self {
            port,
            certificate,
            handshakes: Connections::in_handshake(),
            unsent: u32::try_from(unsent).unwrap_or(u32::MAX),
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
    pub(super) fn handshake(&self, stream: TcpStream, address: IpAddr) -> Option<Handshake> {
        let place = self.handshakes.enter(address)?;
        limit_unsent(&stream, self.unsent);
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
            connection::serve(shared, stream, peer).await;
        }
    }
}

/// Limits the bytes in the kernel's buffer that are not sent yet (TCP_NOTSENT_LOWAT). A refusal only costs delay.
#[cfg(target_os = "linux")]
fn limit_unsent(connection: &TcpStream, bytes: u32) {
    let _refused = socket2::SockRef::from(connection).set_tcp_notsent_lowat(bytes);
}

/// Does nothing: there is no such limit.
#[cfg(not(target_os = "linux"))]
const fn limit_unsent(_: &TcpStream, _: u32) {}
