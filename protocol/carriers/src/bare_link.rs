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
};

/// An open link. Dropping it ends the connection.
pub struct BareLink {
    socket: WebSocketStream<TlsStream<TcpStream>>,
    /// Packets that arrived in one message.
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
        Self {
            socket: WebSocketStream::from_partially_read(stream, rest, Role::Client, limits).await,
            arrived: VecDeque::new(),
        }
    }

    /// Returns the next packet; `None` at the end of the link.
    ///
    /// # Errors
    /// The connection failed, or the peer violates the protocol.
    pub async fn receive(&mut self) -> Result<Option<Vec<u8>>, PumpError> {
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

    /// Sends a packet.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn send(&mut self, packet: &[u8]) -> Result<(), PumpError> {
        let mut message = Vec::with_capacity(packet.len() + 2);
        framing::append(&mut message, packet);
        Ok(self.socket.send(Message::Binary(message.into())).await?)
    }
}
