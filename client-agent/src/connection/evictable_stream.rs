//! Observation of a connection's bytes for its [`Place`]: arrival of bytes, progress of the client's reads,
//! and eviction of the connection.
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection_limit::{InUse, Place};
use crate::proxy_body::{BodyBroken, ProxyBody};

/// A stream with a place.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    inner: T,
    place: Arc<Place>,
}

impl<T> Watched<T> {
    pub(super) const fn new(inner: T, place: Arc<Place>) -> Self {
        Self { inner, place }
    }

    pub(super) const fn get_ref(&self) -> &T {
        &self.inner
    }

    fn end<R>() -> Poll<io::Result<R>> {
        Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.place.is_evicted() {
            return Self::end();
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if polled.is_pending() {
            self.place.wake_reader(cx.waker());
            // The eviction may have happened just now.
            if self.place.is_evicted() {
                return Self::end();
            }
        } else if buffer.filled().len() > before {
            self.place.came();
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.place.went(written.is_pending(), cx.waker());
        if written.is_pending() && self.place.is_evicted() {
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
        self.place.went(written.is_pending(), cx.waker());
        if written.is_pending() && self.place.is_evicted() {
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
pub(crate) struct LastingBody {
    body: ProxyBody,
    _in_use: Option<InUse>,
}

impl LastingBody {
    pub(crate) const fn new(body: ProxyBody, in_use: Option<InUse>) -> Self {
        Self {
            body,
            _in_use: in_use,
        }
    }
}

impl Body for LastingBody {
    type Data = Bytes;
    type Error = BodyBroken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyBroken>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
