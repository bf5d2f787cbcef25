//! The entries of a manifest and their states.
use std::{collections::BTreeMap, sync::Arc};

use longhaul_http::request_context::origin_of;
use longhaul_session::{EntryBody, EntryFailure, EntryHead, EntryId, FailureReason, Withdrawal};
use longhaul_types::ContentHash;
use tokio::time::Instant;

use super::{
    pushed_body::{BodyFault, PushedBody},
    unreachable_hosts::{LIFETIME, MAX_DETAIL},
};
use crate::{counters::Counters, store::StorageContext};

/// Maximum number of entries of a manifest: twice the gateway's budget.
pub(crate) const MAX_ENTRIES: usize = 2048;
/// Maximum number of contexts for which the response of an entry is stored.
const MAX_CONTEXTS: usize = 4;
/// The destination of a frame's document (the gateway's page planner defines the numbers).
const FRAME: u8 = 1;
/// The destinations of style sheets.
const STYLE_SHEETS: [u8; 2] = [2, 3];

/// The entries of a manifest.
#[derive(Debug, Default)]
pub(super) struct Entries {
    entries: Vec<ManifestEntry>,
    by_url: BTreeMap<Arc<str>, EntryId>,
    /// Number of `Entry` records so far.
    announced: usize,
}

/// One entry. Its parts may arrive in any order.
#[derive(Debug, Default)]
pub(super) struct ManifestEntry {
    announcement: Option<Announcement>,
    pub(super) response: EntryResponse,
    /// The pushed body, once a push has begun.
    pub(super) body: Option<Arc<PushedBody>>,
    pub(super) body_use: BodyUse,
    /// Number of `Want` messages for the body.
    pub(super) wants: u8,
    pub(super) demand: Demand,
    pub(super) use_by_browser: UseByBrowser,
    pub(super) storing: Storing,
    /// Cache contexts for which the response is stored.
    pub(super) storage_contexts: Vec<StorageContext>,
    /// The CHK of the body, once the cache has stored it or is known to hold it.
    pub(super) chk: Option<ContentHash>,
}

/// Contents of an `Entry` record.
#[derive(Debug)]
struct Announcement {
    url: Arc<str>,
    destination: u8,
}

/// State of an entry's response.
#[derive(Debug, Default)]
pub(super) enum EntryResponse {
    /// The `Head` record has not arrived.
    #[default]
    Awaited,
    /// The `Head` record has arrived.
    Known(Arc<EntryHead>),
    /// The gateway could not connect to the host of the entry.
    Failed(Arc<FailedFetch>),
    /// The entry is withdrawn. Entries with the same body still need its `Head` record, if there is one.
    Withdrawn(Withdrawal, Option<Arc<EntryHead>>),
}

/// Failure of an entry.
#[derive(Debug)]
pub(crate) struct FailedFetch {
    pub(crate) reason: FailureReason,
    /// The gateway's description.
    pub(crate) detail: String,
    /// Time until which the failure answers requests.
    until: Instant,
}

impl FailedFetch {
    pub(super) fn is_current(&self) -> bool {
        Instant::now() < self.until
    }
}

impl EntryResponse {
    /// The `Head` record, if it has arrived.
    pub(super) const fn head(&self) -> Option<&Arc<EntryHead>> {
        match self {
            Self::Awaited | Self::Failed(_) | Self::Withdrawn(_, None) => None,
            Self::Known(head) | Self::Withdrawn(_, Some(head)) => Some(head),
        }
    }

    /// True if the entry answers no request.
    pub(super) fn is_withdrawn(&self) -> bool {
        match self {
            Self::Withdrawn(..) => true,
            Self::Failed(failed) => !failed.is_current(),
            Self::Awaited | Self::Known(_) => false,
        }
    }

    fn arrive(&mut self, head: EntryHead) {
        let head = Arc::new(head);
        *self = match self {
            Self::Awaited | Self::Failed(_) | Self::Known(_) => Self::Known(head),
            Self::Withdrawn(reason, _) => Self::Withdrawn(*reason, Some(head)),
        };
    }

    fn withdraw(&mut self, reason: Withdrawal) {
        *self = Self::Withdrawn(reason, self.head().cloned());
    }
}

/// The browser's demand for an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Demand {
    /// No request has waited for the entry.
    #[default]
    None,
    /// A request waits or waited for the entry.
    Requested,
}

/// Use of an entry's response by the browser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum UseByBrowser {
    /// No request was answered with the entry.
    #[default]
    Unused,
    /// The cache answered a request for the entry; the entry itself may still answer one.
    AnsweredByCache,
    /// The entry answers a request that waits for the body.
    Claimed,
    /// The browser was answered with the entry.
    Answered,
}

impl UseByBrowser {
    /// Claims the entry for a request; returns false if an earlier request has claimed it.
    pub(super) const fn claim(&mut self) -> bool {
        let (next, is_first) = match self {
            Self::Unused => (Self::Claimed, true),
            Self::AnsweredByCache => (Self::Answered, true),
            Self::Claimed | Self::Answered => (*self, false),
        };
        *self = next;
        is_first
    }

    /// Records that the browser was answered.
    pub(super) const fn answer(&mut self) {
        *self = match self {
            Self::Unused | Self::AnsweredByCache => Self::AnsweredByCache,
            Self::Claimed | Self::Answered => Self::Answered,
        };
    }

    const fn is_answered(self) -> bool {
        matches!(self, Self::AnsweredByCache | Self::Answered)
    }
}

/// Use of a pushed body by the browser, possibly for another entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BodyUse {
    /// Not used.
    #[default]
    Unused,
    /// The browser was answered with the body.
    Used,
    /// The use is counted, because the body is complete.
    Counted,
}

/// Storing of an entry's response in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Storing {
    /// The response is to be stored once it is complete.
    #[default]
    Due,
    /// The response was passed to the cache for all its contexts.
    Passed,
}

impl ManifestEntry {
    pub(super) fn url(&self) -> Option<&Arc<str>> {
        self.announcement.as_ref().map(|announcement| &announcement.url)
    }

    /// True if data of the entry may still arrive.
    pub(super) fn is_unfinished(&self) -> bool {
        match &self.response {
            EntryResponse::Failed(_) | EntryResponse::Withdrawn(..) => false,
            EntryResponse::Awaited => true,
            EntryResponse::Known(head) => match head.body {
                EntryBody::Pushed { .. } => self.is_arriving(),
                EntryBody::Held { .. } | EntryBody::AsBefore => self.wants > 0 && self.is_arriving(),
                EntryBody::None | EntryBody::SameAs { .. } => false,
            },
        }
    }

    fn is_arriving(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.end().is_none())
    }

    /// Adds a cache context for which the response is stored.
    pub(super) fn store_for(&mut self, storage_context: StorageContext) {
        if self.storage_contexts.len() < MAX_CONTEXTS && !self.storage_contexts.contains(&storage_context) {
            self.storage_contexts.push(storage_context);
            self.storing = Storing::Due;
        }
    }

    /// Records that the browser was answered with the body.
    pub(super) fn use_body(&mut self, counters: &Counters) {
        if self.body_use == BodyUse::Unused {
            self.body_use = BodyUse::Used;
        }
        self.count_used_body(counters);
    }

    /// Counts the pushed body as used, once it is complete and the browser has it.
    pub(super) fn count_used_body(&mut self, counters: &Counters) {
        if let (BodyUse::Used, Some(body)) = (self.body_use, &self.body)
            && body.end().is_some()
        {
            self.body_use = BodyUse::Counted;
            counters.push_taken_objects.increment();
            counters.push_taken_bytes.add(body.wire_bytes());
        }
    }
}

impl Entries {
    /// Adds the next entry; returns false if there are too many.
    pub(super) fn announce(&mut self, url: String, destination: u8) -> bool {
        let Some(number) = EntryId::at(self.announced).filter(|number| Self::is_permitted(*number)) else {
            return false;
        };
        self.announced += 1;
        let url: Arc<str> = url.into();
        if let Some(slot) = self.get_or_create(number) {
            let url = Arc::clone(&url);
            slot.announcement = Some(Announcement { url, destination });
        }
        self.by_url.insert(url, number);
        true
    }

    pub(super) fn head(&mut self, head: EntryHead) -> bool {
        let Some(slot) = self.get_or_create(head.entry) else {
            return false;
        };
        slot.response.arrive(head);
        true
    }

    pub(super) fn withdraw(&mut self, entry: EntryId, reason: Withdrawal) -> bool {
        let Some(slot) = self.get_or_create(entry) else {
            return false;
        };
        slot.response.withdraw(reason);
        if let Some(body) = &slot.body {
            body.fail(BodyFault::Cut);
        }
        true
    }

    /// Scheme, host and port of an announced entry.
    pub(super) fn origin_of(&self, entry: EntryId) -> Option<String> {
        let url = self.get(entry)?.url()?;
        origin_of(url).map(str::to_owned)
    }

    /// Records the failure of an entry; a response that has arrived remains.
    pub(super) fn fail(&mut self, failure: EntryFailure) -> bool {
        let EntryFailure {
            entry,
            reason,
            detail,
        } = failure;
        let Some(slot) = self.get_or_create(entry) else {
            return false;
        };
        if matches!(slot.response, EntryResponse::Awaited) {
            slot.response = EntryResponse::Failed(Arc::new(FailedFetch {
                reason,
                detail: detail.chars().take(MAX_DETAIL).collect(),
                until: Instant::now() + LIFETIME,
            }));
        }
        true
    }

    pub(super) fn find(&self, url: &str) -> Option<EntryId> {
        self.by_url.get(url).copied()
    }

    pub(super) fn get(&self, entry: EntryId) -> Option<&ManifestEntry> {
        self.entries.get(entry.position())
    }

    pub(super) fn get_mut(&mut self, entry: EntryId) -> Option<&mut ManifestEntry> {
        self.entries.get_mut(entry.position())
    }

    /// True if a manifest may have an entry of this number.
    pub(super) fn is_permitted(entry: EntryId) -> bool {
        entry.position() < MAX_ENTRIES
    }

    /// Returns the slot of an entry, which may not be announced yet.
    pub(super) fn get_or_create(&mut self, entry: EntryId) -> Option<&mut ManifestEntry> {
        if !Self::is_permitted(entry) {
            return None;
        }
        let at = entry.position();
        if self.entries.len() <= at {
            self.entries.resize_with(at + 1, ManifestEntry::default);
        }
        self.entries.get_mut(at)
    }

    fn answered_as(&self, destinations: &[u8]) -> impl Iterator<Item = &str> {
        let answered = self
            .entries
            .iter()
            .filter(|slot| slot.use_by_browser.is_answered());
        answered
            .filter_map(|slot| slot.announcement.as_ref())
            .filter(|announcement| destinations.contains(&announcement.destination))
            .map(|announcement| &*announcement.url)
    }

    /// True if the browser has the document of a frame of this origin.
    pub(super) fn has_frame_of(&self, origin: &str) -> bool {
        self.answered_as(&[FRAME])
            .any(|url| origin_of(url) == Some(origin))
    }

    /// True if the browser has a style sheet whose URL is this referrer or whose origin is.
    pub(super) fn has_style_sheet(&self, referrer: &str) -> bool {
        self.answered_as(&STYLE_SHEETS)
            .any(|url| url == referrer || origin_of(url) == referrer.strip_suffix('/'))
    }

    /// Number of announced entries.
    pub(super) const fn count(&self) -> usize {
        self.announced
    }

    /// Entries that the browser used, in ascending order.
    pub(super) fn used_entries(&self) -> Vec<EntryId> {
        EntryId::all()
            .zip(&self.entries)
            .filter(|(_, slot)| slot.use_by_browser.is_answered())
            .map(|(entry, _)| entry)
            .collect()
    }

    /// True if data arrives for an entry that the browser has not requested.
    pub(super) fn has_unrequested(&self) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|slot| slot.demand == Demand::None && slot.is_unfinished())
    }

    pub(super) fn are_finished(&self) -> bool {
        !self.entries.iter().any(ManifestEntry::is_unfinished)
    }

    /// The CHKs of the entries' bodies, if known.
    pub(super) fn chks(&self) -> Vec<Option<ContentHash>> {
        self.entries
            .iter()
            .take(self.announced)
            .map(|slot| slot.chk)
            .collect()
    }

    /// Returns an entry whose response can be passed to the cache and has not been, and the entry with its
    /// pushed body.
    pub(super) fn next_to_store(&self) -> Option<(EntryId, Option<EntryId>)> {
        EntryId::all().zip(&self.entries).find_map(|(entry, slot)| {
            let EntryResponse::Known(head) = &slot.response else {
                return None;
            };
            if slot.storing == Storing::Passed || slot.announcement.is_none() {
                return None;
            }
            let mut at = entry;
            let mut body = head.body;
            while let EntryBody::SameAs { entry } = body {
                let before = self.get(entry).filter(|_| entry < at)?;
                (at, body) = (entry, before.response.head()?.body);
            }
            let of_body = self.get(at)?;
            match body {
                EntryBody::None => Some((entry, None)),
                EntryBody::Held { .. } | EntryBody::AsBefore if of_body.wants == 0 => Some((entry, None)),
                EntryBody::Pushed { .. } | EntryBody::Held { .. } | EntryBody::AsBefore => {
                    let whole = of_body.body.as_ref()?.end()?.is_ok();
                    whole.then_some((entry, Some(at)))
                }
                EntryBody::SameAs { .. } => None,
            }
        })
    }

    /// Counts pushed bytes that the browser did not use.
    pub(super) fn count_waste(&mut self, counters: &Counters) {
        for slot in &mut self.entries {
            slot.count_used_body(counters);
            if let Some(body) = slot.body.as_ref().filter(|_| slot.body_use == BodyUse::Unused) {
                counters.push_wasted_bytes.add(body.wire_bytes());
            }
        }
    }

    /// Ends the bodies that are incomplete: no more data will arrive.
    pub(super) fn end_bodies(&self, fault: BodyFault) {
        for body in self.entries.iter().filter_map(|slot| slot.body.as_ref()) {
            body.fail(fault);
        }
    }
}
