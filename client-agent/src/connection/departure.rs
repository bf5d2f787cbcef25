//! Clients that leave while their request is in progress. A client that has closed its connection and one that has only
//! closed its sending side, as scripts do, both send FIN. The request of the first is cancelled, and the second gets its
//! response.
//!
//! For a client on this machine the kernel knows which of the two it is. Another client is judged by its request: browsers
//! never close only their sending side. A wrong guess costs what the link has carried until a write to the closed
//! connection fails.
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use longhaul_tcp_info::peer::{self, Peer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep},
};

use super::evictable_stream::EvictableStream;

/// Time until the second look: a program that closes its connection sends FIN a moment before its socket is closed.
const SECOND_LOOK: Duration = Duration::from_millis(50);
/// Interval of later looks, because a client may close the rest of its connection while it waits.
const LATER_LOOKS: Duration = Duration::from_secs(1);

/// A client's connection that fails once the client has left while a request is in progress.
pub(super) struct WatchedStream {
    inner: EvictableStream<TcpStream>,
    /// Addresses of this end and of the client's; `None` if the connection has ended already.
    ends: Option<(SocketAddr, SocketAddr)>,
    state: Watch,
}

enum Watch {
    /// The client has not sent FIN.
    Connected,
    Looking(Pin<Box<dyn Future<Output = Peer> + Send>>),
    /// The client waits for the response.
    HalfClosed(Pin<Box<Sleep>>),
}

impl WatchedStream {
    pub(super) fn new(inner: EvictableStream<TcpStream>) -> Self {
        let tcp = inner.get_ref();
        Self {
            ends: tcp.local_addr().ok().zip(tcp.peer_addr().ok()),
            inner,
            state: Watch::Connected,
        }
    }

    pub(super) fn into_inner(self) -> EvictableStream<TcpStream> {
        self.inner
    }

    /// Ready once the client has left. The caller is woken by what the client sends.
    fn poll_departure(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some((local, peer)) = self.ends.filter(|_| self.inner.is_answering()) else {
            self.state = Watch::Connected;
            return Poll::Pending;
        };
        let mut interval = SECOND_LOOK;
        loop {
            self.state = match &mut self.state {
                Watch::Connected => {
                    let mut byte = [0];
                    let mut byte = ReadBuf::new(&mut byte);
                    match std::task::ready!(self.inner.get_ref().poll_peek(cx, &mut byte)) {
                        Ok(0) => Watch::Looking(Box::pin(peer::find(local, peer))),
                        // Another request, or the rest of this one.
                        Ok(_) => return Poll::Pending,
                        Err(_) => return Poll::Ready(()),
                    }
                }
                Watch::Looking(look) => match std::task::ready!(look.as_mut().poll(cx)) {
                    Peer::Closed => return Poll::Ready(()),
                    Peer::User(_) => Watch::HalfClosed(Box::pin(sleep(interval))),
                    Peer::OtherMachine | Peer::Unreported if self.inner.has_browser() => {
                        return Poll::Ready(());
                    }
                    Peer::OtherMachine | Peer::Unreported => Watch::HalfClosed(Box::pin(sleep(LATER_LOOKS))),
                },
                Watch::HalfClosed(until) => {
                    std::task::ready!(until.as_mut().poll(cx));
                    interval = LATER_LOOKS;
                    Watch::Looking(Box::pin(peer::find(local, peer)))
                }
            };
        }
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    /// The library flushes whenever it is polled, also while it waits for a response; then it does not read.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.poll_departure(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
