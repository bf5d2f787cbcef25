//! The connection of a client, with or without TLS.
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;

use super::pace::{Link, Pace, Urgency};

#[cfg(test)]
mod tests;

/// The connection of a client.
pub(super) trait ClientStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Makes the connection end abruptly instead of cleanly.
    fn break_off(&self);

    /// Bytes, about, that its client has not acknowledged; 0 if the system does not tell.
    fn pending(&self) -> u64;

    /// How urgent is what it writes.
    fn urgency(&self) -> Arc<Urgency>;
}

/// A connection after its TLS handshake. Its state is large, and is handed on several times.
pub(super) type SecuredStream = Box<TlsStream<PacedStream>>;

/// A connection that writes at the pace of its client.
pub(super) struct PacedStream {
    link: Arc<Link>,
    pace: Option<Arc<Pace>>,
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
            link: Arc::new(Link::new(stream)),
            pace: None,
            permitted: 0,
            turn: Mutex::new(None),
        }
    }

    /// From now on the connection writes at this pace; `None` for as fast as it can.
    pub(super) fn set_pace(&mut self, pace: Option<Arc<Pace>>) {
        self.pace = pace;
    }

    /// The connection itself. It must not be held for long: others look at it.
    pub(super) fn tcp(&self) -> MutexGuard<'_, TcpStream> {
        self.link.tcp()
    }

    /// What its pace knows of it.
    pub(super) const fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Waits until bytes may be written, and returns their number: all of them, or those of a turn.
    fn poll_permitted(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let Some(pace) = &self.pace else {
            return Poll::Ready(usize::MAX);
        };
        pace.look();
        if self.permitted == 0 {
            let waiting = self.turn.get_mut();
            if waiting.is_none() && pace.is_free() {
                return Poll::Ready(usize::MAX);
            }
            let turn = || Box::pin(Arc::clone(pace).turn(Arc::clone(&self.link.urgency))) as Turn;
            self.permitted = ready!(waiting.get_or_insert_with(turn).as_mut().poll(cx));
            *waiting = None;
        }
        Poll::Ready(self.permitted)
    }
}

impl Drop for PacedStream {
    fn drop(&mut self) {
        if let Some(pace) = &self.pace {
            pace.give_back(self.permitted);
        }
    }
}

impl AsyncRead for PacedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.link.tcp()).poll_read(cx, buffer)
    }
}

impl AsyncWrite for PacedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let permitted = ready!(self.poll_permitted(cx)).min(bytes.len());
        let written = ready!(Pin::new(&mut *self.link.tcp()).poll_write(cx, &bytes[..permitted]))?;
        self.link.count(written);
        if self.permitted > 0
            && let Some(pace) = self.pace.clone()
        {
            self.permitted -= written;
            pace.written(written);
            if written == bytes.len() {
                // Nothing more may come for a long time.
                pace.give_back(std::mem::take(&mut self.permitted));
            }
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.link.tcp()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.link.tcp()).poll_shutdown(cx)
    }
}

impl ClientStream for PacedStream {
    fn break_off(&self) {
        // Fails if the client has already closed, which is harmless.
        let _gone = self.link.tcp().set_zero_linger();
    }

    fn pending(&self) -> u64 {
        let told = longhaul_tcp_info::tcp_info(&*self.link.tcp());
        told.map_or(0, |told| told.unsent_bytes.saturating_add(told.flight_bytes))
    }

    fn urgency(&self) -> Arc<Urgency> {
        Arc::clone(&self.link.urgency)
    }
}

impl ClientStream for TlsStream<PacedStream> {
    fn break_off(&self) {
        self.get_ref().0.break_off();
    }

    fn pending(&self) -> u64 {
        self.get_ref().0.pending()
    }

    fn urgency(&self) -> Arc<Urgency> {
        self.get_ref().0.urgency()
    }
}

impl<S: ClientStream> ClientStream for Box<S> {
    fn break_off(&self) {
        (**self).break_off();
    }

    fn pending(&self) -> u64 {
        (**self).pending()
    }

    fn urgency(&self) -> Arc<Urgency> {
        (**self).urgency()
    }
}
