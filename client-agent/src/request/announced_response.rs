//! A request whose response a manifest announces: the wait for its head, then for its body.
use std::{sync::Arc, time::Duration};

use http::StatusCode;
use longhaul_http::{
    conditional::{is_not_modified, not_modified_fields},
    field_list,
};
use longhaul_session::{Delivery, EntryHead};
use longhaul_types::Pii;
use tokio::time::sleep;
use tracing::debug;

use super::{
    outcome::RequestOutcome,
    phase::{Phase, Promise},
    response::{self, ResponseBody},
    stall_timeout::StallTimeout,
    task::RequestTask,
};
use crate::{
    counters::PhaseExit,
    pageload::{BrowserRequest, EntryBodyState, FailedFetch, HeadState, HeldBody, match_response},
    pages::Failure,
    store::StorageContext,
};

/// Delay before `Ask` is sent, so that requests made together go in one message.
const ASK_DELAY: Duration = Duration::from_millis(10);
impl RequestTask {
    pub(super) async fn wait_for_head(&mut self, promise: Promise) -> Phase {
        self.join(Arc::clone(&promise.load));
        let mut changes = promise.load.changes();
        let mut stall_timeout = StallTimeout::new(&promise.load, self.acceleration.push.load().stall_timeout);
        loop {
            changes.borrow_and_update();
            match promise.load.head(promise.entry) {
                HeadState::Known(head) => return self.match_entry(promise, head),
                HeadState::Withdrawn(reason) => {
                    debug!(?reason, "an announced response was withdrawn");
                    return self.send_as_ordinary_fetch(PhaseExit::PromisedWithdrawn);
                }
                HeadState::Failed(failed) => return self.fail_with_entry(&promise, &failed),
                HeadState::Lost => return self.abandon_page_load(PhaseExit::PromisedLost),
                HeadState::Pending => request_entry(&promise),
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = stall_timeout.expires(&promise.load) => return self.send_as_ordinary_fetch(PhaseExit::PromisedStuck),
                () = self.fallback.until_due() => return self.change_phase(PhaseExit::PromisedSilent, Phase::Direct),
            }
        }
    }

    /// Answers with the failure of the entry, unless the request may only be answered by the gateway.
    fn fail_with_entry(&mut self, promise: &Promise, failed: &FailedFetch) -> Phase {
        if !self.is_repeatable_now() || self.request.is_bound() {
            return self.send_as_ordinary_fetch(PhaseExit::PromisedWithdrawn);
        }
        promise.load.mark_used(promise.entry, None, None);
        let failure = Failure::Gateway {
            reason: failed.reason,
            detail: failed.detail.clone(),
        };
        self.change_phase(
            PhaseExit::PromisedFailed,
            Phase::Over(RequestOutcome::of_failure(failure)),
        )
    }

    /// Checks whether the entry's head answers this request.
    fn match_entry(&mut self, promise: Promise, head: Arc<EntryHead>) -> Phase {
        let status = StatusCode::from_u16(head.status)
            .ok()
            .filter(|status| status.as_u16() >= 200);
        let (Ok(fields), Some(status)) = (field_list::to_map(&head.fields), status) else {
            return self.send_as_ordinary_fetch(PhaseExit::ArrivingBroken);
        };
        let browser_request = BrowserRequest {
            headers: &self.request.request_headers,
            context: &self.request.context,
            reload: self.request.reload,
            by_style_sheet: promise.by_style_sheet,
        };
        if let Err(mismatch) = match_response(&head, &fields, browser_request, promise.load.reload) {
            debug!(
                ?mismatch,
                %status,
                url = ?Pii(&self.request.fetch.url),
                "an announced response does not match the browser's request"
            );
            return self.send_as_ordinary_fetch(PhaseExit::PromisedMismatch);
        }
        if !promise.load.claim(promise.entry, head.scope) {
            return self.send_as_ordinary_fetch(PhaseExit::PromisedUsed);
        }
        if is_not_modified(&self.request.request_headers, status, &fields) {
            promise
                .load
                .mark_used(promise.entry, None, self.storage_context(&head));
            let response = response::not_modified(not_modified_fields(&fields));
            return self.change_phase(
                PhaseExit::PromisedNotModified,
                Phase::Over(RequestOutcome::Promised(response)),
            );
        }
        self.change_phase(PhaseExit::PromisedHead, Phase::Arriving(promise, head))
    }

    pub(super) async fn wait_for_body(&mut self, promise: Promise, head: Arc<EntryHead>) -> Phase {
        let mut changes = promise.load.changes();
        let mut stall_timeout = StallTimeout::new(&promise.load, self.acceleration.push.load().stall_timeout);
        loop {
            changes.borrow_and_update();
            match promise.load.body(promise.entry) {
                EntryBodyState::None => {
                    promise
                        .load
                        .mark_used(promise.entry, None, self.storage_context(&head));
                    return self
                        .respond(PhaseExit::ArrivingEmpty, &head, ResponseBody::Empty)
                        .await;
                }
                EntryBodyState::Arriving(of, body) => {
                    promise
                        .load
                        .mark_used(promise.entry, Some(of), self.storage_context(&head));
                    return self
                        .respond(PhaseExit::ArrivingPushed, &head, ResponseBody::Pushed(body))
                        .await;
                }
                EntryBodyState::Held(of, held) => {
                    if let Some(body) = self.held_body(held).await {
                        self.counters.held_hits.increment();
                        let entry = promise.load.key_of(promise.entry);
                        let session = promise.load.session.serial();
                        self.counters.savings.used(session, entry, &body.chk());
                        promise
                            .load
                            .mark_used(promise.entry, None, self.storage_context(&head));
                        let source = ResponseBody::Stored(Box::new(body));
                        return self.respond(PhaseExit::ArrivingHeld, &head, source).await;
                    }
                    if !promise.load.send_want(of) {
                        return self.send_as_ordinary_fetch(PhaseExit::ArrivingBroken);
                    }
                    continue;
                }
                EntryBodyState::Failed => return self.send_as_ordinary_fetch(PhaseExit::ArrivingBroken),
                EntryBodyState::Lost => return self.abandon_page_load(PhaseExit::ArrivingLost),
                EntryBodyState::Pending => request_entry(&promise),
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = stall_timeout.expires(&promise.load) => return self.send_as_ordinary_fetch(PhaseExit::ArrivingStuck),
                () = self.fallback.until_due() => return self.change_phase(PhaseExit::ArrivingSilent, Phase::Direct),
            }
        }
    }

    async fn held_body(&self, held: HeldBody) -> Option<longhaul_cache::StoredBody> {
        let store = &self.storage.store;
        match held {
            HeldBody::Whole(chk) => store.body(chk).await,
            HeldBody::Prefix(prefix) => store.body_of_prefix(&prefix).await,
            HeldBody::Unknown => None,
        }
    }

    /// Cache context of the stored response: that of this request, with its credentials only if the gateway
    /// sent any.
    fn storage_context(&self, head: &EntryHead) -> Option<StorageContext> {
        let storage_context = StorageContext::of(&self.request.context)?;
        Some(if head.cookie.is_some() {
            storage_context
        } else {
            storage_context.anonymous()
        })
    }

    async fn respond(&mut self, exit: PhaseExit, head: &EntryHead, source: ResponseBody) -> Phase {
        let status = StatusCode::from_u16(head.status).ok();
        let (Ok(fields), Some(status)) = (field_list::to_map(&head.fields), status) else {
            return self.send_as_ordinary_fetch(PhaseExit::ArrivingBroken);
        };
        self.clear_site_data(&fields).await;
        let response = response::start(self.response_draft(status, fields, source));
        self.change_phase(exit, Phase::Over(RequestOutcome::Promised(response)))
    }

    /// The entry cannot answer: sends an ordinary fetch, which gets a response stream of its own.
    fn send_as_ordinary_fetch(&mut self, exit: PhaseExit) -> Phase {
        self.request.fetch.context.delivery = Delivery::Own;
        self.change_phase(exit, Phase::Waiting)
    }

    /// The entry is lost with its session or page load.
    fn abandon_page_load(&mut self, exit: PhaseExit) -> Phase {
        self.page = None;
        self.change_phase(exit, Phase::Waiting)
    }
}

/// Records that the browser waits for the entry; `Ask` is sent after a delay, together with other entries.
fn request_entry(promise: &Promise) {
    if promise.load.request_entry(promise.entry) {
        let load = Arc::clone(&promise.load);
        tokio::spawn(async move {
            sleep(ASK_DELAY).await;
            load.send_ask();
        });
    }
}
