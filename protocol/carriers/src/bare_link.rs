//! A link without a driver, for an agent that only asks whether the gateway answers.
use std::{collections::VecDeque, fmt};

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};

use crate::{
    framing,
    pump::{self, PumpError},
    quic::BareQuic,
};

/// An open link. Dropping it ends the connection; [`BareLink::close`] sends what waits.
pub struct BareLink(Kind);

enum Kind {
    Tls(Box<BareTls>),
    Quic(BareQuic),
}

/// A WebSocket, and packets that arrived in one message.
struct BareTls {
    socket: WebSocketStream<TlsStream<TcpStream>>,
    arrived: VecDeque<Vec<u8>>,
}

impl fmt::Debug for BareLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BareLink").finish_non_exhaustive()
    }
}

impl BareLink {
    /// A link over an open WebSocket; `rest` follows the response to the upgrade.
    pub(crate) async fn open(stream: TlsStream<TcpStream>, rest: Vec<u8>) -> Self {
        let limits = Some(pump::limits());
        Self(Kind::Tls(Box::new(BareTls {
            socket: WebSocketStream::from_partially_read(stream, rest, Role::Client, limits).await,
            arrived: VecDeque::new(),
        })))
    }

    /// A link over an open QUIC connection.
    pub(crate) const fn of_quic(link: BareQuic) -> Self {
        Self(Kind::Quic(link))
    }

    /// Returns the next packet; `None` at the end of the link.
    ///
    /// # Errors
    /// The connection failed, or the peer violates the protocol.
    pub async fn receive(&mut self) -> Result<Option<Vec<u8>>, PumpError> {
        match &mut self.0 {
            Kind::Tls(link) => link.receive().await,
            Kind::Quic(link) => link.receive().await,
        }
    }

    /// Sends a packet.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn send(&mut self, packet: &[u8]) -> Result<(), PumpError> {
        match &mut self.0 {
            Kind::Tls(link) => link.send(packet).await,
            Kind::Quic(link) => link.send(packet).await,
        }
    }

    /// Sends what waits and ends the link.
    pub async fn close(self) {
        match self.0 {
            // What was sent is with the operating system.
            Kind::Tls(_) => {}
            Kind::Quic(link) => link.close().await,
        }
    }
}

impl BareTls {
    async fn receive(&mut self) -> Result<Option<Vec<u8>>, PumpError> {
        loop {
            if let Some(packet) = self.arrived.pop_front() {
                return Ok(Some(packet));
            }
            match self.socket.next().await.transpose()? {
                Some(Message::Binary(bytes)) => {
                    for packet in framing::packets(&bytes) {
                        self.arrived.push_back(packet?.to_vec());
                    }
                }
                Some(Message::Close(_)) | None => return Ok(None),
                Some(Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
            }
        }
    }

    async fn send(&mut self, packet: &[u8]) -> Result<(), PumpError> {
        let mut message = Vec::with_capacity(packet.len() + 2);
        framing::append(&mut message, packet);
        Ok(self.socket.send(Message::Binary(message.into())).await?)
    }
}
