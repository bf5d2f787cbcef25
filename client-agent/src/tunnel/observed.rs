//! A client's connection that shows when the first bytes of its host arrive.
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::holdout::Visit;

/// The connection of a tunnel's client. The first bytes that are written to it are the host's.
pub(super) struct Observed<C> {
    client: C,
    /// Until the first bytes.
    visit: Option<Visit>,
}

impl<C> Observed<C> {
    pub(super) const fn new(client: C, visit: Option<Visit>) -> Self {
        Self { client, visit }
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Observed<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.client).poll_read(cx, buf)
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Observed<C> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(visit) = self.visit.take() {
            visit.arrived();
        }
        Pin::new(&mut self.client).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.client).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.client).poll_shutdown(cx)
    }
}
