//! Page loads: manifests and pushed bodies (docs/protocol/session.md section 7) as the browser's requests meet them.
//!
//! A page's fetch begins a `PageLoad`. Its manifest and pushes fill it, whatever comes first; requests wait in it for
//! what they need (`crate::request`), and one task per load (`keeper`) hands complete responses to the cache and
//! ends the load: when the browser has gone to another page, or some time after everything has come.
mod body;
mod ending;
mod fit;
mod keeper;
mod kept;
mod load;
mod manifest;
mod outlook;
mod push;
mod slot;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use longhaul_http::{request_context::origin_of, site::SchemefulSite};
use longhaul_protocol::session::{Manifest, Message, Push};
use longhaul_types::ClientId;
use tracing::debug;

pub(crate) use body::{BodyFault, BodyReader, PushedBody};
pub(crate) use ending::Live;
pub(crate) use fit::{Asked, fit};
pub(crate) use kept::KeptManifest;
pub(crate) use load::{Beginning, Direction, Document, PageLoad, Progress, header_map};
pub(crate) use outlook::{BodyOutlook, HeadOutlook, HeldBody};

use crate::{counters::Counters, session::ResponseStream, store::Store};
use body::Memory;
use ending::End;

/// Page loads at a time. More tabs than this do not load at once over a slow link; the oldest ones end.
const MAX_LOADS: usize = 32;

/// All page loads.
#[derive(Clone, Debug)]
pub struct Loads(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The newest last.
    loads: Mutex<Vec<Arc<PageLoad>>>,
    memory: Memory,
    counters: Arc<Counters>,
    store: Store,
    linger: Duration,
}

impl Loads {
    /// None yet. A load ends when nothing has come and no request has used it for `linger` after it was complete.
    pub(crate) fn new(store: Store, counters: Arc<Counters>, linger: Duration) -> Self {
        Self(Arc::new(Inner {
            loads: Mutex::new(Vec::new()),
            memory: Memory::default(),
            counters,
            store,
            linger,
        }))
    }

    fn list(&self) -> MutexGuard<'_, Vec<Arc<PageLoad>>> {
        self.0.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a page load, before its fetch is sent.
    pub(crate) fn begin(&self, beginning: Beginning) -> Arc<PageLoad> {
        let load = PageLoad::new(beginning, self.0.memory.clone(), Arc::clone(&self.0.counters));
        let oldest = {
            let mut loads = self.list();
            loads.push(Arc::clone(&load));
            (loads.len() > MAX_LOADS).then(|| loads.remove(0))
        };
        if let Some(oldest) = oldest {
            oldest.end(End::Cancelled);
        }
        self.0.counters.pages.one();
        tokio::spawn(keeper::keep(
            Arc::clone(&load),
            self.0.store.clone(),
            self.clone(),
            self.0.linger,
        ));
        load
    }

    /// A client's loads, the newest first.
    pub(crate) fn of_client(&self, client: ClientId) -> Vec<Arc<PageLoad>> {
        let loads = self.list();
        let of_client = loads.iter().rev().filter(|load| load.context.client() == client);
        of_client.cloned().collect()
    }

    /// The loads, the newest first.
    fn newest_first(&self) -> Vec<Arc<PageLoad>> {
        self.list().iter().rev().cloned().collect()
    }

    /// A client's browser goes to another page: what it has left ends. `but` stays.
    pub(crate) fn supersede_others(&self, client: ClientId, but: Option<&Arc<PageLoad>>) {
        for load in self.of_client(client) {
            if but.is_none_or(|but| !Arc::ptr_eq(but, &load)) {
                load.supersede();
            }
        }
    }

    /// Ends the loads of a client, or of all, whose pages are of a site, by its domain, or all.
    pub(crate) fn end_for(&self, client: Option<ClientId>, domain: Option<&str>) {
        for load in self.newest_first() {
            let site = SchemefulSite::of_url(&load.url);
            let is_of_site = domain.is_none_or(|domain| site.is_some_and(|site| site.domain() == domain));
            if is_of_site && client.is_none_or(|client| load.context.client() == client) {
                load.end(End::Cancelled);
            }
        }
    }

    /// Decoded bytes of pushes in memory.
    pub fn memory_used(&self) -> u64 {
        self.0.memory.used()
    }

    fn forget(&self, load: &Arc<PageLoad>) {
        self.list().retain(|other| !Arc::ptr_eq(other, load));
    }

    /// The load of a page's fetch.
    pub(crate) fn of_page(&self, session: u64, page: u64) -> Option<Arc<PageLoad>> {
        let loads = self.list();
        loads
            .iter()
            .find(|load| load.page == page && load.hop.serial() == session)
            .cloned()
    }

    // ---- what comes from the gateway ----

    /// A manifest begins on a stream of session `session`.
    pub(crate) async fn manifest(&self, session: u64, manifest: Manifest, stream: ResponseStream) {
        match self.of_page(session, manifest.page) {
            Some(load) => manifest::read(load, manifest.base, stream).await,
            None => debug!(page = manifest.page, "a manifest for a page load that is over"),
        }
    }

    /// A pushed body begins on a stream of session `session`.
    pub(crate) async fn push(&self, session: u64, push: Push, stream: ResponseStream) {
        match self.of_page(session, push.page) {
            Some(load) => push::read(load, &self.0.store, push.entry, stream).await,
            None => debug!(page = push.page, "a push for a page load that is over"),
        }
    }

    /// The gateway does not know what the agent holds: it is told for the page loads under way.
    pub(crate) fn tell_holding(&self, session: u64) {
        for load in self.newest_first() {
            let hashes = if load.hop.serial() == session {
                load.take_holding()
            } else {
                Vec::new()
            };
            if !hashes.is_empty() {
                let page = load.page;
                load.hop
                    .tell(Message::Holding(longhaul_protocol::session::Holding {
                        page,
                        hashes,
                    }));
            }
        }
    }

    /// A session is over.
    pub(crate) fn session_lost(&self, session: u64) {
        for load in self.newest_first() {
            if load.hop.serial() == session {
                load.session_lost();
            }
        }
    }
}
