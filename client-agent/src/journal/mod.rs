//! The journal: the last requests of the user who runs the agent, with their phases and what became of them.
//!
//! It is in memory and bounded. Requests of other users of the agent are not recorded. Deletions of a site's data
//! delete its requests, too.
mod record;
mod recording;

use std::{collections::VecDeque, sync::Arc};

use http::{Method, Uri};
use longhaul_http::site::registrable_domain;
use longhaul_types::{BitRate, ClientId};
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

pub use record::{RequestFailure, RequestRecord, ResponseEnd, Source};
pub(crate) use recording::{BodyRecording, Recording};

use crate::wall_clock::now;

/// Maximum number of requests: those of some fifty pages. A request takes about half a kilobyte.
const MAX_REQUESTS: usize = 4000;

/// The journal. Clones share the same requests.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    requests: Mutex<Requests>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Requests {
    /// The newest is last.
    list: VecDeque<Arc<Mutex<RequestRecord>>>,
    next: u64,
}

/// What the journal records of a new request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRequest<'a> {
    pub(crate) client: ClientId,
    pub(crate) method: &'a Method,
    pub(crate) url: &'a str,
    pub(crate) is_page: bool,
    /// The request's `Referer`.
    pub(crate) referrer: Option<&'a str>,
    /// Rate and round-trip time of the link, as measured.
    pub(crate) rate: Option<BitRate>,
    pub(crate) rtt: Option<std::time::Duration>,
}

impl Default for Journal {
    fn default() -> Self {
        Self(Arc::new(Inner {
            requests: Mutex::default(),
            changed: watch::Sender::new(()),
        }))
    }
}

impl Journal {
    /// Begins the record of a request; those of other users than the one who runs the agent are not recorded.
    pub(crate) fn begin(&self, request: NewRequest<'_>) -> Recording {
        if request.client != ClientId::OWNER {
            return Recording::off();
        }
        let mut requests = self.0.requests.lock();
        let number = requests.next;
        requests.next += 1;
        let page = if request.is_page {
            Some(number)
        } else {
            request.referrer.and_then(|referrer| requests.page_of(referrer))
        };
        let record = Arc::new(Mutex::new(RequestRecord {
            number,
            at_ms: u64::try_from(now().since_epoch().as_millis()).unwrap_or(u64::MAX),
            method: request.method.to_string(),
            url: RequestRecord::kept_url(request.url),
            is_page: request.is_page,
            page,
            rate_bps: request.rate.filter(|_| request.is_page).map(BitRate::as_bps),
            rtt_ms: request
                .rtt
                .filter(|_| request.is_page)
                .and_then(|rtt| u64::try_from(rtt.as_millis()).ok()),
            ..RequestRecord::default()
        }));
        requests.list.push_back(Arc::clone(&record));
        if requests.list.len() > MAX_REQUESTS {
            requests.list.pop_front();
        }
        drop(requests);
        Recording::of(record, Instant::now(), self.0.changed.clone())
    }

    /// Returns a receiver for changes.
    pub fn watch(&self) -> watch::Receiver<()> {
        self.0.changed.subscribe()
    }

    /// Returns all requests, oldest first.
    pub fn requests(&self) -> Vec<RequestRecord> {
        let requests = self.0.requests.lock();
        requests.list.iter().map(|record| record.lock().clone()).collect()
    }

    /// Number of requests so far, including those that the journal no longer has.
    pub fn count(&self) -> u64 {
        self.0.requests.lock().next
    }

    /// Deletes the requests of a site, by its registrable domain, and of the pages of that site; or all requests.
    pub(crate) fn forget(&self, domain: Option<&str>) {
        let mut requests = self.0.requests.lock();
        let Some(domain) = domain else {
            requests.list.clear();
            return;
        };
        let is_of_site = |record: &RequestRecord| registrable_domain(record.host()) == domain;
        let pages: Vec<u64> = requests
            .list
            .iter()
            .map(|record| record.lock())
            .filter(|record| record.is_page && is_of_site(record))
            .map(|record| record.number)
            .collect();
        requests.list.retain(|record| {
            let record = record.lock();
            !is_of_site(&record) && !record.page.is_some_and(|page| pages.contains(&page))
        });
    }

    /// Deletes a page with its requests.
    pub(crate) fn forget_page(&self, page: u64) {
        let mut requests = self.0.requests.lock();
        requests.list.retain(|record| record.lock().page != Some(page));
    }
}

impl Requests {
    /// Returns the page of the newest request with this URL; browsers may send only the origin of the referrer.
    fn page_of(&self, referrer: &str) -> Option<u64> {
        let origin = referrer
            .parse::<Uri>()
            .ok()
            .filter(|uri| uri.path_and_query().is_none_or(|path| path == "/"))
            .map(|_| referrer.trim_end_matches('/'));
        let referrer = RequestRecord::kept_url(referrer);
        let newest = || self.list.iter().rev().map(|record| record.lock());
        let same = newest().find(|record| record.url == referrer);
        let of_origin = || newest().find(|record| origin == Some(record.origin()));
        same.or_else(of_origin).and_then(|record| record.page)
    }
}

#[cfg(test)]
mod tests;
