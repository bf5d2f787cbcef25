//! TLS handshake with a client, which accepts or rejects the agent's certificate.
use std::{io, io::Cursor, sync::Arc, time::Duration};

use bytes::BytesMut;
use longhaul_types::Pii;
use rustls::{AlertDescription, ServerConfig, ServerConnection};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, join, split},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::requested_url::Host;
use crate::https::{BypassReason, Https, ProgramId};

/// Timeout of the TLS handshake for a browser on the same machine.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time after which a connection without a request counts as one that the browser keeps open for later.
const FIRST_REQUEST_TIME: Duration = Duration::from_secs(5);

/// The program of a connection.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) id: ProgramId,
    pub(super) name: Option<String>,
}

impl Peer {
    pub(super) fn bypass(&self, https: &Https, host: &Host, why: BypassReason) {
        https.bypass_for((&host.name, self.id), self.name.clone(), why);
    }
}

/// A client that has accepted the agent's certificate.
pub(super) struct AcceptedClient<S> {
    pub(super) stream: S,
    pub(super) is_h2: bool,
    /// True if its first request has begun.
    pub(super) has_begun: bool,
}

/// Performs the TLS handshake with a client and waits for its first byte of HTTP. If the client does not
/// accept the agent's certificate, the host is bypassed for its program, whose next connection is then a tunnel.
pub(super) async fn handshake_with<S>(
    https: &Https,
    (host, peer): (&Host, &Peer),
    config: Arc<ServerConfig>,
    browser: S,
) -> Option<AcceptedClient<impl AsyncRead + AsyncWrite + Unpin + Send + 'static>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = https.begin_handshake(&host.name, peer.id);
    let accepted = timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(config).accept(browser));
    let rejection = match accepted.await {
        Ok(Ok(mut stream)) => {
            let mut first = BytesMut::new();
            match timeout(FIRST_REQUEST_TIME, stream.read_buf(&mut first)).await {
                Ok(Ok(0)) => Rejection::ByClose,
                // The connection ends, and the client opens another one, which is a tunnel.
                Ok(Ok(_)) | Err(_) if !https.has_authority() => Rejection::No,
                Ok(Err(error)) => Rejection::of(&error),
                // A client that keeps the connection open for later has accepted the certificate as well.
                Ok(Ok(_)) | Err(_) => {
                    if let Some(handshake) = handshake {
                        handshake.accepted();
                    }
                    https.accepted(&host.name, peer.id);
                    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    let (reader, writer) = split(stream);
                    return Some(AcceptedClient {
                        is_h2,
                        has_begun: !first.is_empty(),
                        stream: join(Cursor::new(first).chain(reader), writer),
                    });
                }
            }
        }
        Ok(Err(error)) => {
            debug!(host = ?Pii(&host.name), %error, "a TLS handshake with a client failed");
            Rejection::of(&error)
        }
        // The client may have asked its user.
        Err(_) => Rejection::ByClose,
    };
    match (rejection, handshake) {
        (Rejection::ByAlert, _) => peer.bypass(https, host, BypassReason::RefusedByClient),
        (Rejection::ByClose, Some(handshake)) => {
            if handshake.was_rejection().await {
                peer.bypass(https, host, BypassReason::LeftByClient);
            }
        }
        (Rejection::ByClose, None) | (Rejection::No, _) => {}
    }
    None
}

/// Form in which a client that ends the connection rejects the agent's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rejection {
    /// By a TLS alert.
    ByAlert,
    /// By closing the connection, which may have other reasons.
    ByClose,
    /// The client does not reject the certificate.
    No,
}

impl Rejection {
    fn of(error: &io::Error) -> Self {
        let inner = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner {
            // RFC 8446 section 6.1: the client cancels for a reason unrelated to TLS.
            Some(rustls::Error::AlertReceived(AlertDescription::UserCanceled)) => Self::No,
            // The end of the connection, in a polite form.
            Some(rustls::Error::AlertReceived(AlertDescription::CloseNotify)) | None => Self::ByClose,
            // Every other alert counts as rejection of the certificate: few clients send the specific one. An error
            // that ends the handshake on this side counts as well: the client would cause it again.
            Some(_) => Self::ByAlert,
        }
    }
}

/// Returns the error with which the agent would answer the first bytes of a connection, a ClientHello: no common
/// version, algorithm or protocol, or a violation of the protocol. Nothing is sent.
pub(super) fn incompatibility(config: &Arc<ServerConfig>, mut bytes: &[u8]) -> Option<rustls::Error> {
    let mut tls = ServerConnection::new(Arc::clone(config)).ok()?;
    // Reading from memory ends early only if the connection takes no more bytes.
    while !bytes.is_empty() && tls.read_tls(&mut bytes).is_ok_and(|count| count > 0) {
        if let Err(error) = tls.process_new_packets() {
            return Some(error);
        }
    }
    None
}
