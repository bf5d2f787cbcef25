//! The page loads of one session.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode};
use longhaul_cache::Partition;
use longhaul_http::policy;
use longhaul_page::{
    CrossOrigin, Destination, Discovery, Initiator, MediaType, Reference, discover_link_header,
};
use longhaul_protocol::session::{
    Ask, Dictionaries, Evicted, Fetch, FetchKind, Hello, Holding, MirrorState, Used, Want,
};
use longhaul_types::{ClientId, ContentHash};
use tokio::task::AbortHandle;
use tracing::Instrument as _;
use url::Url;

use super::{
    context::{BundleContext, lock, now},
    learned::LearnedPlan,
    load::{PageLoad, PageStart, PageTap, drive, redirection},
    memory::ManifestMemory,
    publicity::Publicity,
};
use crate::{
    fetch::{BodyEnd, BodyTap, Outgoing, PageHead, PageLoads, Promise},
    store::Confirmed,
};

/// Page loads that a session has at a time: the tabs that somebody opens at once. The oldest gives way.
const MAX_LOADS: usize = 8;
/// Entries that one message names at most; a page has fewer.
const MAX_NAMED: usize = 4096;
/// The browser waits for its 304 while the page that it has is looked through: what is behind so much is not.
const MAX_REVISITED: usize = 8 * 1024 * 1024;

/// The page loads of one session.
pub(crate) struct Bundles {
    context: Arc<BundleContext>,
    /// By the page's fetch.
    running: Mutex<BTreeMap<u64, Running>>,
}

/// A page load under way. Dropped it ends.
struct Running {
    load: Arc<PageLoad>,
    task: AbortHandle,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
        self.load.abandon();
    }
}

impl Bundles {
    pub(crate) fn new(context: BundleContext) -> Self {
        Self {
            context: Arc::new(context),
            running: Mutex::default(),
        }
    }

    /// What the session's page loads share.
    pub(crate) fn context(&self) -> &Arc<BundleContext> {
        &self.context
    }

    /// The agent introduced itself.
    pub(crate) async fn hello(&self, hello: &Hello) -> MirrorState {
        self.context.prefer(hello.preferences);
        self.context.mirror.open(hello.cache_state).await
    }

    /// The agent has these.
    pub(crate) fn dictionaries(&self, dictionaries: Dictionaries) {
        self.context.know_dictionaries(dictionaries.set);
    }

    /// The agent wants no more of a page load.
    pub(crate) fn cancel(&self, page: u64) {
        let ended = lock(&self.running).remove(&page);
        drop(ended);
    }

    /// The session is over.
    pub(crate) fn clear(&self) {
        let ended = std::mem::take(&mut *lock(&self.running));
        drop(ended);
    }

    /// Ends the page loads of a client, or of all, that have to do with a site, or all: what they would teach is to be
    /// forgotten.
    pub(crate) fn end(&self, client: Option<ClientId>, domain: Option<&str>) {
        let concerns = |running: &Running| {
            let context = running.load.asker().context();
            let partition = context.partition();
            client.is_none_or(|client| client == context.client())
                && domain.is_none_or(|domain| partition.is_none_or(|partition| partition.concerns(domain)))
        };
        let ended: Vec<Running> = {
            let mut running = lock(&self.running);
            let pages: Vec<u64> = running
                .iter()
                .filter(|(_, running)| concerns(running))
                .map(|(page, _)| *page)
                .collect();
            pages.iter().filter_map(|page| running.remove(page)).collect()
        };
        drop(ended);
    }

    pub(crate) async fn want(&self, want: Want) {
        if let Some(load) = self.load(want.page) {
            load.want(want.entry).await;
        }
    }

    pub(crate) fn ask(&self, ask: &Ask) {
        if let Some(load) = self.load(ask.page) {
            load.ask(&ask.entries[..ask.entries.len().min(MAX_NAMED)]);
        }
    }

    /// The page load is over.
    pub(crate) async fn used(&self, used: &Used) {
        let ended = lock(&self.running).remove(&used.page);
        if let Some(ended) = ended {
            ended.load.used(used).await;
        }
    }

    pub(crate) async fn evicted(&self, evicted: &Evicted) {
        self.context.mirror.remove(&evicted.hashes).await;
    }

    pub(crate) fn holding(&self, holding: &Holding) {
        let Some(load) = self.load(holding.page) else {
            return;
        };
        let named = &holding.hashes[..holding.hashes.len().min(MAX_NAMED)];
        let partition = load.asker().partition();
        self.context.mirror.named(partition.as_ref(), named);
    }

    fn load(&self, page: u64) -> Option<Arc<PageLoad>> {
        lock(&self.running)
            .get(&page)
            .map(|running| Arc::clone(&running.load))
    }

    async fn begin(
        &self,
        fetch: &Fetch,
        outgoing: &Outgoing,
        head: PageHead<'_>,
    ) -> Option<Box<dyn BodyTap>> {
        if fetch.kind != FetchKind::Page {
            return None;
        }
        if let Ok(url) = Url::parse(&fetch.url) {
            self.context.sightings().observe(&url, &outgoing.browser);
        }
        let tap = if head.status == StatusCode::NOT_MODIFIED {
            self.revisit(fetch, outgoing, head).await;
            None
        } else {
            self.load_page(fetch, outgoing, head).await
        };
        // Behind the page load, whose own jar knows it.
        if let Ok(url) = Url::parse(&fetch.url) {
            self.context.sightings().observe_response(&url, head.headers);
        }
        tap
    }

    /// A page that the browser has and the origin confirmed: what it loads is found in the body that the store has.
    async fn revisit(&self, fetch: &Fetch, outgoing: &Outgoing, head: PageHead<'_>) {
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
        outgoing: &Outgoing,
        head: PageHead<'_>,
    ) -> Option<Box<dyn BodyTap>> {
        let mut url = Url::parse(&fetch.url).ok()?;
        url.set_fragment(None);
        let target = redirection(&url, head.status, head.headers);
        let media = MediaType::of_response(head.headers);
        if target.is_none() && (!media.is_html() || head.status.is_redirection()) {
            return None;
        }
        let initiator = self.initiator(&url, &outgoing.browser, head.headers)?;
        let context = &self.context;
        context.mirror.ready().await;
        let partition = outgoing.asker.partition();
        context.mirror.named(
            partition.as_ref(),
            &fetch.holding[..fetch.holding.len().min(MAX_NAMED)],
        );
        let base = match (fetch.manifest, context.cache(), &partition) {
            (Some(id), Some(cache), Some(partition)) => ManifestMemory::load(cache, partition, &url)
                .await
                .filter(|memory| memory.id() == id),
            (None, _, _) | (_, None, _) | (_, _, None) => None,
        };
        let publicity = Publicity::of(&outgoing.parts.headers, head.status, head.headers)
            .and(Publicity::of_url(&url, now()));
        let start = PageStart {
            id: fetch.id,
            url: url.clone(),
            initiator,
            asker: outgoing.asker.clone(),
            browser: &outgoing.browser,
            sent: &outgoing.parts.headers,
            response: head.headers,
            base,
            learned: LearnedPlan::load(context.cache(), &outgoing.asker, &url, publicity).await,
        };
        let load = Arc::new(PageLoad::new(Arc::clone(context), start));
        self.run(&load);
        context.counters().page();
        let viewport = context.viewport();
        if let Some(target) = target {
            let document = Reference {
                cross_origin: CrossOrigin::None,
                ..Reference::new(target, Destination::Document)
            };
            load.found([document], None);
            load.plan().page_searched();
            load.flush().await;
            return None;
        }
        load.found(discover_link_header(head.headers, &url, viewport), None);
        load.plan_extras();
        load.flush().await;
        let discovery = Discovery::of(load.page(), media.charset.as_deref(), viewport);
        load.document_begins(discovery.markup());
        Some(Box::new(PageTap::new(load, discovery)))
    }

    /// The document that a page's response is. Without `Sec-Fetch-Dest`, as on plain http, a frame's is asked for like a
    /// window's: it is one if a page load displays its URL in a frame. `None` if nothing of it is planned.
    fn initiator(&self, url: &Url, request: &HeaderMap, response: &HeaderMap) -> Option<Initiator> {
        let is_window = request
            .get("sec-fetch-dest")
            .is_some_and(|told| told == "document");
        let running: Vec<_> = lock(&self.running)
            .values()
            .map(|running| Arc::clone(&running.load))
            .collect();
        let frame = running.iter().rev().find_map(|load| load.frame_at(url));
        match frame.filter(|_| !is_window) {
            Some((parent, sandbox)) => parent.frame(url, response, sandbox),
            None => Some(Initiator::page(url, response)),
        }
    }

    fn run(&self, load: &Arc<PageLoad>) {
        let task = tokio::spawn(drive(Arc::clone(load)).in_current_span());
        let begun = Running {
            load: Arc::clone(load),
            task: task.abort_handle(),
        };
        let mut running = lock(&self.running);
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

impl PageLoads for Bundles {
    fn promised<'a>(&'a self, fetch: &'a Fetch, outgoing: &'a Outgoing) -> BoxFuture<'a, Option<Promise>> {
        Box::pin(async move {
            let load = self.load(fetch.page)?;
            let url = Url::parse(&fetch.url).ok()?;
            self.context.sightings().observe(&url, &outgoing.browser);
            load.promise(&url, &outgoing.browser).await
        })
    }

    fn answered(&self, fetch: &Fetch, outgoing: &Outgoing, head: PageHead<'_>) {
        if outgoing.parts.method == Method::GET
            && let (Some(load), Ok(url)) = (self.load(fetch.page), Url::parse(&fetch.url))
        {
            self.context.sightings().observe_response(&url, head.headers);
            let publicity = Publicity::of(&outgoing.parts.headers, head.status, head.headers);
            load.unplanned_answered(&url, publicity);
        }
    }

    fn page<'a>(
        &'a self,
        fetch: &'a Fetch,
        outgoing: &'a Outgoing,
        head: PageHead<'a>,
    ) -> BoxFuture<'a, Option<Box<dyn BodyTap>>> {
        Box::pin(self.begin(fetch, outgoing, head))
    }

    fn holds(&self, partition: Option<&Partition>, hash: &ContentHash) -> bool {
        self.context.mirror.holds(partition, hash)
    }

    fn delivered(
        &self,
        partition: Option<Partition>,
        hash: ContentHash,
        status: StatusCode,
        headers: &HeaderMap,
    ) {
        if policy::agent_stores(status, headers) {
            let context = Arc::clone(&self.context);
            tokio::spawn(async move { context.mirror.add(partition.as_ref(), vec![hash]).await });
        }
    }
}
