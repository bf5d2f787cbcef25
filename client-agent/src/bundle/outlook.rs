//! What a request can expect of an entry, and what it tells the page load.
use std::sync::Arc;

use longhaul_http::{request_context::Requester, site::SchemefulSite};
use longhaul_protocol::session::{Ask, EntryBody, EntryHead, Message, Scope, Want, Withdrawal};
use longhaul_types::ContentHash;

use super::{
    body::{BodyFault, PushedBody},
    load::{PageLoad, Progress, State},
    slot::Slot,
};
use crate::store::Keeper;

/// How often a body is asked for again by `Want`: damage that repeats is not damage on the way.
const MAX_WANTS: u8 = 2;

/// What is known of an entry's response.
#[derive(Debug)]
pub(crate) enum HeadOutlook {
    /// It may come yet.
    Pending,
    /// It is here.
    Known(Arc<EntryHead>),
    /// It will not come.
    Withdrawn(Withdrawal),
    /// It will not come since the session or the page load is over.
    Lost,
}

/// What is known of an entry's body.
#[derive(Debug)]
pub(crate) enum BodyOutlook {
    /// There is none.
    None,
    /// It may come yet.
    Pending,
    /// It is being pushed, or was. The entry is the one whose body it is.
    Arriving(u32, Arc<PushedBody>),
    /// The agent's cache should have it. The entry is the one whose body it is.
    Held(u32, HeldBody),
    /// It cannot be had.
    Failed,
    /// It will not come since the session or the page load is over.
    Lost,
}

/// A body that the agent's cache should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldBody {
    /// By the first half of its CHK.
    Prefix([u8; 16]),
    /// By its CHK.
    Whole(ContentHash),
    /// By nothing that the agent knows.
    Unknown,
}

impl PageLoad {
    /// The entry for a URL, unless it is withdrawn or nothing more can come of it.
    pub(crate) fn find(&self, url: &str) -> Option<u32> {
        let state = self.state();
        let entry = state.entries.find(url)?;
        let slot = state.entries.slot(entry)?;
        let useful = slot.withdrawn.is_none()
            && (!(state.over || state.session_lost)
                || slot
                    .body
                    .as_ref()
                    .is_some_and(|body| body.end().is_some_and(|end| end.is_ok())));
        useful.then_some(entry)
    }

    /// Whether the URL was announced, and is withdrawn: nothing is to be waited for.
    pub(crate) fn is_withdrawn(&self, url: &str) -> bool {
        let state = self.state();
        let slot = state
            .entries
            .find(url)
            .and_then(|entry| state.entries.slot(entry));
        slot.is_some_and(|slot| slot.withdrawn.is_some())
    }

    /// Whether who asks is the document that the browser shows of it, or that of a frame of the same site.
    pub(crate) fn is_document_of(&self, requester: &Requester) -> bool {
        let Requester::Origin { origin, site } = requester else {
            return false;
        };
        let state = self.state();
        let Some(document) = &state.document_origin else {
            return false;
        };
        **origin == **document
            || SchemefulSite::of_url(document).is_some_and(|document| document.is_same_site(site))
                && state.entries.has_frame_of(origin)
    }

    /// Whether a style sheet of it, or the origin of one, is this referrer.
    pub(crate) fn has_sheet(&self, referrer: &str) -> bool {
        let state = self.state();
        state.document_origin.is_some() && state.entries.has_sheet(referrer)
    }

    /// Whether the browser was sent there last.
    pub(crate) fn redirects_to(&self, url: &str) -> bool {
        self.state().redirect.as_deref() == Some(url)
    }

    /// What is known of an entry's response.
    pub(crate) fn head(&self, entry: u32) -> HeadOutlook {
        let state = self.state();
        let Some(slot) = state.entries.slot(entry) else {
            return state.pending_or(HeadOutlook::Pending, HeadOutlook::Lost);
        };
        match (&slot.head, slot.withdrawn) {
            (_, Some(reason)) => HeadOutlook::Withdrawn(reason),
            (Some(head), None) => HeadOutlook::Known(Arc::clone(head)),
            (None, None) => state.pending_or(HeadOutlook::Pending, HeadOutlook::Lost),
        }
    }

    /// What is known of an entry's body.
    pub(crate) fn body(&self, entry: u32) -> BodyOutlook {
        let state = self.state();
        let mut at = entry;
        loop {
            let Some(slot) = state.entries.slot(at) else {
                return state.pending_or(BodyOutlook::Pending, BodyOutlook::Lost);
            };
            let Some(head) = &slot.head else {
                let pending = slot.withdrawn.is_none();
                return if pending {
                    state.pending_or(BodyOutlook::Pending, BodyOutlook::Lost)
                } else {
                    BodyOutlook::Failed
                };
            };
            match head.body {
                EntryBody::None => return BodyOutlook::None,
                EntryBody::SameAs { entry } if entry < at => at = entry,
                EntryBody::SameAs { .. } => return BodyOutlook::Failed,
                EntryBody::Held { hash } if slot.wants == 0 => {
                    return BodyOutlook::Held(at, HeldBody::Prefix(hash));
                }
                EntryBody::AsBefore if slot.wants == 0 => {
                    let before = self
                        .base
                        .as_ref()
                        .and_then(|base| base.body_of(&self.origin, slot.url.as_deref()?));
                    return BodyOutlook::Held(at, before.map_or(HeldBody::Unknown, HeldBody::Whole));
                }
                EntryBody::Pushed { .. } | EntryBody::Held { .. } | EntryBody::AsBefore => {
                    return state.pushed(at, slot);
                }
            }
        }
    }

    /// The entry whose pushed body an entry has, if it has one.
    pub(crate) fn body_entry(&self, entry: u32) -> Option<u32> {
        match self.body(entry) {
            BodyOutlook::Arriving(of, _) => Some(of),
            BodyOutlook::None
            | BodyOutlook::Pending
            | BodyOutlook::Held(..)
            | BodyOutlook::Failed
            | BodyOutlook::Lost => None,
        }
    }

    /// Asks the gateway for a body that it takes to be held, or that came damaged. False if that was tried before.
    pub(crate) fn want(&self, entry: u32) -> bool {
        let wanted = {
            let mut state = self.state();
            let usable = !state.over && !state.session_lost;
            let slot = state
                .entries
                .slot_mut(entry)
                .filter(|slot| usable && slot.wants < MAX_WANTS);
            let wanted = slot.map(|slot| {
                slot.wants += 1;
                slot.kept = false;
            });
            wanted.is_some()
        };
        if wanted {
            self.counters.wanted.one();
            self.hop.tell(Message::Want(Want {
                page: self.page,
                entry,
            }));
            self.notify();
        }
        wanted
    }

    /// Claims an entry for a request; false if it was good for one request only, and that is answered.
    pub(crate) fn claim(&self, entry: u32, scope: Scope) -> bool {
        let mut state = self.state();
        let slot = state.entries.slot_mut(entry);
        slot.is_some_and(|slot| {
            let free = scope == Scope::Reusable || !slot.claimed;
            slot.claimed = true;
            free
        })
    }

    /// The browser is answered with an entry, whose body is that of the entry `body`. `taker`: for whom it is kept.
    pub(crate) fn take(&self, entry: u32, body: Option<u32>, taker: Option<Keeper>) {
        self.follow(entry);
        let mut state = self.state();
        if let Some(slot) = state.entries.slot_mut(entry) {
            slot.taken = true;
            if let Some(taker) = taker {
                slot.keep_for(taker);
            }
        }
        if let Some(slot) = body.and_then(|body| state.entries.slot_mut(body)) {
            slot.body_taken = true;
            slot.count_taken(&self.counters);
        }
        drop(state);
        self.notify();
    }

    /// The browser waits for an entry. True if the gateway should be told soon.
    pub(crate) fn ask(&self, entry: u32) -> bool {
        let mut state = self.state();
        let Some(slot) = state.entries.slot_mut(entry) else {
            return false;
        };
        if std::mem::replace(&mut slot.asked, true) || slot.body.as_ref().is_some_and(|body| body.has_begun())
        {
            return false;
        }
        state.asks.push(entry);
        state.asks.len() == 1
    }

    /// Tells the gateway what the browser asked for, if something else could be in front of it.
    pub(crate) fn tell_asks(&self) {
        let entries = {
            let mut state = self.state();
            let asked = std::mem::take(&mut state.asks);
            let useful = !state.over && !state.session_lost && state.entries.has_unasked();
            let entries: Vec<u32> = asked
                .into_iter()
                .filter(|entry| state.entries.slot(*entry).is_some_and(Slot::is_unfinished))
                .collect();
            if useful { entries } else { Vec::new() }
        };
        if !entries.is_empty() {
            self.hop.tell(Message::Ask(Ask {
                page: self.page,
                entries,
            }));
        }
    }
}

impl State {
    fn pending_or<T>(&self, pending: T, lost: T) -> T {
        let ended = matches!(self.manifest, Progress::Complete(_) | Progress::Broken);
        if self.over || self.session_lost || ended {
            lost
        } else {
            pending
        }
    }

    fn pushed(&self, at: u32, slot: &Slot) -> BodyOutlook {
        let gone = self.over || self.session_lost;
        match &slot.body {
            Some(body) => match body.end() {
                Some(Err(BodyFault::SessionLost)) => BodyOutlook::Lost,
                Some(Err(_)) => BodyOutlook::Failed,
                Some(Ok(_)) => BodyOutlook::Arriving(at, Arc::clone(body)),
                None if gone => BodyOutlook::Lost,
                None if body.has_begun() => BodyOutlook::Arriving(at, Arc::clone(body)),
                None => BodyOutlook::Pending,
            },
            None if gone => BodyOutlook::Lost,
            None => BodyOutlook::Pending,
        }
    }
}
