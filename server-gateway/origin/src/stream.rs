//! A connection to an origin as the HTTP client sees it.
use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::OwnedSemaphorePermit,
};
use tokio_rustls::client::TlsStream;

use crate::{gate::LiveH2, stats::OriginStats};

/// How often a connection was used. Travels with the connection's metadata, so that a failure on a connection of the
/// pool can be told from one on a new connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionUse(Arc<AtomicU64>);

impl ConnectionUse {
    /// Notes that the origin answered on this connection.
    pub(crate) fn answered(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Whether the origin has answered on this connection before.
    pub(crate) fn is_reused(&self) -> bool {
        self.0.load(Relaxed) > 0
    }
}

/// A TCP socket that counts what passes, and holds its place among all connections.
pub(crate) struct Socket {
    tcp: TcpStream,
    stats: Arc<OriginStats>,
    _place: OwnedSemaphorePermit,
}

impl Socket {
    pub(crate) fn new(tcp: TcpStream, stats: Arc<OriginStats>, place: OwnedSemaphorePermit) -> Self {
        Self {
            tcp,
            stats,
            _place: place,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.tcp).poll_read(cx, buf);
        self.stats.received(buf.filled().len() - before);
        polled
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.tcp).poll_write(cx, buf);
        self.count_sent(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs);
        self.count_sent(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

impl Socket {
    fn count_sent(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(sent)) = polled {
            self.stats.sent(*sent);
        }
    }
}

/// A connection to an origin, with or without TLS.
pub(crate) struct OriginStream {
    layer: Layer,
    uses: ConnectionUse,
    live_h2: Option<LiveH2>,
}

enum Layer {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl OriginStream {
    pub(crate) fn plain(socket: Socket) -> Self {
        Self {
            layer: Layer::Plain(socket),
            uses: ConnectionUse::default(),
            live_h2: None,
        }
    }

    /// `live_h2` is there when HTTP/2 was negotiated.
    pub(crate) fn tls(stream: TlsStream<Socket>, live_h2: Option<LiveH2>) -> Self {
        Self {
            layer: Layer::Tls(Box::new(stream)),
            uses: ConnectionUse::default(),
            live_h2,
        }
    }
}

impl Connection for OriginStream {
    fn connected(&self) -> Connected {
        let connected = Connected::new().extra(self.uses.clone());
        if self.live_h2.is_some() {
            connected.negotiated_h2()
        } else {
            connected
        }
    }
}

impl AsyncRead for OriginStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.layer {
            Layer::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Layer::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for OriginStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.layer {
            Layer::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Layer::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.layer {
            Layer::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Layer::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.layer {
            Layer::Plain(socket) => socket.is_write_vectored(),
            Layer::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.layer {
            Layer::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Layer::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.layer {
            Layer::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Layer::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
