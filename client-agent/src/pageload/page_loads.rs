//! The set of all page loads.
use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};

use longhaul_http::site::SchemefulSite;
use longhaul_session::{Manifest, Message, OriginReport, PageId, Push};
use longhaul_types::ClientId;
use tracing::debug;

use super::{
    lifecycle::EndReason,
    manifest_reader,
    page_load::{PageLoad, PageLoadStart},
    push_reader,
    pushed_body::PushMemory,
    storing_task,
};
use crate::{
    counters::Counters,
    gateway::{PageStream, PageStreamTask, PageStreams, ResponseStream, SessionSerial},
    store::Store,
};

/// Maximum number of page loads. More tabs do not load at the same time over a slow link; the oldest page
/// loads end.
const MAX_LOADS: usize = 32;

/// All page loads.
#[derive(Clone, Debug)]
pub struct PageLoads(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The newest is last.
    loads: Mutex<Vec<Arc<PageLoad>>>,
    memory: PushMemory,
    counters: Arc<Counters>,
    store: Store,
    linger: Duration,
}

impl PageLoads {
    /// Creates an empty set. A page load that is complete and unused ends `linger` after its last data
    /// arrived.
    pub(crate) fn new(store: Store, counters: Arc<Counters>, linger: Duration) -> Self {
        Self(Arc::new(Inner {
            loads: Mutex::new(Vec::new()),
            memory: PushMemory::default(),
            counters,
            store,
            linger,
        }))
    }

    fn list(&self) -> MutexGuard<'_, Vec<Arc<PageLoad>>> {
        self.0.loads.lock()
    }

    /// Starts a page load, before its fetch is sent.
    pub(crate) fn begin(&self, start: PageLoadStart) -> Arc<PageLoad> {
        let load = PageLoad::new(start, self.0.memory.clone(), Arc::clone(&self.0.counters));
        let oldest = {
            let mut loads = self.list();
            loads.push(Arc::clone(&load));
            (loads.len() > MAX_LOADS).then(|| loads.remove(0))
        };
        if let Some(oldest) = oldest {
            oldest.end(EndReason::Cancelled);
        }
        self.0.counters.pages.increment();
        tokio::spawn(storing_task::run(
            Arc::clone(&load),
            self.0.store.clone(),
            self.clone(),
            self.0.linger,
        ));
        load
    }

    /// Returns a client's page loads, newest first.
    pub(crate) fn of_client(&self, client: ClientId) -> Vec<Arc<PageLoad>> {
        let loads = self.list();
        let of_client = loads.iter().rev().filter(|load| load.context.client() == client);
        of_client.cloned().collect()
    }

    /// Returns all page loads, newest first.
    fn newest_first(&self) -> Vec<Arc<PageLoad>> {
        self.list().iter().rev().cloned().collect()
    }

    /// Marks a client's page loads except `but` as left: the browser navigates to another page.
    pub(crate) fn leave_others(&self, client: ClientId, but: Option<&Arc<PageLoad>>) {
        for load in self.of_client(client) {
            if but.is_none_or(|but| !Arc::ptr_eq(but, &load)) {
                load.leave_page();
            }
        }
    }

    /// Records that a client has perhaps written to a URL, in its page loads.
    pub(crate) fn record_write(&self, client: ClientId, url: &str) {
        if let Some(site) = SchemefulSite::of_url(url) {
            for load in self.of_client(client) {
                load.record_write(&site);
            }
        }
    }

    /// Ends the page loads of a client (or of all clients) whose pages are of a site, given by its domain (or
    /// of any site).
    pub(crate) fn end_of_site(&self, client: Option<ClientId>, domain: Option<&str>) {
        for load in self.newest_first() {
            let site = SchemefulSite::of_url(&load.url);
            let is_of_site = domain.is_none_or(|domain| site.is_some_and(|site| site.domain() == domain));
            if is_of_site && client.is_none_or(|client| load.context.client() == client) {
                load.end(EndReason::Cancelled);
            }
        }
    }

    /// Decoded bytes of pushes in memory.
    pub fn memory_used(&self) -> u64 {
        self.0.memory.used()
    }

    pub(super) fn remove(&self, load: &Arc<PageLoad>) {
        self.list().retain(|other| !Arc::ptr_eq(other, load));
    }

    /// Returns the page load of a page's fetch.
    pub(crate) fn find_page_load(&self, session: SessionSerial, page: PageId) -> Option<Arc<PageLoad>> {
        let loads = self.list();
        loads
            .iter()
            .find(|load| load.page == page && load.session.serial() == session)
            .cloned()
    }

    /// Sends `Holding` for the page loads in progress, because the gateway does not have the agent's mirror.
    pub(crate) fn send_holding(&self, session: SessionSerial) {
        for load in self.newest_first() {
            let hashes = if load.session.serial() == session {
                load.take_holding()
            } else {
                Vec::new()
            };
            if !hashes.is_empty() {
                let page = load.page;
                load.session
                    .send_control(Message::Holding(longhaul_session::Holding { page, hashes }));
            }
        }
    }

    async fn read_manifest(self, session: SessionSerial, manifest: Manifest, stream: ResponseStream) {
        match self.find_page_load(session, manifest.page) {
            Some(load) => manifest_reader::read(load, manifest.base, stream).await,
            None => debug!(page = %manifest.page, "a manifest of a page load that has ended"),
        }
    }

    async fn read_push(self, session: SessionSerial, push: Push, stream: ResponseStream) {
        match self.find_page_load(session, push.page) {
            Some(load) => push_reader::read(load, &self.0.store, push.entry, stream).await,
            None => debug!(page = %push.page, "a push of a page load that has ended"),
        }
    }
}

impl PageStreams for PageLoads {
    fn read(&self, session: SessionSerial, first: PageStream, stream: ResponseStream) -> PageStreamTask {
        match first {
            PageStream::Manifest(manifest) => Box::pin(self.clone().read_manifest(session, manifest, stream)),
            PageStream::Push(push) => Box::pin(self.clone().read_push(session, push, stream)),
        }
    }

    fn mirror_is_unknown(&self, session: SessionSerial) {
        self.send_holding(session);
    }

    fn origin_report(&self, session: SessionSerial, report: &OriginReport) {
        self.0.counters.savings.reported(session, report);
    }

    fn session_lost(&self, session: SessionSerial) {
        for load in self.newest_first() {
            if load.session.serial() == session {
                load.session_lost();
            }
        }
    }
}
