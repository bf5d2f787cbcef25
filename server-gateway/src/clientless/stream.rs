//! The connection of a client, with or without TLS.
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;

use super::pace::{Pace, Urgency};

/// The connection of a client.
pub(super) trait ClientStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Makes the connection end abruptly instead of cleanly.
    fn break_off(&self);

    /// How urgent is what it writes.
    fn urgency(&self) -> Arc<Urgency>;
}

/// A connection that writes at the pace of its client.
pub(super) struct PacedStream {
    stream: TcpStream,
    pace: Option<Arc<Pace>>,
    urgency: Arc<Urgency>,
    /// Bytes that may be written now.
    permitted: usize,
    /// Locked by nobody: connections are shared between threads, and a future is not.
    turn: Mutex<Option<Turn>>,
}

/// The wait for a turn.
type Turn = Pin<Box<dyn Future<Output = usize> + Send>>;

impl PacedStream {
    /// A connection without a pace writes as fast as it can.
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            pace: None,
            urgency: Arc::default(),
            permitted: 0,
            turn: Mutex::new(None),
        }
    }

    /// From now on the connection writes at this pace; `None` for as fast as it can.
    pub(super) fn set_pace(&mut self, pace: Option<Arc<Pace>>) {
        self.pace = pace;
    }

    /// The connection itself.
    pub(super) const fn tcp(&self) -> &TcpStream {
        &self.stream
    }

    /// Waits until bytes may be written, and returns their number.
    fn poll_permitted(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let Some(pace) = &self.pace else {
            return Poll::Ready(usize::MAX);
        };
        if self.permitted == 0 {
            let turn = || Box::pin(Arc::clone(pace).turn(Arc::clone(&self.urgency))) as Turn;
            let waiting = self.turn.get_mut();
            self.permitted = ready!(waiting.get_or_insert_with(turn).as_mut().poll(cx));
            *waiting = None;
        }
        Poll::Ready(self.permitted)
    }
}

impl AsyncRead for PacedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for PacedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let permitted = ready!(self.poll_permitted(cx)).min(bytes.len());
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &bytes[..permitted]))?;
        if let Some(pace) = self.pace.clone() {
            self.permitted -= written;
            self.urgency.written(written);
            if written == bytes.len() {
                // Nothing more may come for a long time.
                pace.give_back(std::mem::take(&mut self.permitted));
            }
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl ClientStream for PacedStream {
    fn break_off(&self) {
        // Fails if the client has already closed, which is harmless.
        let _gone = self.stream.set_zero_linger();
    }

    fn urgency(&self) -> Arc<Urgency> {
        Arc::clone(&self.urgency)
    }
}

impl ClientStream for TlsStream<PacedStream> {
    fn break_off(&self) {
        self.get_ref().0.break_off();
    }

    fn urgency(&self) -> Arc<Urgency> {
        self.get_ref().0.urgency()
    }
}
