//! Pages that wait for the hop: their browsers have a page that says so and ask again, and get the answer to the
//! first request.
//!
//! Everything is in memory only. A page answers only the client that asked for it, at the same URL, with equal
//! fields ([`PageKey`]); a request from another site only if the first one came from another site. It answers once.
mod page_key;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use http::Response;
use longhaul_http::site::registrable_domain;
use longhaul_types::ClientId;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{AbortHandle, JoinHandle},
    time::{Instant, sleep_until},
};

pub(crate) use page_key::PageKey;

use crate::proxy_body::ProxyBody;

/// Maximum number of waiting pages: more than a person opens. Each takes some KiB, and once it is answered up to the
/// window of a stream.
const MAX_PAGES: usize = 64;
/// Time without a request of the browser after which a page is given up: the tab is closed.
const ABANDONED_AFTER: Duration = Duration::from_secs(120);
/// Number of pages without a reader that are sent at the same time when the hop is back, so that what people look at
/// comes first.
const TURNS: usize = 2;

/// What happens to a waiting page whose tab is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// It is given up.
    Off,
    /// It is loaded nevertheless, if the hop is back within this time.
    Keep(Duration),
}

/// Number of a waiting page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaitingPageId(pub(crate) u64);

/// A page that waits. Dropping the last handle gives the request up.
#[derive(Debug)]
pub(crate) struct WaitingPage {
    key: PageKey,
    pub(crate) since: Instant,
    /// `None` once a request has the answer.
    task: tokio::sync::Mutex<Option<JoinHandle<Response<ProxyBody>>>>,
    abort: AbortHandle,
    deadline: Mutex<Instant>,
}

impl Drop for WaitingPage {
    fn drop(&mut self) {
        // A task that has ended, whose response a browser has, is not affected.
        self.abort.abort();
    }
}

impl WaitingPage {
    pub(crate) fn new(key: PageKey, task: JoinHandle<Response<ProxyBody>>) -> Self {
        let now = Instant::now();
        Self {
            key,
            since: now,
            abort: task.abort_handle(),
            task: tokio::sync::Mutex::new(Some(task)),
            deadline: Mutex::new(now),
        }
    }

    /// Waits for the answer; `None` if another request has it, or if the task was aborted. Cancel safe.
    pub(crate) async fn answer(&self) -> Option<Response<ProxyBody>> {
        let mut task = self.task.lock().await;
        let answer = task.as_mut()?.await;
        *task = None;
        answer.ok()
    }

    /// What was asked for.
    pub(crate) fn url(&self) -> &str {
        &self.key.url
    }

    fn is_ready(&self) -> bool {
        self.abort.is_finished()
    }
}

/// A waiting page as the status shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WaitingPageState {
    pub(crate) id: WaitingPageId,
    pub(crate) url: String,
    pub(crate) waited: Duration,
    /// True if the answer has arrived and waits for the browser.
    pub(crate) is_ready: bool,
}

/// The waiting pages.
#[derive(Clone, Debug)]
pub struct WaitingPages(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pages: Mutex<Pages>,
    turns: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Pages {
    by_id: BTreeMap<WaitingPageId, Arc<WaitingPage>>,
    next: u64,
}

impl Default for WaitingPages {
    fn default() -> Self {
        Self(Arc::new(Shared {
            pages: Mutex::default(),
            turns: Arc::new(Semaphore::new(TURNS)),
        }))
    }
}

impl WaitingPages {
    /// Returns the page that may answer a request.
    pub(crate) fn find(&self, key: &PageKey) -> Option<(WaitingPageId, Arc<WaitingPage>)> {
        let pages = self.0.pages.lock();
        let mut found = pages.by_id.iter().filter(|(_, page)| page.key.answers(key));
        found.next().map(|(id, page)| (*id, Arc::clone(page)))
    }

    /// Keeps a page for a later request; false if there are too many.
    pub(crate) fn keep(&self, page: Arc<WaitingPage>, queue: Queue) -> bool {
        let mut pages = self.0.pages.lock();
        if pages.by_id.len() >= MAX_PAGES {
            return false;
        }
        let lifetime = match queue {
            Queue::Off => ABANDONED_AFTER,
            Queue::Keep(time) => time.max(ABANDONED_AFTER),
        };
        *page.deadline.lock() = Instant::now() + lifetime;
        pages.next += 1;
        let id = WaitingPageId(pages.next);
        pages.by_id.insert(id, page);
        drop(pages);
        tokio::spawn(self.clone().expire(id));
        true
    }

    /// Records that the browser of a page asks for it.
    pub(crate) fn renew(&self, id: WaitingPageId) {
        if let Some(page) = self.0.pages.lock().by_id.get(&id) {
            let mut deadline = page.deadline.lock();
            *deadline = (*deadline).max(Instant::now() + ABANDONED_AFTER);
        }
    }

    /// Removes a page; false if there is none with this number.
    pub(crate) fn remove(&self, id: WaitingPageId) -> bool {
        let removed = self.0.pages.lock().by_id.remove(&id);
        removed.is_some()
    }

    /// Removes the pages of a client, or of all clients, of a site, or all.
    pub(crate) fn forget(&self, client: Option<ClientId>, site: Option<&str>) {
        let is_of = |page: &WaitingPage| {
            let host = url::Url::parse(&page.key.url).ok();
            let host = host.as_ref().and_then(url::Url::host_str).unwrap_or_default();
            client.is_none_or(|client| client == page.key.client)
                && site.is_none_or(|site| registrable_domain(host) == site)
        };
        self.0.pages.lock().by_id.retain(|_, page| !is_of(page));
    }

    /// The waiting pages, oldest first.
    pub(crate) fn list(&self) -> Vec<WaitingPageState> {
        let pages = self.0.pages.lock();
        let states = pages.by_id.iter().map(|(id, page)| WaitingPageState {
            id: *id,
            url: page.key.url.clone(),
            waited: page.since.elapsed(),
            is_ready: page.is_ready(),
        });
        states.collect()
    }

    /// Waits until a page may be sent.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.turns).acquire_owned().await.ok()
    }

    async fn expire(self, id: WaitingPageId) {
        loop {
            let deadline = match self.0.pages.lock().by_id.get(&id) {
                Some(page) => *page.deadline.lock(),
                None => return,
            };
            if deadline <= Instant::now() {
                self.remove(id);
                return;
            }
            sleep_until(deadline).await;
        }
    }
}

/// Whether a request waits for the gateway without a limit of time, because its browser has the page that says so.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patience(Arc<AtomicBool>);

impl Patience {
    pub(crate) fn begin(&self) {
        self.0.store(true, Relaxed);
    }

    pub(crate) fn is_unlimited(&self) -> bool {
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use bytes::Bytes;
    use longhaul_http::request_context::SiteRelation;

    use super::{page_key::tests::key, *};

    fn page(key: PageKey) -> Arc<WaitingPage> {
        Arc::new(WaitingPage::new(key, tokio::spawn(pending())))
    }

    #[tokio::test]
    async fn an_answer_is_given_once() {
        let answer = async { Response::new(ProxyBody::full(Bytes::from_static(b"x"))) };
        let page = WaitingPage::new(key(SiteRelation::None, b""), tokio::spawn(answer));
        assert!(page.answer().await.is_some());
        assert!(page.answer().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_whose_tab_is_closed_is_given_up_unless_it_is_queued() {
        let pages = WaitingPages::default();
        let asked = key(SiteRelation::None, b"");
        assert!(pages.keep(page(asked.clone()), Queue::Off));
        let (id, found) = pages.find(&asked).unwrap();
        tokio::time::sleep(ABANDONED_AFTER / 2).await;
        pages.renew(id);
        tokio::time::sleep(ABANDONED_AFTER * 3 / 4).await;
        assert_eq!(pages.list().len(), 1, "asked for in the meantime");
        tokio::time::sleep(ABANDONED_AFTER).await;
        assert!(pages.list().is_empty());
        let abort = found.abort.clone();
        drop(found);
        tokio::task::yield_now().await;
        assert!(abort.is_finished());
        let two_hours = Duration::from_secs(2 * 3600);
        assert!(pages.keep(page(asked.clone()), Queue::Keep(two_hours)));
        tokio::time::sleep(two_hours - Duration::from_secs(1)).await;
        assert!(pages.find(&asked).is_some());
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(pages.find(&asked).is_none());
    }

    #[tokio::test]
    async fn the_pages_are_bounded_and_can_be_cancelled_and_forgotten() {
        let pages = WaitingPages::default();
        for _ in 0..MAX_PAGES {
            assert!(pages.keep(page(key(SiteRelation::None, b"")), Queue::Off));
        }
        assert!(!pages.keep(page(key(SiteRelation::None, b"")), Queue::Off));
        let id = pages.list()[0].id;
        assert!(pages.remove(id) && !pages.remove(id));
        pages.forget(None, Some("b.test"));
        pages.forget(Some(ClientId(7)), None);
        assert_eq!(pages.list().len(), MAX_PAGES - 1);
        pages.forget(None, Some("a.test"));
        assert!(pages.list().is_empty());
    }
}
