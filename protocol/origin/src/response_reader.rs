//! The only reader of HTTP/1.1 responses from origins: between the connection and hyper, it reads heads and
//! chunks as leniently as browsers do and hands them to hyper as RFC 9112 demands.
//!
//! It also knows where a response ends, so that bytes which the origin sends after the end, or before a
//! request, are never taken for the response to the next request.
mod chunks;
mod expected;
mod framing;
mod head;

#[cfg(test)]
mod limits_tests;
#[cfg(test)]
mod tests;

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub use self::expected::ExpectedResponse;
pub(crate) use self::head::HeadError;
use self::{
    chunks::ChunkReader,
    expected::{ExpectedRequest, RequestKind},
    framing::BodyFraming,
    head::{HeadContext, StatusLine},
};

/// Head of a response of HTTP/0.9, for hyper.
const HTTP_0_9_HEAD: &[u8] = b"HTTP/1.0 200 \r\n\r\n";
/// Bytes that are read from the connection at once while the reader looks for the end of a head or a line.
const READ_SIZE: usize = 16 * 1024;
/// Status with which the connection changes to another protocol (RFC 9110 section 15.2.2).
const SWITCHING_PROTOCOLS: u16 = 101;

/// Limits of a response's head, and what may stand in its place.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Maximum size, as received.
    pub bytes: usize,
    /// Maximum number of fields.
    pub fields: usize,
    /// How responses without a status line are read.
    pub old_http: OldHttp,
    /// True if the end of the connection ends a head: on connections without TLS, as in browsers.
    pub end_may_be_missing: bool,
}

impl Default for HeadLimits {
    /// 256 KiB, as in browsers, and 512 fields; nothing may be missing.
    fn default() -> Self {
        Self {
            bytes: 256 * 1024,
            fields: 512,
            old_http: OldHttp::Refused,
            end_may_be_missing: false,
        }
    }
}

/// Reading of responses without a status line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldHttp {
    /// All bytes are the body (HTTP/0.9): at the default port of a scheme, as in Chromium. At other ports, the bytes
    /// may be those of another protocol.
    Accepted,
    /// Only radio stations that answer with `ICY`.
    IcyOnly,
    /// Never.
    Refused,
}

impl OldHttp {
    fn accepts(self, bytes: &[u8]) -> bool {
        match self {
            Self::Accepted => true,
            Self::IcyOnly => bytes
                .get(..3)
                .is_some_and(|word| word.eq_ignore_ascii_case(b"icy")),
            Self::Refused => false,
        }
    }
}

/// The connection to an origin, as hyper sees it.
pub struct ResponseReader<S> {
    connection: S,
    limits: HeadLimits,
    expected: Arc<ExpectedResponse>,
    state: State,
    /// Bytes from the connection that are not read yet.
    raw: BytesMut,
    /// Bytes for hyper.
    out: BytesMut,
    /// The connection has ended.
    has_ended: bool,
}

enum State {
    /// No response is expected.
    Idle,
    /// The head of a response.
    Head {
        request: ExpectedRequest,
        /// Bytes of `raw` that contain no end of the head.
        searched: usize,
        /// True once this response had a status line, of an informational response.
        had_status_line: bool,
    },
    /// The rest of a body of known length.
    Length(u64),
    Chunks(ChunkReader),
    /// Bytes until the connection ends: a body without length, or another protocol.
    UntilClose,
    /// What the origin sends has no meaning any more: for hyper, the connection has ended.
    Spoiled,
}

impl<S> ResponseReader<S> {
    /// Reads responses from a connection.
    pub fn new(connection: S, limits: HeadLimits) -> Self {
        Self {
            connection,
            limits,
            expected: Arc::default(),
            state: State::Idle,
            raw: BytesMut::new(),
            out: BytesMut::new(),
            has_ended: false,
        }
    }

    /// Where the sender of requests sets the next request.
    pub fn expected(&self) -> Arc<ExpectedResponse> {
        Arc::clone(&self.expected)
    }

    /// Reads what can be read of the bytes at hand. Returns true if more bytes are needed.
    fn advance(&mut self) -> io::Result<bool> {
        match &mut self.state {
            State::Idle => {
                if let Some(request) = self.expected.take() {
                    self.state = State::Head {
                        request,
                        searched: 0,
                        had_status_line: false,
                    };
                } else if !self.raw.is_empty() {
                    // Nobody asked for these bytes.
                    self.state = State::Spoiled;
                }
                Ok(self.raw.is_empty())
            }
            State::Head { .. } => self.advance_head(),
            State::Chunks(chunks) => {
                chunks.read(&mut self.raw, &mut self.out).map_err(malformed)?;
                if chunks.has_ended() {
                    self.end_response();
                }
                Ok(self.out.is_empty())
            }
            State::Length(_) | State::UntilClose | State::Spoiled => Ok(true),
        }
    }

    fn advance_head(&mut self) -> io::Result<bool> {
        let State::Head {
            request,
            searched,
            had_status_line,
        } = &mut self.state
        else {
            return Ok(true);
        };
        if self.raw.is_empty() {
            return Ok(true);
        }
        let start = match StatusLine::find(&self.raw) {
            StatusLine::At(start) => start,
            StatusLine::Unknown if !self.has_ended => return Ok(true),
            StatusLine::Unknown if !self.limits.end_may_be_missing => {
                return Err(malformed(HeadError::Truncated));
            }
            StatusLine::Unknown | StatusLine::Missing => {
                if *had_status_line || !self.limits.old_http.accepts(&self.raw) {
                    return Err(malformed(HeadError::NotHttp));
                }
                self.out.extend_from_slice(HTTP_0_9_HEAD);
                self.state = State::UntilClose;
                return Ok(false);
            }
        };
        let end = match head::end_of_head(&self.raw[start..], searched.saturating_sub(start)) {
            Some(end) => start + end,
            None if self.raw.len() - start > self.limits.bytes => return Err(malformed(HeadError::TooLarge)),
            None if !self.has_ended => {
                *searched = self.raw.len();
                return Ok(true);
            }
            None if self.limits.end_may_be_missing => self.raw.len(),
            None => return Err(malformed(HeadError::Truncated)),
        };
        if self.raw[..start].contains(&0) {
            return Err(malformed(HeadError::Nul));
        }
        if end - start > self.limits.bytes {
            return Err(malformed(HeadError::TooLarge));
        }
        let context = HeadContext {
            is_head: request.kind == RequestKind::Head,
            reads_old_chunks: request.is_of_program,
            max_fields: self.limits.fields,
            has_junk: start > 0,
        };
        let head = head::read(&self.raw[start..end], context).map_err(malformed)?;
        self.raw.advance(end);
        let is_upgrade = head.status == SWITCHING_PROTOCOLS && request.kind == RequestKind::Upgrade;
        // Without a request for another protocol, browsers skip this status, and hyper would take it for a final one.
        if head.status != SWITCHING_PROTOCOLS || is_upgrade {
            self.out.extend_from_slice(&head.bytes);
        }
        match (head.status, head.framing) {
            _ if is_upgrade => self.state = State::UntilClose,
            (100..=199, _) => {
                *searched = 0;
                *had_status_line = true;
            }
            (_, BodyFraming::None | BodyFraming::Length(0)) => self.end_response(),
            (_, BodyFraming::Length(length)) => self.state = State::Length(length),
            (_, BodyFraming::Chunked) => self.state = State::Chunks(ChunkReader::default()),
            (_, BodyFraming::Close) => self.state = State::UntilClose,
        }
        Ok(false)
    }

    /// The response is complete. Bytes behind it are not the next response: no request was sent yet.
    fn end_response(&mut self) {
        self.state = if self.raw.is_empty() {
            State::Idle
        } else {
            State::Spoiled
        };
    }

    /// Hands bytes of the body on, at most as many as belong to it.
    fn pass_on(&mut self, to: &mut ReadBuf<'_>) {
        let most = match &mut self.state {
            State::Length(left) => usize::try_from(*left).unwrap_or(usize::MAX),
            State::Idle | State::Head { .. } | State::Chunks(_) | State::UntilClose | State::Spoiled => {
                usize::MAX
            }
        };
        let length = self.raw.len().min(to.remaining()).min(most);
        to.put_slice(&self.raw[..length]);
        self.raw.advance(length);
        self.passed_on(length);
    }

    fn passed_on(&mut self, length: usize) {
        if let State::Length(left) = &mut self.state {
            *left -= length as u64;
            if *left == 0 {
                self.end_response();
            }
        }
    }
}

impl<S: AsyncRead + Unpin> ResponseReader<S> {
    /// Reads from the connection into `raw`.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [0; READ_SIZE];
        let mut buf = ReadBuf::new(&mut bytes);
        ready!(poll_connection(Pin::new(&mut self.connection), cx, &mut buf))?;
        self.has_ended = buf.filled().is_empty();
        self.raw.extend_from_slice(buf.filled());
        Poll::Ready(Ok(()))
    }

    /// Reads the bytes of a body from the connection directly.
    fn poll_body(&mut self, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = to.filled().len();
        ready!(poll_connection(Pin::new(&mut self.connection), cx, to))?;
        let received = to.filled().len() - before;
        self.has_ended = received == 0;
        let length = match &self.state {
            State::Length(left) => usize::try_from(*left).unwrap_or(usize::MAX).min(received),
            State::Idle | State::Head { .. } | State::Chunks(_) | State::UntilClose | State::Spoiled => {
                received
            }
        };
        self.raw.extend_from_slice(&to.filled()[before + length..]);
        to.set_filled(before + length);
        self.passed_on(length);
        Poll::Ready(Ok(()))
    }
}

/// Reads from a connection. Many servers end TLS without a close_notify: the end of the connection then ends a
/// body without length, as in browsers; a body with length or chunks is incomplete without its last byte.
fn poll_connection<S: AsyncRead>(
    connection: Pin<&mut S>,
    cx: &mut Context<'_>,
    to: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    match ready!(connection.poll_read(cx, to)) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
        result => Poll::Ready(result),
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ResponseReader<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if !this.out.is_empty() {
                let length = this.out.len().min(to.remaining());
                to.put_slice(&this.out[..length]);
                this.out.advance(length);
                return Poll::Ready(Ok(()));
            }
            match &this.state {
                State::Spoiled => return Poll::Ready(Ok(())),
                State::Length(_) | State::UntilClose if !this.raw.is_empty() => {
                    this.pass_on(to);
                    return Poll::Ready(Ok(()));
                }
                State::Length(_) | State::UntilClose if this.has_ended => return Poll::Ready(Ok(())),
                State::Length(_) | State::UntilClose => return this.poll_body(cx, to),
                State::Idle | State::Head { .. } | State::Chunks(_) => {}
            }
            if !this.advance()? {
                continue;
            }
            if this.has_ended {
                return Poll::Ready(Ok(()));
            }
            ready!(this.poll_more(cx))?;
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ResponseReader<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }
}

/// The error with which hyper ends the connection; [`crate::classify`] finds the cause in it.
fn malformed(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
