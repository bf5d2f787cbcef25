//! Handling of the gateway's answer to a request.
use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use longhaul_http::{clear_site_data::clears_cache, field_list, policy::invalidated_urls, redirection};
use longhaul_session::{
    BodyPlace, Delivery, EntryId, Evicted, FailureReason, HeaderField, Message, PageId, ShortHash,
};
use longhaul_types::ContentHash;

use super::{
    outcome::RequestOutcome,
    page_membership::{PageUse, Role},
    phase::{Phase, Promise, PromiseVisit},
    response::{self, OpenedBody, ResponseBody},
    task::{MAX_REPEATS, RequestTask},
};
use crate::{
    counters::PhaseExit,
    gateway::{
        BasePolicy, Exchange, GatewayAnswer, GatewaySession, RequiredSessionState, ResponseStream, SendPhase,
    },
    images::suits,
    pageload::{PageLoad, PageResponse},
    pages::{Failure, Lost},
};

impl RequestTask {
    /// Handles the gateway's answer.
    pub(super) async fn handle_answer(
        &mut self,
        answer: GatewayAnswer,
        exchange: Exchange,
        send_phase: SendPhase,
    ) -> Phase {
        const TOO_EARLY: u16 = 425;
        let failure = match answer {
            GatewayAnswer::Head {
                status: TOO_EARLY, ..
            } if send_phase == SendPhase::EarlyData => return self.repeat_outside_early_data(),
            GatewayAnswer::Head {
                status,
                fields,
                body,
                content_hash,
                stream,
            } => {
                let head = ReceivedHead {
                    status,
                    fields,
                    body,
                    content_hash,
                    stream,
                };
                match self.handle_head(head, &exchange).await {
                    Some(phase) => return phase,
                    None => malformed_answer(),
                }
            }
            GatewayAnswer::Promised { page, entry } => {
                return self.handle_promised(page, entry, exchange.session());
            }
            GatewayAnswer::Failed {
                reason: FailureReason::TooEarly,
                ..
            } if self.repeats < MAX_REPEATS && self.rewind() => {
                return self.repeat_outside_early_data();
            }
            GatewayAnswer::Failed {
                reason: FailureReason::UnknownBase,
                ..
            } if self.policy == BasePolicy::Best => {
                if !self.rewind() {
                    return Phase::Over(RequestOutcome::of_failure(Failure::Lost(Lost::BodyGone)));
                }
                self.policy = BasePolicy::None;
                self.counters.repeated.increment();
                return self.change_phase(PhaseExit::SentRepeated, Phase::Waiting);
            }
            GatewayAnswer::Failed { reason, detail } => {
                self.record_host_failure(reason, &detail);
                Failure::Gateway { reason, detail }
            }
            GatewayAnswer::Tunnel(_) | GatewayAnswer::Malformed => malformed_answer(),
        };
        self.change_phase(
            PhaseExit::SentFailed,
            Phase::Over(RequestOutcome::of_failure(failure)),
        )
    }

    /// Handles the head of a response; returns `None` if the head is malformed.
    async fn handle_head(&mut self, answer: ReceivedHead, exchange: &Exchange) -> Option<Phase> {
        let ReceivedHead {
            status,
            fields,
            body,
            content_hash,
            stream,
        } = answer;
        let status = StatusCode::from_u16(status)
            .ok()
            .filter(|status| !status.is_informational())?;
        let fields = field_list::to_map(&fields).ok()?;
        if !suits(self.images, &fields) && self.repeats < MAX_REPEATS && self.is_repeatable_now() {
            return Some(self.repeat_for_original());
        }
        if let Some(PageUse {
            load,
            role: Role::Page,
            ..
        }) = &self.page
        {
            if let Some(before) = self.previous_page.take() {
                let time = self.acceleration.push.load().leaving;
                tokio::spawn(async move { before.leave_if_idle(time).await });
            }
            load.handle_response(PageResponse::of(&load.url, status, &fields));
        }
        if let Some(page) = &self.page {
            page.load.record_host_answer(&self.request.fetch.origin);
        }
        self.forget_written(status, &fields).await;
        self.clear_site_data(&fields).await;
        let store = self.storage.store.clone();
        let bound = self.request.is_bound();
        let (exit, source) = match (body, content_hash) {
            (BodyPlace::Held, None) => return None,
            (BodyPlace::Held, Some(chk)) => {
                let Some(stored) = store.body(chk).await else {
                    return Some(self.held_is_missing(chk, exchange.session()));
                };
                self.counters.held_hits.increment();
                if !bound {
                    store
                        .put_held(self.query(), status, &fields, chk, stored.length())
                        .await;
                }
                (PhaseExit::SentHeld, ResponseBody::Stored(Box::new(stored)))
            }
            (BodyPlace::None, _) => {
                match (bound, status) {
                    (true, _) => {}
                    (false, StatusCode::NOT_MODIFIED) => store.freshen(self.query(), &fields).await,
                    (false, _) => store.put_bodyless(self.query(), status, &fields).await,
                }
                (PhaseExit::SentForwarded, ResponseBody::Empty)
            }
            (BodyPlace::Follows, _) => {
                let session = Arc::clone(exchange.session());
                let is_document = self.request.is_navigation && response::is_html(&fields);
                match ResponseBody::gateway(&store, session, stream, is_document).await {
                    OpenedBody::ResponseBody(source) => {
                        if let ResponseBody::Gateway(_, _, start) = &source
                            && let Some(name) = start.body.as_ref().and_then(|body| body.base)
                        {
                            self.counters.base_used(&name);
                        }
                        (PhaseExit::SentForwarded, source)
                    }
                    OpenedBody::Broken => return None,
                    OpenedBody::EndedAtOrigin
                        if self.request.is_navigation && !redirection::is_followed(status, &fields) =>
                    {
                        let failure = RequestOutcome::of_failure(broken_off());
                        return Some(self.change_phase(PhaseExit::SentFailed, Phase::Over(failure)));
                    }
                    OpenedBody::EndedAtOrigin => (PhaseExit::SentForwarded, ResponseBody::Broken),
                    OpenedBody::NoBase(name) => return Some(self.base_is_missing(name, exchange.session())),
                }
            }
        };
        let cache_writer = match &source {
            ResponseBody::Gateway(..) if !bound => store.cache_writer(self.query(), status, &fields),
            ResponseBody::Gateway(..)
            | ResponseBody::Empty
            | ResponseBody::Broken
            | ResponseBody::Announced(_)
            | ResponseBody::Pushed(_)
            | ResponseBody::Stored(_) => None,
        };
        let mut response_draft = self.response_draft(status, fields, source);
        response_draft.cache_writer = cache_writer;
        response_draft.content_hash = content_hash;
        let response = response::start(response_draft);
        Some(self.change_phase(exit, Phase::Over(RequestOutcome::Forwarded(response))))
    }

    /// Removes the stored responses that a response to an unsafe request invalidates, before the browser gets the response.
    pub(super) async fn forget_written(&self, status: StatusCode, fields: &HeaderMap) {
        let client = self.request.context.client();
        for url in invalidated_urls(&self.request.method, &self.request.fetch.url, status, fields) {
            self.storage.store.invalidate(client, &url).await;
        }
    }

    /// Applies `Clear-Site-Data`: deletes the stored responses of the origin before the browser gets the
    /// response.
    pub(super) async fn clear_site_data(&self, fields: &HeaderMap) {
        if clears_cache(fields) {
            let (client, url) = (self.request.context.client(), &self.request.fetch.url);
            self.storage.store.clear(client, url).await;
        }
    }

    /// Handles a body that the gateway considers held but that the cache does not have (any more).
    fn held_is_missing(&mut self, chk: ContentHash, session: &GatewaySession) -> Phase {
        session.send_control(Message::Evicted(Evicted {
            hashes: vec![ShortHash::of(&chk)],
        }));
        self.held_version = None;
        // The origin has received the request: only a safe request may be repeated.
        if self.repeats >= MAX_REPEATS || !self.is_repeatable_now() {
            return Phase::Over(RequestOutcome::of_failure(malformed_answer()));
        }
        self.repeats += 1;
        self.counters.repeated.increment();
        self.change_phase(PhaseExit::SentHeldMissing, Phase::Waiting)
    }

    /// Handles an answer whose base the cache does not have (any more).
    fn base_is_missing(&mut self, name: ShortHash, session: &GatewaySession) -> Phase {
        self.counters.bases_missing.increment();
        session.send_control(Message::Evicted(Evicted { hashes: vec![name] }));
        if self.repeats >= MAX_REPEATS || !self.is_repeatable_now() {
            return Phase::Over(RequestOutcome::of_failure(malformed_answer()));
        }
        self.request.fetch.context.delivery = Delivery::Plain;
        self.repeats += 1;
        self.counters.repeated.increment();
        self.change_phase(PhaseExit::SentBaseMissing, Phase::Waiting)
    }

    /// Handles `Promised`: an entry of a manifest answers the request.
    fn handle_promised(&mut self, page: PageId, entry: EntryId, session: &GatewaySession) -> Phase {
        match self
            .acceleration
            .page_loads
            .find_page_load(session.serial(), page)
        {
            // The gateway may only name the page load that the request itself named.
            Some(load) if self.may_be_answered_locally() && self.uses(&load) => {
                let by_style_sheet = !load.is_document_of(self.request.context.requester());
                let promise = Promise {
                    load,
                    entry,
                    by_style_sheet,
                    visit: PromiseVisit::This,
                };
                self.change_phase(PhaseExit::SentPromised, Phase::Promised(promise))
            }
            Some(_) | None => {
                self.request.fetch.context.delivery = Delivery::Own;
                if self.repeats >= MAX_REPEATS {
                    return Phase::Over(RequestOutcome::of_failure(malformed_answer()));
                }
                self.repeats += 1;
                self.change_phase(PhaseExit::SentPromisedUnknown, Phase::Waiting)
            }
        }
    }

    fn uses(&self, load: &Arc<PageLoad>) -> bool {
        let page = self.page.as_ref();
        page.is_some_and(|page| Arc::ptr_eq(&page.load, load))
    }

    /// The gateway has chosen an image of a lower level than the user's rule says: the request has overtaken the change of
    /// the rule, or the gateway does not know rules.
    fn repeat_for_original(&mut self) -> Phase {
        self.request.refuse_transformation();
        self.request.fetch.context.delivery = Delivery::Own;
        self.repeats += 1;
        self.counters.repeated.increment();
        self.change_phase(PhaseExit::SentRepeated, Phase::Waiting)
    }

    fn repeat_outside_early_data(&mut self) -> Phase {
        self.request.required_state = RequiredSessionState::Open;
        self.repeats += 1;
        self.counters.repeated.increment();
        self.change_phase(PhaseExit::SentRepeated, Phase::Waiting)
    }
}

/// A received `Head`.
struct ReceivedHead {
    status: u16,
    fields: Vec<HeaderField>,
    body: BodyPlace,
    content_hash: Option<ContentHash>,
    stream: ResponseStream,
}

/// Failure of a page of which the origin has sent only the head.
fn broken_off() -> Failure {
    Failure::Gateway {
        reason: FailureReason::ConnectionReset,
        detail: "the website broke off before the first byte of the page".to_owned(),
    }
}

fn malformed_answer() -> Failure {
    Failure::Gateway {
        reason: FailureReason::Malformed,
        detail: "the gateway's answer is not valid".to_owned(),
    }
}
