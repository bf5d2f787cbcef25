//! Relay of a response body from the gateway. Each window is verified before the browser gets a byte of it.
//! After a bad window or the loss of the session the relay requests the rest again.
use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use longhaul_cache::StoredBody;
use longhaul_codec::{BodyDecoder, BodyEvent, BodyLimits, DecodeError};
use longhaul_driver::{Priority, StreamError};
use longhaul_session::{Body, ERROR_QUOTA, Evicted, Message, Resume, ShortHash, Validator};
use longhaul_types::ContentHash;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tracing::{debug, warn};

use super::{
    page_membership::{PageUse, Role},
    response::BodyStart,
    resume_check::{Delivered, ResumeCheck, decoder_after},
    stall_timeout::StallTimeout,
};
use crate::{
    counters::Counters,
    gateway::{FetchDraft, Gateway, GatewaySession, ResponseStream, coding_of, next_window},
    journal::Recording,
    pageload::{BodyFault, PushedBodyReader},
    proxy_body::BodyBroken,
    store::{CacheWriter, Store},
};

/// Maximum number of consecutive requests for the rest without a byte of progress.
const MAX_ATTEMPTS_WITHOUT_PROGRESS: u8 = 4;

/// Time for which a body that is being stored is read on after the browser has gone: it may have arrived completely, and
/// then the gateway counts it as held.
const READ_ON: Duration = Duration::from_millis(50);

/// The components that a relay uses.
#[derive(Clone, Debug)]
pub(super) struct RelayHandles {
    /// The gateway, for requests for the rest.
    pub(super) gateway: Gateway,
    /// The cache, for bases.
    pub(super) store: Store,
    pub(super) counters: Arc<Counters>,
    /// The request's record in the journal.
    pub(super) recording: Recording,
    /// Minimum time without data after which a push counts as stuck.
    pub(super) stall_timeout: Duration,
}

/// State for relaying a body and for requesting its rest.
pub(super) struct Relay {
    pub(super) handles: RelayHandles,
    pub(super) fetch: FetchDraft,
    pub(super) class: Priority,
    pub(super) is_get: bool,
    pub(super) status: u16,
    pub(super) validator: Option<Validator>,
    pub(super) browser: mpsc::Sender<Result<Bytes, BodyBroken>>,
    /// Cache writer of the body.
    pub(super) cache_writer: Option<CacheWriter>,
    /// Page load that this body keeps in use; each arrival of bytes counts as its progress.
    pub(super) page: Option<PageUse>,
    /// Bytes delivered to the browser.
    pub(super) delivered: Delivered,
    /// Prefix that a repeated body must match.
    pub(super) resume_check: ResumeCheck,
    /// The decoded length, once the gateway has sent it.
    pub(super) length: Option<u64>,
    /// Bytes of the body on the hop.
    pub(super) coded: u64,
    /// Time at which the browser was found to be gone.
    pub(super) gone_at: Option<Instant>,
}

/// A stream with the rest of the body.
pub(super) struct RestOfBody {
    pub(super) session: Arc<GatewaySession>,
    pub(super) stream: ResponseStream,
    pub(super) body: Option<Body>,
    /// The body's base, if already read.
    pub(super) base: Option<Bytes>,
}

/// Reasons why a stream did not deliver the whole body.
#[derive(Debug, thiserror::Error)]
pub(super) enum Interruption {
    /// The browser closed the connection.
    #[error("the browser closed the connection")]
    BrowserGone,
    /// A window did not match; the rest may be requested.
    #[error("a window does not match its hash and the rest cannot be requested")]
    BadWindow,
    /// The session is lost; the rest may be requested.
    #[error("the session is lost and the rest cannot be requested")]
    SessionLost,
    /// The body is malformed or incomplete at its source.
    #[error("{0}")]
    Broken(&'static str),
}

const ENDED_AT_ORIGIN: Interruption = Interruption::Broken("the body ended early at the origin");

impl Relay {
    /// Relays the body to its end, or aborts the browser's connection.
    pub(super) async fn run(
        mut self,
        session: Arc<GatewaySession>,
        stream: ResponseStream,
        start: BodyStart,
    ) {
        let BodyStart { body, base } = start;
        let first = RestOfBody {
            session,
            stream,
            body,
            base,
        };
        let end = self.relay(Some(first), None).await;
        self.finish(end.map(drop)).await;
    }

    /// Relays a pushed body to the browser. If the push ends early, requests the rest.
    pub(super) async fn run_pushed(mut self, mut reader: PushedBodyReader) {
        let recording = self.handles.recording.clone();
        let load = self.page.as_ref().map(|page| Arc::clone(&page.load));
        let mut stall_timeout = load
            .as_deref()
            .map(|load| StallTimeout::new(load, self.handles.stall_timeout));
        let end = loop {
            let stuck = async {
                match (&mut stall_timeout, load.as_deref()) {
                    (Some(stall_timeout), Some(load)) => stall_timeout.expires(load).await,
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
                    if let Err(gone) = self.deliver(bytes).await {
                        break Err(gone);
                    }
                }
                Ok(None) => {
                    reader.record(&recording);
                    break Ok(());
                }
                Err(fault) => {
                    debug!(%fault, "a push ended early while a browser was reading it");
                    let delivered = reader.delivered();
                    break self.fetch_rest(&delivered).await;
                }
            }
        };
        self.finish(end).await;
    }

    /// Relays a stored body to the browser.
    pub(super) async fn run_stored(mut self, mut body: StoredBody) {
        let end = loop {
            match body.next().await {
                None => break Ok(()),
                Some(Ok(bytes)) => {
                    if let Err(gone) = self.deliver(bytes).await {
                        break Err(gone);
                    }
                }
                Some(Err(_)) => break Err(Interruption::Broken("the stored body is damaged")),
            }
        };
        self.finish(end).await;
    }

    /// Gets the rest of a body whose start the browser has: from the offset if there is a validator, else the
    /// whole body, which must begin with the same bytes.
    pub(super) async fn fetch_rest(&mut self, delivered: &[Bytes]) -> Result<(), Interruption> {
        if !self.is_get {
            return Err(Interruption::SessionLost);
        }
        if self.validator.is_some() {
            let decoder = decoder_after(delivered).ok_or(Interruption::SessionLost)?;
            let chk = self.relay(None, Some(decoder)).await?;
            self.report_unstored(chk).await;
            return Ok(());
        }
        self.resume_check = ResumeCheck::new(&self.delivered);
        let whole = tokio::select! {
            biased;
            () = self.browser.closed() => return Err(Interruption::BrowserGone),
            whole = self.request_rest(None) => whole?,
        };
        self.handles.counters.resumed.increment();
        let chk = self.relay(Some(whole), None).await?;
        self.report_unstored(chk).await;
        Ok(())
    }

    /// Reports a body that the gateway counts as held: the rest of an announced body is not stored.
    async fn report_unstored(&self, chk: ContentHash) {
        let store = &self.handles.store;
        if store.is_on() && !store.has(chk).await {
            store.report_missing(chk);
        }
    }

    async fn deliver(&mut self, bytes: Bytes) -> Result<(), Interruption> {
        self.handles.counters.body_bytes_decoded.add(bytes.len() as u64);
        self.delivered.add(&bytes);
        if let Some(cache_writer) = &mut self.cache_writer {
            cache_writer.write(bytes.clone()).await;
        }
        if self.browser.send(Ok(bytes)).await.is_ok() {
            return Ok(());
        }
        let gone_at = *self.gone_at.get_or_insert_with(Instant::now);
        if self.cache_writer.is_some() && gone_at.elapsed() < READ_ON {
            Ok(())
        } else {
            Err(Interruption::BrowserGone)
        }
    }

    /// Completes when the body need not be read any more, because the browser has gone.
    async fn unwanted(&self) {
        if self.length == Some(self.delivered.length()) {
            // The browser closes the body after its last byte, which the content hash follows.
            return std::future::pending().await;
        }
        self.browser.closed().await;
        if self.cache_writer.is_some() {
            sleep_until(self.gone_at.unwrap_or_else(Instant::now) + READ_ON).await;
        }
    }

    pub(super) async fn finish(self, end: Result<(), Interruption>) {
        if self.coded > 0 {
            self.handles.recording.carried(self.coded);
        }
        match end {
            Ok(()) => {}
            Err(Interruption::BrowserGone) => {
                if let Some(PageUse {
                    load,
                    role: Role::Page,
                    ..
                }) = &self.page
                {
                    load.abort_page();
                }
            }
            Err(interruption) => {
                self.handles.counters.truncated.increment();
                self.handles.counters.failures.increment();
                warn!("a body ended early, so the browser's connection is aborted: {interruption}");
                let _gone = self.browser.send(Err(BodyBroken)).await;
            }
        }
    }

    async fn relay(
        &mut self,
        mut source: Option<RestOfBody>,
        mut decoder: Option<BodyDecoder>,
    ) -> Result<ContentHash, Interruption> {
        let mut attempts_without_progress = 0;
        loop {
            if let Some(source) = &mut source {
                let before = self.delivered.length();
                let interruption = match self.read(source, &mut decoder).await {
                    Ok(chk) => {
                        if !self.resume_check.is_confirmed() {
                            return Err(Interruption::Broken("the body is another one now"));
                        }
                        self.handles.counters.savings.transferred(chk, self.coded);
                        if let Some(cache_writer) = self.cache_writer.take() {
                            cache_writer.finish(chk).await;
                        }
                        return match self.gone_at {
                            None => Ok(chk),
                            Some(_) => Err(Interruption::BrowserGone),
                        };
                    }
                    Err(interruption) => interruption,
                };
                if matches!(interruption, Interruption::BadWindow) {
                    self.handles.counters.windows_bad.increment();
                    warn!("a window of a body does not match its hash; requesting the rest again");
                }
                let progress = self.delivered.length() > before;
                attempts_without_progress = if progress {
                    0
                } else {
                    attempts_without_progress + 1
                };
                if !self.may_request_rest(&interruption)
                    || attempts_without_progress >= MAX_ATTEMPTS_WITHOUT_PROGRESS
                {
                    return Err(interruption);
                }
            }
            // The old stream must end before the new one begins.
            drop(source.take());
            self.handles.counters.resumed.increment();
            let resume = self.validator.clone().map(|validator| Resume {
                offset: decoder.as_ref().map_or(0, BodyDecoder::offset),
                validator,
            });
            if resume.is_none() {
                decoder = None;
                self.resume_check = ResumeCheck::new(&self.delivered);
            }
            source = tokio::select! {
                biased;
                () = self.browser.closed() => return Err(Interruption::BrowserGone),
                source = self.request_rest(resume) => Some(source?),
            };
        }
    }

    /// Returns the base of a body. Without its base a body cannot be decoded.
    async fn base(&self, session: &GatewaySession, name: &ShortHash) -> Result<Bytes, Interruption> {
        if let Some(base) = self.handles.store.base(name).await {
            self.handles.counters.base_used(name);
            return Ok(base);
        }
        self.handles.counters.bases_missing.increment();
        session.send_control(Message::Evicted(Evicted { hashes: vec![*name] }));
        Err(Interruption::BadWindow)
    }

    /// Reads one stream to the body's end.
    async fn read(
        &mut self,
        source: &mut RestOfBody,
        decoder: &mut Option<BodyDecoder>,
    ) -> Result<ContentHash, Interruption> {
        let body = match source.body.take() {
            Some(body) => body,
            None => self
                .unless_browser_gone(source.stream.body())
                .await?
                .ok_or(ENDED_AT_ORIGIN)?,
        };
        let offset = decoder.as_ref().map_or(0, BodyDecoder::offset);
        if body.offset != offset {
            return Err(Interruption::Broken("the gateway resumed at another offset"));
        }
        if self.length.is_some() && body.length != self.length && !self.resume_check.is_confirmed() {
            return Err(Interruption::Broken("the length of the body has changed"));
        }
        self.length = self.length.or(body.length);
        self.handles.recording.coded(&body);
        let key = source.session.window_key().ok_or(Interruption::SessionLost)?;
        let coding = coding_of(body.coding);
        let base = match (source.base.take(), body.base) {
            (Some(base), _) => base,
            (None, Some(name)) => self.base(&source.session, &name).await?,
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
            let Some(bytes) = self.unless_browser_gone(stream.read()).await? else {
                return decoder.finish().map_err(interruption);
            };
            self.coded += bytes.len() as u64;
            if let Some(page) = &self.page {
                page.load.record_progress();
            }
            let mut wire = bytes;
            loop {
                match next_window(decoder, &mut wire).await.map_err(interruption)? {
                    BodyEvent::Window(window) => {
                        let fresh = self.resume_check.fresh_part(window);
                        let fresh = fresh.ok_or(Interruption::Broken("the body is another one now"))?;
                        if !fresh.is_empty() {
                            self.deliver(fresh).await?;
                        }
                    }
                    BodyEvent::End(chk) => return Ok(chk),
                    BodyEvent::NeedInput => break,
                }
            }
        }
    }

    /// Waits for the gateway; ends if the browser has closed its connection.
    async fn unless_browser_gone<T>(
        &self,
        read: impl Future<Output = Result<T, StreamError>>,
    ) -> Result<T, Interruption> {
        tokio::select! {
            biased;
            answer = read => answer.map_err(|error| match error {
                StreamError::SessionLost(_) => Interruption::SessionLost,
                StreamError::Cancelled(ERROR_QUOTA) => Interruption::Broken(
                    "the monthly quota of this device is used up; the gateway's operator sets it",
                ),
                StreamError::Cancelled(_) | StreamError::Stopped(_) | StreamError::Finished | _ => {
                    Interruption::Broken("the gateway cancelled the response")
                }
            }),
            () = self.unwanted() => Err(Interruption::BrowserGone),
        }
    }
}

const fn interruption(error: DecodeError) -> Interruption {
    match error {
        DecodeError::WindowMismatch { .. } => Interruption::BadWindow,
        DecodeError::ContentMismatch => Interruption::Broken("the body does not match its content hash"),
        DecodeError::Truncated { .. } => ENDED_AT_ORIGIN,
        DecodeError::Malformed { .. } => Interruption::Broken("the gateway sent a malformed window"),
        DecodeError::TooLarge(_) => Interruption::Broken("the body is too large"),
        _ => Interruption::Broken("the body cannot be decoded"),
    }
}
