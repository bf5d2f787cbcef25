//! UDP ASSOCIATE (RFC 1928 section 7): a UDP port of this computer for the datagrams of one client.
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use bytes::Bytes;
use longhaul_session::datagram::{DatagramHost, UdpDatagram};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UdpSocket},
    time::Instant,
};
use tracing::debug;

use super::{
    datagrams::{decode_datagram, encode_datagram},
    messages::{Destination, Reply, associated_message},
    reply,
    sender::Sender,
};
use crate::{
    connection::{ConnectionScope, EvictableStream},
    counters::Counters,
    gateway::{AssociateError, Association, RequiredSessionState, SendError},
    handles::Handles,
    pages::Failure,
    upstream::Upstream,
};

/// Size of the buffer for datagrams of the client: more than fits the parts of one. A datagram that fills it is longer,
/// perhaps.
const BUFFER: usize = 12 * 1024;

/// An association whose client has not been told yet.
pub(super) struct Prepared {
    socket: UdpSocket,
    sender: Sender,
    association: Association,
}

/// Opens the association and the port. The destination of the request is the address from which the client will send, if
/// it knows its port.
pub(super) async fn prepare(
    stream: &TcpStream,
    handles: &Handles,
    scope: &ConnectionScope,
    announced: &Destination,
) -> Result<Prepared, Reply> {
    let port = match announced {
        Destination::Host(_, port) => Some(*port),
        Destination::Invalid(_) => None,
        Destination::UnknownKind => return Err(Reply::AddressNotSupported),
    };
    let ends = (stream.local_addr(), stream.peer_addr());
    let (Ok(local), Ok(peer)) = ends else {
        return Err(Reply::Failed);
    };
    let started = Instant::now();
    let association = tokio::select! {
        biased;
        opened = associate(&handles.upstream) => opened.map_err(|error| {
            debug!(%error, "an association failed");
            code_of(error)
        })?,
        () = handles.upstream.gateway.until_unavailable(started) => return Err(Reply::NetworkUnreachable),
    };
    // Where the client reached the agent, it can send datagrams to it, too.
    let socket = UdpSocket::bind((local.ip().to_canonical(), 0))
        .await
        .map_err(|error| {
            debug!(%error, "no port for datagrams");
            Reply::Failed
        })?;
    handles.counters.tunnels.increment();
    Ok(Prepared {
        socket,
        sender: Sender::new(peer.ip().to_canonical(), port, scope.client().user()),
        association,
    })
}

/// Opens an association in the next session that is open.
async fn associate(upstream: &Upstream) -> Result<Association, AssociateError> {
    let _waiting = upstream.gateway.demand();
    loop {
        let (session, _) = upstream
            .gateway
            .wait_for_session(RequiredSessionState::Open)
            .await;
        match session.associate().await {
            Err(AssociateError::Session(SendError::Lost(reason))) => {
                debug!(%reason, "an association was not opened; the next session may open it");
                // The state of the session follows.
                tokio::task::yield_now().await;
            }
            opened => return opened,
        }
    }
}

fn code_of(error: AssociateError) -> Reply {
    match error {
        AssociateError::Unsupported => Reply::CommandNotSupported,
        AssociateError::Refused { reason, detail } => reply::of(&Failure::Gateway { reason, detail }),
        AssociateError::Session(_) => Reply::Failed,
    }
}

impl Prepared {
    /// Tells the client, and relays its datagrams until its connection ends.
    pub(super) async fn run(
        mut self,
        mut stream: EvictableStream<TcpStream>,
        handles: &Handles,
        scope: &Arc<ConnectionScope>,
    ) {
        let Ok(relay) = self.socket.local_addr() else {
            return;
        };
        if stream.write_all(&associated_message(relay)).await.is_err() {
            return;
        }
        scope.become_tunnel(true);
        let relayed = self.relay(&handles.upstream, &handles.counters);
        tokio::select! {
            () = relayed => {}
            () = ends(stream) => {}
        }
        debug!("association ended");
    }

    /// Relays for ever: if the session is lost, in an association of the next one.
    async fn relay(&mut self, upstream: &Upstream, counters: &Counters) {
        let mut buffer = vec![0; BUFFER];
        loop {
            let ended = self.relay_in_session(&mut buffer, counters).await;
            debug_assert!(ended.is_none());
            // Meanwhile, the system drops what its buffer does not hold.
            match associate(upstream).await {
                Ok(association) => self.association = association,
                Err(error) => return debug!(%error, "an association was not opened again"),
            }
        }
    }

    /// Relays until the association ends.
    async fn relay_in_session(&mut self, buffer: &mut [u8], counters: &Counters) -> Option<()> {
        loop {
            tokio::select! {
                received = self.socket.recv_from(buffer) => {
                    if let Ok((length, from)) = received {
                        self.on_client_datagram(from, buffer.get(..length)?, counters).await;
                    }
                }
                datagram = self.association.receive() => self.to_client(&datagram?, counters),
            }
        }
    }

    async fn on_client_datagram(&mut self, from: SocketAddr, bytes: &[u8], counters: &Counters) {
        if bytes.len() >= BUFFER || !self.sender.is(from).await {
            return;
        }
        match decode_datagram(Bytes::copy_from_slice(bytes)) {
            Ok(datagram) => {
                counters.tunnel_bytes.add(datagram.payload.len() as u64);
                self.association.send(&datagram);
            }
            Err(error) => debug!(%error, "a datagram was dropped"),
        }
    }

    fn to_client(&self, datagram: &UdpDatagram, counters: &Counters) {
        let (Some(client), DatagramHost::Address(ip)) = (self.sender.known(), &datagram.host) else {
            return;
        };
        counters.tunnel_bytes.add(datagram.payload.len() as u64);
        let from = SocketAddr::new(IpAddr::to_canonical(ip), datagram.port);
        // A full buffer loses datagrams, as any network.
        let _lost = self
            .socket
            .try_send_to(&encode_datagram(from, &datagram.payload), client);
    }
}

/// Waits for the end of the client's connection, on which nothing more is expected.
async fn ends(mut stream: EvictableStream<TcpStream>) {
    let mut ignored = [0; 512];
    while stream.read(&mut ignored).await.is_ok_and(|count| count > 0) {}
}
