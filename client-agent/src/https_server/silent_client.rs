//! A tunnel whose client has not sent any byte: if the host sends first, the protocol is not TLS; if the
//! client sends first, it was only slow.
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The connection of a silent client.
#[derive(Debug)]
pub(super) struct SilentClient<S, F> {
    stream: S,
    /// Called if the host sends first; `None` once either side has sent bytes.
    host_first: Option<F>,
}

impl<S, F> SilentClient<S, F> {
    pub(super) const fn new(stream: S, host_first: Option<F>) -> Self {
        Self { stream, host_first }
    }
}

impl<S: AsyncRead + Unpin, F: Unpin> AsyncRead for SilentClient<S, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        // The end of the client's data counts as well: such a client does not wait for the server.
        if read.is_ready() {
            self.host_first = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin, F: FnOnce() + Unpin> AsyncWrite for SilentClient<S, F> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(host_first) = self.host_first.take() {
            host_first();
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn only_server_first_hosts_are_noted() {
        for client_first in [true, false] {
            let is_noted = AtomicBool::new(false);
            let (mut client, ours) = duplex(64);
            let mut quiet = SilentClient::new(ours, Some(|| is_noted.store(true, Ordering::Relaxed)));
            if client_first {
                client.write_all(b"hello").await.unwrap();
                quiet.read_u8().await.unwrap();
            }
            quiet.write_all(b"220 ready").await.unwrap();
            client.write_all(b"hello").await.unwrap();
            quiet.read_u8().await.unwrap();
            assert_eq!(is_noted.into_inner(), !client_first);
        }
    }
}
