//! `https` origin that speaks HTTP/2 frame by frame, as no library would.
use std::{future::Future, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    Origin,
    tls::{Authority, Validity},
};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const INTERNAL_ERROR: u32 = 2;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const CANCEL: u32 = 8;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;
pub(crate) const HTTP_1_1_REQUIRED: u32 = 13;

/// An origin, and the bodies of the requests that it received over HTTP/1.1 and HTTP/2.
pub(crate) struct FrameOrigin {
    pub(crate) origin: Origin,
    pub(crate) authority: Authority,
    /// Each connection's protocol, and each request's body.
    seen: Arc<Mutex<Vec<String>>>,
}

/// Connection over which the origin speaks HTTP/2.
pub(crate) struct Frames {
    stream: TlsStream<TcpStream>,
    seen: Arc<Mutex<Vec<String>>>,
}

pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl FrameOrigin {
    /// Starts an origin that runs `serve` on each connection over which HTTP/2 was negotiated, with the number of such
    /// connections before it, and answers requests over HTTP/1.1 with `over HTTP/1.1`.
    pub(crate) async fn start<F, S>(alpn: &[&str], serve: S) -> Self
    where
        S: Fn(usize, Frames) -> F + Send + Sync + Clone + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let authority = Authority::new();
        let acceptor = TlsAcceptor::from(Arc::new(authority.server("site.test", Validity::Now, alpn)));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let origin = Origin::start(move |_, stream| {
            let (acceptor, seen, serve) = (acceptor.clone(), Arc::clone(&log), serve.clone());
            async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
                    seen.lock().push("HTTP/1.1".to_owned());
                    return answer_http1(stream, &seen).await;
                }
                let index = {
                    let mut seen = seen.lock();
                    seen.push("HTTP/2".to_owned());
                    seen.iter().filter(|entry| *entry == "HTTP/2").count() - 1
                };
                let mut frames = Frames { stream, seen };
                let mut preface = [0; 24];
                if frames.stream.read_exact(&mut preface).await.is_ok() {
                    serve(index, frames).await;
                }
            }
        })
        .await;
        Self {
            origin,
            authority,
            seen,
        }
    }

    /// What the origin saw since the last call.
    pub(crate) fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock())
    }
}

impl Frames {
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.stream.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Frame {
            kind: head[3],
            flags: head[4],
            stream,
            payload,
        })
    }

    pub(crate) async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.raw(&frame).await;
    }

    /// Sends bytes as they are. The client may have closed the connection.
    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
        let _ = self.stream.flush().await;
    }

    pub(crate) async fn settings(&mut self) {
        self.send(SETTINGS, 0, 0, &[]).await;
    }

    pub(crate) async fn reset(&mut self, stream: u32, code: u32) {
        self.send(RST_STREAM, 0, stream, &code.to_be_bytes()).await;
    }

    pub(crate) async fn go_away(&mut self, last: u32, code: u32) {
        self.send(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
            .await;
    }

    /// Sends a header section.
    pub(crate) async fn headers(&mut self, stream: u32, flags: u8, fields: &[(&str, &str)]) {
        self.send(HEADERS, END_HEADERS | flags, stream, &literals(fields))
            .await;
    }

    pub(crate) async fn respond(&mut self, stream: u32, body: &str) {
        self.headers(stream, 0, &[(":status", "200")]).await;
        self.send(DATA, END_STREAM, stream, body.as_bytes()).await;
    }

    /// Ends the connection in order.
    pub(crate) async fn close(mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Waits for the head of the next request; returns its stream, and whether a body follows.
    pub(crate) async fn head(&mut self) -> Option<(u32, bool)> {
        loop {
            let frame = self.next().await?;
            match frame.kind {
                HEADERS => return Some((frame.stream, frame.flags & END_STREAM == 0)),
                PING if frame.flags & ACK == 0 => self.send(PING, ACK, 0, &frame.payload).await,
                SETTINGS if frame.flags & ACK == 0 => self.send(SETTINGS, ACK, 0, &[]).await,
                _ => {}
            }
        }
    }

    /// Waits for the next request and its whole body; returns its stream.
    pub(crate) async fn request(&mut self) -> Option<u32> {
        let (stream, mut has_more) = self.head().await?;
        let mut body = Vec::new();
        while has_more {
            let frame = self.next().await?;
            if frame.kind == DATA && frame.stream == stream {
                body.extend(frame.payload);
                has_more = frame.flags & END_STREAM == 0;
            }
        }
        self.saw(&body);
        Some(stream)
    }

    /// Serves requests with their number and body until the end of the connection.
    pub(crate) async fn echo(mut self) {
        self.settings().await;
        while let Some(stream) = self.request().await {
            self.respond(stream, "over HTTP/2").await;
        }
    }

    pub(crate) fn saw(&self, body: &[u8]) {
        self.seen.lock().push(String::from_utf8_lossy(body).into_owned());
    }
}

/// Header section of literal fields without compression (RFC 7541 section 6.2.2).
pub(crate) fn literals(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            let length = text.len();
            if let Ok(short) = u8::try_from(length)
                && short < 127
            {
                block.push(short);
            } else {
                block.push(127);
                let mut rest = length - 127;
                while rest >= 128 {
                    block.push(u8::try_from(rest % 128).unwrap() | 128);
                    rest /= 128;
                }
                block.push(u8::try_from(rest).unwrap());
            }
            block.extend(text.as_bytes());
        }
    }
    block
}

async fn answer_http1(mut stream: TlsStream<TcpStream>, seen: &Mutex<Vec<String>>) {
    let mut received = Vec::new();
    loop {
        let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            if stream.read_buf(&mut received).await.unwrap_or(0) == 0 {
                return;
            }
            continue;
        };
        let head = String::from_utf8(received.drain(..end + 4).collect()).unwrap();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        while received.len() < length {
            if stream.read_buf(&mut received).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let body = received.drain(..length).collect();
        seen.lock().push(String::from_utf8(body).unwrap());
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nover HTTP/1.1";
        stream.write_all(answer).await.unwrap();
    }
}
