//! The response stream: `Head`, `Body` and windows, sent as the origin delivers them.
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use longhaul_delivery::{BodyPipeline, CodeError, Progress, WindowCoding};
use longhaul_driver::{EarlyData, End, OpenOptions, Priority, SendStream};
use longhaul_gateway_core::{
    admin::metrics::Outcome, failure::Failure, origin_reports::ResponseCount, quota::reached::Reached,
};
use longhaul_session::{Body, ERROR_QUOTA, FailureReason, Message, class, encode};
use longhaul_types::{BitRate, ContentHash};
use longhaul_webcache::BodyFault;
use tokio::time::timeout;
use tracing::debug;

use super::held::{Piece, TappedBody};
use crate::session::context::SessionContext;

/// Coded bytes that are sent together, and that gather at most before the stream is opened.
const GATHER: usize = 48 * 1024;
/// Maximum time that received bytes wait for further ones before they are sent.
const MAX_HOLD: Duration = Duration::from_millis(50);
/// Bounds of the silence of an origin after which the received bytes are flushed. Packets from an origin
/// usually arrive closer together.
const MAX_PAUSE: Duration = Duration::from_millis(20);
const MIN_PAUSE: Duration = Duration::from_millis(2);
/// The packet that the hop could have carried during a silence.
const PACKET_BITS: u64 = 1200 * 8;
/// Most bytes of a stream that wait between its user and the transport, and those of a write in progress.
const QUEUED: u64 = 2 * 64 * 1024;
/// Longest encoded body that is sent with its head: the scheduler sends short streams first.
const SENT_WITH_HEAD: usize = 2048;
/// Encoded `Head` of most responses, at most.
const MAX_SHORT_HEAD: usize = 1024;
/// Length at which an object of unknown length becomes bulk.
const LONG: u64 = 1024 * 1024;

/// The agent stopped the stream, or the session is lost.
#[derive(Debug)]
pub(super) struct Gone;

/// The response stream of one fetch.
pub(super) struct Responder {
    context: Arc<SessionContext>,
    class: Priority,
    stream: Option<SendStream>,
    /// Encoded messages to send before the windows.
    messages: Vec<u8>,
    windows: Vec<u8>,
    body: BodyState,
    /// Current class of the stream.
    at: Priority,
    sent: u64,
    /// Decoded bytes of the body in `windows` and before.
    decoded: u64,
    count: Option<ResponseCount>,
}

#[derive(Clone, Copy, Debug)]
enum BodyState {
    /// The `Body` message is still to be sent, with these values.
    Announced {
        length: Option<u64>,
        offset: u64,
    },
    Begun,
}

impl Responder {
    /// Creates a response that begins with an encoded `Head`; a body is sent in `class`.
    pub(super) fn new(
        context: Arc<SessionContext>,
        head: Vec<u8>,
        class: Priority,
        length: Option<u64>,
        offset: u64,
    ) -> Self {
        Self {
            context,
            class,
            stream: None,
            messages: head,
            windows: Vec::new(),
            body: BodyState::Announced { length, offset },
            at: class::PAGE,
            sent: 0,
            decoded: 0,
            count: None,
        }
    }

    /// Counts the body in `count`.
    pub(super) fn counted_in(self, count: ResponseCount) -> Self {
        Self {
            count: Some(count),
            ..self
        }
    }

    /// Sends the head and ends the stream.
    pub(super) async fn finish_without_body(mut self) -> Result<(), Gone> {
        self.send(None, End::Finish).await
    }

    /// Decoded bytes of a completely sent body.
    pub(super) const fn decoded(&self) -> u64 {
        self.decoded
    }

    /// True if head and body are sent together, in the class of the body.
    pub(super) const fn is_one_piece(&self) -> bool {
        self.sent <= (SENT_WITH_HEAD + MAX_SHORT_HEAD) as u64
    }

    /// Returns the stream, to wait for the agent's acknowledgement.
    pub(super) fn into_stream(self) -> Option<SendStream> {
        self.stream
    }

    /// Sends the gathered bytes. `coding` must be `Some` once there are windows.
    async fn send(&mut self, coding: Option<WindowCoding>, end: End) -> Result<(), Gone> {
        let has_windows = !self.windows.is_empty();
        if has_windows && let (BodyState::Announced { length, offset }, Some(coding)) = (self.body, coding) {
            // Fixed-size fields: this message always fits.
            let _fits = encode(
                &Message::Body(Body {
                    coding: coding.coding,
                    length,
                    offset,
                    base: coding.base,
                }),
                &mut self.messages,
            );
            self.body = BodyState::Begun;
        }
        if let Some(count) = self.count.as_mut().filter(|_| has_windows) {
            let base = coding.and_then(|coding| coding.base);
            count.body(base.as_ref(), self.windows.len(), self.decoded);
        }
        let mut chunk = std::mem::take(&mut self.messages);
        if self.stream.is_none() && self.has_urgent_head(end) {
            self.open(class::PAGE, std::mem::take(&mut chunk), End::Open)
                .await?;
        }
        chunk.append(&mut self.windows);
        let class = if has_windows { self.class } else { self.at };
        let Some(stream) = &mut self.stream else {
            return self.open(class, chunk, end).await;
        };
        if class != self.at {
            stream.set_priority(class).await.map_err(|_| Gone)?;
            self.at = class;
        }
        self.sent += chunk.len() as u64;
        if end == End::Finish {
            stream.announce(self.sent).await.map_err(|_| Gone)?;
        }
        stream.write(chunk.into()).await.map_err(|_| Gone)?;
        if end == End::Finish {
            stream.finish().await.map_err(|_| Gone)?;
        }
        if self.sent > LONG && self.class != class::PAGE {
            self.class = class::BULK;
        }
        Ok(())
    }

    /// Sends the head of a document, whose first bytes have still to be searched and coded.
    async fn send_head(&mut self) -> Result<(), Gone> {
        if self.stream.is_some() || self.class != class::PAGE {
            return Ok(());
        }
        let head = std::mem::take(&mut self.messages);
        self.open(class::PAGE, head, End::Open).await
    }

    /// True if the head has to be sent before the scheduler sends the body. On a slow hop, the body of a large image is
    /// sent minutes after the browser's request, and the body of a download after other downloads.
    fn has_urgent_head(&self, end: End) -> bool {
        match self.class {
            class::BULK => end == End::Open || !self.windows.is_empty(),
            class if class >= class::OBJECT => self.windows.len() > SENT_WITH_HEAD,
            _ => false,
        }
    }

    async fn open(&mut self, class: Priority, first: Vec<u8>, end: End) -> Result<(), Gone> {
        self.sent = first.len() as u64;
        let total = (end == End::Finish).then_some(self.sent);
        let options = OpenOptions {
            class,
            early: EarlyData::Allowed,
            total,
        };
        let stream = self.context.session.open(options, first.into(), end).await;
        self.stream = Some(stream.map_err(|_| Gone)?);
        self.at = class;
        Ok(())
    }

    /// Ends an open stream within the body: cancels it with this error code if the agent has its beginning, and with it
    /// `Head`. A write may have been broken off, so nothing more is written.
    async fn end_early(&mut self, error: u64) -> Relayed {
        // What is not acknowledged, and what waits before the transport.
        let on_the_way = self.context.session.stats().send_buffered.bytes() + QUEUED;
        let has_begun = self.sent > on_the_way;
        if let Some(stream) = &mut self.stream {
            if has_begun {
                stream.cancel(error);
            } else {
                // Fails if the session has ended, which is harmless.
                let _gone = stream.finish().await;
            }
        }
        Relayed::Truncated
    }

    /// Waits until the agent stops the stream; pends forever before the stream is open.
    async fn stopped(&mut self) {
        match &mut self.stream {
            Some(stream) => {
                stream.stopped().await;
            }
            None => std::future::pending().await,
        }
    }
}

/// Reasons for an aborted response.
enum Broken {
    Gone(Gone),
    Body(BodyFault),
    Coding(CodeError),
    /// The device has used up its bytes of the month.
    Quota(Reached),
}

impl From<Gone> for Broken {
    fn from(gone: Gone) -> Self {
        Self::Gone(gone)
    }
}

impl From<CodeError> for Broken {
    fn from(error: CodeError) -> Self {
        Self::Coding(error)
    }
}

/// Result of relaying a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relayed {
    /// The body with this CHK was sent completely.
    Complete(ContentHash),
    /// The body was truncated.
    Truncated,
    /// The agent stopped the stream, or the session is lost.
    Cancelled,
}

impl Relayed {
    pub(super) const fn outcome(self) -> Outcome {
        match self {
            Self::Complete(_) => Outcome::Complete,
            Self::Truncated => Outcome::Truncated,
            Self::Cancelled => Outcome::Cancelled,
        }
    }
}

/// Sends a response with its body.
///
/// Back-pressure reaches the origin, because hardly anything is read while the hop is blocked. A truncated
/// body ends without its last window, which no agent mistakes for a complete body (docs/protocol/body.md
/// section 4). Cancelling the stream instead could also discard the head, and the agent would wait for it
/// forever.
///
/// # Errors
/// The origin's content coding is malformed from the start, and nothing has been sent.
pub(super) async fn relay(
    responder: &mut Responder,
    mut body: TappedBody,
    pipeline: BodyPipeline,
) -> Result<Relayed, Failure> {
    let mut relay = Relay { responder, pipeline };
    let quota = Arc::clone(&relay.responder.context.quota);
    let ran = tokio::select! {
        biased;
        reached = quota.until_reached() => Err(Broken::Quota(reached)),
        ran = relay.run(&mut body) => ran,
    };
    let broken = match ran {
        Ok(()) => return Ok(body.chk().map_or(Relayed::Truncated, Relayed::Complete)),
        Err(broken) => broken,
    };
    match broken {
        Broken::Gone(Gone) => return Ok(Relayed::Cancelled),
        Broken::Body(fault @ BodyFault::Damaged(_)) if relay.nothing_came() => {
            return Err(Failure::new(FailureReason::MalformedResponse, fault));
        }
        Broken::Quota(reached) => {
            let failure = reached.failure();
            if responder.stream.is_none() {
                return Err(failure);
            }
            responder.context.gateway.metrics.failure(failure.reason);
            return Ok(responder.end_early(ERROR_QUOTA).await);
        }
        Broken::Body(error) => debug!(%error, "a body ended early"),
        Broken::Coding(error) => debug!(%error, "the encoding of a body failed"),
    }
    let coding = relay.pipeline.coding();
    if coding.is_none() {
        responder.windows.clear();
    }
    match responder.send(coding, End::Finish).await {
        Ok(()) => Ok(Relayed::Truncated),
        Err(Gone) => Ok(Relayed::Cancelled),
    }
}

/// A body on its way through its encoder to the stream.
struct Relay<'a> {
    responder: &'a mut Responder,
    pipeline: BodyPipeline,
}

impl Relay<'_> {
    async fn run(&mut self, body: &mut TappedBody) -> Result<(), Broken> {
        let pause = pause(self.responder.context.session.stats().send_rate);
        let mut held_since = Some(Instant::now());
        loop {
            let (piece, shown) = match held_since {
                Some(since) => {
                    let left = MAX_HOLD.saturating_sub(since.elapsed()).min(pause);
                    match timeout(left, body.next()).await {
                        Ok(next) => next,
                        Err(_) => {
                            self.flush().await?;
                            held_since = None;
                            continue;
                        }
                    }
                }
                None => tokio::select! {
                    next = body.next() => next,
                    () = self.responder.stopped() => return Err(Gone.into()),
                },
            };
            if let Piece::Chunk(_) = piece {
                // The references of the chunk precede the chunk, not the head: a browser requests them once it has read
                // them.
                self.responder.send_head().await?;
            }
            body.show(&piece, shown).await;
            match piece {
                Piece::Chunk(chunk) => {
                    held_since.get_or_insert_with(Instant::now);
                    if self.push(chunk).await? {
                        held_since = None;
                    }
                }
                Piece::End => return self.finish().await,
                Piece::Fault(fault) => {
                    if !(self.nothing_came() && matches!(fault, BodyFault::Damaged(_))) {
                        // The bytes before the fault are valid and useful to the browser.
                        self.flush().await?;
                    }
                    return Err(Broken::Body(fault));
                }
            }
        }
    }

    /// Returns true if no byte of the body was received or sent.
    fn nothing_came(&self) -> bool {
        self.responder.stream.is_none() && self.pipeline.decoded() == 0
    }

    /// Encodes a piece of the body; returns true if nothing is pending.
    async fn push(&mut self, mut input: Bytes) -> Result<bool, Broken> {
        loop {
            let Self { responder, pipeline } = self;
            let progress = pipeline.encode(&mut input, &mut responder.windows).await?;
            let has_windows = !responder.windows.is_empty();
            responder.decoded = pipeline.decoded();
            if responder.windows.len() >= GATHER || (responder.stream.is_some() && has_windows) {
                responder.send(pipeline.coding(), End::Open).await?;
            }
            if progress == Progress::Done {
                return Ok(!pipeline.holds() && responder.windows.is_empty() && responder.stream.is_some());
            }
        }
    }

    /// Sends all received bytes.
    async fn flush(&mut self) -> Result<(), Broken> {
        let Self { responder, pipeline } = self;
        if pipeline.holds() {
            pipeline.flush(&mut responder.windows).await?;
            responder.decoded = pipeline.decoded();
        }
        if responder.stream.is_none() || !responder.windows.is_empty() {
            responder.send(pipeline.coding(), End::Open).await?;
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), Broken> {
        if let Err(error) = self.pipeline.check_complete() {
            if self.pipeline.decoded() > 0 {
                self.flush().await?;
            }
            return Err(error.into());
        }
        let Self { responder, pipeline } = self;
        responder.decoded = pipeline.decoded();
        if let BodyState::Announced { length, .. } = &mut responder.body {
            *length = Some(pipeline.decoded());
        }
        pipeline.finish(&mut responder.windows).await?;
        responder.send(pipeline.coding(), End::Finish).await?;
        if let Some(count) = &mut responder.count {
            count.complete();
        }
        Ok(())
    }
}

/// Silence that triggers a flush: the time of one packet on the hop, because a shorter wait delays nothing.
fn pause(rate: BitRate) -> Duration {
    if rate.as_bps() == 0 {
        return MAX_PAUSE;
    }
    Duration::from_micros(PACKET_BITS.saturating_mul(1_000_000) / rate.as_bps()).clamp(MIN_PAUSE, MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flush_pause_follows_the_link_rate() {
        assert_eq!(pause(BitRate::kbps(40)), MAX_PAUSE);
        assert_eq!(pause(BitRate::bps(0)), MAX_PAUSE);
        assert_eq!(pause(BitRate::kbps(1000)), Duration::from_micros(9600));
        assert_eq!(pause(BitRate::kbps(100_000)), MIN_PAUSE);
    }
}
