//! Writes responses in the order of their requests.
use std::{io, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use longhaul_gateway_core::admin::metrics::Outcome;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::{OwnedSemaphorePermit, mpsc},
    task::JoinHandle,
    time::timeout,
};

use longhaul_types::PublicKey;

use super::{
    Clientless,
    answer::{Answer, AnswerBody},
    encoding::BodyEncoder,
    head::RequestHead,
    held::{HeldBytes, ReadAhead},
    pace::Urgency,
    request_body::Asked,
};

#[cfg(test)]
mod tests;

/// A request whose response is to be written.
pub(super) struct Exchange {
    pub(super) answer: PendingAnswer,
    pub(super) version: Version,
    pub(super) is_head: bool,
    pub(super) keeps_alive: bool,
    /// Set if the client waits for the status 100 before it sends the body.
    pub(super) asked: Option<Asked>,
    /// Whose limits apply.
    pub(super) limits: Option<PublicKey>,
    /// Places among the requests of the connection that are in progress.
    pub(super) places: OwnedSemaphorePermit,
}

impl Exchange {
    /// An answer of the proxy itself.
    pub(super) fn own(
        answer: Answer,
        head: &RequestHead,
        keeps_alive: bool,
        places: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            answer: PendingAnswer::Ready(Box::new(answer)),
            version: head.version,
            is_head: head.method == Method::HEAD,
            keeps_alive,
            asked: None,
            limits: None,
            places,
        }
    }

    /// The answer to what is not a request.
    pub(super) fn rejecting(answer: Answer, places: OwnedSemaphorePermit) -> Self {
        Self {
            answer: PendingAnswer::Ready(Box::new(answer)),
            version: Version::HTTP_11,
            is_head: false,
            keeps_alive: false,
            asked: None,
            limits: None,
            places,
        }
    }
}

/// The response to a request, perhaps not known yet.
pub(super) enum PendingAnswer {
    Ready(Box<Answer>),
    Fetch(FetchTask),
}

/// The task of a fetch, which ends if nobody waits for it.
pub(super) struct FetchTask(pub(super) JoinHandle<(Answer, HeldBytes)>);

impl Drop for FetchTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reasons for the end of a connection's responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// All responses were written.
    All,
    /// A response announced that the connection ends after it.
    Closed,
    /// A response could not be completed: the connection must not end cleanly.
    Cut,
}

/// Writer of one connection.
pub(super) struct Writer<W> {
    pub(super) stream: W,
    pub(super) shared: Arc<Clientless>,
    pub(super) ahead: Arc<ReadAhead>,
    pub(super) urgency: Arc<Urgency>,
    pub(super) stall: Duration,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    /// Writes the responses of these requests; returns the stream.
    pub(super) async fn run(mut self, mut exchanges: mpsc::Receiver<Exchange>) -> (W, Written) {
        while let Some(exchange) = exchanges.recv().await {
            // In memory of its own, which an idle connection does not have.
            match Box::pin(self.exchange(exchange)).await {
                Ok(true) => {}
                Ok(false) => return (self.stream, Written::Closed),
                Err(_) => return (self.stream, Written::Cut),
            }
        }
        (self.stream, Written::All)
    }

    /// Writes one response; returns true if the connection may be used further.
    async fn exchange(&mut self, exchange: Exchange) -> io::Result<bool> {
        let Exchange {
            answer,
            version,
            is_head,
            keeps_alive,
            asked,
            limits,
            places,
        } = exchange;
        let (mut answer, _held) = match answer {
            PendingAnswer::Ready(answer) => (*answer, self.ahead.none()),
            PendingAnswer::Fetch(task) => self.answer(task, asked).await?,
        };
        let framing = Framing::of(&answer, version, is_head);
        let keeps_alive = keeps_alive && !answer.closes && framing != Framing::UntilClose;
        let head = head(&mut answer, framing, keeps_alive);
        let left = match framing {
            Framing::None => 0,
            Framing::Length(length) => length,
            Framing::Chunked | Framing::UntilClose => u64::MAX,
        };
        self.urgency
            .set(answer.class, left.saturating_add(head.len() as u64));
        let written = self.body(head, answer, framing, limits).await;
        self.shared.gateway.metrics.outcome(match &written {
            Ok(()) => Outcome::Complete,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Outcome::Truncated,
            Err(_) => Outcome::Cancelled,
        });
        if let Err(error) = written {
            // The end of the connection shows that the body is incomplete, and what came before is not lost.
            let is_framed = framing != Framing::UntilClose && error.kind() == io::ErrorKind::InvalidData;
            return if is_framed { Ok(false) } else { Err(error) };
        }
        drop(places);
        Ok(keeps_alive)
    }

    /// Waits for an answer; asks the client for the body of its request when the origin reads it.
    async fn answer(&mut self, mut task: FetchTask, asked: Option<Asked>) -> io::Result<(Answer, HeldBytes)> {
        let Some(asked) = asked else {
            return (&mut task.0).await.map_err(io::Error::other);
        };
        let early = tokio::select! {
            biased;
            early = &mut task.0 => Some(early),
            Ok(()) = asked => None,
        };
        if let Some(early) = early {
            let (answer, held) = early.map_err(io::Error::other)?;
            // What the client sends next may be the body or another request.
            return Ok((
                Answer {
                    closes: true,
                    ..answer
                },
                held,
            ));
        }
        self.write(BytesMut::from(&b"HTTP/1.1 100 Continue\r\n\r\n"[..]))
            .await?;
        (&mut task.0).await.map_err(io::Error::other)
    }

    async fn body(
        &mut self,
        head: BytesMut,
        answer: Answer,
        framing: Framing,
        limits: Option<PublicKey>,
    ) -> io::Result<()> {
        let mut out = head;
        let mut reader = match answer.body {
            AnswerBody::Whole(bytes) if framing != Framing::None => {
                out.extend_from_slice(&bytes);
                return self.write(out).await;
            }
            AnswerBody::Stream(reader) if framing != Framing::None => reader,
            AnswerBody::None | AnswerBody::Whole(_) | AnswerBody::Stream(_) => return self.write(out).await,
        };
        let mut tap = answer.tap;
        let limits = limits.unwrap_or_else(|| PublicKey::from_bytes([0; 32]));
        let cpu_pool = Arc::clone(&self.shared.gateway.cpu_pool);
        let encoder = BodyEncoder::new(answer.coding, reader.length(), cpu_pool);
        let mut encoder = encoder.map_err(broken)?;
        loop {
            let next = match reader.next().now_or_never() {
                Some(next) => next,
                None => {
                    self.write(out.split()).await?;
                    reader.next().await
                }
            };
            let Some(chunk) = next else { break };
            let chunk = match chunk {
                Ok(chunk) => chunk,
                Err(fault) => {
                    self.write(out).await?;
                    return Err(broken(fault));
                }
            };
            if let Some(tap) = &mut tap {
                tap.chunk(&chunk).await;
            }
            let coded = encoder.encode(chunk).await.ok_or_else(failed)?;
            self.shared.count_down(limits, coded.len())?;
            framing.frame(&coded, &mut out);
            self.write(out.split()).await?;
        }
        if let Some(tap) = tap {
            tap.end().await;
        }
        framing.frame(&encoder.finish().ok_or_else(failed)?, &mut out);
        framing.end(&mut out);
        self.write(out).await
    }

    /// Writes bytes; fails if the client takes none of them for too long.
    async fn write(&mut self, bytes: BytesMut) -> io::Result<()> {
        let mut left = &bytes[..];
        while !left.is_empty() {
            let written = timeout(self.stall, self.stream.write(left)).await;
            let count = written.map_err(io::Error::from)??;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            left = &left[count..];
        }
        self.stream.flush().await
    }
}

/// A body that cannot be completed.
fn broken(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn failed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the encoder failed")
}

/// Framing of a response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// No body.
    None,
    /// `Content-Length`.
    Length(u64),
    Chunked,
    /// The end of the connection, for HTTP/1.0.
    UntilClose,
}

impl Framing {
    fn of(answer: &Answer, version: Version, is_head: bool) -> Self {
        let is_bodyless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&answer.status);
        let length = match &answer.body {
            _ if is_head || is_bodyless => return Self::None,
            AnswerBody::None => Some(0),
            AnswerBody::Whole(bytes) => Some(bytes.len() as u64),
            AnswerBody::Stream(reader) => reader.length().filter(|_| answer.coding.is_none()),
        };
        match length {
            Some(length) => Self::Length(length),
            None if version == Version::HTTP_11 => Self::Chunked,
            None => Self::UntilClose,
        }
    }

    /// Describes the framing in the fields.
    fn describe(self, headers: &mut HeaderMap) {
        match self {
            // Fields that describe the body of a GET stay.
            Self::None => {}
            Self::Length(length) => {
                headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            }
            Self::Chunked => {
                headers.remove(header::CONTENT_LENGTH);
                headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
            Self::UntilClose => {
                headers.remove(header::CONTENT_LENGTH);
            }
        }
    }

    fn frame(self, bytes: &Bytes, out: &mut BytesMut) {
        if bytes.is_empty() {
            return;
        }
        if self == Self::Chunked {
            out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
            out.extend_from_slice(bytes);
            out.extend_from_slice(b"\r\n");
        } else {
            out.extend_from_slice(bytes);
        }
    }

    fn end(self, out: &mut BytesMut) {
        if self == Self::Chunked {
            out.extend_from_slice(b"0\r\n\r\n");
        }
    }
}

/// The head of a response.
fn head(answer: &mut Answer, framing: Framing, keeps_alive: bool) -> BytesMut {
    let headers = &mut answer.headers;
    framing.describe(headers);
    if !keeps_alive {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let reason = answer.status.canonical_reason().unwrap_or_default();
    let mut out = BytesMut::with_capacity(1024);
    out.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", answer.status.as_u16()).as_bytes());
    for (name, value) in headers.iter() {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out
}
