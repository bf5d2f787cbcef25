//! One page load: the records of its manifest, its pushes and its users.
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use http::StatusCode;
use longhaul_http::{
    field_list,
    policy::Reload,
    request_context::{RequestContext, origin_of},
    site::SchemefulSite,
};
use longhaul_session::{
    EntryBody, EntryHead, EntryId, FailureReason, PageId, Record, ShortHash, UnchangedEntry, Withdrawal,
};
use longhaul_types::ContentHash;
use tokio::{sync::watch, time::Instant};

use super::{
    kept_manifest::KeptManifest,
    manifest_entry::{Entries, Storing},
    page_state::{DocumentProgress, Life, ManifestProgress, PageResponse, Shown, Visit},
    pushed_body::{PushMemory, PushedBody},
    unreachable_hosts::UnreachableHosts,
    written_sites::WrittenSites,
};
use crate::{counters::Counters, gateway::GatewaySession, store::StorageContext};

/// Arguments of a new page load.
pub(crate) struct PageLoadStart {
    /// The session in which the page is fetched.
    pub(crate) session: Arc<GatewaySession>,
    /// The number of the page's fetch.
    pub(crate) page: PageId,
    /// The page's URL.
    pub(crate) url: String,
    /// Scheme, host and port of the URL.
    pub(crate) origin: String,
    /// The request context of the page's fetch.
    pub(crate) context: RequestContext,
    /// Freshness that the browser requires of the page.
    pub(crate) reload: Reload,
    /// The manifest of the page's previous load.
    pub(crate) base: Option<Arc<KeptManifest>>,
    /// Held bodies of that manifest, if the gateway may not know them.
    pub(crate) holding: Vec<ShortHash>,
}

/// A page load.
#[derive(Debug)]
pub(crate) struct PageLoad {
    pub(crate) session: Arc<GatewaySession>,
    pub(crate) page: PageId,
    pub(crate) url: String,
    pub(crate) origin: String,
    pub(crate) context: RequestContext,
    pub(crate) reload: Reload,
    pub(crate) base: Option<Arc<KeptManifest>>,
    pub(super) memory: PushMemory,
    pub(super) counters: Arc<Counters>,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) entries: Entries,
    pub(super) manifest: ManifestProgress,
    pub(super) document: DocumentProgress,
    pub(super) shown: Shown,
    pub(super) holding: Vec<ShortHash>,
    /// Number of browser requests that use the page load now.
    pub(super) live: usize,
    /// Number of browser requests that have used the page load.
    pub(super) entered: u64,
    pub(super) life: Life,
    pub(super) progress: Instant,
    /// Entries that the browser waits for and that no `Ask` has listed yet.
    pub(super) unsent_asks: Vec<EntryId>,
    unreachable_hosts: UnreachableHosts,
    pub(super) written: WrittenSites,
}

impl PageLoad {
    pub(super) fn new(start: PageLoadStart, memory: PushMemory, counters: Arc<Counters>) -> Arc<Self> {
        let PageLoadStart {
            session,
            page,
            url,
            origin,
            context,
            reload,
            base,
            holding,
        } = start;
        let state = State {
            entries: Entries::default(),
            manifest: ManifestProgress::Awaited,
            document: DocumentProgress::Awaited,
            shown: Shown::Nothing,
            holding,
            live: 0,
            entered: 0,
            life: Life::Open(Visit::Present),
            progress: Instant::now(),
            unsent_asks: Vec::new(),
            unreachable_hosts: UnreachableHosts::default(),
            written: WrittenSites::default(),
        };
        Arc::new(Self {
            session,
            page,
            url,
            origin,
            context,
            reload,
            base,
            memory,
            counters,
            state: Mutex::new(state),
            changed: watch::Sender::new(()),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns a receiver for changes.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(super) fn notify(&self) {
        self.changed.send_replace(());
    }

    /// Identifies an entry of the page load in reports of the gateway.
    pub(crate) const fn key_of(&self, entry: EntryId) -> UnchangedEntry {
        let page = self.page;
        UnchangedEntry { page, entry }
    }

    /// Records that bytes arrived on one of the page load's streams.
    pub(crate) fn record_progress(&self) {
        self.state().progress = Instant::now();
    }

    /// Time at which bytes last arrived on one of the page load's streams.
    pub(crate) fn last_progress(&self) -> Instant {
        self.state().progress
    }

    /// Handles the page's head.
    pub(crate) fn handle_response(&self, response: PageResponse) {
        let mut state = self.state();
        let now = Instant::now();
        state.document = match response {
            PageResponse::Document => DocumentProgress::Page(now),
            PageResponse::Redirection(_) => DocumentProgress::Redirection(now),
        };
        state.shown = Shown::of(response, Some(&self.origin));
        drop(state);
        self.notify();
    }

    /// Handles the response of an entry to which the browser was redirected.
    fn show_entry(&self, url: &str, head: &EntryHead) {
        let response = match (
            StatusCode::from_u16(head.status),
            field_list::to_map(&head.fields),
        ) {
            (Ok(status), Ok(fields)) => PageResponse::of(url, status, &fields),
            (Err(_), _) | (_, Err(_)) => PageResponse::Redirection(None),
        };
        self.state().shown = Shown::of(response, origin_of(url));
    }

    /// Handles the use of an entry by the browser; the entry may be the document to which the browser was
    /// redirected.
    pub(super) fn follow_redirection(&self, entry: EntryId) {
        let taken = {
            let state = self.state();
            let slot = state.entries.get(entry);
            slot.and_then(|slot| slot.url().cloned().zip(slot.response.head().cloned()))
                .filter(|(url, _)| state.shown.redirects_to(url))
        };
        if let Some((url, head)) = taken {
            self.show_entry(&url, &head);
        }
    }

    pub(crate) fn document(&self) -> DocumentProgress {
        self.state().document
    }

    pub(super) fn begin_manifest(&self) -> bool {
        let mut state = self.state();
        let first = matches!(state.manifest, ManifestProgress::Awaited) && state.life != Life::Ended;
        if first {
            state.manifest = ManifestProgress::Reading;
        }
        drop(state);
        self.notify();
        first
    }

    /// Applies a record; returns false if it is malformed.
    pub(super) fn apply_record(&self, record: Record) -> bool {
        let mut state = self.state();
        let taken = match record {
            Record::Entry(entry) => {
                let url = if entry.url.starts_with('/') && !entry.url.starts_with("//") {
                    format!("{}{}", self.origin, entry.url)
                } else {
                    entry.url
                };
                self.counters.announced.increment();
                state.entries.announce(url, entry.destination)
            }
            Record::Head(head) => {
                let valid = match head.body {
                    EntryBody::SameAs { entry } => entry < head.entry,
                    EntryBody::None
                    | EntryBody::Pushed { .. }
                    | EntryBody::Held { .. }
                    | EntryBody::AsBefore => true,
                };
                if valid && let Some(origin) = state.entries.origin_of(head.entry) {
                    state.unreachable_hosts.remove(&origin);
                }
                valid && state.entries.head(head)
            }
            Record::Failed(failure) => state.entries.fail(failure),
            Record::Absent(host) => {
                state.unreachable_hosts.announce(&host, Instant::now());
                true
            }
            Record::Withdrawn { entry, reason } => state.entries.withdraw(entry, reason),
            Record::Planned => {
                if matches!(state.manifest, ManifestProgress::Reading) {
                    state.manifest = ManifestProgress::Planned;
                }
                true
            }
        };
        drop(state);
        self.notify();
        taken
    }

    pub(super) fn end_manifest(&self, end: ManifestProgress) {
        self.state().manifest = end;
        self.notify();
    }

    pub(crate) fn manifest(&self) -> ManifestProgress {
        self.state().manifest.clone()
    }

    /// Returns the failure to reach a host (scheme, host and port), if an earlier request of the page load failed.
    pub(crate) fn host_failure(&self, origin: &str) -> Option<(FailureReason, String)> {
        let state = self.state();
        let (reason, detail) = state.unreachable_hosts.find(origin, Instant::now())?;
        Some((reason, detail.to_owned()))
    }

    /// Records that a request to a host failed.
    pub(crate) fn record_host_failure(&self, origin: &str, reason: FailureReason, detail: &str) {
        let now = Instant::now();
        self.state().unreachable_hosts.record(origin, reason, detail, now);
    }

    /// Records that a host answers.
    pub(crate) fn record_host_answer(&self, origin: &str) {
        self.state().unreachable_hosts.remove(origin);
    }

    /// Returns once the hashes for `Holding`, sent to a gateway that does not have the agent's mirror.
    pub(crate) fn take_holding(&self) -> Vec<ShortHash> {
        std::mem::take(&mut self.state().holding)
    }

    /// Returns the body of an entry, which may not be announced yet.
    pub(super) fn begin_push(&self, entry: EntryId) -> Option<Arc<PushedBody>> {
        let mut state = self.state();
        if state.life == Life::Ended || !Entries::is_permitted(entry) {
            return None;
        }
        let memory = self.memory.clone();
        let slot = state.entries.get_or_create(entry)?;
        Some(Arc::clone(
            slot.body.get_or_insert_with(|| PushedBody::new(memory)),
        ))
    }

    /// Withdraws an entry whose body cannot be accepted: the browser's request becomes an ordinary fetch.
    pub(super) fn withdraw_entry(&self, entry: EntryId, reason: Withdrawal) {
        self.state().entries.withdraw(entry, reason);
        self.notify();
    }

    /// Handles the end of a pushed body, complete or failed.
    pub(super) fn body_ended(&self, entry: EntryId) {
        let mut state = self.state();
        if let Some(slot) = state.entries.get_mut(entry) {
            slot.count_used_body(&self.counters);
        }
        drop(state);
        self.notify();
    }

    /// Returns the next entry whose response can be stored, with its cache contexts; each is returned once.
    pub(super) fn next_to_store(&self) -> Option<(EntryId, StorableResponse)> {
        let mut state = self.state();
        let (entry, place) = state.entries.next_to_store()?;
        let (url, head, storage_contexts, body) = {
            let slot = state.entries.get(entry)?;
            (
                slot.url()?.clone(),
                slot.response.head()?.clone(),
                slot.storage_contexts.clone(),
                place,
            )
        };
        if let Some(slot) = state.entries.get_mut(entry) {
            slot.storing = Storing::Passed;
        }
        let body = body.and_then(|at| state.entries.get(at).and_then(|slot| slot.body.clone()));
        let storage_contexts = if head.cookie.is_none() {
            self.with_own(storage_contexts, state.shown.document_origin())
        } else {
            storage_contexts
        };
        Some((
            entry,
            StorableResponse {
                url,
                head,
                storage_contexts,
                body,
            },
        ))
    }

    /// Adds the context of the page's own document: responses fetched without credentials are stored for it
    /// before it requests them.
    fn with_own(
        &self,
        mut storage_contexts: Vec<StorageContext>,
        document_origin: Option<&str>,
    ) -> Vec<StorageContext> {
        let site = document_origin.and_then(SchemefulSite::of_url);
        if let Some(site) = site.filter(|_| self.context.partition().is_some()) {
            let own = StorageContext::of_site(self.context.client(), site);
            if !storage_contexts.contains(&own) {
                storage_contexts.push(own);
            }
        }
        storage_contexts
    }

    /// Sets the final CHK of an entry's body.
    pub(super) fn set_content_hash(&self, entry: EntryId, chk: ContentHash) {
        if let Some(slot) = self.state().entries.get_mut(entry) {
            slot.chk = Some(chk);
        }
    }

    /// Returns the manifest to store for the page's next load: its bytes, and the CHKs of its entries.
    pub(super) fn manifest_to_store(&self) -> Option<KeptManifest> {
        let state = self.state();
        let ManifestProgress::Complete(bytes) = &state.manifest else {
            return None;
        };
        KeptManifest::new(bytes, state.entries.chks())
    }
}

/// A response to store in the cache.
#[derive(Debug)]
pub(super) struct StorableResponse {
    pub(super) url: Arc<str>,
    pub(super) head: Arc<EntryHead>,
    /// The cache contexts of the requests that used the response.
    pub(super) storage_contexts: Vec<StorageContext>,
    /// The pushed body, if the body was pushed.
    pub(super) body: Option<Arc<PushedBody>>,
}
