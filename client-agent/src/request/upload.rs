//! A request's body on its way to the gateway: windows, compressed if worthwhile; the whole body is never in
//! memory.
use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use longhaul_codec::{AdaptiveEncoder, BodyTraits};
use longhaul_driver::{End, Priority, SendStream, StreamError};
use longhaul_session::{Body, Message, encode};
use longhaul_types::{BitRate, ByteCount};
use tokio::{sync::oneshot, time::timeout};

use crate::gateway::{GatewaySession, SendError, SendPhase, body_coding_of};

/// Bytes kept so that a request can be repeated if the gateway did not process it (`UnknownBase`). Forms are
/// smaller, and a thousand of them fit in memory.
const MAX_KEPT: usize = 64 * 1024;
/// Wait for the first or next bytes before the available bytes are sent as a window of their own.
const PAUSE: Duration = Duration::from_millis(50);
/// Wait for `Continue`. The gateway sends it a second after it has sent the request; gateways that do not know the message
/// never do.
const CONTINUE_TIME: Duration = Duration::from_secs(5);

/// A browser's request body; its first bytes are kept.
#[derive(Debug)]
pub(super) struct Upload {
    kept: Vec<Bytes>,
    size: usize,
    at: usize,
    incoming: Incoming,
    replayable: bool,
    has_begun: bool,
}

/// Body of one request, shared by the attempts to send it. Only one attempt is in progress at a time.
#[derive(Clone, Debug)]
pub(super) struct SharedUpload(Arc<Mutex<Upload>>);

/// Errors of an upload.
#[derive(Debug, thiserror::Error)]
pub(super) enum UploadError {
    /// The browser aborted the upload.
    #[error("the browser aborted the upload")]
    Browser,
    /// The session did not accept the request; nothing was sent.
    #[error(transparent)]
    NotSent(#[from] SendError),
    /// The gateway stopped the stream, or the session is lost.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The body cannot be encoded.
    #[error("the body cannot be encoded")]
    Coding,
}

impl From<longhaul_codec::EncodeError> for UploadError {
    fn from(_: longhaul_codec::EncodeError) -> Self {
        Self::Coding
    }
}

impl SharedUpload {
    pub(super) fn new(incoming: Incoming) -> Self {
        let upload = Upload {
            kept: Vec::new(),
            size: 0,
            at: 0,
            incoming,
            replayable: true,
            has_begun: false,
        };
        Self(Arc::new(Mutex::new(upload)))
    }

    /// Goes back to the start, if all bytes read so far are kept.
    pub(super) fn rewind(&self) -> Result<(), BodyGone> {
        let mut upload = self.0.lock();
        upload.at = 0;
        if upload.replayable { Ok(()) } else { Err(BodyGone) }
    }

    /// True if the body has been asked for.
    pub(super) fn has_begun(&self) -> bool {
        self.0.lock().has_begun
    }

    /// Number of bytes read from the browser.
    pub(super) fn read_bytes(&self) -> u64 {
        self.0.lock().size as u64
    }

    fn poll_data(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        let mut upload = self.0.lock();
        upload.has_begun = true;
        if let Some(bytes) = upload.kept.get(upload.at).cloned() {
            upload.at += 1;
            return Poll::Ready(Some(Ok(bytes)));
        }
        loop {
            let Some(frame) = std::task::ready!(Pin::new(&mut upload.incoming).poll_frame(cx)) else {
                return Poll::Ready(None);
            };
            // Request trailers are not relayed.
            if let Ok(bytes) = frame?.into_data() {
                upload.keep(&bytes);
                return Poll::Ready(Some(Ok(bytes)));
            }
        }
    }

    async fn next(&self) -> Option<Result<Bytes, hyper::Error>> {
        poll_fn(|cx| self.poll_data(cx)).await
    }
}

/// Error: more bytes were read than are kept.
#[derive(Debug)]
pub(super) struct BodyGone;

impl Upload {
    fn keep(&mut self, bytes: &Bytes) {
        self.size += bytes.len();
        if self.size > MAX_KEPT {
            self.replayable = false;
            self.kept = Vec::new();
            self.at = 0;
        } else if self.replayable {
            self.kept.push(bytes.clone());
            self.at = self.kept.len();
        }
    }
}

/// A direct fetch reads the body itself.
impl HttpBody for SharedUpload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.poll_data(cx)
            .map(|data| data.map(|data| data.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        let upload = self.0.lock();
        if upload.size == 0 {
            upload.incoming.size_hint()
        } else {
            SizeHint::default()
        }
    }
}

/// Parameters of one attempt to send a request to the gateway.
pub(super) struct Transmission {
    pub(super) session: Arc<GatewaySession>,
    pub(super) class: Priority,
    pub(super) send_phase: SendPhase,
    /// The encoded `Fetch`.
    pub(super) fetch: Vec<u8>,
}

/// Properties of a body that the encoder uses.
#[derive(Clone, Debug)]
pub(super) struct UploadTraits {
    pub(super) content_type: Option<String>,
    pub(super) length: Option<u64>,
    pub(super) rate: Option<BitRate>,
}

impl Transmission {
    /// Sends a request without body.
    pub(super) async fn bodyless(self) -> Result<(), UploadError> {
        self.session
            .open_stream(self.class, self.send_phase, self.fetch.into(), End::Finish)
            .await?;
        Ok(())
    }

    /// Sends a request with its body; `Fetch` and the available bytes of the body are sent together. With a
    /// `continuation`, the body is sent only once the gateway asks for it.
    pub(super) async fn with_body(
        self,
        upload: SharedUpload,
        traits: UploadTraits,
        continuation: Option<oneshot::Receiver<()>>,
    ) -> Result<(), UploadError> {
        let key = self.session.window_key().ok_or(UploadError::Coding)?;
        let length = traits.length;
        let mut encoder = AdaptiveEncoder::new(
            key,
            BodyTraits {
                content_type: traits.content_type.as_deref(),
                length: length.map(ByteCount::new),
                link: traits.rate,
                ..BodyTraits::default()
            },
        );
        let mut out = UploadStream {
            transmission: self,
            length,
            stream: None,
            announced: false,
        };
        if let Some(continuation) = continuation {
            out.send_fetch().await?;
            // An answer also ends the wait, and this future with it.
            let _late = timeout(CONTINUE_TIME, continuation).await;
        }
        let mut wire = Vec::new();
        loop {
            let next = match timeout(PAUSE, upload.next()).await {
                Ok(next) => next,
                Err(_) => {
                    encoder.flush(&mut wire)?;
                    out.write(encoder.coding(), &mut wire).await?;
                    upload.next().await
                }
            };
            match next {
                None => break,
                Some(Ok(bytes)) => encoder.push(&bytes, &mut wire)?,
                Some(Err(_)) => return Err(UploadError::Browser),
            }
            if !wire.is_empty() {
                out.write(encoder.coding(), &mut wire).await?;
            }
        }
        let finished = encoder.finish(&mut wire)?;
        out.finish(finished.coding, &mut wire).await
    }
}

/// Stream of the request, opened with the first window.
struct UploadStream {
    transmission: Transmission,
    length: Option<u64>,
    stream: Option<SendStream>,
    announced: bool,
}

impl UploadStream {
    /// Sends `Fetch` without anything of the body.
    async fn send_fetch(&mut self) -> Result<(), UploadError> {
        let fetch = std::mem::take(&mut self.transmission.fetch);
        self.stream = Some(self.open(fetch.into(), End::Open).await?);
        Ok(())
    }

    /// Sends `wire`; `coding` is `None` until the encoder has decided it.
    async fn write(
        &mut self,
        coding: Option<longhaul_codec::Coding>,
        wire: &mut Vec<u8>,
    ) -> Result<(), UploadError> {
        let bytes = self.take(coding, wire)?;
        if let Some(stream) = &mut self.stream {
            stream.write(bytes).await?;
        } else {
            self.stream = Some(self.open(bytes, End::Open).await?);
        }
        Ok(())
    }

    async fn finish(mut self, coding: longhaul_codec::Coding, wire: &mut Vec<u8>) -> Result<(), UploadError> {
        let bytes = self.take(Some(coding), wire)?;
        match &mut self.stream {
            Some(stream) => {
                stream.write(bytes).await?;
                stream.finish().await?;
            }
            None => drop(self.open(bytes, End::Finish).await?),
        }
        Ok(())
    }

    async fn open(&self, bytes: Bytes, end: End) -> Result<SendStream, SendError> {
        let Transmission {
            session,
            class,
            send_phase,
            ..
        } = &self.transmission;
        session.open_stream(*class, *send_phase, bytes, end).await
    }

    /// Returns the next bytes to send: `Fetch` first, `Body` before the first window.
    fn take(
        &mut self,
        coding: Option<longhaul_codec::Coding>,
        wire: &mut Vec<u8>,
    ) -> Result<Bytes, UploadError> {
        let mut bytes = std::mem::take(&mut self.transmission.fetch);
        if let (Some(coding), false) = (coding, self.announced) {
            let body = Body {
                coding: body_coding_of(coding),
                length: self.length,
                offset: 0,
                base: None,
            };
            encode(&Message::Body(body), &mut bytes).map_err(|_| UploadError::Coding)?;
            self.announced = true;
        }
        bytes.append(wire);
        Ok(bytes.into())
    }
}
