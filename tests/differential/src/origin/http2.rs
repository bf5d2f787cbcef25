//! HTTP/2 connections of the odd origin: frames are written one by one, so that each may be wrong.
use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Scripts, hpack, http1::Wire, ordinary};
use crate::case::Frame;

const PREFACE: usize = 24;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;
/// No dynamic table: requests must be readable without one (SETTINGS_HEADER_TABLE_SIZE = 0), and many streams.
const OUR_SETTINGS: &[u8] = &[0, 1, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100];

struct Received {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// Serves a connection until it ends.
pub(super) async fn serve(mut wire: impl Wire, scripts: Scripts) {
    // A client that goes away is its own business.
    let _gone = exchanges(&mut wire, &scripts).await;
}

async fn exchanges(wire: &mut impl Wire, scripts: &Scripts) -> io::Result<()> {
    let mut preface = [0; PREFACE];
    wire.read_exact(&mut preface).await?;
    write(wire, SETTINGS, 0, 0, OUR_SETTINGS).await?;
    let mut block = Vec::new();
    loop {
        let frame = read(wire).await?;
        match frame.kind {
            SETTINGS if frame.flags & ACK == 0 => write(wire, SETTINGS, ACK, 0, &[]).await?,
            PING if frame.flags & ACK == 0 => write(wire, PING, ACK, 0, &frame.payload).await?,
            HEADERS | CONTINUATION => {
                block.extend_from_slice(fragment(&frame));
                if frame.flags & END_HEADERS != 0 {
                    let path = hpack::path(&std::mem::take(&mut block)).unwrap_or_default();
                    answer(wire, scripts, frame.stream, &path).await?;
                }
            }
            GOAWAY => return Ok(()),
            _ => {}
        }
    }
}

/// The part of a field block in a frame, without padding and priority.
fn fragment(frame: &Received) -> &[u8] {
    let mut part = &frame.payload[..];
    if frame.kind == HEADERS && frame.flags & PADDED != 0 {
        let padding = usize::from(part.first().copied().unwrap_or_default());
        part = part
            .get(1..part.len().saturating_sub(padding))
            .unwrap_or_default();
    }
    if frame.kind == HEADERS && frame.flags & PRIORITY != 0 {
        part = part.get(5..).unwrap_or_default();
    }
    part
}

async fn answer(wire: &mut impl Wire, scripts: &Scripts, stream: u32, path: &str) -> io::Result<()> {
    let Some(frames) = scripts.frames(path) else {
        let (kind, body) = ordinary(path, "");
        let fields = [
            (":status", "200"),
            ("content-type", kind),
            ("cache-control", "no-store"),
        ];
        let fields = fields.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        write(wire, HEADERS, END_HEADERS, stream, &hpack::write(&fields)).await?;
        return write(wire, DATA, END_STREAM, stream, &body).await;
    };
    for frame in frames {
        match frame {
            Frame::Head { fields, end } => {
                let flags = if end { END_STREAM } else { 0 };
                head(wire, stream, flags, &hpack::write(&fields)).await?;
            }
            Frame::Data { bytes, end, padding } => {
                let flags = if end { END_STREAM } else { 0 };
                match padding {
                    Some(length) => {
                        let padded = [&[length][..], &bytes, &vec![0; usize::from(length)]].concat();
                        write(wire, DATA, flags | PADDED, stream, &padded).await?;
                    }
                    None => write(wire, DATA, flags, stream, &bytes).await?,
                }
            }
            Frame::Reset(code) => write(wire, RST_STREAM, 0, stream, &code.to_be_bytes()).await?,
            Frame::GoAway { served, code } => {
                let last = if served { stream } else { stream.saturating_sub(2) };
                write(
                    wire,
                    GOAWAY,
                    0,
                    0,
                    &[last.to_be_bytes(), code.to_be_bytes()].concat(),
                )
                .await?;
            }
            Frame::Raw {
                kind,
                flags,
                on_stream,
                payload,
            } => {
                let stream = if on_stream { stream } else { 0 };
                write(wire, kind, flags, stream, &payload).await?;
            }
            Frame::Close => {
                wire.shutdown().await?;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
    }
    Ok(())
}

/// Writes a field block, in as many frames as it needs.
async fn head(wire: &mut impl Wire, stream: u32, flags: u8, block: &[u8]) -> io::Result<()> {
    const MAX: usize = 16_000;
    let mut parts = block.chunks(MAX).peekable();
    let mut kind = HEADERS;
    let mut flags = flags;
    while let Some(part) = parts.next() {
        let last = if parts.peek().is_none() { END_HEADERS } else { 0 };
        write(wire, kind, flags | last, stream, part).await?;
        (kind, flags) = (CONTINUATION, 0);
    }
    Ok(())
}

async fn write(wire: &mut impl Wire, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    let frame = [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat();
    wire.write_all(&frame).await?;
    wire.flush().await
}

async fn read(wire: &mut impl Wire) -> io::Result<Received> {
    let mut head = [0; 9];
    wire.read_exact(&mut head).await?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap_or_default()];
    wire.read_exact(&mut payload).await?;
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
    Ok(Received {
        kind: head[3],
        flags: head[4],
        stream,
        payload,
    })
}
