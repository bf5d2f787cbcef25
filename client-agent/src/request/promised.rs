//! A request whose answer a manifest promises: for its head, then for its body.
use std::{sync::Arc, time::Duration};

use http::StatusCode;
use longhaul_driver::LinkState;
use longhaul_http::conditional::{is_not_modified, not_modified_fields};
use longhaul_protocol::session::{Delivery, EntryHead};
use longhaul_types::Pii;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tracing::debug;

use super::{
    Exit,
    life::Life,
    phase::{Phase, PhaseExit, Promise},
    response::{self, Source},
};
use crate::{
    bundle::{Asked, BodyOutlook, HeadOutlook, HeldBody, PageLoad, fit, header_map},
    store::Keeper,
};

/// Browsers ask for many things at once; so long the first waits for the others before the gateway is told.
const ASKS: Duration = Duration::from_millis(10);
/// Round trips without a byte of the page after which something is wrong: a lost packet takes three.
const ROUND_TRIPS: u32 = 8;

impl Life {
    pub(super) async fn wait_for_head(&mut self, promise: Promise) -> Phase {
        self.join(Arc::clone(&promise.load));
        let mut changes = promise.load.changes();
        let mut patience = Patience::new(&promise.load, self.context.push.patience);
        loop {
            changes.borrow_and_update();
            match promise.load.head(promise.entry) {
                HeadOutlook::Known(head) => return self.judge(promise, head),
                HeadOutlook::Withdrawn(reason) => {
                    debug!(?reason, "a promise was withdrawn");
                    return self.own(PhaseExit::PromisedWithdrawn);
                }
                HeadOutlook::Lost => return self.give_up(PhaseExit::PromisedLost),
                HeadOutlook::Pending => ask(&promise),
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = patience.runs_out(&promise.load) => return self.own(PhaseExit::PromisedStuck),
                () = self.fallback.due() => return self.leave(PhaseExit::PromisedSilent, Phase::Direct),
            }
        }
    }

    /// The head is here: does it answer this request?
    fn judge(&mut self, promise: Promise, head: Arc<EntryHead>) -> Phase {
        let status = StatusCode::from_u16(head.status)
            .ok()
            .filter(|status| status.as_u16() >= 200);
        let (Some(fields), Some(status)) = (header_map(&head.fields), status) else {
            return self.own(PhaseExit::ArrivingBroken);
        };
        let asked = Asked {
            headers: &self.draft.asked,
            context: &self.draft.context,
            reload: self.draft.reload,
            by_sheet: promise.by_sheet,
        };
        if let Err(misfit) = fit(&head, &fields, asked, promise.load.reload) {
            debug!(
                ?misfit,
                %status,
                url = ?Pii(&self.draft.fetch.url),
                "a promised response does not answer the browser's request"
            );
            return self.own(PhaseExit::PromisedMismatch);
        }
        if !promise.load.claim(promise.entry, head.scope) {
            return self.own(PhaseExit::PromisedUsed);
        }
        if is_not_modified(&self.draft.asked, status, &fields) {
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
        let mut patience = Patience::new(&promise.load, self.context.push.patience);
        loop {
            changes.borrow_and_update();
            match promise.load.body(promise.entry) {
                BodyOutlook::None => {
                    promise.load.take(promise.entry, None, self.taker(&head));
                    return self.answer(PhaseExit::ArrivingEmpty, &head, Source::Empty).await;
                }
                BodyOutlook::Arriving(of, body) => {
                    promise.load.take(promise.entry, Some(of), self.taker(&head));
                    return self
                        .answer(PhaseExit::ArrivingPushed, &head, Source::Pushed(body))
                        .await;
                }
                BodyOutlook::Held(of, held) => {
                    if let Some(body) = self.held_body(held).await {
                        self.context.counters.held_hits.one();
                        promise.load.take(promise.entry, None, self.taker(&head));
                        let source = Source::Stored(Box::new(body));
                        return self.answer(PhaseExit::ArrivingHeld, &head, source).await;
                    }
                    if !promise.load.want(of) {
                        return self.own(PhaseExit::ArrivingBroken);
                    }
                    continue;
                }
                BodyOutlook::Failed => return self.own(PhaseExit::ArrivingBroken),
                BodyOutlook::Lost => return self.give_up(PhaseExit::ArrivingLost),
                BodyOutlook::Pending => ask(&promise),
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = patience.runs_out(&promise.load) => return self.own(PhaseExit::ArrivingStuck),
                () = self.fallback.due() => return self.leave(PhaseExit::ArrivingSilent, Phase::Direct),
            }
        }
    }

    async fn held_body(&self, held: HeldBody) -> Option<longhaul_cache::StoredBody> {
        let store = &self.context.store;
        match held {
            HeldBody::Whole(chk) => store.body(chk).await,
            HeldBody::Prefix(prefix) => store.body_of_prefix(&prefix).await,
            HeldBody::Unknown => None,
        }
    }

    /// For whom the response is kept: for this request, with its credentials if the gateway sent any.
    fn taker(&self, head: &EntryHead) -> Option<Keeper> {
        let keeper = Keeper::of(&self.draft.context)?;
        Some(if head.cookie.is_some() {
            keeper
        } else {
            keeper.anonymous()
        })
    }

    async fn answer(&mut self, exit: PhaseExit, head: &EntryHead, source: Source) -> Phase {
        let status = StatusCode::from_u16(head.status).ok();
        let (Some(fields), Some(status)) = (header_map(&head.fields), status) else {
            return self.own(PhaseExit::ArrivingBroken);
        };
        self.clear_site_data(&fields).await;
        let response = response::begin(self.outgoing(status, fields, source));
        self.leave(exit, Phase::Over(Exit::Promised(response)))
    }

    /// The promise is of no use: the request goes to the gateway, and is answered on a stream of its own.
    fn own(&mut self, exit: PhaseExit) -> Phase {
        self.draft.fetch.context.delivery = Delivery::Own;
        self.leave(exit, Phase::Waiting)
    }

    /// The promise is lost with its session or page load.
    fn give_up(&mut self, exit: PhaseExit) -> Phase {
        self.page = None;
        self.leave(exit, Phase::Waiting)
    }
}

/// Notes that the browser waits for this; the gateway is told with what else it asks for now.
fn ask(promise: &Promise) {
    if promise.load.ask(promise.entry) {
        let load = Arc::clone(&promise.load);
        tokio::spawn(async move {
            sleep(ASKS).await;
            load.tell_asks();
        });
    }
}

/// How long a promise is believed in: while the session is open and nothing of the page comes, not for ever.
pub(super) struct Patience {
    link: watch::Receiver<LinkState>,
    open_since: Option<Instant>,
    limit: Duration,
}

impl Patience {
    pub(super) fn new(load: &PageLoad, least: Duration) -> Self {
        Self {
            link: load.hop.watch_link(),
            open_since: None,
            limit: least.max(load.hop.stats().srtt * ROUND_TRIPS),
        }
    }

    /// Waits until it has run out. Cancel safe.
    pub(super) async fn runs_out(&mut self, load: &PageLoad) {
        loop {
            let open = *self.link.borrow_and_update() == LinkState::Open;
            self.open_since = open.then(|| self.open_since.unwrap_or_else(Instant::now));
            let until = self
                .open_since
                .map(|since| since.max(load.progress()) + self.limit);
            if until.is_some_and(|until| until <= Instant::now()) {
                return;
            }
            tokio::select! {
                changed = self.link.changed() => if changed.is_err() {
                    // The session is over, which the page load will say.
                    std::future::pending::<()>().await;
                },
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {}
            }
        }
    }
}
