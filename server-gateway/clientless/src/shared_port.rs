//! The TLS port of the proxy when agents open links on it as well (`carriers.tls`): the first request tells them apart.
//!
//! A connection is first a candidate for a link, within the limits of that carrier. It is a client of the proxy as soon as
//! it cannot be a link any more: by HTTP/2, by its first request, or because neither handshake nor request is complete in
//! time. From then on the limits of the proxy hold.
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use bytes::BytesMut;
pub(crate) use longhaul_carriers::LinkUpgrades;
use longhaul_carriers::{CANDIDATE_TIME, Candidate, FirstRequest, LinkSocket};
use longhaul_gateway_core::connections::{Connections, Standing};
use rustls::ServerConfig;
use tokio::{
    net::TcpStream,
    time::{timeout, timeout_at},
};
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::{
    access::{Peer, Security},
    certificate::HTTP2,
    connection::Arriving,
    entrance::Entrance,
    secure::{self, HANDSHAKE_TIME},
    stream::{ClientStream as _, PacedStream, SecuredStream},
};

/// The addresses and the limits of a port that is shared.
#[derive(Clone, Debug)]
pub struct SharedPort {
    /// The address that serves both settings.
    pub address: SocketAddr,
    /// Passes links on.
    pub upgrades: LinkUpgrades,
}

/// A connection to the port.
pub(super) struct Arrival {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) config: Arc<ServerConfig>,
    /// Handshakes of connections that can only be clients of the proxy.
    pub(super) handshakes: Arc<Connections>,
}

impl Arrival {
    /// Serves the connection to its end, or until it is a link.
    pub(super) async fn serve(self, candidate: Candidate, upgrades: LinkUpgrades, entrance: Arc<Entrance>) {
        let peer = SocketAddr::new(self.peer.ip().to_canonical(), self.peer.port());
        let from = (peer.ip(), entrance.standing(peer.ip()));
        let Some((mut stream, candidate)) = self.handshake(candidate, from).await else {
            return;
        };
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
        let mut buffer = BytesMut::new();
        if let Some(candidate) = candidate.filter(|_| !is_http2) {
            match upgrades.read(&candidate, &mut stream).await {
                Ok(FirstRequest::Other(read)) => buffer.extend_from_slice(&read),
                Ok(FirstRequest::Link(request)) => {
                    let socket = LinkSocket::of(&stream.get_ref().0.tcp());
                    let opened = upgrades.open((candidate, request), stream, socket, peer).await;
                    if let Err(error) = opened {
                        debug!(%peer, %error, "no link");
                    }
                    return;
                }
                Err(error) => return debug!(%peer, %error, "a connection has sent no request"),
            }
        }
        serve_client(&entrance, stream, buffer, peer.ip()).await;
    }

    /// Performs the TLS handshake. The connection stays a candidate if it is complete in time for a link.
    async fn handshake(
        self,
        candidate: Candidate,
        (address, standing): (IpAddr, Standing),
    ) -> Option<(SecuredStream, Option<Candidate>)> {
        let accepting = TlsAcceptor::from(self.config).accept(PacedStream::new(self.stream));
        tokio::pin!(accepting);
        let (accepted, candidate) = match timeout_at(candidate.until(), &mut accepting).await {
            Ok(accepted) => (accepted, Some(candidate)),
            Err(_) => {
                drop(candidate);
                let _place = self.handshakes.enter(address, standing)?;
                let left = HANDSHAKE_TIME.saturating_sub(CANDIDATE_TIME);
                let Ok(accepted) = timeout(left, accepting).await else {
                    debug!("a TLS handshake takes too long");
                    return None;
                };
                (accepted, None)
            }
        };
        match accepted {
            Ok(stream) => Some((Box::new(stream), candidate)),
            Err(error) => {
                debug!(%error, "a TLS handshake failed");
                None
            }
        }
    }
}

/// Serves a client of the proxy, of which these bytes were read.
async fn serve_client(entrance: &Entrance, mut stream: SecuredStream, buffer: BytesMut, address: IpAddr) {
    if entrance.is_silent(address) {
        return stream.break_off();
    }
    let Some(_place) = entrance.admit(stream.get_mut().0, address) else {
        return;
    };
    let _open = entrance.shared.counters.connection();
    let peer = Peer {
        address,
        security: Security::Tls,
    };
    let arriving = Arriving {
        buffer,
        interception: None,
    };
    secure::serve(Arc::clone(&entrance.shared), (stream, arriving), peer).await;
}
