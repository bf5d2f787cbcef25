//! One page load: what its manifest says, what has been pushed of it, and who uses it.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use longhaul_http::{policy::Reload, request_context::RequestContext, site::SchemefulSite};
use longhaul_protocol::session::{EntryBody, EntryHead, Record, ShortHash, Withdrawal};
use longhaul_types::ContentHash;
use tokio::{sync::watch, time::Instant};
use url::Url;

use super::{
    body::{Memory, PushedBody},
    kept::KeptManifest,
    slot::{Entries, MAX_ENTRIES},
};
use crate::{counters::Counters, session::Hop, store::Keeper};

/// What a page load begins with.
pub(crate) struct Beginning {
    /// The session in which the page is fetched.
    pub(crate) hop: Arc<Hop>,
    /// The page's fetch.
    pub(crate) page: u64,
    /// The page's URL.
    pub(crate) url: String,
    /// Its scheme, host and port.
    pub(crate) origin: String,
    /// Who asks for it.
    pub(crate) context: RequestContext,
    /// How fresh the browser wants it.
    pub(crate) reload: Reload,
    /// The manifest of its last load.
    pub(crate) base: Option<Arc<KeptManifest>>,
    /// What is held of that, while the gateway may not know.
    pub(crate) holding: Vec<ShortHash>,
}

/// A page load.
#[derive(Debug)]
pub(crate) struct PageLoad {
    pub(crate) hop: Arc<Hop>,
    pub(crate) page: u64,
    pub(crate) url: String,
    pub(crate) origin: String,
    pub(crate) context: RequestContext,
    pub(crate) reload: Reload,
    pub(crate) base: Option<Arc<KeptManifest>>,
    pub(super) memory: Memory,
    pub(super) counters: Arc<Counters>,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) entries: Entries,
    pub(super) manifest: Progress,
    pub(super) document: Document,
    /// The origin of the document that the browser shows; none before its response, and while it is redirected.
    pub(super) document_origin: Option<String>,
    /// Where the browser was sent last, and has not asked yet.
    pub(super) redirect: Option<String>,
    pub(super) holding: Vec<ShortHash>,
    /// Requests of the browser that use it.
    pub(super) live: usize,
    /// Requests of the browser that have used it.
    pub(super) entered: u64,
    /// The browser has gone on to another page.
    pub(super) superseded: bool,
    /// The browser broke the page off.
    pub(super) broken_off: bool,
    pub(super) session_lost: bool,
    pub(super) over: bool,
    pub(super) progress: Instant,
    /// Asked for by the browser, not told to the gateway yet.
    pub(super) asks: Vec<u32>,
}

/// How far the manifest is.
#[derive(Clone, Debug)]
pub(crate) enum Progress {
    /// Nothing of it is here.
    Awaited,
    /// Entries may follow.
    Reading,
    /// No entry will follow.
    Planned,
    /// It is complete: its decoded bytes.
    Complete(Bytes),
    /// It broke off.
    Broken,
}

/// How far the page's own response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    /// There is no answer yet.
    Awaited,
    /// Its head came then; whether it is the page, and does not send the browser elsewhere.
    Answered(Instant, bool),
}

/// Where a page's response leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// It is the page.
    Here,
    /// It is a redirection; its target, without fragment, is the page, if it can be read.
    Elsewhere(Option<String>),
}

impl Direction {
    /// Where the response to a request for `url` leads.
    pub(crate) fn of(url: &str, status: StatusCode, fields: &HeaderMap) -> Self {
        let location = fields.get(header::LOCATION).filter(|_| status.is_redirection());
        let Some(location) = location else {
            return Self::Here;
        };
        let target = Url::parse(url)
            .ok()
            .zip(location.to_str().ok())
            .and_then(|(base, location)| base.join(location).ok());
        Self::Elsewhere(target.map(|mut target| {
            target.set_fragment(None);
            target.into()
        }))
    }
}

impl PageLoad {
    pub(super) fn new(beginning: Beginning, memory: Memory, counters: Arc<Counters>) -> Arc<Self> {
        let Beginning {
            hop,
            page,
            url,
            origin,
            context,
            reload,
            base,
            holding,
        } = beginning;
        let state = State {
            entries: Entries::default(),
            manifest: Progress::Awaited,
            document: Document::Awaited,
            document_origin: None,
            redirect: None,
            holding,
            live: 0,
            entered: 0,
            superseded: false,
            broken_off: false,
            session_lost: false,
            over: false,
            progress: Instant::now(),
            asks: Vec::new(),
        };
        Arc::new(Self {
            hop,
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To wait for changes.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(super) fn notify(&self) {
        self.changed.send_replace(());
    }

    /// Bytes came on one of its streams.
    pub(crate) fn touch(&self) {
        self.state().progress = Instant::now();
    }

    /// When bytes last came on one of its streams.
    pub(crate) fn progress(&self) -> Instant {
        self.state().progress
    }

    /// The page's head is here.
    pub(crate) fn answered(&self, direction: Direction) {
        let mut state = self.state();
        let is_page = direction == Direction::Here;
        state.document = Document::Answered(Instant::now(), is_page);
        match direction {
            Direction::Here => (state.document_origin, state.redirect) = (Some(self.origin.clone()), None),
            Direction::Elsewhere(target) => (state.document_origin, state.redirect) = (None, target),
        }
        drop(state);
        self.notify();
    }

    /// The browser has the response of an entry to which it was redirected.
    fn arrive(&self, url: &str, head: &EntryHead) {
        let direction = match (StatusCode::from_u16(head.status), header_map(&head.fields)) {
            (Ok(status), Some(fields)) => Direction::of(url, status, &fields),
            (Err(_), _) | (_, None) => Direction::Elsewhere(None),
        };
        let mut state = self.state();
        (state.document_origin, state.redirect) = match direction {
            Direction::Here => (super::origin_of(url).map(str::to_owned), None),
            Direction::Elsewhere(target) => (None, target),
        };
    }

    /// The browser takes an entry's response; it may be the document to which it was redirected.
    pub(super) fn follow(&self, entry: u32) {
        let taken = {
            let state = self.state();
            let slot = state.entries.slot(entry);
            slot.and_then(|slot| slot.url.clone().zip(slot.head.clone()))
                .filter(|(url, _)| state.redirect.as_deref() == Some(url))
        };
        if let Some((url, head)) = taken {
            self.arrive(&url, &head);
        }
    }

    pub(crate) fn document(&self) -> Document {
        self.state().document
    }

    pub(super) fn manifest_begins(&self) -> bool {
        let mut state = self.state();
        let first = matches!(state.manifest, Progress::Awaited) && !state.over;
        if first {
            state.manifest = Progress::Reading;
        }
        drop(state);
        self.notify();
        first
    }

    /// Takes a record; false if it makes no sense.
    pub(super) fn record(&self, record: Record) -> bool {
        let mut state = self.state();
        let taken = match record {
            Record::Entry(entry) => {
                let url = if entry.url.starts_with('/') && !entry.url.starts_with("//") {
                    format!("{}{}", self.origin, entry.url)
                } else {
                    entry.url
                };
                self.counters.announced.one();
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
                valid && state.entries.head(head)
            }
            Record::Withdrawn { entry, reason } => state.entries.withdraw(entry, reason),
            Record::Planned => {
                if matches!(state.manifest, Progress::Reading) {
                    state.manifest = Progress::Planned;
                }
                true
            }
        };
        drop(state);
        self.notify();
        taken
    }

    pub(super) fn manifest_ends(&self, end: Progress) {
        self.state().manifest = end;
        self.notify();
    }

    pub(crate) fn manifest(&self) -> Progress {
        self.state().manifest.clone()
    }

    /// Hashes to be told to a gateway that does not know what the agent holds; once.
    pub(crate) fn take_holding(&self) -> Vec<ShortHash> {
        std::mem::take(&mut self.state().holding)
    }

    /// The place for the body of an entry, which may not be announced yet.
    pub(super) fn body_place(&self, entry: u32) -> Option<Arc<PushedBody>> {
        let mut state = self.state();
        if state.over || entry >= MAX_ENTRIES {
            return None;
        }
        let memory = self.memory.clone();
        let slot = state.entries.slot_at(entry)?;
        slot.pushed = true;
        Some(Arc::clone(
            slot.body.get_or_insert_with(|| PushedBody::new(memory)),
        ))
    }

    /// An entry's body cannot be taken: the browser's own request goes its own way.
    pub(super) fn refuse(&self, entry: u32, reason: Withdrawal) {
        self.state().entries.withdraw(entry, reason);
        self.notify();
    }

    /// A pushed body is complete, or has failed for good.
    pub(super) fn body_ended(&self, entry: u32) {
        let mut state = self.state();
        if let Some(slot) = state.entries.slot_mut(entry) {
            slot.count_taken(&self.counters);
        }
        drop(state);
        self.notify();
    }

    /// The next entry whose response can be kept, and for whom; it is given out once for each.
    pub(super) fn next_to_keep(&self) -> Option<(u32, Keep)> {
        let mut state = self.state();
        let (entry, place) = state.entries.next_to_keep()?;
        let (url, head, takers, body) = {
            let slot = state.entries.slot(entry)?;
            (slot.url.clone()?, slot.head.clone()?, slot.takers.clone(), place)
        };
        if let Some(slot) = state.entries.slot_mut(entry) {
            slot.kept = true;
        }
        let body = body.and_then(|at| state.entries.slot(at).and_then(|slot| slot.body.clone()));
        let takers = if head.cookie.is_none() {
            self.with_own(takers, state.document_origin.as_deref())
        } else {
            takers
        };
        Some((
            entry,
            Keep {
                url,
                head,
                takers,
                body,
            },
        ))
    }

    /// What was fetched without credentials is for the page's own document as well, before that asks.
    fn with_own(&self, mut takers: Vec<Keeper>, document_origin: Option<&str>) -> Vec<Keeper> {
        let site = document_origin.and_then(SchemefulSite::of_url);
        if let Some(site) = site.filter(|_| self.context.partition().is_some()) {
            let own = Keeper::of_site(self.context.client(), site);
            if !takers.contains(&own) {
                takers.push(own);
            }
        }
        takers
    }

    /// The final CHK of an entry's body.
    pub(super) fn settle_chk(&self, entry: u32, chk: ContentHash) {
        if let Some(slot) = self.state().entries.slot_mut(entry) {
            slot.chk = Some(chk);
        }
    }

    /// The manifest to be kept for the next load of the page: its bytes, and the CHKs of its entries.
    pub(super) fn to_keep(&self) -> Option<KeptManifest> {
        let state = self.state();
        let Progress::Complete(bytes) = &state.manifest else {
            return None;
        };
        KeptManifest::new(bytes, state.entries.chks())
    }
}

/// A response that the cache is to keep.
#[derive(Debug)]
pub(super) struct Keep {
    pub(super) url: Arc<str>,
    pub(super) head: Arc<EntryHead>,
    /// For whom: those who took it.
    pub(super) takers: Vec<Keeper>,
    /// The pushed body, where it was pushed.
    pub(super) body: Option<Arc<PushedBody>>,
}

/// The fields of an entry's response, or of any, as the `http` crate has them; `None` if they are not HTTP.
pub(crate) fn header_map(fields: &[longhaul_protocol::session::HeaderField]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(fields.len() + 1);
    for (name, value) in fields {
        let name = http::HeaderName::from_bytes(name.as_bytes()).ok()?;
        headers.append(name, http::HeaderValue::from_bytes(value).ok()?);
    }
    Some(headers)
}
