//! The page loads of one session.
use std::{collections::BTreeMap, sync::Arc};

use longhaul_gateway_core::{lessons, wall_clock::now};
use parking_lot::Mutex;

use http::{HeaderMap, Method, StatusCode};
use longhaul_cache::Partition;
use longhaul_delivery::EvictionCount;
use longhaul_http::policy;
use longhaul_page::{
    CrossOrigin, Destination, Discovery, Initiator, MediaType, Reference, discover_link_header,
};
use longhaul_session::{
    Ask, Dictionaries, Evicted, FailureReason, Fetch, FetchKind, Hello, Holding, MirrorState, PageId, Used,
    VersionRange, Want,
};
use longhaul_types::{ClientId, ContentHash};
use longhaul_webcache::{Confirmed, OriginRequest};
use tokio::task::AbortHandle;
use tracing::Instrument as _;
use url::Url;

use super::{
    context::PageLoadContext,
    load::{BodyEnd, LoadState, PageLoad, PageStart, PageTap, Promise, redirection, run, set_cookies},
    manifest::ManifestWriter,
    memory::ManifestMemory,
    publicity::{Disclosure, Publicity},
    unplanned_answer::UnplannedAnswer,
};

/// Maximum number of page loads of a session: the tabs that a user opens at once. A new page load evicts the
/// oldest.
const MAX_LOADS: usize = 8;
/// Maximum number of entries in one message; a page has fewer.
const MAX_NAMED: usize = 4096;
/// Maximum bytes of a held page that are parsed on revalidation, because the browser waits for its 304
/// meanwhile.
const MAX_REVISITED: usize = 8 * 1024 * 1024;

/// The head of a response to a page's fetch, or to a fetch of one of its objects.
#[derive(Clone, Copy, Debug)]
pub struct PageHead<'a> {
    /// Status of the response.
    pub status: StatusCode,
    /// Fields as sent to the agent: content codings removed, hop-by-hop fields removed.
    pub headers: &'a HeaderMap,
}

/// The page loads of one session.
pub struct PageLoadRegistry {
    context: Arc<PageLoadContext>,
    running: Mutex<BTreeMap<PageId, Running>>,
}

/// A running page load; dropping it ends the page load's task, and with it the fetches and pushes.
struct Running {
    load: Arc<PageLoad>,
    task: AbortHandle,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PageLoadRegistry {
    /// The registry of a new session.
    pub fn new(context: PageLoadContext) -> Self {
        Self {
            context: Arc::new(context),
            running: Mutex::default(),
        }
    }

    /// State shared by the session's page loads.
    pub fn context(&self) -> &Arc<PageLoadContext> {
        &self.context
    }

    /// Handles `Hello`.
    pub async fn hello(&self, hello: &Hello) -> MirrorState {
        self.context.prefer(hello.preferences);
        if let Some(version) = hello.versions.common(VersionRange::OURS) {
            self.context.agree(version);
        }
        self.context.mirror.open(hello.cache_state).await
    }

    /// Handles `Dictionaries`.
    pub fn dictionaries(&self, dictionaries: Dictionaries) {
        self.context.know_dictionaries(dictionaries.set);
    }

    /// Ends a page load that the agent cancelled.
    pub fn cancel(&self, page: PageId) {
        let ended = self.running.lock().remove(&page);
        drop(ended);
    }

    /// Ends all page loads at the end of the session. They teach what is known without the agent's report.
    pub fn clear(&self) {
        let ended = std::mem::take(&mut *self.running.lock());
        for ended in ended.into_values() {
            self.learn(ended, None);
        }
    }

    /// Ends the page loads of one client or all clients that concern one site or any site, because their
    /// results are to be deleted.
    pub fn end(&self, client: Option<ClientId>, domain: Option<&str>) {
        let ended: Vec<Running> = {
            let mut running = self.running.lock();
            let pages: Vec<PageId> = running
                .iter()
                .filter(|(_, running)| lessons::concerns(running.load.identity().context(), client, domain))
                .map(|(page, _)| *page)
                .collect();
            pages.iter().filter_map(|page| running.remove(page)).collect()
        };
        drop(ended);
    }

    /// The agent wants an announced body first.
    pub async fn want(&self, want: Want) {
        if let Some(load) = self.load(want.page) {
            load.want(want.entry).await;
        }
    }

    /// A browser waits for these announced bodies.
    pub async fn ask(&self, mut ask: Ask) {
        if let Some(load) = self.load(ask.page) {
            ask.entries.truncate(MAX_NAMED);
            load.browser_waits(ask.entries).await;
        }
    }

    /// Handles `Used` at the end of a page load.
    pub fn used(&self, used: Used) {
        let ended = self.running.lock().remove(&used.page);
        if let Some(ended) = ended {
            self.learn(ended, Some(used));
        }
    }

    /// Ends a page load, and stores what it teaches without waiting for that.
    fn learn(&self, ended: Running, used: Option<Used>) {
        let context = &self.context;
        let cache = context.cache().cloned();
        let of_load = ended.load.identity().context().clone();
        context.gateway.lessons.keep(context.device, of_load, async move {
            let result = ended.load.result(used).await;
            drop(ended);
            Some(result?.store(cache?))
        });
    }

    /// The agent no longer holds these bodies.
    pub async fn evicted(&self, evicted: &Evicted) {
        self.context.mirror.remove(&evicted.hashes).await;
    }

    /// The agent holds these bodies.
    pub fn holding(&self, holding: &Holding) {
        let Some(load) = self.load(holding.page) else {
            return;
        };
        let named = &holding.hashes[..holding.hashes.len().min(MAX_NAMED)];
        let partition = load.identity().partition();
        self.context.mirror.named(partition.as_ref(), named);
    }

    /// Returns the entry of a page load that answers an object's fetch (with delivery `Any`). May wait for
    /// the head of an entry that is being fetched. Called only for GET without body, `Range`, `Authorization`
    /// and resumption.
    pub async fn promised(&self, fetch: &Fetch, outgoing: &OriginRequest) -> Option<Promise> {
        let load = self.load(fetch.page?)?;
        let url = Url::parse(&fetch.url).ok()?;
        self.observe_cookies(&url, &outgoing.browser);
        load.promise(url, &outgoing.browser).await
    }

    /// Called with the response to an object's fetch that no entry answered.
    pub fn answered(&self, fetch: &Fetch, outgoing: &OriginRequest, head: PageHead<'_>) {
        if outgoing.parts.method == Method::GET
            && let (Some(page), Ok(url)) = (fetch.page, Url::parse(&fetch.url))
            && let Some(load) = self.load(page)
        {
            self.observe_set_cookies(&url, head.headers);
            load.unplanned_answered(UnplannedAnswer {
                disclosure: Disclosure::of(&outgoing.parts.headers, head.status, head.headers),
                is_declared_public: policy::is_declared_public(head.headers),
                cookies: set_cookies(head.headers),
                url,
            });
        }
    }

    /// Called when an object's fetch that no entry answered has failed.
    pub fn failed(&self, fetch: &Fetch, outgoing: &OriginRequest, reason: FailureReason) {
        if outgoing.parts.method == Method::GET
            && reason.concerns_host()
            && let (Some(page), Ok(url)) = (fetch.page, Url::parse(&fetch.url))
            && let Some(load) = self.load(page)
        {
            load.unplanned_failed(url);
        }
    }

    /// Returns true if the mirror contains this body in this partition.
    pub fn holds(&self, partition: Option<&Partition>, hash: &ContentHash) -> bool {
        self.context.holds(partition, hash)
    }

    /// Called when the agent has acknowledged the whole body of a response that it stores
    /// ([`longhaul_http::policy::agent_stores`]), for a request of this partition.
    pub async fn delivered(&self, partition: Option<&Partition>, hash: ContentHash, since: EvictionCount) {
        self.context.mirror.add(partition, vec![hash], since).await;
    }

    /// See [`longhaul_delivery::Mirror::evictions`].
    pub fn evictions(&self) -> EvictionCount {
        self.context.mirror.evictions()
    }

    fn load(&self, page: PageId) -> Option<Arc<PageLoad>> {
        self.running
            .lock()
            .get(&page)
            .map(|running| Arc::clone(&running.load))
    }

    fn observe_cookies(&self, url: &Url, request: &HeaderMap) {
        self.context.observed().cookie_paths.observe(url, request);
    }

    fn observe_set_cookies(&self, url: &Url, response: &HeaderMap) {
        self.context
            .observed()
            .cookie_paths
            .observe_response(url, response);
    }

    /// Called with a page's response before its `Head` is sent, so that what a browser requests because of the head is
    /// announced before it; a returned tap gets the body. Called only for GET without resumption, with any status.
    pub async fn page(&self, fetch: &Fetch, outgoing: &OriginRequest, head: PageHead<'_>) -> Option<PageTap> {
        if fetch.kind != FetchKind::Page {
            return None;
        }
        if let Ok(url) = Url::parse(&fetch.url) {
            self.observe_cookies(&url, &outgoing.browser);
        }
        let tap = if head.status == StatusCode::NOT_MODIFIED {
            self.revisit(fetch, outgoing, head).await;
            None
        } else {
            self.load_page(fetch, outgoing, head).await
        };
        // After the page load has begun, whose own jar receives the response's cookies.
        if let Ok(url) = Url::parse(&fetch.url) {
            self.observe_set_cookies(&url, head.headers);
        }
        tap
    }

    /// Starts the page load of a page that the browser has and the origin confirmed (304), from the stored
    /// body.
    async fn revisit(&self, fetch: &Fetch, outgoing: &OriginRequest, head: PageHead<'_>) {
        let context = &self.context;
        let store = &context.gateway.store;
        let confirmed = store.confirmed(outgoing, head.headers).await;
        let Some(Confirmed { headers, mut body }) = confirmed else {
            return;
        };
        let head = PageHead {
            status: StatusCode::OK,
            headers: &headers,
        };
        let Some(mut tap) = self.load_page(fetch, outgoing, head).await else {
            return;
        };
        let mut read = 0;
        while let Some(Ok(chunk)) = body.next().await {
            tap.chunk(&chunk).await;
            read += chunk.len();
            if read >= MAX_REVISITED {
                return;
            }
        }
        if let Some(hash) = body.chk() {
            tap.end(BodyEnd::Complete(hash)).await;
        }
    }

    async fn load_page(
        &self,
        fetch: &Fetch,
        outgoing: &OriginRequest,
        head: PageHead<'_>,
    ) -> Option<PageTap> {
        let mut url = Url::parse(&fetch.url).ok()?;
        url.set_fragment(None);
        let target = redirection(&url, head.status, head.headers);
        let media = MediaType::of_response(head.headers);
        if target.is_none() && (!media.is_html() || head.status.is_redirection()) {
            return None;
        }
        let initiator = self.initiator(&url, &outgoing.browser, head.headers).await?;
        let base = self.base(fetch, outgoing, &url).await;
        let context = &self.context;
        let page = PageId::of(fetch.id);
        let publicity = Publicity::of_visit(&outgoing.identity, &url, &outgoing.parts.headers, now());
        let (load, events) = PageLoad::new(Arc::clone(context), page, outgoing.identity.clone(), publicity);
        let load = Arc::new(load);
        let start = PageStart {
            url: url.clone(),
            initiator: initiator.clone(),
            browser: &outgoing.browser,
            sent: &outgoing.parts.headers,
            response: head.headers,
            base: base.as_ref(),
            learned: load.learned(&url, publicity).await,
        };
        let mut state = LoadState::new(Arc::clone(&load), start);
        let viewport = context.viewport();
        let (tap, precedes_head) = if let Some(target) = target {
            state.plan_redirect(Reference {
                cross_origin: CrossOrigin::None,
                ..Reference::new(target, Destination::Document)
            });
            (None, true)
        } else {
            let preloads = discover_link_header(head.headers, &url, viewport);
            let has_preloads = !preloads.is_empty();
            state.found(preloads, None);
            state.plan_extras();
            let discovery = Discovery::of(initiator, media.charset.as_deref(), viewport);
            state.set_markup(discovery.markup());
            let tap = PageTap::new(Arc::clone(&load), &url, discovery, head.headers);
            (Some(tap), has_preloads)
        };
        let manifest = ManifestWriter::new(context.session.clone(), page, base);
        let task = tokio::spawn(run(state, manifest, events).in_current_span());
        self.add(&load, task.abort_handle());
        context.counters().page();
        // A browser requests the target of a redirection, and what `Link` fields name, once it has the head.
        if precedes_head {
            load.flush().await;
        }
        tap
    }

    /// The page's previous manifest, if the agent also has it; then also records the bodies that the agent
    /// names as held.
    async fn base(&self, fetch: &Fetch, outgoing: &OriginRequest, url: &Url) -> Option<ManifestMemory> {
        let context = &self.context;
        context.mirror.ready().await;
        let partition = outgoing.identity.partition();
        let named = &fetch.holding[..fetch.holding.len().min(MAX_NAMED)];
        context.mirror.named(partition.as_ref(), named);
        let (id, cache) = (fetch.manifest?, context.cache()?);
        let memory = ManifestMemory::load(cache, &partition?, url).await?;
        (memory.id() == id).then_some(memory)
    }

    /// Returns the document in a page's response, or `None` if its objects are not planned. Without
    /// `Sec-Fetch-Dest`, as on plain http, a frame's document looks like a top-level page: it is a frame's if
    /// a page load displays its URL in a frame.
    async fn initiator(&self, url: &Url, request: &HeaderMap, response: &HeaderMap) -> Option<Initiator> {
        let is_window = request
            .get("sec-fetch-dest")
            .is_some_and(|told| told == "document");
        if is_window {
            return Some(Initiator::page(url, response));
        }
        let running: Vec<_> = self
            .running
            .lock()
            .values()
            .map(|running| Arc::clone(&running.load))
            .collect();
        for load in running.iter().rev() {
            if let Some((parent, sandbox)) = load.frame_at(url.clone()).await {
                return parent.frame(url, response, sandbox);
            }
        }
        Some(Initiator::page(url, response))
    }

    fn add(&self, load: &Arc<PageLoad>, task: AbortHandle) {
        let begun = Running {
            load: Arc::clone(load),
            task,
        };
        let mut running = self.running.lock();
        let replaced = running.insert(load.id(), begun);
        let oldest = if running.len() > MAX_LOADS {
            running.pop_first()
        } else {
            None
        };
        drop(running);
        drop((replaced, oldest));
    }
}
