//! Combination of writes until a connection has no more data ready.
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use parking_lot::{Mutex, MutexGuard};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum number of bytes that are combined before they are written.
const CAPACITY: usize = 64 * 1024;

/// One end of a stream that buffers written data until [`Cork::poll_drain`].
///
/// The HTTP/1 connection flushes after every response. Its own combination of pipelined responses delays
/// finished responses as long as *part* of another request has arrived, which over a slow uplink means until
/// the last request has arrived; common servers do not do that. Here responses that are ready at the same
/// time share segments, and none waits for a request.
pub(crate) struct Cork<S>(Arc<Mutex<Corked<S>>>);

/// State of the stream for its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Open,
    /// The server has stopped reading: the reader gets an end of the stream that the peer has not sent.
    Stopped,
    /// The peer has sent the end of its stream.
    Ended,
}

struct Corked<S> {
    stream: S,
    output: BytesMut,
    reading: Reading,
    received: u64,
}

impl<S> Clone for Cork<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Cork<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self(Arc::new(Mutex::new(Corked {
            stream,
            output: BytesMut::new(),
            reading: Reading::Open,
            received: 0,
        })))
    }

    /// Gives the reader the end of the stream, so that the connection closes after its responses are sent.
    pub(crate) fn stop_reading(&self) {
        let mut corked = self.lock();
        if corked.reading == Reading::Open {
            corked.reading = Reading::Stopped;
        }
    }

    /// Returns true if the reader has received an end of the stream, simulated or real.
    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().reading != Reading::Open
    }

    /// Number of bytes read so far.
    pub(crate) fn received(&self) -> u64 {
        self.lock().received
    }

    /// Writes the buffered data to the stream.
    pub(crate) fn poll_drain(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lock().poll_drain(cx)
    }

    /// Writes the buffered data and the end of the stream.
    pub(crate) fn poll_end(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lock().poll_shutdown(cx)
    }

    /// Reads and discards data until the peer has sent the end of its stream: closing a socket with unread
    /// bytes resets the connection, and the reset overtakes responses that the peer has not read (RFC 9112
    /// section 9.6).
    pub(crate) fn poll_discard(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut corked = self.lock();
        if corked.reading == Reading::Ended {
            return Poll::Ready(Ok(()));
        }
        let mut space = [0; 2048];
        loop {
            let mut buffer = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut corked.stream).poll_read(cx, &mut buffer))?;
            if buffer.filled().is_empty() {
                corked.reading = Reading::Ended;
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Corked<S>> {
        self.0.lock()
    }
}

impl<S: AsyncWrite + Unpin> Corked<S> {
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.output))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.output.advance(written);
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.output.len() >= CAPACITY {
            ready!(self.poll_drain(cx))?;
        }
        let taken = bytes.len().min(CAPACITY - self.output.len());
        let (taken, _) = bytes.split_at(taken);
        self.output.extend_from_slice(taken);
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Cork<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut corked = self.lock();
        if corked.reading != Reading::Open || buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut corked.stream).poll_read(cx, buffer))?;
        let read = buffer.filled().len().saturating_sub(before);
        if read == 0 {
            corked.reading = Reading::Ended;
        }
        corked.received += read as u64;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Cork<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.lock().poll_write(cx, bytes)
    }

    /// Empty: the owner drains the buffer after it has polled the connection.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lock().poll_shutdown(cx)
    }
}
