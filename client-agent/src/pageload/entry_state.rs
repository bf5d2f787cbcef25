//! The entry state that requests see, and the changes that requests make to it.
use std::sync::Arc;

use longhaul_http::{request_context::Requester, site::SchemefulSite};
use longhaul_session::{Ask, EntryBody, EntryHead, EntryId, Message, Scope, Want, Withdrawal};
use longhaul_types::ContentHash;

use super::{
    manifest_entry::{BodyUse, Demand, EntryResponse, FailedFetch, ManifestEntry, Storing},
    page_load::{PageLoad, State},
    page_state::{ManifestProgress, Shown},
    pushed_body::{BodyFault, PushedBody},
};
use crate::store::StorageContext;

/// Maximum number of `Want` messages for a body: repeated damage is not a transmission error.
const MAX_WANTS: u8 = 2;

/// State of an entry's response.
#[derive(Debug)]
pub(crate) enum HeadState {
    /// The head may still arrive.
    Pending,
    /// The head has arrived.
    Known(Arc<EntryHead>),
    /// The gateway could not connect to the entry's host.
    Failed(Arc<FailedFetch>),
    /// The entry is withdrawn.
    Withdrawn(Withdrawal),
    /// The head will not arrive, because the session or the page load is over.
    Lost,
}

/// State of an entry's body.
#[derive(Debug)]
pub(crate) enum EntryBodyState {
    /// The response has no body.
    None,
    /// The body may still arrive.
    Pending,
    /// The body is being pushed, or was pushed completely. The entry is the one that owns the body.
    Arriving(EntryId, Arc<PushedBody>),
    /// The agent's cache should hold the body. The entry is the one that owns the body.
    Held(EntryId, HeldBody),
    /// The body cannot be obtained.
    Failed,
    /// The body will not arrive, because the session or the page load is over.
    Lost,
}

/// A body that the agent's cache should hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldBody {
    /// Identified by the first half of its CHK.
    Prefix([u8; 16]),
    /// Identified by its CHK.
    Whole(ContentHash),
    /// Not identified.
    Unknown,
}

impl PageLoad {
    /// Returns the entry for a URL, unless it is withdrawn or no more of it can arrive.
    pub(crate) fn find(&self, url: &str) -> Option<EntryId> {
        let state = self.state();
        let entry = state.entries.find(url)?;
        let slot = state.entries.get(entry)?;
        let useful = !slot.response.is_withdrawn()
            && (state.life.receives_data()
                || matches!(slot.response, EntryResponse::Failed(_))
                || slot
                    .body
                    .as_ref()
                    .is_some_and(|body| body.end().is_some_and(|end| end.is_ok())));
        useful.then_some(entry)
    }

    /// True if the URL was announced and is withdrawn, so that no response will follow.
    pub(crate) fn is_withdrawn(&self, url: &str) -> bool {
        let state = self.state();
        let slot = state.entries.find(url).and_then(|entry| state.entries.get(entry));
        slot.is_some_and(|slot| slot.response.is_withdrawn())
    }

    /// True if the requester is the page's document, or the document of a frame of the same site.
    pub(crate) fn is_document_of(&self, requester: &Requester) -> bool {
        let Requester::Origin { origin, site } = requester else {
            return false;
        };
        let state = self.state();
        let Shown::Document { origin: document } = &state.shown else {
            return false;
        };
        **origin == **document
            || SchemefulSite::of_url(document).is_some_and(|document| document.is_same_site(site))
                && state.entries.has_frame_of(origin)
    }

    /// True if this referrer is a style sheet of the page load, or the origin of one.
    pub(crate) fn has_style_sheet(&self, referrer: &str) -> bool {
        let state = self.state();
        matches!(state.shown, Shown::Document { .. }) && state.entries.has_style_sheet(referrer)
    }

    /// True if the page's last redirection leads to this URL.
    pub(crate) fn redirects_to(&self, url: &str) -> bool {
        self.state().shown.redirects_to(url)
    }

    /// Returns the state of an entry's response.
    pub(crate) fn head(&self, entry: EntryId) -> HeadState {
        let state = self.state();
        let Some(slot) = state.entries.get(entry) else {
            return state.pending_or(HeadState::Pending, HeadState::Lost);
        };
        match &slot.response {
            EntryResponse::Failed(failed) => HeadState::Failed(Arc::clone(failed)),
            EntryResponse::Withdrawn(reason, _) => HeadState::Withdrawn(*reason),
            EntryResponse::Known(head) => HeadState::Known(Arc::clone(head)),
            EntryResponse::Awaited => state.pending_or(HeadState::Pending, HeadState::Lost),
        }
    }

    /// Returns the state of an entry's body.
    pub(crate) fn body(&self, entry: EntryId) -> EntryBodyState {
        let state = self.state();
        let mut at = entry;
        loop {
            let Some(slot) = state.entries.get(at) else {
                return state.pending_or(EntryBodyState::Pending, EntryBodyState::Lost);
            };
            let head = match &slot.response {
                EntryResponse::Known(head) | EntryResponse::Withdrawn(_, Some(head)) => head,
                EntryResponse::Awaited => {
                    return state.pending_or(EntryBodyState::Pending, EntryBodyState::Lost);
                }
                EntryResponse::Failed(_) | EntryResponse::Withdrawn(_, None) => {
                    return EntryBodyState::Failed;
                }
            };
            match head.body {
                EntryBody::None => return EntryBodyState::None,
                EntryBody::SameAs { entry } if entry < at => at = entry,
                EntryBody::SameAs { .. } => return EntryBodyState::Failed,
                EntryBody::Held { hash } if slot.wants == 0 => {
                    return EntryBodyState::Held(at, HeldBody::Prefix(hash));
                }
                EntryBody::AsBefore if slot.wants == 0 => {
                    let before = self
                        .base
                        .as_ref()
                        .and_then(|base| base.body_of(&self.origin, slot.url()?));
                    return EntryBodyState::Held(at, before.map_or(HeldBody::Unknown, HeldBody::Whole));
                }
                EntryBody::Pushed { .. } | EntryBody::Held { .. } | EntryBody::AsBefore => {
                    return state.pushed(at, slot);
                }
            }
        }
    }

    /// Returns the entry that owns the pushed body of an entry, if there is a pushed body.
    pub(crate) fn body_entry(&self, entry: EntryId) -> Option<EntryId> {
        match self.body(entry) {
            EntryBodyState::Arriving(of, _) => Some(of),
            EntryBodyState::None
            | EntryBodyState::Pending
            | EntryBodyState::Held(..)
            | EntryBodyState::Failed
            | EntryBodyState::Lost => None,
        }
    }

    /// True if the browser was answered with the pushed body that this entry owns.
    pub(crate) fn is_body_used(&self, entry: EntryId) -> bool {
        let state = self.state();
        let slot = state.entries.get(entry);
        slot.is_some_and(|slot| slot.body_use != BodyUse::Unused)
    }

    /// Sends `Want` for a body that the gateway considers held, or that arrived damaged. Returns false if the
    /// limit is reached.
    pub(crate) fn send_want(&self, entry: EntryId) -> bool {
        let wanted = {
            let mut state = self.state();
            let usable = state.life.receives_data();
            let slot = state
                .entries
                .get_mut(entry)
                .filter(|slot| usable && slot.wants < MAX_WANTS);
            let wanted = slot.map(|slot| {
                slot.wants += 1;
                slot.storing = Storing::Due;
            });
            wanted.is_some()
        };
        if wanted {
            self.counters.wanted.increment();
            self.session.send_control(Message::Want(Want {
                page: self.page,
                entry,
            }));
            self.notify();
        }
        wanted
    }

    /// Records that the browser has written to a site.
    pub(super) fn record_write(&self, site: &SchemefulSite) {
        self.state().written.add(site);
    }

    /// True if the browser has perhaps written to the site of the entry since the page load began. The gateway may have fetched
    /// the response before.
    pub(crate) fn is_written(&self, entry: EntryId) -> bool {
        let state = self.state();
        let slot = state.entries.get(entry);
        slot.and_then(ManifestEntry::url)
            .is_some_and(|url| state.written.contains(url))
    }

    /// The CHK of the entry's body, if the cache is known to hold it.
    pub(crate) fn stored_body(&self, entry: EntryId) -> Option<ContentHash> {
        self.state().entries.get(entry)?.chk
    }

    /// Claims an entry for a request; returns false if the entry may answer only one request and is already
    /// claimed.
    pub(crate) fn claim(&self, entry: EntryId, scope: Scope) -> bool {
        let mut state = self.state();
        let slot = state.entries.get_mut(entry);
        slot.is_some_and(|slot| {
            let is_first = slot.use_by_browser.claim();
            is_first || scope == Scope::Reusable
        })
    }

    /// Marks an entry as used by the browser; `body` is the entry that owns its body, `storage_context` the cache
    /// context for storing.
    pub(crate) fn mark_used(
        &self,
        entry: EntryId,
        body: Option<EntryId>,
        storage_context: Option<StorageContext>,
    ) {
        self.follow_redirection(entry);
        let mut state = self.state();
        if let Some(slot) = state.entries.get_mut(entry) {
            slot.use_by_browser.answer();
            if let Some(storage_context) = storage_context {
                slot.store_for(storage_context);
            }
        }
        if let Some(slot) = body.and_then(|body| state.entries.get_mut(body)) {
            slot.use_body(&self.counters);
        }
        drop(state);
        self.notify();
    }

    /// Records that a request for a URL was answered with the failure to reach its host. The gateway learns that the
    /// browser still requests the URL.
    pub(crate) fn mark_failed(&self, url: &str) {
        let mut state = self.state();
        let entry = state.entries.find(url);
        if let Some(slot) = entry.and_then(|entry| state.entries.get_mut(entry)) {
            slot.use_by_browser.answer();
        }
    }

    /// Records that the browser waits for an entry. Returns true if the caller should schedule an `Ask`.
    pub(crate) fn request_entry(&self, entry: EntryId) -> bool {
        let mut state = self.state();
        let Some(slot) = state.entries.get_mut(entry) else {
            return false;
        };
        let before = std::mem::replace(&mut slot.demand, Demand::Requested);
        if before == Demand::Requested || slot.body.as_ref().is_some_and(|body| body.has_begun()) {
            return false;
        }
        state.unsent_asks.push(entry);
        state.unsent_asks.len() == 1
    }

    /// Sends `Ask` for the entries that the browser waits for, if other data could be ahead of them.
    pub(crate) fn send_ask(&self) {
        let entries = {
            let mut state = self.state();
            let waiting = std::mem::take(&mut state.unsent_asks);
            let useful = state.life.receives_data() && state.entries.has_unrequested();
            let entries: Vec<EntryId> = waiting
                .into_iter()
                .filter(|entry| {
                    state
                        .entries
                        .get(*entry)
                        .is_some_and(ManifestEntry::is_unfinished)
                })
                .collect();
            if useful { entries } else { Vec::new() }
        };
        if !entries.is_empty() {
            self.session.send_control(Message::Ask(Ask {
                page: self.page,
                entries,
            }));
        }
    }
}

impl State {
    fn pending_or<T>(&self, pending: T, lost: T) -> T {
        let ended = matches!(
            self.manifest,
            ManifestProgress::Complete(_) | ManifestProgress::Broken
        );
        if !self.life.receives_data() || ended {
            lost
        } else {
            pending
        }
    }

    fn pushed(&self, at: EntryId, slot: &ManifestEntry) -> EntryBodyState {
        let gone = !self.life.receives_data();
        match &slot.body {
            Some(body) => match body.end() {
                Some(Err(BodyFault::SessionLost)) => EntryBodyState::Lost,
                Some(Err(_)) => EntryBodyState::Failed,
                Some(Ok(_)) => EntryBodyState::Arriving(at, Arc::clone(body)),
                None if gone => EntryBodyState::Lost,
                None if body.has_begun() => EntryBodyState::Arriving(at, Arc::clone(body)),
                None => EntryBodyState::Pending,
            },
            None if gone => EntryBodyState::Lost,
            None => EntryBodyState::Pending,
        }
    }
}
