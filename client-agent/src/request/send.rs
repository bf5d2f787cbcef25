//! Sending of a request in a session, and the wait for the gateway's answer.
use std::{future::Future, pin::Pin, sync::Arc};

use http::{Response, header};
use longhaul_driver::CloseReason;
use longhaul_origin::{FetchError, OriginBody};
use longhaul_session::{FetchKind, MirrorState, PageId};
use longhaul_types::BitRate;
use tokio::sync::oneshot;
use tracing::debug;

use super::{
    outcome::RequestOutcome,
    page_membership::{PageUse, Role},
    phase::{Phase, Promise},
    response,
    task::{DirectFetch, RequestTask},
    upload::{SharedUpload, Transmission, UploadError, UploadTraits},
};
use crate::{
    counters::PhaseExit,
    gateway::{Exchange, GatewayAnswer, GatewaySession, SendPhase},
    pageload::PageLoadStart,
    pages::{BadRequest, Failure},
    upstream::direct,
};

/// First event while the request waits for the gateway's answer.
enum Event {
    GatewayAnswer(Result<GatewayAnswer, CloseReason>),
    Sent(Result<(), UploadError>),
    Direct(Result<Response<OriginBody>, FetchError>),
    FallbackDue,
    Announced(Promise),
}

impl RequestTask {
    /// Sets the members of the fetch that depend on page load and session.
    pub(super) fn complete_fetch(&mut self, session: &GatewaySession) {
        let page = self.page.as_ref().map(|page| &page.load);
        let of_session = page.filter(|load| load.session.serial() == session.serial() && !load.is_over());
        let context = &mut self.request.fetch.context;
        context.page = of_session.map(|load| load.page);
        context.held = self.held_version;
        context.manifest = self
            .kept_manifest
            .as_ref()
            .map(|kept_manifest| kept_manifest.id());
        context.holding = match session.mirror() {
            Some(MirrorState::Unknown) => self.held_bodies.clone(),
            Some(MirrorState::Agreed) | None => Vec::new(),
        };
    }

    /// Starts the page load of a page's fetch, before the fetch is sent.
    pub(super) fn begin_page(&mut self, exchange: &Exchange) {
        if self.request.fetch.kind != FetchKind::Page {
            return;
        }
        let session = exchange.session();
        let told = !self.request.fetch.context.holding.is_empty();
        let load = self.acceleration.page_loads.begin(PageLoadStart {
            session: Arc::clone(session),
            page: PageId::of(exchange.id()),
            url: self.request.fetch.url.clone(),
            origin: self.request.fetch.origin.clone(),
            context: self.request.context.clone(),
            reload: self.request.reload,
            base: self.kept_manifest.clone(),
            holding: if told {
                Vec::new()
            } else {
                self.held_bodies.clone()
            },
        });
        self.page = Some(PageUse::of(load, Role::Page));
        // `Welcome` may have arrived after the fetch was encoded.
        if session.mirror() == Some(MirrorState::Unknown) {
            self.acceleration.page_loads.send_holding(session.serial());
        }
    }

    pub(super) async fn send(&mut self, session: Arc<GatewaySession>, send_phase: SendPhase) -> Phase {
        if let Some(failure) = self.known_host_failure() {
            return self.change_phase(
                PhaseExit::SentUnreachable,
                Phase::Over(RequestOutcome::of_failure(failure)),
            );
        }
        self.complete_fetch(&session);
        let (mut exchange, fetch) = match session.encode_fetch(&self.request.fetch, None, self.policy) {
            Ok(coded) => coded,
            Err(error) => return self.not_sent(&error),
        };
        self.begin_page(&exchange);
        let continuation = self.request.awaits_continue.then(|| exchange.continuation());
        let mut transmission = Some(self.transmission(&session, send_phase, fetch, continuation));
        let mut direct: Option<DirectFetch> = None;
        let mut manifest = self.open_manifest(&session);
        loop {
            let event = tokio::select! {
                biased;
                answer = exchange.answer() => Event::GatewayAnswer(answer),
                sent = run(&mut transmission) => Event::Sent(sent),
                answer = run(&mut direct) => Event::Direct(answer),
                promise = self.announced_meanwhile(manifest.as_mut()) => Event::Announced(promise),
                () = self.fallback.until_due(), if direct.is_none() && self.is_repeatable_now() => Event::FallbackDue,
            };
            match event {
                Event::GatewayAnswer(Ok(answer)) => {
                    let is_wanted = self.upload.as_ref().is_none_or(SharedUpload::has_begun);
                    if let (Some(rest), true, GatewayAnswer::Head { .. }) = (transmission, is_wanted, &answer)
                    {
                        // The origin answers before it has the whole body: the rest is still sent.
                        tokio::spawn(rest);
                    }
                    return self.handle_answer(answer, exchange, send_phase).await;
                }
                Event::GatewayAnswer(Err(reason)) => {
                    debug!(%reason, "session lost while a request waits for its answer");
                    return self.handle_lost_session(&reason);
                }
                Event::Sent(sent) => {
                    transmission = None;
                    match sent {
                        Ok(()) | Err(UploadError::Stream(_)) => {}
                        Err(UploadError::NotSent(error)) => return self.not_sent(&error),
                        Err(UploadError::Browser | UploadError::Coding) => {
                            return Phase::Over(RequestOutcome::of_failure(Failure::Request(
                                BadRequest::Upload,
                            )));
                        }
                    }
                }
                // Dropping the exchange cancels the fetch.
                Event::Announced(promise) => {
                    return self.change_phase(PhaseExit::SentAnnounced, Phase::Promised(promise));
                }
                Event::FallbackDue => direct = Some(self.direct_fetch()),
                Event::Direct(Ok(answer)) => {
                    let response = response::of_origin(answer, &self.request.method);
                    return self
                        .change_phase(PhaseExit::Direct, Phase::Over(RequestOutcome::Direct(response)));
                }
                Event::Direct(Err(error)) if direct::is_offline(&error) => {
                    self.fallback.failed(error);
                    direct = None;
                }
                Event::Direct(Err(error)) => {
                    return Phase::Over(RequestOutcome::of_failure(self.fallback.direct_failure(error)));
                }
            }
        }
    }

    fn transmission(
        &self,
        session: &Arc<GatewaySession>,
        send_phase: SendPhase,
        fetch: Vec<u8>,
        continuation: Option<oneshot::Receiver<()>>,
    ) -> Pin<Box<dyn Future<Output = Result<(), UploadError>> + Send>> {
        let way = Transmission {
            session: Arc::clone(session),
            class: self.request.class,
            send_phase,
            fetch,
        };
        let Some(upload) = self.upload.clone() else {
            return Box::pin(way.bodyless());
        };
        let coded = self.request.headers.contains_key(header::CONTENT_ENCODING);
        let content_type = self.request.headers.get(header::CONTENT_TYPE).filter(|_| !coded);
        let traits = UploadTraits {
            content_type: content_type
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned),
            length: self.request.length,
            rate: uplink_rate(session),
        };
        let counters = Arc::clone(&self.counters);
        Box::pin(async move {
            let sent = way.with_body(upload.clone(), traits, continuation).await;
            counters.upload_bytes.add(upload.read_bytes());
            sent
        })
    }
}

/// Rate that uploads can use: the rate that the gateway grants.
pub(super) fn uplink_rate(session: &GatewaySession) -> Option<BitRate> {
    Some(session.stats().send_rate).filter(|rate| *rate != BitRate::default())
}

/// Polls an optional future; never completes if there is none.
async fn run<T>(future: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
