//! The entries of a manifest and their states.
use std::{collections::BTreeMap, sync::Arc};

use longhaul_http::request_context::origin_of;
use longhaul_session::{EntryBody, EntryHead, Withdrawal};
use longhaul_types::ContentHash;

use super::pushed_body::{BodyFault, PushedBody};
use crate::{counters::Counters, store::StorageContext};

/// Maximum number of entries of a manifest: twice the gateway's budget.
pub(crate) const MAX_ENTRIES: u32 = 2048;
/// Maximum number of contexts for which the response of an entry is stored.
const MAX_TAKERS: usize = 4;
/// The destination of a frame's document (the gateway's page planner defines the numbers).
const FRAME: u8 = 1;
/// The destinations of style sheets.
const SHEETS: [u8; 2] = [2, 3];

/// The entries of a manifest.
#[derive(Debug, Default)]
pub(super) struct Entries {
    slots: Vec<ManifestEntry>,
    by_url: BTreeMap<Arc<str>, u32>,
    /// The number of the next `Entry` record.
    next: u32,
}

/// One entry. Its parts may arrive in any order.
#[derive(Debug, Default)]
pub(super) struct ManifestEntry {
    pub(super) url: Option<Arc<str>>,
    pub(super) head: Option<Arc<EntryHead>>,
    pub(super) withdrawn: Option<Withdrawal>,
    pub(super) body: Option<Arc<PushedBody>>,
    /// A push of the body has begun.
    pub(super) pushed: bool,
    /// The CHK of the body, once the cache has stored it or is known to hold it.
    pub(super) chk: Option<ContentHash>,
    /// The browser waits or waited for the entry.
    pub(super) asked: bool,
    /// A request has claimed the entry.
    pub(super) claimed: bool,
    /// The browser was answered with the entry.
    pub(super) taken: bool,
    /// The browser was answered with the entry's body, possibly for another entry.
    pub(super) body_taken: bool,
    taken_counted: bool,
    /// Number of `Want` messages for the body.
    pub(super) wants: u8,
    /// The response was passed to the cache.
    pub(super) kept: bool,
    /// Cache contexts for which the response is stored.
    pub(super) takers: Vec<StorageContext>,
    destination: Option<u8>,
}

impl ManifestEntry {
    /// True if data of the entry may still arrive.
    pub(super) fn is_unfinished(&self) -> bool {
        if self.withdrawn.is_some() {
            return false;
        }
        match self.head.as_ref().map(|head| head.body) {
            None => true,
            Some(EntryBody::Pushed { .. }) => self.is_arriving(),
            Some(EntryBody::Held { .. } | EntryBody::AsBefore) => self.wants > 0 && self.is_arriving(),
            Some(EntryBody::None | EntryBody::SameAs { .. }) => false,
        }
    }

    fn is_arriving(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.end().is_none())
    }

    /// Adds a cache context for which the response is stored.
    pub(super) fn keep_for(&mut self, taker: StorageContext) {
        if self.takers.len() < MAX_TAKERS && !self.takers.contains(&taker) {
            self.takers.push(taker);
            self.kept = false;
        }
    }

    /// Counts the pushed body as used, once it is complete and the browser has it.
    pub(super) fn count_taken(&mut self, counters: &Counters) {
        let Some(body) = self
            .body
            .as_ref()
            .filter(|_| self.body_taken && !self.taken_counted)
        else {
            return;
        };
        if body.end().is_some() {
            self.taken_counted = true;
            counters.push_taken_objects.one();
            counters.push_taken_bytes.add(body.wire_bytes());
        }
    }
}

impl Entries {
    /// Adds the next entry; returns false if there are too many.
    pub(super) fn announce(&mut self, url: String, destination: u8) -> bool {
        let number = self.next;
        if number >= MAX_ENTRIES {
            return false;
        }
        self.next += 1;
        let url: Arc<str> = url.into();
        if let Some(slot) = self.slot_at(number) {
            slot.url = Some(Arc::clone(&url));
            slot.destination = Some(destination);
        }
        self.by_url.insert(url, number);
        true
    }

    pub(super) fn head(&mut self, head: EntryHead) -> bool {
        let Some(slot) = self.slot_at(head.entry) else {
            return false;
        };
        slot.head = Some(Arc::new(head));
        true
    }

    pub(super) fn withdraw(&mut self, entry: u32, reason: Withdrawal) -> bool {
        let Some(slot) = self.slot_at(entry) else {
            return false;
        };
        slot.withdrawn = Some(reason);
        if let Some(body) = &slot.body {
            body.fail(BodyFault::Cut);
        }
        true
    }

    pub(super) fn find(&self, url: &str) -> Option<u32> {
        self.by_url.get(url).copied()
    }

    pub(super) fn slot(&self, entry: u32) -> Option<&ManifestEntry> {
        self.slots.get(usize::try_from(entry).ok()?)
    }

    pub(super) fn slot_mut(&mut self, entry: u32) -> Option<&mut ManifestEntry> {
        self.slots.get_mut(usize::try_from(entry).ok()?)
    }

    /// Returns the slot of an entry, which may not be announced yet.
    pub(super) fn slot_at(&mut self, entry: u32) -> Option<&mut ManifestEntry> {
        if entry >= MAX_ENTRIES {
            return None;
        }
        let at = usize::try_from(entry).ok()?;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, ManifestEntry::default);
        }
        self.slots.get_mut(at)
    }

    fn taken_as(&self, destinations: &[u8]) -> impl Iterator<Item = &str> {
        let taken = self.slots.iter().filter(move |slot| {
            slot.taken
                && slot
                    .destination
                    .is_some_and(|destination| destinations.contains(&destination))
        });
        taken.filter_map(|slot| slot.url.as_deref())
    }

    /// True if the browser has the document of a frame of this origin.
    pub(super) fn has_frame_of(&self, origin: &str) -> bool {
        self.taken_as(&[FRAME]).any(|url| origin_of(url) == Some(origin))
    }

    /// True if the browser has a style sheet whose URL is this referrer or whose origin is.
    pub(super) fn has_sheet(&self, referrer: &str) -> bool {
        self.taken_as(&SHEETS)
            .any(|url| url == referrer || origin_of(url) == referrer.strip_suffix('/'))
    }

    /// Number of announced entries.
    pub(super) const fn count(&self) -> u32 {
        self.next
    }

    /// Entries that the browser used, in ascending order.
    pub(super) fn taken(&self) -> Vec<u32> {
        (0..)
            .zip(&self.slots)
            .filter(|(_, slot)| slot.taken)
            .map(|(entry, _)| entry)
            .collect()
    }

    /// True if data arrives for an entry that the browser has not requested.
    pub(super) fn has_unasked(&self) -> bool {
        self.slots.iter().any(|slot| !slot.asked && slot.is_unfinished())
    }

    pub(super) fn are_finished(&self) -> bool {
        !self.slots.iter().any(ManifestEntry::is_unfinished)
    }

    /// The CHKs of the entries' bodies, if known.
    pub(super) fn chks(&self) -> Vec<Option<ContentHash>> {
        let known = usize::try_from(self.next).unwrap_or(usize::MAX);
        self.slots.iter().take(known).map(|slot| slot.chk).collect()
    }

    /// Returns an entry whose response can be passed to the cache and has not been, and the entry with its
    /// pushed body.
    pub(super) fn next_to_keep(&self) -> Option<(u32, Option<u32>)> {
        (0..).zip(&self.slots).find_map(|(entry, slot)| {
            let ready = !slot.kept && slot.withdrawn.is_none() && slot.url.is_some();
            let head = slot.head.as_ref().filter(|_| ready)?;
            let mut at = entry;
            let mut body = head.body;
            while let EntryBody::SameAs { entry } = body {
                let before = self.slot(entry).filter(|_| entry < at)?;
                (at, body) = (entry, before.head.as_ref()?.body);
            }
            let of_body = self.slot(at)?;
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
        for slot in &mut self.slots {
            slot.count_taken(counters);
            if let Some(body) = slot.body.as_ref().filter(|_| !slot.body_taken) {
                counters.push_wasted_bytes.add(body.wire_bytes());
            }
        }
    }

    /// Ends the bodies that are incomplete: no more data will arrive.
    pub(super) fn end_bodies(&self, fault: BodyFault) {
        for body in self.slots.iter().filter_map(|slot| slot.body.as_ref()) {
            body.fail(fault);
        }
    }
}
