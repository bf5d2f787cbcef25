//! A request whose response a manifest announces: the wait for its head, then for its body.
use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use longhaul_http::{
    conditional::{is_not_modified, not_modified_fields},
    field_list,
};
use longhaul_session::{Delivery, EntryHead, Scope};
use longhaul_types::Pii;
use tokio::time::sleep;
use tracing::debug;

use super::{
    announced_body::{AnnouncedBody, request_entry},
    outcome::RequestOutcome,
    phase::{Phase, Promise, PromiseVisit},
    response::{self, ResponseBody},
    stall_timeout::StallTimeout,
    task::RequestTask,
};
use crate::{
    counters::PhaseExit,
    images::suits,
    pageload::{BrowserRequest, FailedFetch, HeadState, MismatchReason, match_response},
    pages::Failure,
    store::StorageContext,
};

/// Reason why an announced response does not answer a request.
#[derive(Debug)]
pub(super) enum Unsuitable {
    /// The head is malformed.
    Malformed,
    /// The user's rule changed after the gateway had chosen the image.
    ImageLevel,
    /// The response is for one visit to the page, and the browser has written or left the page since.
    Outdated,
    /// The requests differ.
    Mismatch(#[expect(dead_code, reason = "is logged")] MismatchReason),
}

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
                HeadState::Pending => request_entry(&promise.load, promise.entry),
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

    /// Answers with the entry if its head answers this request.
    fn match_entry(&mut self, promise: Promise, head: Arc<EntryHead>) -> Phase {
        let (status, fields) = match self.check_announced(&promise, &head) {
            Ok(checked) => checked,
            Err(Unsuitable::Malformed) => return self.send_as_ordinary_fetch(PhaseExit::ArrivingBroken),
            Err(reason) => {
                if matches!(reason, Unsuitable::Outdated) {
                    // The response may be unchanged.
                    self.held_version = promise.load.stored_body(promise.entry);
                }
                debug!(
                    ?reason,
                    status = head.status,
                    url = ?Pii(&self.request.fetch.url),
                    "an announced response does not match the browser's request"
                );
                return self.send_as_ordinary_fetch(PhaseExit::PromisedMismatch);
            }
        };
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

    /// Returns status and fields of an entry's response if it answers this request.
    pub(super) fn check_announced(
        &self,
        promise: &Promise,
        head: &EntryHead,
    ) -> Result<(StatusCode, HeaderMap), Unsuitable> {
        let status = StatusCode::from_u16(head.status)
            .ok()
            .filter(|status| status.as_u16() >= 200);
        let (Ok(fields), Some(status)) = (field_list::to_map(&head.fields), status) else {
            return Err(Unsuitable::Malformed);
        };
        if !suits(self.images, &fields) {
            return Err(Unsuitable::ImageLevel);
        }
        let browser_request = BrowserRequest {
            headers: &self.request.request_headers,
            context: &self.request.context,
            reload: self.request.reload,
            by_style_sheet: promise.by_style_sheet,
        };
        match_response(head, &fields, browser_request, promise.load.reload).map_err(Unsuitable::Mismatch)?;
        // Last: the request names the body of an outdated response, which it may do only if all else fits.
        let is_past = promise.visit == PromiseVisit::Earlier || promise.load.is_written(promise.entry);
        if head.scope == Scope::ThisPage && is_past {
            return Err(Unsuitable::Outdated);
        }
        Ok((status, fields))
    }

    /// Waits for the body. After some time the browser gets the head alone: on a slow hop, the body of a large object
    /// begins to arrive when the smaller ones have, which can take minutes.
    pub(super) async fn wait_for_body(&mut self, promise: Promise, head: Arc<EntryHead>) -> Phase {
        let policy = **self.acceleration.push.load();
        let mut stall_timeout = StallTimeout::new(&promise.load, policy.stall_timeout);
        let body = AnnouncedBody {
            storage_context: self.storage_context(&head),
            promise,
        };
        let arrival = tokio::select! {
            arrival = body.arrival(&self.storage.store, &self.counters, &mut stall_timeout) => arrival,
            () = self.fallback.until_due() => return self.change_phase(PhaseExit::ArrivingSilent, Phase::Direct),
            () = sleep(policy.head_after) => {
                let source = ResponseBody::Announced(Box::new(body));
                return self.respond(PhaseExit::ArrivingLater, &head, source).await;
            }
        };
        match arrival {
            Ok(arrival) => self.respond(arrival.exit(), &head, arrival.into()).await,
            Err(exit @ PhaseExit::ArrivingLost) => self.abandon_page_load(exit),
            Err(exit) => self.send_as_ordinary_fetch(exit),
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
