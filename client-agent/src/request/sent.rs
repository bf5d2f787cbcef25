//! A request in a session: sending it, and handling the gateway's answer.
use std::{future::Future, pin::Pin, sync::Arc};

use http::{HeaderMap, Response, StatusCode, header};
use longhaul_driver::CloseReason;
use longhaul_http::{clear_site_data::clears_cache, field_list, policy::invalidates};
use longhaul_origin::{FetchError, OriginBody};
use longhaul_session::{
    BodyPlace, Delivery, Evicted, FailureReason, FetchKind, HeaderField, Message, MirrorState, ShortHash,
    short_hash,
};
use longhaul_types::{BitRate, ContentHash};
use tracing::debug;

use super::{
    Exit,
    page_use::{PageUse, Role},
    phase::{Phase, PhaseExit, Promise},
    response::{self, Opening, Source},
    task::{DirectFetch, MAX_REPEATS, RequestTask},
    upload::{Transmission, UploadError, UploadTraits},
};
use crate::{
    direct,
    gateway::{Arrival, BasePolicy, Exchange, GatewaySession, Need, ResponseStream, Timing},
    pageload::{Beginning, Direction, PageLoad},
    pages::{BadRequest, Failure, Lost},
};

/// First event while the request waits for the gateway's answer.
enum Event {
    Arrival(Result<Arrival, CloseReason>),
    Sent(Result<(), UploadError>),
    Direct(Result<Response<OriginBody>, FetchError>),
    FallbackDue,
}

impl RequestTask {
    /// Sets the members of the fetch that depend on page load and session.
    fn complete_fetch(&mut self, hop: &GatewaySession) {
        let page = self.page.as_ref().map(|page| &page.load);
        let of_session = page.filter(|load| load.hop.serial() == hop.serial() && !load.is_over());
        let context = &mut self.upstream.fetch.context;
        context.page = of_session.map_or(0, |load| load.page);
        context.held = self.held.map(|chk| *chk.as_bytes());
        context.manifest = self.kept.as_ref().map(|kept| kept.id());
        context.holding = match hop.mirror() {
            Some(MirrorState::Unknown) => self.holding.clone(),
            Some(MirrorState::Agreed) | None => Vec::new(),
        };
    }

    /// Starts the page load of a page's fetch, before the fetch is sent.
    fn begin_page(&mut self, exchange: &Exchange) {
        if self.upstream.fetch.kind != FetchKind::Page {
            return;
        }
        let hop = exchange.hop();
        let told = !self.upstream.fetch.context.holding.is_empty();
        let load = self.context.loads.begin(Beginning {
            hop: Arc::clone(hop),
            page: exchange.id(),
            url: self.upstream.fetch.url.clone(),
            origin: self.upstream.fetch.origin.clone(),
            context: self.upstream.context.clone(),
            reload: self.upstream.reload,
            base: self.kept.clone(),
            holding: if told { Vec::new() } else { self.holding.clone() },
        });
        self.page = Some(PageUse::of(load, Role::Page));
        // `Welcome` may have arrived after the fetch was encoded.
        if hop.mirror() == Some(MirrorState::Unknown) {
            self.context.loads.tell_holding(hop.serial());
        }
    }

    pub(super) async fn send(&mut self, hop: Arc<GatewaySession>, timing: Timing) -> Phase {
        self.complete_fetch(&hop);
        let (mut exchange, fetch) = match hop.code(&self.upstream.fetch, None, self.policy) {
            Ok(coded) => coded,
            Err(error) => return self.not_sent(&error),
        };
        self.begin_page(&exchange);
        let mut transmission = Some(self.transmission(&hop, timing, fetch));
        let mut direct: Option<DirectFetch> = None;
        loop {
            let event = tokio::select! {
                biased;
                arrival = exchange.arrival() => Event::Arrival(arrival),
                sent = run(&mut transmission) => Event::Sent(sent),
                answer = run(&mut direct) => Event::Direct(answer),
                () = self.fallback.due(), if direct.is_none() && self.is_repeatable_now() => Event::FallbackDue,
            };
            match event {
                Event::Arrival(Ok(arrival)) => {
                    if let (Some(rest), Arrival::Head { .. }) = (transmission, &arrival) {
                        // The origin answers before it has the whole body: the rest is still sent.
                        tokio::spawn(rest);
                    }
                    return self.arrived(arrival, exchange, timing).await;
                }
                Event::Arrival(Err(reason)) => {
                    debug!(%reason, "session lost with a request under way");
                    return self.lost(&reason);
                }
                Event::Sent(sent) => {
                    transmission = None;
                    match sent {
                        Ok(()) | Err(UploadError::Stream(_)) => {}
                        Err(UploadError::NotSent(error)) => return self.not_sent(&error),
                        Err(UploadError::Browser | UploadError::Coding) => {
                            return Phase::Over(Exit::without_response(Failure::Request(BadRequest::Upload)));
                        }
                    }
                }
                Event::FallbackDue => direct = Some(self.direct_fetch()),
                Event::Direct(Ok(answer)) => {
                    let response = response::of_origin(answer, &self.upstream.method);
                    return self.leave(PhaseExit::Direct, Phase::Over(Exit::Direct(response)));
                }
                Event::Direct(Err(error)) if direct::is_offline(&error) => {
                    self.fallback.failed(error);
                    direct = None;
                }
                Event::Direct(Err(error)) => {
                    return Phase::Over(Exit::without_response(Failure::Direct(error)));
                }
            }
        }
    }

    fn transmission(
        &self,
        hop: &Arc<GatewaySession>,
        timing: Timing,
        fetch: Vec<u8>,
    ) -> Pin<Box<dyn Future<Output = Result<(), UploadError>> + Send>> {
        let way = Transmission {
            hop: Arc::clone(hop),
            class: self.upstream.class,
            timing,
            fetch,
        };
        let Some(upload) = self.upload.clone() else {
            return Box::pin(way.bodyless());
        };
        let coded = self.upstream.headers.contains_key(header::CONTENT_ENCODING);
        let content_type = self.upstream.headers.get(header::CONTENT_TYPE).filter(|_| !coded);
        let traits = UploadTraits {
            content_type: content_type
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned),
            length: self.upstream.length,
            rate: uplink_rate(hop),
        };
        let context = Arc::clone(&self.context);
        Box::pin(async move {
            let sent = way.with_body(upload.clone(), traits).await;
            context.counters.upload_bytes.add(upload.taken());
            sent
        })
    }

    async fn arrived(&mut self, arrival: Arrival, exchange: Exchange, timing: Timing) -> Phase {
        const TOO_EARLY: u16 = 425;
        let failure = match arrival {
            Arrival::Head {
                status: TOO_EARLY, ..
            } if timing == Timing::Early => return self.outside_early_data(),
            Arrival::Head {
                status,
                fields,
                body,
                content_hash,
                stream,
            } => {
                let head = Answer {
                    status,
                    fields,
                    body,
                    content_hash,
                    stream,
                };
                match self.answered(head, &exchange).await {
                    Some(phase) => return phase,
                    None => malformed_answer(),
                }
            }
            Arrival::Promised { page, entry } => return self.promised_by(page, entry, exchange.hop()),
            Arrival::Failed {
                reason: FailureReason::TooEarly,
                ..
            } if self.repeats < MAX_REPEATS && self.rewind() => {
                return self.outside_early_data();
            }
            Arrival::Failed {
                reason: FailureReason::UnknownBase,
                ..
            } if self.policy == BasePolicy::Best => {
                if !self.rewind() {
                    return Phase::Over(Exit::without_response(Failure::Lost(Lost::BodyGone)));
                }
                self.policy = BasePolicy::None;
                self.context.counters.repeated.one();
                return self.leave(PhaseExit::SentRepeated, Phase::Waiting);
            }
            Arrival::Failed { reason, detail } => Failure::Gateway { reason, detail },
            Arrival::Tunnel(_) | Arrival::Malformed => malformed_answer(),
        };
        self.leave(
            PhaseExit::SentFailed,
            Phase::Over(Exit::without_response(failure)),
        )
    }

    /// Handles the head of a response; returns `None` if the head is malformed.
    async fn answered(&mut self, answer: Answer, exchange: &Exchange) -> Option<Phase> {
        let Answer {
            status,
            fields,
            body,
            content_hash,
            stream,
        } = answer;
        let status = StatusCode::from_u16(status)
            .ok()
            .filter(|status| (200..600).contains(&status.as_u16()))?;
        let fields = field_list::to_map(&fields).ok()?;
        if let Some(PageUse {
            load,
            role: Role::Page,
            ..
        }) = &self.page
        {
            if let Some(before) = self.came_from.take() {
                let time = self.context.push.leaving;
                tokio::spawn(async move { before.supersede_if_left(time).await });
            }
            load.answered(Direction::of(&load.url, status, &fields));
        }
        if invalidates(&self.upstream.method, status) {
            self.forget_stored().await;
        }
        self.clear_site_data(&fields).await;
        let store = self.context.store.clone();
        let bound = self.upstream.is_bound();
        let (exit, source) = match (body, content_hash.map(ContentHash::from_bytes)) {
            (BodyPlace::Held, None) => return None,
            (BodyPlace::Held, Some(chk)) => {
                let Some(stored) = store.body(chk).await else {
                    return Some(self.held_is_missing(chk, exchange.hop()));
                };
                self.context.counters.held_hits.one();
                if !bound {
                    store
                        .put_held(self.query(), status, &fields, chk, stored.length())
                        .await;
                }
                (PhaseExit::SentHeld, Source::Stored(Box::new(stored)))
            }
            (BodyPlace::None, _) => {
                match (bound, status) {
                    (true, _) => {}
                    (false, StatusCode::NOT_MODIFIED) => store.freshen(self.query(), &fields).await,
                    (false, _) => store.put_bodyless(self.query(), status, &fields).await,
                }
                (PhaseExit::SentForwarded, Source::Empty)
            }
            (BodyPlace::Follows, _) => {
                let hop = Arc::clone(exchange.hop());
                match Source::gateway(&store, hop, stream).await {
                    Opening::Source(source) => {
                        if let Source::Gateway(_, _, begun) = &source
                            && let Some(name) = begun.body.as_ref().and_then(|body| body.base)
                        {
                            self.context.counters.base_used(&name);
                        }
                        (PhaseExit::SentForwarded, source)
                    }
                    Opening::Broken => return None,
                    Opening::NoBase(name) => return Some(self.base_is_missing(name, exchange.hop())),
                }
            }
        };
        let tee = match &source {
            Source::Gateway(..) if !bound => store.tee(self.query(), status, &fields),
            Source::Gateway(..) | Source::Empty | Source::Pushed(_) | Source::Stored(_) => None,
        };
        let mut outgoing = self.outgoing(status, fields, source);
        outgoing.tee = tee;
        outgoing.content_hash = content_hash;
        let response = response::begin(outgoing);
        Some(self.leave(exit, Phase::Over(Exit::Forwarded(response))))
    }

    /// Invalidates the stored responses of an unsafe request's URL (RFC 9111 section 4.4).
    async fn forget_stored(&self) {
        let (client, url) = (self.upstream.context.client(), &self.upstream.fetch.url);
        self.context.store.invalidate(client, url).await;
    }

    /// Applies `Clear-Site-Data`: deletes the stored responses of the origin before the browser gets the
    /// response.
    pub(super) async fn clear_site_data(&self, fields: &HeaderMap) {
        if clears_cache(fields) {
            let (client, url) = (self.upstream.context.client(), &self.upstream.fetch.url);
            self.context.store.clear(client, url).await;
        }
    }

    /// Handles a body that the gateway considers held but that the cache does not have (any more).
    fn held_is_missing(&mut self, chk: ContentHash, hop: &GatewaySession) -> Phase {
        hop.tell(Message::Evicted(Evicted {
            hashes: vec![short_hash(&chk)],
        }));
        self.held = None;
        // The origin has received the request: only a safe request may be repeated.
        if self.repeats >= MAX_REPEATS || !self.is_repeatable_now() {
            return Phase::Over(Exit::without_response(malformed_answer()));
        }
        self.repeats += 1;
        self.context.counters.repeated.one();
        self.leave(PhaseExit::SentHeldMissing, Phase::Waiting)
    }

    /// Handles an answer whose base the cache does not have (any more).
    fn base_is_missing(&mut self, name: ShortHash, hop: &GatewaySession) -> Phase {
        self.context.counters.bases_missing.one();
        hop.tell(Message::Evicted(Evicted { hashes: vec![name] }));
        if self.repeats >= MAX_REPEATS || !self.is_repeatable_now() {
            return Phase::Over(Exit::without_response(malformed_answer()));
        }
        self.upstream.fetch.context.delivery = Delivery::Plain;
        self.repeats += 1;
        self.context.counters.repeated.one();
        self.leave(PhaseExit::SentBaseMissing, Phase::Waiting)
    }

    /// Handles `Promised`: an entry of a manifest answers the request.
    fn promised_by(&mut self, page: u64, entry: u32, hop: &GatewaySession) -> Phase {
        match self.context.loads.of_page(hop.serial(), page) {
            // The gateway may only name the page load that the request itself named.
            Some(load) if self.upstream.is_lookable() && self.uses(&load) => {
                let by_sheet = !load.is_document_of(self.upstream.context.requester());
                let promise = Promise {
                    load,
                    entry,
                    by_sheet,
                };
                self.leave(PhaseExit::SentPromised, Phase::Promised(promise))
            }
            Some(_) | None => {
                self.upstream.fetch.context.delivery = Delivery::Own;
                if self.repeats >= MAX_REPEATS {
                    return Phase::Over(Exit::without_response(malformed_answer()));
                }
                self.repeats += 1;
                self.leave(PhaseExit::SentPromisedUnknown, Phase::Waiting)
            }
        }
    }

    fn uses(&self, load: &Arc<PageLoad>) -> bool {
        let page = self.page.as_ref();
        page.is_some_and(|page| Arc::ptr_eq(&page.load, load))
    }

    fn outside_early_data(&mut self) -> Phase {
        self.upstream.need = Need::Open;
        self.repeats += 1;
        self.context.counters.repeated.one();
        self.leave(PhaseExit::SentRepeated, Phase::Waiting)
    }
}

/// A received `Head`.
struct Answer {
    status: u16,
    fields: Vec<HeaderField>,
    body: BodyPlace,
    content_hash: Option<[u8; 32]>,
    stream: ResponseStream,
}

fn malformed_answer() -> Failure {
    Failure::Gateway {
        reason: FailureReason::Malformed,
        detail: "the gateway's answer makes no sense".to_owned(),
    }
}

/// Rate that uploads can use: the rate that the gateway grants.
fn uplink_rate(hop: &GatewaySession) -> Option<BitRate> {
    Some(hop.stats().send_rate).filter(|rate| *rate != BitRate::default())
}

/// Polls an optional future; never completes if there is none.
async fn run<T>(future: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
