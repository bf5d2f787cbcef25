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
    outcome::Exit,
    patience::Patience,
    phase::{Phase, Promise},
    response::{self, Source},
    task::RequestTask,
};
use crate::{
    counters::PhaseExit,
    pageload::{BrowserRequest, EntryBodyState, HeadState, HeldBody, fit},
    store::StorageContext,
};

/// Delay before `Ask` is sent, so that requests made together go in one message.
const ASKS: Duration = Duration::from_millis(10);
impl RequestTask {
    pub(super) async fn wait_for_head(&mut self, promise: Promise) -> Phase {
        self.join(Arc::clone(&promise.load));
        let mut changes = promise.load.changes();
        let mut patience = Patience::new(&promise.load, self.acceleration.push.patience);
        loop {
            changes.borrow_and_update();
            match promise.load.head(promise.entry) {
                HeadState::Known(head) => return self.judge(promise, head),
                HeadState::Withdrawn(reason) => {
                    debug!(?reason, "a promise was withdrawn");
                    return self.own(PhaseExit::PromisedWithdrawn);
                }
                HeadState::Lost => return self.give_up(PhaseExit::PromisedLost),
                HeadState::Pending => ask(&promise),
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = patience.runs_out(&promise.load) => return self.own(PhaseExit::PromisedStuck),
                () = self.fallback.due() => return self.leave(PhaseExit::PromisedSilent, Phase::Direct),
            }
        }
    }

    /// Checks whether the entry's head answers this request.
    fn judge(&mut self, promise: Promise, head: Arc<EntryHead>) -> Phase {
        let status = StatusCode::from_u16(head.status)
            .ok()
            .filter(|status| status.as_u16() >= 200);
        let (Ok(fields), Some(status)) = (field_list::to_map(&head.fields), status) else {
            return self.own(PhaseExit::ArrivingBroken);
        };
        let asked = BrowserRequest {
            headers: &self.request.asked,
            context: &self.request.context,
            reload: self.request.reload,
            by_sheet: promise.by_sheet,
        };
        if let Err(misfit) = fit(&head, &fields, asked, promise.load.reload) {
            debug!(
                ?misfit,
                %status,
                url = ?Pii(&self.request.fetch.url),
                "a promised response does not answer the browser's request"
            );
            return self.own(PhaseExit::PromisedMismatch);
        }
        if !promise.load.claim(promise.entry, head.scope) {
            return self.own(PhaseExit::PromisedUsed);
        }
        if is_not_modified(&self.request.asked, status, &fields) {
            promise.load.take(promise.entry, None, self.taker(&head));
            let response = response::not_modified(not_modified_fields(&fields));
            return self.leave(
                PhaseExit::PromisedNotModified,
                Phase::Over(Exit::Promised(response)),
            );
        }
        self.leave(PhaseExit::PromisedHead, Phase::Arriving(promise, head))
    }

    pub(super) async fn wait_for_body(&mut self, promise: Promise, head: Arc<EntryHead>) -> Phase {
        let mut changes = promise.load.changes();
        let mut patience = Patience::new(&promise.load, self.acceleration.push.patience);
        loop {
            changes.borrow_and_update();
            match promise.load.body(promise.entry) {
                EntryBodyState::None => {
                    promise.load.take(promise.entry, None, self.taker(&head));
                    return self.answer(PhaseExit::ArrivingEmpty, &head, Source::Empty).await;
                }
                EntryBodyState::Arriving(of, body) => {
                    promise.load.take(promise.entry, Some(of), self.taker(&head));
                    return self
                        .answer(PhaseExit::ArrivingPushed, &head, Source::Pushed(body))
                        .await;
                }
                EntryBodyState::Held(of, held) => {
                    if let Some(body) = self.held_body(held).await {
                        self.counters.held_hits.one();
                        promise.load.take(promise.entry, None, self.taker(&head));
                        let source = Source::Stored(Box::new(body));
                        return self.answer(PhaseExit::ArrivingHeld, &head, source).await;
                    }
                    if !promise.load.want(of) {
                        return self.own(PhaseExit::ArrivingBroken);
                    }
                    continue;
                }
                EntryBodyState::Failed => return self.own(PhaseExit::ArrivingBroken),
                EntryBodyState::Lost => return self.give_up(PhaseExit::ArrivingLost),
                EntryBodyState::Pending => ask(&promise),
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = patience.runs_out(&promise.load) => return self.own(PhaseExit::ArrivingStuck),
                () = self.fallback.due() => return self.leave(PhaseExit::ArrivingSilent, Phase::Direct),
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
    fn taker(&self, head: &EntryHead) -> Option<StorageContext> {
        let keeper = StorageContext::of(&self.request.context)?;
        Some(if head.cookie.is_some() {
            keeper
        } else {
            keeper.anonymous()
        })
    }

    async fn answer(&mut self, exit: PhaseExit, head: &EntryHead, source: Source) -> Phase {
        let status = StatusCode::from_u16(head.status).ok();
        let (Ok(fields), Some(status)) = (field_list::to_map(&head.fields), status) else {
            return self.own(PhaseExit::ArrivingBroken);
        };
        self.clear_site_data(&fields).await;
        let response = response::begin(self.outgoing(status, fields, source));
        self.leave(exit, Phase::Over(Exit::Promised(response)))
    }

    /// The entry cannot answer: sends an ordinary fetch, which gets a response stream of its own.
    fn own(&mut self, exit: PhaseExit) -> Phase {
        self.request.fetch.context.delivery = Delivery::Own;
        self.leave(exit, Phase::Waiting)
    }

    /// The entry is lost with its session or page load.
    fn give_up(&mut self, exit: PhaseExit) -> Phase {
        self.page = None;
        self.leave(exit, Phase::Waiting)
    }
}

/// Records that the browser waits for the entry; `Ask` is sent after a delay, together with other entries.
fn ask(promise: &Promise) {
    if promise.load.ask(promise.entry) {
        let load = Arc::clone(&promise.load);
        tokio::spawn(async move {
            sleep(ASKS).await;
            load.tell_asks();
        });
    }
}
