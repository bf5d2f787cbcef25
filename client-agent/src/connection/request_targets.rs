//! A client's connection, whose request targets are encoded ([`TargetEncoder`]).
use std::{
    borrow::Cow,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, BytesMut};
use longhaul_http::target_encoder::TargetEncoder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A client's connection whose request targets are encoded.
pub(super) struct TargetStream<S> {
    inner: S,
    encoder: TargetEncoder,
    /// Bytes that were encoded and not read yet.
    encoded: BytesMut,
}

impl<S> TargetStream<S> {
    pub(super) fn new(inner: S) -> Self {
        Self {
            inner,
            encoder: TargetEncoder::default(),
            encoded: BytesMut::new(),
        }
    }

    pub(super) fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TargetStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.encoded.is_empty() {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut this.inner).poll_read(cx, buffer))?;
            if buffer.filled().len() == before {
                this.encoded.extend_from_slice(&this.encoder.end());
                break;
            }
            match this.encoder.read(&buffer.filled()[before..]) {
                Cow::Borrowed(_) => return Poll::Ready(Ok(())),
                Cow::Owned(encoded) => this.encoded.extend_from_slice(&encoded),
            }
            buffer.set_filled(before);
        }
        let length = this.encoded.len().min(buffer.remaining());
        buffer.put_slice(&this.encoded[..length]);
        this.encoded.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TargetStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
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
        Pin::new(&mut self.inner).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
