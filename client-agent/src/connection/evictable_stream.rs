//! Observation of a connection's bytes for its [`ConnectionPermit`]: arrival of bytes, progress of the client's reads,
//! and eviction of the connection.
use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::{connection_limit::ConnectionPermit, connection_slot::InUse};
use crate::proxy_body::{BodyBroken, ProxyBody};

/// A stream with a permit.
#[derive(Debug)]
pub(crate) struct EvictableStream<T> {
    inner: T,
    permit: Arc<ConnectionPermit>,
}

impl<T> EvictableStream<T> {
    pub(super) const fn new(inner: T, permit: Arc<ConnectionPermit>) -> Self {
        Self { inner, permit }
    }

    pub(crate) const fn get_ref(&self) -> &T {
        &self.inner
    }

    /// True while a request of HTTP/1.1 is in progress.
    pub(super) fn is_answering(&self) -> bool {
        self.permit.is_answering()
    }

    /// True if the last request was a browser's.
    pub(super) fn has_browser(&self) -> bool {
        self.permit.has_browser()
    }

    fn end<R>() -> Poll<io::Result<R>> {
        Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
    }
}

impl EvictableStream<TcpStream> {
    /// Waits for the first byte, which stays unread; `None` if the connection ended without one.
    pub(crate) async fn first_byte(&self) -> Option<u8> {
        let mut byte = [0];
        let peeked = poll_fn(|cx| {
            if self.permit.is_evicted() {
                return Self::end();
            }
            let polled = self.inner.poll_peek(cx, &mut ReadBuf::new(&mut byte));
            if polled.is_pending() {
                self.permit.wake_reader(cx.waker());
                // The eviction may have happened just now.
                if self.permit.is_evicted() {
                    return Self::end();
                }
            }
            polled
        });
        let length = peeked.await.unwrap_or_default();
        (length > 0).then_some(byte[0])
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for EvictableStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.permit.is_evicted() {
            return Self::end();
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if polled.is_pending() {
            self.permit.wake_reader(cx.waker());
            // The eviction may have happened just now.
            if self.permit.is_evicted() {
                return Self::end();
            }
        } else if buffer.filled().len() > before {
            self.permit.record_input();
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for EvictableStream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.permit.record_output(written.is_pending(), cx.waker());
        if written.is_pending() && self.permit.is_evicted() {
            return Self::end();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, pieces);
        self.permit.record_output(written.is_pending(), cx.waker());
        if written.is_pending() && self.permit.is_evicted() {
            return Self::end();
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

/// Response body that keeps its connection in use until its end.
#[derive(Debug)]
pub(crate) struct InUseBody<B = ProxyBody> {
    body: B,
    _in_use: Option<InUse>,
}

impl<B> InUseBody<B> {
    pub(crate) const fn new(body: B, in_use: Option<InUse>) -> Self {
        Self {
            body,
            _in_use: in_use,
        }
    }
}

impl<B: Body<Data = Bytes, Error = BodyBroken> + Unpin> Body for InUseBody<B> {
    type Data = Bytes;
    type Error = BodyBroken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyBroken>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let is_last = self.body.is_end_stream() || self.body.size_hint().exact() == Some(0);
        if is_last || matches!(polled, Poll::Ready(None)) {
            // hyper polls a body twice in a row. If the body ends at the second poll, hyper waits for input, although its
            // buffer may contain the next request of a pipeline: the connection has to be polled again.
            cx.waker().wake_by_ref();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
