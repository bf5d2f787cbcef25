//! The packets of a link over an open QUIC connection, in both directions.
use std::time::Duration;

use longhaul_driver::{LinkEnd, LinkInput, LinkOutput};
use quinn::{Connection, ConnectionError, SendDatagramError, VarInt};
use tokio::time::{sleep, timeout};
use tracing::trace;

use crate::pump::PumpError;

/// Time for the last packets, such as CLOSE, before the connection ends.
const LAST: Duration = Duration::from_millis(200);
const POLL: Duration = Duration::from_millis(1);

/// Carries packets until either end closes the link; `first` was taken from the driver already.
pub(super) async fn run(
    connection: &Connection,
    end: LinkEnd,
    first: Option<Vec<u8>>,
) -> Result<(), PumpError> {
    let LinkEnd { output, input } = end;
    let empty = connection.datagram_send_buffer_space();
    // Reading continues while writing waits for the socket.
    let result = tokio::select! {
        result = write(connection, output, &input, first) => result,
        result = read(connection, &input) => result,
    };
    close(connection, empty).await;
    result
}

async fn write(
    connection: &Connection,
    mut output: LinkOutput,
    input: &LinkInput,
    first: Option<Vec<u8>>,
) -> Result<(), PumpError> {
    let mut size = 0;
    tell_size(connection, input, &mut size);
    if let Some(first) = first {
        let length = first.len();
        send(connection, first.clone()).await?;
        output.written(length);
        // The INIT was repeated while the connection was being opened: once is enough.
        while let Some(packet) = output.next_now() {
            let length = packet.len();
            if packet != first {
                send(connection, packet).await?;
            }
            output.written(length);
        }
    }
    while let Some(packet) = output.next().await {
        tell_size(connection, input, &mut size);
        let length = packet.len();
        send(connection, packet).await?;
        output.written(length);
    }
    Ok(())
}

/// Informs the driver of a change of the largest packet.
fn tell_size(connection: &Connection, input: &LinkInput, known: &mut usize) {
    if let Some(size) = connection.max_datagram_size()
        && size != *known
    {
        *known = size;
        input.set_payload(size);
    }
}

/// Sends a packet. One that was built before the connection's packets became smaller is lost.
pub(super) async fn send(connection: &Connection, packet: Vec<u8>) -> Result<(), PumpError> {
    let length = packet.len();
    match connection.send_datagram_wait(packet.into()).await {
        Ok(()) => Ok(()),
        Err(SendDatagramError::TooLarge) => {
            trace!(length, "a packet does not fit the connection any more");
            Ok(())
        }
        Err(SendDatagramError::UnsupportedByPeer | SendDatagramError::Disabled) => {
            Err(PumpError::NoDatagrams)
        }
        Err(SendDatagramError::ConnectionLost(error)) => Err(error.into()),
    }
}

async fn read(connection: &Connection, input: &LinkInput) -> Result<(), PumpError> {
    let mut size = 0;
    loop {
        match connection.read_datagram().await {
            Ok(packet) => {
                // Acknowledgements have arrived: a search for a larger size may have ended.
                tell_size(connection, input, &mut size);
                input.deliver(packet.to_vec()).await?;
            }
            Err(ConnectionError::ApplicationClosed(_) | ConnectionError::LocallyClosed) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Ends a connection when its last packets are sent: when its buffer has as much space as when it was `empty`.
pub(super) async fn close(connection: &Connection, empty: usize) {
    let sent = async {
        while connection.datagram_send_buffer_space() < empty {
            sleep(POLL).await;
        }
    };
    let _late = timeout(LAST, sent).await;
    connection.close(VarInt::from_u32(0), b"");
}
