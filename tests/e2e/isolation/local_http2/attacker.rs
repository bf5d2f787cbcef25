//! An HTTP/2 client that sends any frames.
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;

use super::HOST;
use crate::{https::Accelerated, pair::LIMIT};

pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;
pub(super) const END_STREAM: u8 = 1;
const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A GET encoded with HPACK without dynamic table: static entries, and literals that are not indexed.
pub(super) fn get(path: &str) -> Vec<u8> {
    // :method GET, :scheme https.
    let mut block = vec![0x82, 0x87];
    // :authority and :path, with names of the static table.
    for (name, value) in [(1, HOST), (4, path)] {
        block.push(name);
        block.push(u8::try_from(value.len()).expect("a short value"));
        block.extend(value.as_bytes());
    }
    block
}

/// A hostile client.
pub(super) struct Attacker(TlsStream<TcpStream>);

impl Attacker {
    /// Opens a connection with these settings (RFC 9113 section 6.5.1).
    pub(super) async fn connect(site: &Accelerated, settings: &[(u16, u32)]) -> Result<Self> {
        let stream = site
            .connect(HOST, &site.exported_authority().await?, &[b"h2"])
            .await?;
        // Without Nagle's algorithm, so that attacks of many small writes are fast.
        stream.get_ref().0.set_nodelay(true)?;
        let mut attacker = Self(stream);
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend(name.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        attacker.send(PREFACE).await?;
        attacker.send(&frame(SETTINGS, 0, 0, &payload)).await?;
        Ok(attacker)
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        timeout(LIMIT, self.write(bytes))
            .await
            .context("nothing is taken")?
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).await?;
        // TLS may buffer written data.
        Ok(self.0.flush().await?)
    }

    /// Writes the bytes up to `times` times while the peer reads; returns the number of writes.
    pub(super) async fn flood(&mut self, times: usize, bytes: &[u8]) -> usize {
        for time in 0..times {
            // A peer that reads nothing for this time has stopped reading, which also ends the attack.
            match timeout(Duration::from_secs(2), self.write(bytes)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return time,
            }
        }
        times
    }

    async fn next(&mut self) -> Result<Frame> {
        let mut head = [0; 9];
        timeout(LIMIT, self.0.read_exact(&mut head))
            .await
            .context("no frame")??;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).await?;
        Ok(Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload,
        })
    }

    /// Reads until a frame meets the condition.
    pub(super) async fn until(&mut self, fits: impl Fn(&Frame) -> bool) -> Result<Frame> {
        loop {
            let frame = self.next().await?;
            if fits(&frame) {
                return Ok(frame);
            }
        }
    }

    /// Waits until the agent has processed all earlier frames.
    pub(super) async fn wait_until_processed(&mut self) -> Result<()> {
        self.send(&frame(PING, 0, 0, b"attacker")).await?;
        self.until(|frame| frame.kind == PING && frame.flags & ACK != 0)
            .await?;
        Ok(())
    }

    /// Waits for the end of the connection; true if it ends, with or without GOAWAY.
    pub(super) async fn is_ended(&mut self) -> bool {
        self.until(|frame| frame.kind == GOAWAY).await.is_ok() || self.next().await.is_err()
    }
}
