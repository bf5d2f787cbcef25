//! Writes gathered until a connection has nothing more to say for now.
use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes gathered before they are handed to the kernel anyway.
const CAPACITY: usize = 64 * 1024;

/// One end of a stream that keeps what is written until [`Cork::poll_drain`].
///
/// The HTTP/1 connection flushes after every response. Its own way to gather pipelined responses holds finished ones
/// back for as long as *part* of another request has arrived, which over a slow uplink is until the last request is
/// there; a server of the field does not do that. Here responses that are ready at the same time share segments, and
/// none waits for a request.
pub(crate) struct Cork<S>(Arc<Mutex<Corked<S>>>);

/// What the stream's reader is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Open,
    /// The server has stopped reading: the reader is shown an end that the peer has not sent.
    Stopped,
    /// The peer has sent its end.
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

    /// Shows the reader the end of the stream, so that the connection closes when its responses are sent.
    pub(crate) fn stop_reading(&self) {
        let mut corked = self.lock();
        if corked.reading == Reading::Open {
            corked.reading = Reading::Stopped;
        }
    }

    /// Whether the reader has been shown, or has seen, the end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().reading != Reading::Open
    }

    /// Bytes read so far.
    pub(crate) fn received(&self) -> u64 {
        self.lock().received
    }

    /// Hands what was gathered to the stream.
    pub(crate) fn poll_drain(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lock().poll_drain(cx)
    }

    /// Sends what was gathered and the end of the stream.
    pub(crate) fn poll_end(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lock().poll_shutdown(cx)
    }

    /// Reads and forgets until the peer has sent its end: closing a socket with unread bytes resets the connection,
    /// and the reset overtakes responses that the peer has not read (RFC 9112 section 9.6).
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Nothing to do: the owner drains when the connection has had its turn.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lock().poll_shutdown(cx)
    }
}
