//! Relay of a tunnel's bytes.
use std::{
    future::Future,
    io,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use longhaul_driver::{ERROR_ABANDONED, SendStream};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split},
    time::timeout,
};

use super::open::HostStream;
use crate::{counters::Counters, gateway::ResponseStream};

/// Lifetime of a tunnel after one direction has ended, without a byte in the other one.
const HALF_CLOSED: Duration = Duration::from_secs(300);
/// Size of a read: one TLS record.
pub(super) const BUFFER: usize = 16 * 1024;

/// Relays bytes in both directions until both have ended. A direction whose receiver takes nothing more does not end the
/// other one: what its source has sent still arrives. A source that fails ends both.
pub(super) async fn relay<B: AsyncRead + AsyncWrite>(
    browser: B,
    up: SendStream,
    down: ResponseStream,
    counters: &Counters,
) -> io::Result<()> {
    let (reader, writer) = split(browser);
    let carried = Carried::new(|bytes| counters.tunnel_bytes.add(bytes as u64));
    let up = relay_up(reader, up, &carried);
    let down = relay_down(down, writer, &carried);
    both(&carried, up, down).await
}

/// Counts the bytes of both directions.
struct Carried<F> {
    total: AtomicU64,
    count: F,
}

impl<F: Fn(usize)> Carried<F> {
    const fn new(count: F) -> Self {
        let total = AtomicU64::new(0);
        Self { total, count }
    }

    fn add(&self, bytes: usize) {
        self.total.fetch_add(bytes as u64, Relaxed);
        (self.count)(bytes);
    }

    /// Runs the direction that is left, until it ends or carries nothing for too long.
    async fn rest(&self, left: impl Future<Output = io::Result<()>>) -> io::Result<()> {
        tokio::pin!(left);
        loop {
            let before = self.total.load(Relaxed);
            match timeout(HALF_CLOSED, &mut left).await {
                Ok(ended) => return ended,
                Err(_) if self.total.load(Relaxed) != before => {}
                Err(silent) => return Err(silent.into()),
            }
        }
    }
}

/// Runs both directions until both have ended, or one has failed.
async fn both<F: Fn(usize)>(
    carried: &Carried<F>,
    up: impl Future<Output = io::Result<()>>,
    down: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    tokio::pin!(up, down);
    tokio::select! {
        ended = &mut up => {
            ended?;
            carried.rest(down).await
        }
        ended = &mut down => {
            ended?;
            carried.rest(up).await
        }
    }
}

async fn relay_up<B: AsyncRead + AsyncWrite>(
    mut browser: ReadHalf<B>,
    mut up: SendStream,
    carried: &Carried<impl Fn(usize)>,
) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(BUFFER);
        match browser.read_buf(&mut buffer).await {
            Ok(0) => return up.finish().await.map_err(io::Error::other),
            Ok(_) => {}
            Err(error) => {
                // What the browser sent before crosses the hop first.
                let _gone = up.break_off(ERROR_ABANDONED).await;
                return Err(error);
            }
        }
        let bytes = buffer.split().freeze();
        carried.add(bytes.len());
        if up.write(bytes).await.is_err() {
            return Ok(());
        }
    }
}

async fn relay_down<B: AsyncRead + AsyncWrite>(
    mut down: ResponseStream,
    mut browser: WriteHalf<B>,
    carried: &Carried<impl Fn(usize)>,
) -> io::Result<()> {
    while let Some(bytes) = down.read().await.map_err(io::Error::other)? {
        let bytes: Bytes = bytes;
        carried.add(bytes.len());
        if browser.write_all(&bytes).await.is_err() {
            return Ok(());
        }
    }
    // Fails if the browser is gone, which ends only this direction.
    let _gone = browser.shutdown().await;
    Ok(())
}

/// Relays bytes between two connections of this computer, by the rules of [`relay`].
pub(crate) async fn relay_local<A, B>(one: A, other: B, count: impl Fn(usize)) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let ((one_read, one_write), (other_read, other_write)) = (split(one), split(other));
    let carried = Carried::new(count);
    let up = copy(one_read, other_write, &carried);
    let down = copy(other_read, one_write, &carried);
    both(&carried, up, down).await
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    carried: &Carried<impl Fn(usize)>,
) -> io::Result<()> {
    let mut buffer = BytesMut::with_capacity(BUFFER);
    while from.read_buf(&mut buffer).await? > 0 {
        carried.add(buffer.len());
        // TLS buffers data until a flush.
        if to.write_all(&buffer).await.is_err() || to.flush().await.is_err() {
            return Ok(());
        }
        buffer.clear();
    }
    // Fails if the receiver is gone, which ends only this direction.
    let _gone = to.shutdown().await;
    Ok(())
}

pub(super) async fn relay_direct<B: AsyncRead + AsyncWrite>(
    browser: B,
    first: &[u8],
    mut host: Box<dyn HostStream>,
    counters: &Counters,
) -> io::Result<()> {
    // A host that takes nothing may have sent something.
    let _gone = host.write_all(first).await;
    relay_local(browser, host, |bytes| counters.tunnel_bytes.add(bytes as u64)).await
}
