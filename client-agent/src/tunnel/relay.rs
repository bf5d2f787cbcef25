//! Relay of a tunnel's bytes.
use std::{io, time::Duration};

use bytes::{Bytes, BytesMut};
use longhaul_driver::SendStream;
use tokio::{
    io::{
        AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, copy_bidirectional, split,
    },
    time::timeout,
};

use super::open::HostStream;
use crate::{counters::Counters, gateway::ResponseStream};

/// Lifetime of a tunnel after one direction has ended.
const HALF_CLOSED: Duration = Duration::from_secs(300);
/// Size of a read: one TLS record.
pub(super) const BUFFER: usize = 16 * 1024;

/// Relays bytes in both directions until both have ended. An error in one direction ends both.
pub(super) async fn relay<B: AsyncRead + AsyncWrite>(
    browser: B,
    up: SendStream,
    down: ResponseStream,
    counters: &Counters,
) -> io::Result<()> {
    let (reader, writer) = split(browser);
    let up = relay_up(reader, up, counters);
    let down = relay_down(down, writer, counters);
    tokio::pin!(up, down);
    let rest = tokio::select! {
        ended = &mut up => {
            ended?;
            timeout(HALF_CLOSED, down).await
        }
        ended = &mut down => {
            ended?;
            timeout(HALF_CLOSED, up).await
        }
    };
    rest.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

async fn relay_up<B: AsyncRead + AsyncWrite>(
    mut browser: ReadHalf<B>,
    mut up: SendStream,
    counters: &Counters,
) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(BUFFER);
        if browser.read_buf(&mut buffer).await? == 0 {
            return up.finish().await.map_err(io::Error::other);
        }
        let bytes = buffer.split().freeze();
        counters.tunnel_bytes.add(bytes.len() as u64);
        up.write(bytes).await.map_err(io::Error::other)?;
    }
}

async fn relay_down<B: AsyncRead + AsyncWrite>(
    mut down: ResponseStream,
    mut browser: WriteHalf<B>,
    counters: &Counters,
) -> io::Result<()> {
    while let Some(bytes) = down.read().await.map_err(io::Error::other)? {
        let bytes: Bytes = bytes;
        counters.tunnel_bytes.add(bytes.len() as u64);
        browser.write_all(&bytes).await?;
    }
    browser.shutdown().await
}

pub(super) async fn relay_direct<B: AsyncRead + AsyncWrite + Unpin>(
    mut browser: B,
    mut host: Box<dyn HostStream>,
    counters: &Counters,
) -> io::Result<()> {
    let (up, down) = copy_bidirectional(&mut browser, &mut host).await?;
    counters.tunnel_bytes.add(up + down);
    Ok(())
}
