//! The response stream: `Head`, `Body` and windows, sent as the origin delivers them.
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use longhaul_driver::{EarlyData, End, OpenOptions, Priority, SendStream};
use longhaul_session::{Body, FailureReason, Message, class, encode};
use longhaul_types::{BitRate, ContentHash};
use longhaul_webcache::BodyFault;
use tokio::time::timeout;
use tracing::debug;

use super::{
    Failure,
    held::{Piece, TappedBody},
};
use crate::{
    body::{BodyCoder, CodeError, Progress, WindowCoding},
    metrics::Outcome,
    session::SessionContext,
};

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
/// Length at which an object of unknown length becomes bulk.
const LONG: u64 = 1024 * 1024;

/// The agent stopped the stream, or the session is lost.
#[derive(Debug)]
pub(crate) struct Gone;

/// The response stream of one fetch.
pub(crate) struct Responder {
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
    /// Decoded bytes of the whole body, set at its end.
    decoded: u64,
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
    pub(crate) fn new(
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
        }
    }

    /// Sends the head and ends the stream.
    pub(crate) async fn finish_without_body(mut self) -> Result<(), Gone> {
        self.send(None, End::Finish).await
    }

    /// Decoded bytes of a completely sent body.
    pub(super) const fn decoded(&self) -> u64 {
        self.decoded
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
        let mut chunk = std::mem::take(&mut self.messages);
        if self.stream.is_none() && end == End::Open && self.class == class::BULK {
            // A download's head must not wait behind other downloads.
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
pub(crate) enum Relayed {
    /// The body with this CHK was sent completely.
    Complete(ContentHash),
    /// The body was truncated.
    Truncated,
    /// The agent stopped the stream, or the session is lost.
    Cancelled,
}

impl Relayed {
    pub(crate) const fn outcome(self) -> Outcome {
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
pub(crate) async fn relay(
    responder: &mut Responder,
    mut body: TappedBody,
    coder: BodyCoder,
) -> Result<Relayed, Failure> {
    let mut coding = Coding {
        coder: Some(coder),
        context: Arc::clone(&responder.context),
    };
    let broken = match relay_body(responder, &mut body, &mut coding).await {
        Ok(()) => return Ok(body.chk().map_or(Relayed::Truncated, Relayed::Complete)),
        Err(broken) => broken,
    };
    match broken {
        Broken::Gone(Gone) => return Ok(Relayed::Cancelled),
        Broken::Body(fault @ BodyFault::Damaged(_))
            if responder.stream.is_none() && coding.decoded() == 0 =>
        {
            return Err(Failure::new(FailureReason::MalformedResponse, fault));
        }
        Broken::Body(error) => debug!(%error, "a body broke off"),
        Broken::Coding(error) => debug!(%error, "a body cannot be coded on"),
    }
    let known = coding.coding();
    if known.is_none() {
        responder.windows.clear();
    }
    match responder.send(known, End::Finish).await {
        Ok(()) => Ok(Relayed::Truncated),
        Err(Gone) => Ok(Relayed::Cancelled),
    }
}

async fn relay_body(
    responder: &mut Responder,
    body: &mut TappedBody,
    coding: &mut Coding,
) -> Result<(), Broken> {
    let pause = pause(responder.context.session.stats().send_rate);
    let mut held_since = Some(Instant::now());
    loop {
        let (piece, shown) = match held_since {
            Some(since) => {
                let left = MAX_HOLD.saturating_sub(since.elapsed()).min(pause);
                match timeout(left, body.next()).await {
                    Ok(next) => next,
                    Err(_) => {
                        coding.flush(responder).await?;
                        held_since = None;
                        continue;
                    }
                }
            }
            None => tokio::select! {
                next = body.next() => next,
                () = responder.stopped() => return Err(Gone.into()),
            },
        };
        body.show(&piece, shown).await;
        match piece {
            Piece::Chunk(chunk) => {
                held_since.get_or_insert_with(Instant::now);
                if coding.push(chunk, responder).await? {
                    held_since = None;
                }
            }
            Piece::End => return coding.finish(responder).await,
            Piece::Fault(fault) => {
                let nothing_came = responder.stream.is_none() && coding.decoded() == 0;
                if !(nothing_came && matches!(fault, BodyFault::Damaged(_))) {
                    // The bytes before the fault are valid and useful to the browser.
                    coding.flush(responder).await?;
                }
                return Err(Broken::Body(fault));
            }
        }
    }
}

/// Silence that triggers a flush: the time of one packet on the hop, because a shorter wait delays nothing.
fn pause(rate: BitRate) -> Duration {
    if rate.as_bps() == 0 {
        return MAX_PAUSE;
    }
    Duration::from_micros(PACKET_BITS.saturating_mul(1_000_000) / rate.as_bps()).clamp(MIN_PAUSE, MAX_PAUSE)
}

/// The encoder, which runs in the thread pool for long work.
struct Coding {
    /// `Some` between any two steps.
    coder: Option<BodyCoder>,
    context: Arc<SessionContext>,
}

impl Coding {
    fn coding(&self) -> Option<WindowCoding> {
        self.coder.as_ref().and_then(BodyCoder::coding)
    }

    fn decoded(&self) -> u64 {
        self.coder.as_ref().map_or(0, BodyCoder::decoded)
    }

    /// Encodes a piece of the body; returns true if nothing is pending.
    async fn push(&mut self, mut input: Bytes, responder: &mut Responder) -> Result<bool, Broken> {
        loop {
            let step = |coder: &mut BodyCoder, input: &mut Bytes, wire: &mut Vec<u8>| coder.step(input, wire);
            let progress = self.work(&mut input, &mut responder.windows, step).await?;
            if responder.windows.len() >= GATHER
                || (responder.stream.is_some() && !responder.windows.is_empty())
            {
                responder.send(self.coding(), End::Open).await?;
            }
            if progress == Progress::Done {
                let holds = self.coder.as_ref().is_some_and(BodyCoder::holds);
                return Ok(!holds && responder.windows.is_empty() && responder.stream.is_some());
            }
        }
    }

    /// Sends all received bytes.
    async fn flush(&mut self, responder: &mut Responder) -> Result<(), Broken> {
        if self.coder.as_ref().is_some_and(BodyCoder::holds) {
            let flush = |coder: &mut BodyCoder, _: &mut Bytes, wire: &mut Vec<u8>| coder.flush(wire);
            self.work(&mut Bytes::new(), &mut responder.windows, flush)
                .await?;
        }
        if responder.stream.is_none() || !responder.windows.is_empty() {
            responder.send(self.coding(), End::Open).await?;
        }
        Ok(())
    }

    async fn finish(&mut self, responder: &mut Responder) -> Result<(), Broken> {
        if let Some(Err(error)) = self.coder.as_ref().map(BodyCoder::check_complete) {
            if self.decoded() > 0 {
                self.flush(responder).await?;
            }
            return Err(error.into());
        }
        let coder = self.coder.take().ok_or(CodeError::Interrupted)?;
        responder.decoded = coder.decoded();
        if let BodyState::Announced { length, .. } = &mut responder.body {
            *length = Some(coder.decoded());
        }
        let is_heavy = coder.is_heavy(0);
        let mut wire = std::mem::take(&mut responder.windows);
        let work = move |load| {
            let mut coder = coder;
            coder.under(load);
            (coder.finish(&mut wire), wire)
        };
        let gateway = &self.context.gateway;
        let (coded, wire) = if is_heavy {
            let ran = gateway.cpu_pool.run(Some(self.context.device), work).await;
            ran.map_err(|_| CodeError::Interrupted)?
        } else {
            work(gateway.cpu_pool.load())
        };
        responder.windows = wire;
        let (coding, finished) = coded?;
        if let Some(finished) = finished {
            gateway.coded.finished(&self.context.device, finished);
        }
        responder.send(Some(coding), End::Finish).await?;
        Ok(())
    }

    async fn work<T: Send + 'static>(
        &mut self,
        input: &mut Bytes,
        wire: &mut Vec<u8>,
        work: impl FnOnce(&mut BodyCoder, &mut Bytes, &mut Vec<u8>) -> Result<T, CodeError> + Send + 'static,
    ) -> Result<T, CodeError> {
        let mut coder = self.coder.take().ok_or(CodeError::Interrupted)?;
        if !coder.is_heavy(input.len()) {
            let outcome = work(&mut coder, input, wire);
            self.coder = Some(coder);
            return outcome;
        }
        let (mut own_input, mut own_wire) = (std::mem::take(input), std::mem::take(wire));
        let device = Some(self.context.device);
        let worked = self.context.gateway.cpu_pool.run(device, move |load| {
            coder.under(load);
            let outcome = work(&mut coder, &mut own_input, &mut own_wire);
            (coder, own_input, own_wire, outcome)
        });
        let (coder, own_input, own_wire, outcome) = worked.await.map_err(|_| CodeError::Interrupted)?;
        self.coder = Some(coder);
        (*input, *wire) = (own_input, own_wire);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_follow_the_hop() {
        assert_eq!(pause(BitRate::kbps(40)), MAX_PAUSE);
        assert_eq!(pause(BitRate::bps(0)), MAX_PAUSE);
        assert_eq!(pause(BitRate::kbps(1000)), Duration::from_micros(9600));
        assert_eq!(pause(BitRate::kbps(100_000)), MIN_PAUSE);
    }
}
