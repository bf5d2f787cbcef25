//! The body of an announced response: the wait for its first bytes, before or after the browser has the head.
use std::sync::Arc;

use longhaul_cache::StoredBody;
use longhaul_session::EntryId;
use tokio::time::sleep;

use super::{
    body_relay::{Interruption, Relay},
    phase::Promise,
    response::ResponseBody,
    stall_timeout::StallTimeout,
};
use crate::{
    counters::{Counters, PhaseExit},
    pageload::{EntryBodyState, HeldBody, PageLoad, PushedBody},
    store::{StorageContext, Store},
};

/// Delay before `Ask` is sent, so that requests made together go in one message.
const ASK_DELAY: std::time::Duration = std::time::Duration::from_millis(10);

/// A body that a manifest announces.
#[derive(Debug)]
pub(super) struct AnnouncedBody {
    pub(super) promise: Promise,
    /// Cache context in which the response is stored.
    pub(super) storage_context: Option<StorageContext>,
}

/// Where the body is.
pub(super) enum Arrival {
    Empty,
    Pushed(Arc<PushedBody>),
    Stored(Box<StoredBody>),
}

impl Arrival {
    /// The exit of the phase that waits for the body.
    pub(super) const fn exit(&self) -> PhaseExit {
        match self {
            Self::Empty => PhaseExit::ArrivingEmpty,
            Self::Pushed(_) => PhaseExit::ArrivingPushed,
            Self::Stored(_) => PhaseExit::ArrivingHeld,
        }
    }
}

impl From<Arrival> for ResponseBody {
    fn from(arrival: Arrival) -> Self {
        match arrival {
            Arrival::Empty => Self::Empty,
            Arrival::Pushed(body) => Self::Pushed(body),
            Arrival::Stored(body) => Self::Stored(body),
        }
    }
}

impl AnnouncedBody {
    /// Waits until the body has begun to arrive or is found in the cache; asks for it. Cancel safe.
    ///
    /// # Errors
    /// The entry has no body: the exit of the phase.
    pub(super) async fn arrival(
        &self,
        store: &Store,
        counters: &Counters,
        stall_timeout: &mut StallTimeout,
    ) -> Result<Arrival, PhaseExit> {
        let Promise { load, entry, .. } = &self.promise;
        let mut changes = load.changes();
        loop {
            changes.borrow_and_update();
            match load.body(*entry) {
                EntryBodyState::None => {
                    self.mark_used(None);
                    return Ok(Arrival::Empty);
                }
                EntryBodyState::Arriving(of, body) => {
                    self.mark_used(Some(of));
                    return Ok(Arrival::Pushed(body));
                }
                EntryBodyState::Held(of, held) => {
                    if let Some(body) = held_body(store, held).await {
                        counters.held_hits.increment();
                        counters
                            .savings
                            .used(load.session.serial(), load.key_of(*entry), &body.chk());
                        self.mark_used(None);
                        return Ok(Arrival::Stored(Box::new(body)));
                    }
                    if !load.send_want(of) {
                        return Err(PhaseExit::ArrivingBroken);
                    }
                    continue;
                }
                EntryBodyState::Failed => return Err(PhaseExit::ArrivingBroken),
                EntryBodyState::Lost => return Err(PhaseExit::ArrivingLost),
                EntryBodyState::Pending => request_entry(load, *entry),
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = stall_timeout.expires(load) => return Err(PhaseExit::ArrivingStuck),
            }
        }
    }

    fn mark_used(&self, of: Option<EntryId>) {
        let Promise { load, entry, .. } = &self.promise;
        load.mark_used(*entry, of, self.storage_context.clone());
    }
}

impl Relay {
    /// Relays a body whose head the browser has already. If the body does not arrive as announced, requests it.
    pub(super) async fn run_announced(mut self, body: AnnouncedBody) {
        let mut stall_timeout = StallTimeout::new(&body.promise.load, self.handles.stall_timeout);
        let (store, counters) = (self.handles.store.clone(), Arc::clone(&self.handles.counters));
        let arrival = tokio::select! {
            biased;
            () = self.browser.closed() => return self.finish(Err(Interruption::BrowserGone)).await,
            arrival = body.arrival(&store, &counters, &mut stall_timeout) => arrival,
        };
        let exit = arrival.as_ref().map_or_else(|exit| *exit, Arrival::exit);
        counters.exits.count(exit);
        self.handles.recording.left(exit);
        match arrival {
            Ok(Arrival::Empty) => self.finish(Ok(())).await,
            Ok(Arrival::Pushed(body)) => self.run_pushed(body.reader()).await,
            Ok(Arrival::Stored(body)) => self.run_stored(*body).await,
            Err(_) => {
                let end = self.fetch_rest(&[]).await;
                self.finish(end).await;
            }
        }
    }
}

async fn held_body(store: &Store, held: HeldBody) -> Option<StoredBody> {
    match held {
        HeldBody::Whole(chk) => store.body(chk).await,
        HeldBody::Prefix(prefix) => store.body_of_prefix(&prefix).await,
        HeldBody::Unknown => None,
    }
}

/// Records that the browser waits for the entry; `Ask` is sent after a delay, together with other entries.
pub(super) fn request_entry(load: &Arc<PageLoad>, entry: EntryId) {
    if load.request_entry(entry) {
        let load = Arc::clone(load);
        tokio::spawn(async move {
            sleep(ASK_DELAY).await;
            load.send_ask();
        });
    }
}
