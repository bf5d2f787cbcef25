//! The packets of a link over an open WebSocket, in both directions.
use std::time::Duration;

use futures_util::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use longhaul_driver::{LinkEnd, LinkInput, LinkOutput, LinkUnused};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::sleep,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{self, Message, protocol::WebSocketConfig},
};

use crate::{
    framing::{self, FramingError, MAX_MESSAGE},
    tcp::TcpOptions,
};

/// Errors that end a link.
#[derive(Debug, thiserror::Error)]
pub enum PumpError {
    /// The connection failed, or the peer violates RFC 6455.
    #[error(transparent)]
    Socket(#[from] tungstenite::Error),
    /// The peer violates section 8.2.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// The QUIC connection failed.
    #[error(transparent)]
    Quic(#[from] quinn::ConnectionError),
    /// The peer of the QUIC connection takes no datagrams.
    #[error("the peer takes no QUIC datagrams")]
    NoDatagrams,
    /// The driver has ended.
    #[error(transparent)]
    Unused(#[from] LinkUnused),
}

/// What the operating system can take for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux tells"))]
pub(crate) enum Room {
    /// It does not tell.
    Unknown,
    /// So many bytes, which it sends soon.
    Bytes(usize),
    /// Nothing before about this time.
    After(Duration),
}

/// Limits of received messages: a peer cannot make this end store more.
pub(crate) fn limits() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
}

/// Carries packets until either end closes the link.
pub(crate) async fn run<S: AsyncRead + AsyncWrite + Unpin>(
    socket: WebSocketStream<S>,
    end: LinkEnd,
    options: TcpOptions,
) -> Result<(), PumpError> {
    let (sink, stream) = socket.split();
    let LinkEnd { output, input } = end;
    // Reading continues while writing waits: otherwise two ends that write would wait for each other.
    tokio::select! {
        result = write(sink, output, options) => result,
        result = read(stream, &input) => result,
    }
}

async fn write<S: AsyncRead + AsyncWrite + Unpin>(
    mut sink: SplitSink<WebSocketStream<S>, Message>,
    mut output: LinkOutput,
    mut options: TcpOptions,
) -> Result<(), PumpError> {
    let mut next = output.next().await;
    while let Some(packet) = next.take() {
        let mut message = Vec::with_capacity(packet.len() + 2);
        framing::append(&mut message, &packet);
        let mut bytes = packet.len();
        while let Some(packet) = output.next_now() {
            if !framing::has_room(&message, packet.len()) {
                next = Some(packet);
                break;
            }
            framing::append(&mut message, &packet);
            bytes += packet.len();
        }
        options.before_write(output.sufficient());
        sink.send(Message::Binary(message.into())).await?;
        let mut room = options.after_write(bytes);
        while let Room::After(time) = room {
            // The driver keeps what it has: more urgent packets may come, and the waiting would look like a queue of the link.
            output.set_useful(0);
            sleep(time).await;
            room = options.room();
        }
        if let Room::Bytes(useful) = room {
            output.set_useful(useful);
        }
        output.written(bytes);
        if next.is_none() {
            next = output.next().await;
        }
    }
    sink.close().await?;
    Ok(())
}

async fn read<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: SplitStream<WebSocketStream<S>>,
    input: &LinkInput,
) -> Result<(), PumpError> {
    while let Some(message) = stream.next().await {
        match message? {
            Message::Binary(bytes) => {
                for packet in framing::packets(&bytes) {
                    input.deliver(packet?.to_vec()).await?;
                }
            }
            Message::Close(_) => return Ok(()),
            // Nothing of this protocol; the WebSocket layer answers pings.
            Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }
    Ok(())
}
