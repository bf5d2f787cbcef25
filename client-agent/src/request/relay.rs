//! A response's body on its way from the gateway: each window is verified before the browser gets a byte of it. A bad
//! window, or the loss of the session, has the rest asked for again.
use std::sync::Arc;

use bytes::Bytes;
use longhaul_cache::StoredBody;
use longhaul_codec::{BodyDecoder, BodyEvent, BodyLimits, DecodeError};
use longhaul_driver::{End, Priority, StreamError};
use longhaul_protocol::session::{
    Body, BodyPlace, Delivery, Evicted, FailureReason, FetchKind, Message, Resume, ShortHash, Validator,
};
use longhaul_types::ContentHash;
use tokio::sync::mpsc;
use tracing::{debug, warn};

use super::{
    BodyBroken, Context,
    known::{Delivered, Known, decoder_behind},
    page_use::{PageUse, Role},
    promised::Patience,
    response::Begun,
};
use crate::{
    bundle::{BodyFault, BodyReader},
    session::{
        Arrival, BasePolicy, FetchContext, FetchDraft, Hop, HopError, Need, ResponseStream, Timing,
        coding_of, next_window,
    },
    store::Tee,
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
    /// Takes the body for the cache on the way.
    pub(super) tee: Option<Tee>,
    /// The page load that waits for nothing worse while this goes on.
    pub(super) page: Option<PageUse>,
    /// What was handed to the browser.
    pub(super) delivered: Delivered,
    /// What of it must come again, where the body began anew.
    pub(super) known: Known,
    /// The decoded length, once the gateway has told it.
    pub(super) length: Option<u64>,
}

/// A stream with the rest of the body.
struct Source {
    hop: Arc<Hop>,
    stream: ResponseStream,
    body: Option<Body>,
    /// The body's base, if it was read already.
    base: Option<Bytes>,
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
    pub(super) async fn run(mut self, hop: Arc<Hop>, stream: ResponseStream, begun: Begun) {
        let Begun { body, base } = begun;
        let first = Source {
            hop,
            stream,
            body,
            base,
        };
        let end = self.relay(Some(first), None).await;
        self.ended(end).await;
    }

    /// Hands a pushed body to the browser. If the push breaks off, the rest is asked for.
    pub(super) async fn run_pushed(mut self, mut reader: BodyReader) {
        let load = self.page.as_ref().map(|page| Arc::clone(&page.load));
        let mut patience = load
            .as_deref()
            .map(|load| Patience::new(load, self.context.push.patience));
        let end = loop {
            let stuck = async {
                match (&mut patience, load.as_deref()) {
                    (Some(patience), Some(load)) => patience.runs_out(load).await,
                    (None, _) | (_, None) => std::future::pending().await,
                }
            };
            let next = tokio::select! {
                biased;
                next = reader.next() => next,
                () = self.browser.closed() => break Err(Interruption::BrowserGone),
                () = stuck => Err(BodyFault::Stuck),
            };
            match next {
                Ok(Some(bytes)) => {
                    if let Err(gone) = self.hand_over(bytes).await {
                        break Err(gone);
                    }
                }
                Ok(None) => break Ok(()),
                Err(fault) => {
                    debug!(%fault, "a push broke off with a browser reading it");
                    let delivered = reader.delivered();
                    break self.go_on_alone(&delivered).await;
                }
            }
        };
        self.ended(end).await;
    }

    /// Hands a stored body to the browser.
    pub(super) async fn run_stored(mut self, mut body: StoredBody) {
        let end = loop {
            match body.next().await {
                None => break Ok(()),
                Some(Ok(bytes)) => {
                    if let Err(gone) = self.hand_over(bytes).await {
                        break Err(gone);
                    }
                }
                Some(Err(_)) => break Err(Interruption::Broken("the stored body is damaged")),
            }
        };
        self.ended(end).await;
    }

    /// Gets the rest of a body of which the browser has the start: from there on if the gateway can tell that it is the
    /// rest, else all of it, which must begin with the same bytes.
    async fn go_on_alone(&mut self, delivered: &[Bytes]) -> Result<(), Interruption> {
        if !self.is_get {
            return Err(Interruption::SessionLost);
        }
        if self.validator.is_some() {
            let decoder = decoder_behind(delivered).ok_or(Interruption::SessionLost)?;
            return self.relay(None, Some(decoder)).await;
        }
        self.known = Known::new(&self.delivered);
        let whole = tokio::select! {
            biased;
            () = self.browser.closed() => return Err(Interruption::BrowserGone),
            whole = self.ask_again(None) => whole?,
        };
        self.context.counters.resumed.one();
        self.relay(Some(whole), None).await
    }

    async fn hand_over(&mut self, bytes: Bytes) -> Result<(), Interruption> {
        self.context.counters.body_bytes_decoded.add(bytes.len() as u64);
        self.delivered.add(&bytes);
        if let Some(tee) = &mut self.tee {
            tee.write(bytes.clone()).await;
        }
        self.browser
            .send(Ok(bytes))
            .await
            .map_err(|_| Interruption::BrowserGone)
    }

    async fn ended(self, end: Result<(), Interruption>) {
        match end {
            Ok(()) => {}
            Err(Interruption::BrowserGone) => {
                if let Some(PageUse {
                    load,
                    role: Role::Page,
                    ..
                }) = &self.page
                {
                    load.break_off();
                }
            }
            Err(interruption) => {
                self.context.counters.truncated.one();
                self.context.counters.failures.one();
                warn!("a body broke off; the browser's connection is broken too: {interruption}");
                let _gone = self.browser.send(Err(BodyBroken)).await;
            }
        }
    }

    async fn relay(
        &mut self,
        mut source: Option<Source>,
        mut decoder: Option<BodyDecoder>,
    ) -> Result<(), Interruption> {
        let mut fruitless = 0;
        loop {
            if let Some(source) = &mut source {
                let before = self.delivered.length();
                let interruption = match self.read(source, &mut decoder).await {
                    Ok(chk) => {
                        if !self.known.is_confirmed() {
                            return Err(Interruption::Broken("the body is another one now"));
                        }
                        if let Some(tee) = self.tee.take() {
                            tee.finish(chk).await;
                        }
                        return Ok(());
                    }
                    Err(interruption) => interruption,
                };
                if matches!(interruption, Interruption::BadWindow) {
                    self.context.counters.windows_bad.one();
                    warn!("a window of a body does not match its hash; asking for the rest again");
                }
                let progress = self.delivered.length() > before;
                fruitless = if progress { 0 } else { fruitless + 1 };
                if !self.may_ask_again(&interruption) || fruitless >= MAX_FRUITLESS {
                    return Err(interruption);
                }
            }
            // The old stream must not go on beside the new one.
            drop(source.take());
            self.context.counters.resumed.one();
            let resume = self.validator.clone().map(|validator| Resume {
                offset: decoder.as_ref().map_or(0, BodyDecoder::offset),
                validator,
            });
            if resume.is_none() {
                decoder = None;
                self.known = Known::new(&self.delivered);
            }
            source = tokio::select! {
                biased;
                () = self.browser.closed() => return Err(Interruption::BrowserGone),
                source = self.ask_again(resume) => Some(source?),
            };
        }
    }

    /// Whether a body that broke off so may be asked for again: its rest, by a validator; else, behind a lost session, all of it,
    /// to be compared with what the browser has. A body without a length may have no end, and never repeat itself.
    fn may_ask_again(&self, interruption: &Interruption) -> bool {
        self.is_get
            && match interruption {
                Interruption::BadWindow => self.validator.is_some(),
                Interruption::SessionLost => self.validator.is_some() || self.length.is_some(),
                Interruption::BrowserGone | Interruption::Broken(_) => false,
            }
    }

    /// The base of a body. Without it nothing of the body can be read.
    async fn base(&self, hop: &Hop, name: &ShortHash) -> Result<Bytes, Interruption> {
        if let Some(base) = self.context.store.base(name).await {
            self.context.counters.base_used(name);
            return Ok(base);
        }
        self.context.counters.bases_missing.one();
        hop.tell(Message::Evicted(Evicted { hashes: vec![*name] }));
        Err(Interruption::BadWindow)
    }

    /// Reads one stream to the body's end.
    async fn read(
        &mut self,
        source: &mut Source,
        decoder: &mut Option<BodyDecoder>,
    ) -> Result<ContentHash, Interruption> {
        let body = match source.body.take() {
            Some(body) => body,
            None => self.or_gone(source.stream.body()).await?,
        };
        let offset = decoder.as_ref().map_or(0, BodyDecoder::offset);
        if body.offset != offset {
            return Err(Interruption::Broken("the gateway resumed at another offset"));
        }
        if self.length.is_some() && body.length != self.length && !self.known.is_confirmed() {
            return Err(Interruption::Broken("the body has another length now"));
        }
        self.length = self.length.or(body.length);
        let key = source.hop.window_key().ok_or(Interruption::SessionLost)?;
        let coding = coding_of(body.coding);
        let base = match (source.base.take(), body.base) {
            (Some(base), _) => base,
            (None, Some(name)) => self.base(&source.hop, &name).await?,
            (None, None) => Bytes::new(),
        };
        let mut current = match decoder.take() {
            Some(decoder) => decoder.resume(key, coding),
            None => BodyDecoder::with_base(key, coding, BodyLimits::default(), &base),
        };
        let end = self.read_windows(&mut source.stream, &mut current).await;
        *decoder = Some(current);
        end
    }

    async fn read_windows(
        &mut self,
        stream: &mut ResponseStream,
        decoder: &mut BodyDecoder,
    ) -> Result<ContentHash, Interruption> {
        loop {
            let Some(bytes) = self.or_gone(stream.read()).await? else {
                return decoder.finish().map_err(interruption);
            };
            if let Some(page) = &self.page {
                page.load.touch();
            }
            let mut wire = bytes;
            loop {
                match next_window(decoder, &mut wire).await.map_err(interruption)? {
                    BodyEvent::Window(window) => {
                        let fresh = self.known.fresh_part(window);
                        let fresh = fresh.ok_or(Interruption::Broken("the body is another one now"))?;
                        if !fresh.is_empty() {
                            self.hand_over(fresh).await?;
                        }
                    }
                    BodyEvent::End(chk) => return Ok(chk),
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

    /// Asks for the rest, or for all of it, in whatever session there is or will be.
    async fn ask_again(&self, resume: Option<Resume>) -> Result<Source, Interruption> {
        let _demand = self.context.gateway.demand();
        let mut policy = BasePolicy::Best;
        let fetch = FetchDraft {
            // A second bundle for a page that is half here would help nobody.
            kind: FetchKind::Object,
            context: FetchContext {
                delivery: Delivery::Own,
                connection: self.fetch.context.connection,
                client: self.fetch.context.client,
                unpartitioned: self.fetch.context.unpartitioned,
                ..FetchContext::default()
            },
            ..self.fetch.clone()
        };
        loop {
            let (hop, _) = self.context.gateway.usable(Need::Open).await;
            let (mut exchange, wire) = match hop.code(&fetch, resume.clone(), policy) {
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
                    body: BodyPlace::Follows,
                    stream,
                    ..
                }) if status == self.status => {
                    return Ok(Source {
                        hop,
                        stream,
                        body: None,
                        base: None,
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
                Ok(
                    Arrival::Head { .. } | Arrival::Tunnel(_) | Arrival::Promised { .. } | Arrival::Malformed,
                ) => {
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
