//! The plan of one page load: its entries, their state, and the next one to fetch or push. Pure.
mod answer;
mod body;
mod entry;
mod failure;
mod inline_background;
mod manifest_change;
mod request;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use longhaul_cache::PartitionLabel;
use longhaul_http::policy;
use longhaul_page::{PendingReferences, Reference, ReferrerPolicy, order::Position};
use longhaul_session::{EntryId, Record, Withdrawal};
use longhaul_types::ContentHash;
use url::Url;

pub(crate) use self::{
    answer::{Answer, AnswerBody, Placement},
    body::{BodyState, DeliveredBody, PushAttempt, PushProgress, PushedResponse},
    entry::{
        Answered, Arrival, PlanEntry, PredictedCookies, ReferenceSearch, ReferenceSource, Refetch, Stage,
        Usability,
    },
    failure::HostState,
    request::{ExpectedInitiator, Match},
};
use self::{entry::Rank, manifest_change::ManifestChange};

/// Assumed length of a body of unknown length: the web's median object is smaller, its mean object larger.
const USUAL_LENGTH: u64 = 32 * 1024;

/// Limits of one page bundle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanLimits {
    /// Maximum number of entries: the heaviest pages of the web load some hundreds of objects.
    pub(crate) entries: usize,
    /// Maximum decoded bytes of all pushes.
    pub(crate) bytes: u64,
    /// Maximum decoded bytes of one push: a larger body is a download, which is sent on request.
    pub(crate) body: u64,
    /// Maximum number of references from the page to an entry, because style sheets may import one another in
    /// a cycle.
    pub(crate) depth: usize,
    /// Maximum number of repeated pushes of a body.
    pub(crate) repeats: u8,
}

impl Default for PlanLimits {
    fn default() -> Self {
        Self {
            entries: 1000,
            bytes: 64 * 1024 * 1024,
            body: 8 * 1024 * 1024,
            depth: 5,
            repeats: 3,
        }
    }
}

/// State of the list of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryList {
    Open,
    /// No further entry can be added.
    Closed,
}

/// The plan of one page load.
pub(crate) struct Plan {
    page: Url,
    limits: PlanLimits,
    entries: Vec<PlanEntry>,
    by_url: BTreeMap<String, EntryId>,
    by_hash: BTreeMap<(ContentHash, PartitionLabel), EntryId>,
    /// CHKs of the base manifest's entries, by the URL in the entry.
    previous_hashes: BTreeMap<String, ContentHash>,
    /// Origins (RFC 6454 section 6.2) whose hosts cannot be reached.
    absent: BTreeSet<String>,
    /// Changes that the manifest does not contain yet.
    changes: Vec<ManifestChange>,
    /// Number of documents and style sheets that may add further entries.
    searching: usize,
    entry_list: EntryList,
    /// Decoded bytes of the pushes so far, and of those that wait with a known length.
    bytes: u64,
    /// Number of entries that the browser requested.
    requests: u32,
    /// Number of entries that the page's own document added.
    children: u32,
}

impl Plan {
    /// Creates the plan of the page at `page`, whose own document is being parsed.
    pub(crate) fn new(page: Url, limits: PlanLimits, previous_hashes: BTreeMap<String, ContentHash>) -> Self {
        Self {
            page,
            limits,
            entries: Vec::new(),
            by_url: BTreeMap::new(),
            by_hash: BTreeMap::new(),
            previous_hashes,
            absent: BTreeSet::new(),
            changes: Vec::new(),
            searching: 1,
            entry_list: EntryList::Open,
            bytes: 0,
            requests: 0,
            children: 0,
        }
    }

    pub(crate) fn page(&self) -> &Url {
        &self.page
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (EntryId, &PlanEntry)> {
        EntryId::all().zip(&self.entries)
    }

    pub(crate) fn get(&self, entry: EntryId) -> Option<&PlanEntry> {
        self.entries.get(entry.position())
    }

    pub(crate) fn get_mut(&mut self, entry: EntryId) -> Option<&mut PlanEntry> {
        self.entries.get_mut(entry.position())
    }

    /// Images and fonts of style sheets that nothing displays so far, by entry.
    pub(crate) fn pending_references(&mut self) -> impl Iterator<Item = (EntryId, &mut PendingReferences)> {
        EntryId::all()
            .zip(&mut self.entries)
            .filter_map(|(number, entry)| match &mut entry.source {
                ReferenceSource::StyleSheet { pending, .. } => Some((number, pending)),
                ReferenceSource::None | ReferenceSource::Document(_) => None,
            })
    }

    /// Returns true if the page's own document or one of its style sheets refers to the entry; false if a
    /// frame does.
    pub(crate) fn is_of_page(&self, entry: EntryId) -> bool {
        let mut referrer = Some(entry);
        for _ in 0..=self.limits.depth {
            let Some(entry) = referrer else { return true };
            match self.get(entry) {
                Some(entry) if !entry.reference.destination.is_document() => referrer = entry.referrer,
                Some(_) | None => return false,
            }
        }
        false
    }

    /// Returns true if the page's own document may use a style sheet whose response was not searched.
    pub(crate) fn lacks_style_sheet(&self) -> bool {
        let mut entries = self.entries();
        entries.any(|(number, entry)| entry.is_unsearched_sheet() && self.is_of_page(number))
    }

    /// The entry of a URL.
    pub(crate) fn find(&self, url: &str) -> Option<EntryId> {
        self.by_url.get(url).copied()
    }

    /// Adds the references of `referrer` (`None`: the page).
    pub(crate) fn found(
        &mut self,
        references: impl IntoIterator<Item = Reference>,
        referrer: Option<EntryId>,
    ) {
        self.add(references, referrer, Arrival::Referenced);
    }

    /// Adds the target of an entry's redirect, with the redirect's referrer policy.
    pub(crate) fn redirected(&mut self, target: Reference, from: EntryId, policy: Option<ReferrerPolicy>) {
        self.add([target], Some(from), Arrival::Redirected(policy));
    }

    fn add(
        &mut self,
        references: impl IntoIterator<Item = Reference>,
        referrer: Option<EntryId>,
        arrival: Arrival,
    ) {
        let depth = referrer.map_or(0, |entry| {
            self.get(entry).map_or(0, |entry| entry.position.depth())
        });
        if self.is_closed() || depth >= self.limits.depth {
            return;
        }
        for reference in references {
            let url = reference.url.as_str();
            // Browsers fetch objects of another scheme than the page's differently: `https` through a tunnel.
            if url == self.page.as_str() || reference.url.scheme() != self.page.scheme() {
                continue;
            }
            if self.is_absent(&reference.url) {
                continue;
            }
            if let Some(known) = self.find(url) {
                self.raise(known, &reference);
                continue;
            }
            let Some(number) =
                EntryId::at(self.entries.len()).filter(|_| self.entries.len() < self.limits.entries)
            else {
                return;
            };
            self.by_url.insert(url.to_owned(), number);
            self.changes.push(ManifestChange::Added {
                url: self.short(&reference.url).to_owned(),
                destination: reference.destination,
            });
            let position = self.next_position(referrer);
            let entry = PlanEntry::new(reference, referrer, arrival, position);
            self.searching += usize::from(entry.search == ReferenceSearch::Pending);
            self.entries.push(entry);
        }
    }

    fn next_position(&mut self, referrer: Option<EntryId>) -> Position {
        match referrer.and_then(|entry| self.get_mut(entry)) {
            Some(parent) => {
                parent.children += 1;
                parent.position.child(parent.children)
            }
            None => {
                self.children += 1;
                Position::of_page(self.children)
            }
        }
    }

    /// A second reference may be more urgent, for example after a preload.
    fn raise(&mut self, entry: EntryId, reference: &Reference) {
        if let Some(entry) = self.get_mut(entry) {
            let known = &mut entry.reference;
            known.importance = known.importance.min(reference.importance);
            known.certainty = known.certainty.min(reference.certainty);
            known.credentials = known.credentials.min(reference.credentials);
            // If two frames display the document, the stricter sandbox applies.
            known.sandbox = known.sandbox.and(reference.sandbox);
            known.is_inline_background &= reference.is_inline_background;
        }
    }

    /// The URL as in an entry: without the origin if it is the page's origin.
    pub(crate) fn short<'a>(&self, url: &'a Url) -> &'a str {
        if url.origin() == self.page.origin() {
            &url[url::Position::BeforePath..url::Position::AfterQuery]
        } else {
            url.as_str()
        }
    }

    /// Records that the page's own document adds no further entry.
    pub(crate) fn page_searched(&mut self) {
        self.searched();
    }

    /// Records that an entry's document or style sheet adds no further entry.
    pub(crate) fn entry_searched(&mut self, entry: EntryId) {
        let Some(found) = self.get_mut(entry) else { return };
        if found.search == ReferenceSearch::Pending {
            found.search = ReferenceSearch::Complete;
            self.searched();
        }
    }

    /// Keeps the list of entries open until [`Self::entry_searched`] for an entry whose body may lead to further entries.
    /// Returns false if the list is closed.
    pub(crate) fn await_body(&mut self, entry: EntryId) -> bool {
        let is_open = !self.is_closed();
        let Some(found) = self.get_mut(entry).filter(|_| is_open) else {
            return false;
        };
        if found.search == ReferenceSearch::NotNeeded {
            found.search = ReferenceSearch::Pending;
            self.searching += 1;
        }
        true
    }

    fn searched(&mut self) {
        self.searching = self.searching.saturating_sub(1);
    }

    /// Returns true while a document or style sheet may add further entries.
    pub(crate) const fn is_searching(&self) -> bool {
        self.searching > 0
    }

    /// Returns true if an entry waits for its response.
    pub(crate) fn has_open(&self) -> bool {
        self.entries.iter().any(PlanEntry::is_open)
    }

    /// Number of fetches in progress.
    pub(crate) fn fetching(&self) -> usize {
        self.count(|entry| matches!(entry.stage, Stage::Fetching))
    }

    fn count(&self, is_counted: impl Fn(&PlanEntry) -> bool) -> usize {
        self.entries.iter().filter(|entry| is_counted(entry)).count()
    }

    /// CHK of the entry with this URL in the base manifest.
    pub(crate) fn previous_hash(&self, url: &Url) -> Option<&ContentHash> {
        self.previous_hashes.get(self.short(url))
    }

    /// Ends the list of entries with a `Planned` record.
    pub(crate) fn close(&mut self) {
        // A page without subresources has no manifest.
        if !self.is_closed() && !self.entries.is_empty() {
            self.changes.push(ManifestChange::Closed);
        }
        self.entry_list = EntryList::Closed;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.entry_list == EntryList::Closed
    }

    /// Selects the next entry to fetch and marks its fetch as in progress. `only_urgent` excludes entries
    /// that nothing waits for.
    pub(crate) fn next_fetch(&mut self, only_urgent: bool) -> Option<EntryId> {
        let next = self.first(|entry| {
            matches!(entry.stage, Stage::Announced)
                && (!only_urgent || entry.class() <= 2 || entry.requested.is_some())
        })?;
        self.get_mut(next)?.stage = Stage::Fetching;
        Some(next)
    }

    fn first(&self, is_candidate: impl Fn(&PlanEntry) -> bool) -> Option<EntryId> {
        let candidates = self.entries().filter(|(_, entry)| is_candidate(entry));
        let ranked: Option<(Rank, EntryId)> = candidates.map(|(n, entry)| (entry.rank(), n)).min();
        ranked.map(|(_, entry)| entry)
    }

    /// Withdraws an entry, which will have no response.
    pub(crate) fn withdraw(&mut self, entry: EntryId, reason: Withdrawal) {
        let Some(found) = self.get_mut(entry) else { return };
        if !matches!(found.stage, Stage::Withdrawn) {
            found.stage = Stage::Withdrawn;
            self.changes.push(ManifestChange::Withdrawn { entry, reason });
            self.entry_searched(entry);
        }
    }

    /// Removes the changes that the manifest does not contain yet; returns their records in the order of
    /// [`ManifestChange::order`].
    pub(crate) fn take_records(&mut self) -> Vec<Record> {
        let mut changes = std::mem::take(&mut self.changes);
        changes.sort_by_key(ManifestChange::order);
        changes.into_iter().map(Record::from).collect()
    }

    pub(crate) fn has_records(&self) -> bool {
        !self.changes.is_empty()
    }

    /// CHKs of all entries whose bodies are known, by the URL in the manifest, for the next manifest.
    pub(crate) fn hashes(&self) -> BTreeMap<String, ContentHash> {
        let known = self.entries.iter().filter_map(|entry| Some((entry, entry.hash?)));
        known
            .filter(|(entry, _)| {
                let answered = entry.answered();
                answered.is_some_and(|answer| policy::agent_stores_pushed(answer.status, &answer.headers))
            })
            .map(|(entry, hash)| (self.short(&entry.reference.url).to_owned(), hash))
            .collect()
    }
}
