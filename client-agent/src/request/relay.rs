//! A response's body on its way from the gateway: each window is verified before the browser gets a byte of it. A bad
//! window, or the loss of the session, has the rest asked for again.
use std::sync::Arc;

use bytes::Bytes;
use longhaul_codec::{BodyDecoder, BodyEvent, BodyLimits, DecodeError};
use longhaul_driver::{End, Priority, StreamError};
use longhaul_protocol::session::{Body, FailureReason, Resume, Validator};
use tokio::sync::mpsc;
use tracing::{debug, warn};

use super::{BodyBroken, Context};
use crate::session::{
    Arrival, BasePolicy, FetchDraft, Hop, HopError, Need, ResponseStream, Timing, coding_of,
};

/// How often the rest is asked for without a byte of progress.
const MAX_FRUITLESS: u8 = 4;

/// What is needed to relay a body and to ask for its rest.
pub(super) struct Relay {
    pub(super) context: Arc<Context>,
    pub(super) fetch: FetchDraft,
    pub(super) class: Priority,
    pub(super) is_get: bool,
    pub(super) status: u16,
    pub(super) validator: Option<Validator>,
    pub(super) browser: mpsc::Sender<Result<Bytes, BodyBroken>>,
}

/// A stream with the rest of the body.
struct Source {
    hop: Arc<Hop>,
    stream: ResponseStream,
    body: Option<Body>,
}

/// Why a stream did not bring the body to its end.
#[derive(Debug, thiserror::Error)]
enum Interruption {
    /// The browser wants no more.
    #[error("the browser left")]
    BrowserGone,
    /// A window did not match; the rest may be asked for.
    #[error("a window does not match its hash and the rest cannot be asked for")]
    BadWindow,
    /// The session is lost; the rest may be asked for.
    #[error("the session is lost and the rest cannot be asked for")]
    SessionLost,
    /// The body is bad or incomplete at its source.
    #[error("{0}")]
    Broken(&'static str),
}

impl Relay {
    /// Relays the body to its end, or breaks the browser's connection.
    pub(super) async fn run(self, hop: Arc<Hop>, stream: ResponseStream, body: Option<Body>) {
        let first = Source { hop, stream, body };
        match self.relay(first).await {
            Ok(()) | Err(Interruption::BrowserGone) => {}
            Err(interruption) => {
                self.context.counters.truncated.one();
                self.context.counters.failures.one();
                warn!("a body broke off; the browser's connection is broken too: {interruption}");
                let _gone = self.browser.send(Err(BodyBroken)).await;
            }
        }
    }

    async fn relay(&self, first: Source) -> Result<(), Interruption> {
        let mut decoder: Option<BodyDecoder> = None;
        let mut source = first;
        let mut fruitless = 0;
        loop {
            let before = decoder.as_ref().map_or(0, BodyDecoder::offset);
            let interruption = match self.read(&mut source, &mut decoder).await {
                Ok(()) => return Ok(()),
                Err(interruption) => interruption,
            };
            if matches!(interruption, Interruption::BadWindow) {
                self.context.counters.windows_bad.one();
                warn!("a window of a body does not match its hash; asking for the rest again");
            }
            let offset = decoder.as_ref().map_or(0, BodyDecoder::offset);
            fruitless = if offset > before { 0 } else { fruitless + 1 };
            let resumable = matches!(interruption, Interruption::BadWindow | Interruption::SessionLost)
                && self.is_get
                && fruitless < MAX_FRUITLESS;
            let (true, Some(validator)) = (resumable, &self.validator) else {
                return Err(interruption);
            };
            // The old stream must not go on beside the new one.
            drop(source);
            self.context.counters.resumed.one();
            let resume = Resume {
                offset,
                validator: validator.clone(),
            };
            source = tokio::select! {
                biased;
                () = self.browser.closed() => return Err(Interruption::BrowserGone),
                source = self.resume(resume) => source?,
            };
        }
    }

    /// Reads one stream to the body's end.
    async fn read(&self, source: &mut Source, decoder: &mut Option<BodyDecoder>) -> Result<(), Interruption> {
        let body = match source.body.take() {
            Some(body) => body,
            None => self.or_gone(source.stream.body()).await?,
        };
        let offset = decoder.as_ref().map_or(0, BodyDecoder::offset);
        if body.offset != offset {
            return Err(Interruption::Broken("the gateway resumed at another offset"));
        }
        let key = source.hop.window_key().ok_or(Interruption::SessionLost)?;
        let coding = coding_of(body.coding);
        let mut current = match decoder.take() {
            Some(decoder) => decoder.resume(key, coding),
            None => BodyDecoder::new(key, coding, BodyLimits::default()),
        };
        let end = self.read_windows(&mut source.stream, &mut current).await;
        *decoder = Some(current);
        end
    }

    async fn read_windows(
        &self,
        stream: &mut ResponseStream,
        decoder: &mut BodyDecoder,
    ) -> Result<(), Interruption> {
        loop {
            let Some(bytes) = self.or_gone(stream.read()).await? else {
                return decoder.finish().map(drop).map_err(interruption);
            };
            let mut wire = bytes.as_ref();
            loop {
                match decoder.next(&mut wire).map_err(interruption)? {
                    BodyEvent::Window(window) => {
                        self.context.counters.body_bytes_decoded.add(window.len() as u64);
                        self.browser
                            .send(Ok(window))
                            .await
                            .map_err(|_| Interruption::BrowserGone)?;
                    }
                    BodyEvent::End(_) => return Ok(()),
                    BodyEvent::NeedInput => break,
                }
            }
        }
    }

    /// Waits for the gateway, unless the browser leaves.
    async fn or_gone<T>(
        &self,
        read: impl Future<Output = Result<T, StreamError>>,
    ) -> Result<T, Interruption> {
        tokio::select! {
            biased;
            answer = read => answer.map_err(|error| match error {
                StreamError::SessionLost(_) => Interruption::SessionLost,
                StreamError::Cancelled(_) | StreamError::Stopped(_) | StreamError::Finished | _ => {
                    Interruption::Broken("the gateway cut the response off")
                }
            }),
            () = self.browser.closed() => Err(Interruption::BrowserGone),
        }
    }

    /// Asks for the rest, in whatever session there is or will be.
    async fn resume(&self, resume: Resume) -> Result<Source, Interruption> {
        let _demand = self.context.gateway.demand();
        let mut policy = BasePolicy::Best;
        loop {
            let (hop, _) = self.context.gateway.usable(Need::Open).await;
            let (mut exchange, wire) = match hop.code(&self.fetch, Some(resume.clone()), policy) {
                Ok(coded) => coded,
                Err(HopError::Lost(_)) => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Err(_) => return Err(Interruption::Broken("the rest cannot be asked for")),
            };
            if hop
                .open(self.class, Timing::Open, wire.into(), End::Finish)
                .await
                .is_err()
            {
                tokio::task::yield_now().await;
                continue;
            }
            match exchange.arrival().await {
                Ok(Arrival::Head {
                    status,
                    has_body: true,
                    stream,
                    ..
                }) if status == self.status => {
                    return Ok(Source {
                        hop,
                        stream,
                        body: None,
                    });
                }
                Ok(Arrival::Failed {
                    reason: FailureReason::UnknownBase,
                    ..
                }) if policy == BasePolicy::Best => {
                    policy = BasePolicy::None;
                }
                Ok(Arrival::Failed { reason, .. }) => {
                    debug!(?reason, "the rest of a body is not to be had");
                    return Err(Interruption::Broken(
                        "the gateway has no rest of this representation",
                    ));
                }
                Ok(Arrival::Head { .. } | Arrival::Tunnel(_) | Arrival::Malformed) => {
                    return Err(Interruption::Broken("the rest is another response"));
                }
                Err(reason) => debug!(%reason, "session lost while the rest of a body was asked for"),
            }
        }
    }
}

const fn interruption(error: DecodeError) -> Interruption {
    match error {
        DecodeError::WindowMismatch { .. } => Interruption::BadWindow,
        DecodeError::ContentMismatch => Interruption::Broken("the whole does not match its content hash"),
        DecodeError::Truncated { .. } => Interruption::Broken("the body ends too early"),
        DecodeError::Malformed { .. } => Interruption::Broken("the gateway sent a malformed window"),
        DecodeError::TooLarge(_) => Interruption::Broken("the body is too large"),
        _ => Interruption::Broken("the body cannot be decoded"),
    }
}
