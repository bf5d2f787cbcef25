//! A connection that notes when it was last used.
use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use longhaul_gateway_core::tunnel_rules::Activity;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection that notes each transfer of bytes.
pub(super) struct Watched<S> {
    stream: S,
    activity: Arc<Activity>,
}

impl<S> Watched<S> {
    pub(super) const fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity }
    }

    fn note(&self, written: &io::Result<usize>) {
        if matches!(written, Ok(1..)) {
            self.activity.note();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buffer));
        if buffer.filled().len() > before {
            self.activity.note();
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        self.note(&written);
        Poll::Ready(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices));
        self.note(&written);
        Poll::Ready(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, BufStream, DuplexStream, duplex},
        time::{Instant, advance},
    };

    use super::*;

    const IDLE: Duration = Duration::from_secs(10);

    /// Returns the seconds from the start after which the connection is idle, if `event` happens after five seconds.
    async fn idle_after(event: impl AsyncFnOnce(&mut Watched<DuplexStream>, DuplexStream)) -> u64 {
        let start = Instant::now();
        let activity = Arc::new(Activity::begin());
        let (stream, other) = duplex(64);
        let mut watched = Watched::new(stream, Arc::clone(&activity));
        advance(IDLE / 2).await;
        event(&mut watched, other).await;
        activity.idle(IDLE).await;
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn only_bytes_are_activity() {
        let read = idle_after(async |watched, mut other| {
            other.write_all(b"hello").await.unwrap();
            assert_eq!(watched.read(&mut [0; 64]).await.unwrap(), 5);
        });
        assert_eq!(read.await, 15);
        let ended = idle_after(async |watched, other| {
            drop(other);
            assert_eq!(watched.read(&mut [0; 64]).await.unwrap(), 0);
        });
        assert_eq!(ended.await, 10);
        let written = idle_after(async |watched, mut other| {
            watched.write_all(b"hello").await.unwrap();
            let mut text = [0; 5];
            other.read_exact(&mut text).await.unwrap();
            assert_eq!(&text, b"hello");
        });
        assert_eq!(written.await, 15);
        let vectored = idle_after(async |watched, _other| {
            let slices = [IoSlice::new(b"hello"), IoSlice::new(b", world")];
            assert!(watched.write_vectored(&slices).await.unwrap() >= 5);
        });
        assert_eq!(vectored.await, 15);
        let failed = idle_after(async |watched, other| {
            drop(other);
            assert!(watched.write(b"hello").await.is_err());
        });
        assert_eq!(failed.await, 10);
    }

    #[tokio::test]
    async fn what_is_flushed_arrives_and_an_end_is_passed_on() {
        let (stream, mut other) = duplex(64);
        let mut watched = Watched::new(BufStream::new(stream), Arc::new(Activity::begin()));
        watched.write_all(b"hello").await.unwrap();
        watched.flush().await.unwrap();
        let mut text = [0; 5];
        other.read_exact(&mut text).await.unwrap();
        watched.shutdown().await.unwrap();
        assert_eq!(other.read(&mut text).await.unwrap(), 0);
    }
}
