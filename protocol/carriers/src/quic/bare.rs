//! A link without a driver, for an agent that only asks whether the gateway answers.
use quinn::{Connection, ConnectionError, Endpoint};
use tokio::time::timeout;

use super::{pump, settings::END_TIME};
use crate::pump::PumpError;

/// A QUIC connection without a driver.
pub(crate) struct BareQuic {
    endpoint: Endpoint,
    connection: Connection,
    /// Space of the empty buffer for packets.
    empty: usize,
}

impl BareQuic {
    pub(super) fn new(endpoint: Endpoint, connection: Connection) -> Self {
        Self {
            endpoint,
            empty: connection.datagram_send_buffer_space(),
            connection,
        }
    }

    pub(crate) async fn receive(&self) -> Result<Option<Vec<u8>>, PumpError> {
        match self.connection.read_datagram().await {
            Ok(packet) => Ok(Some(packet.to_vec())),
            Err(ConnectionError::ApplicationClosed(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn send(&self, packet: &[u8]) -> Result<(), PumpError> {
        pump::send(&self.connection, packet.to_vec()).await
    }

    pub(crate) async fn close(&self) {
        pump::close(&self.connection, self.empty).await;
        let _late = timeout(END_TIME, self.endpoint.wait_idle()).await;
    }
}
