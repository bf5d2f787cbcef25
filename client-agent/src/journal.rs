//! The journal: the last requests of the user who runs the agent, with their phases and what became of them.
//!
//! It is in memory and bounded, and in a file as well if the user wants it. Requests of other users of the agent are not
//! recorded. Deletions of a site's data delete its requests, too.
mod file;
mod record;
mod recording;

use std::{collections::VecDeque, path::Path, sync::Arc, time::Duration};

use http::{Method, Uri};
use longhaul_http::site::registrable_domain;
use longhaul_types::{BitRate, ClientId};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tracing::warn;

use file::JournalFile;
pub use record::{RequestFailure, RequestRecord, ResponseEnd, Source};
pub(crate) use recording::{BodyRecording, Recording};

use crate::{private_database, wall_clock::now};

/// Maximum number of requests: those of some fifty pages. A request takes about half a kilobyte.
const MAX_REQUESTS: usize = 4000;
/// Name of the file in the state directory.
const FILE: &str = "journal.sqlite";
/// Time between two additions to the file.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// The journal. Clones share the same requests.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    requests: Mutex<Requests>,
    changed: watch::Sender<()>,
    file: Mutex<Option<JournalFile>>,
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
    pub(crate) rtt: Option<Duration>,
}

impl Default for Journal {
    fn default() -> Self {
        Self(Arc::new(Inner {
            requests: Mutex::default(),
            changed: watch::Sender::new(()),
            file: Mutex::default(),
        }))
    }
}

impl Journal {
    /// Opens the journal of a state directory. With `is_kept` it goes on with the requests in the file; otherwise a file
    /// of an earlier run is removed.
    pub(crate) async fn open(dir: &Path, is_kept: bool) -> Self {
        let path = dir.join(FILE);
        // File operations block.
        let opened = tokio::task::spawn_blocking(move || {
            if is_kept {
                return open_file(&path);
            }
            if let Err(error) = private_database::remove(&path) {
                warn!(
                    "{FILE} of an earlier run cannot be removed: {error}; delete it while the agent is stopped"
                );
            }
            None
        });
        let journal = Self::default();
        if let Some((file, records)) = opened.await.unwrap_or_default() {
            let mut requests = journal.0.requests.lock();
            requests.next = records.last().map_or(0, |last| last.number + 1);
            let records = records.into_iter().map(|record| Arc::new(Mutex::new(record)));
            requests.list = records.collect();
            drop(requests);
            *journal.0.file.lock() = Some(file);
        }
        journal
    }

    /// Writes changes into the file, if there is one, until the agent ends.
    pub(crate) async fn run(self) {
        let mut changes = self.watch();
        // The journal has the sender.
        while changes.changed().await.is_ok() {
            self.write(false).await;
            sleep(WRITE_INTERVAL).await;
        }
    }

    /// Writes the requests into the file, if there is one; with `is_deletion`, it contains nothing else afterwards.
    pub(crate) async fn write(&self, is_deletion: bool) {
        let journal = self.clone();
        let written = tokio::task::spawn_blocking(move || {
            let mut file = journal.0.file.lock();
            file.as_mut()
                .map_or(Ok(()), |file| file.write(&journal.requests(), is_deletion))
        });
        // The task fails only when the process ends.
        if let Ok(Err(error)) = written.await {
            warn!("the journal cannot be written to {FILE}: {error}; free space on its disk");
        }
    }

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
    /// The file contains none of them when the call returns.
    pub(crate) async fn forget(&self, domain: Option<&str>) {
        self.remove(domain);
        self.write(true).await;
    }

    fn remove(&self, domain: Option<&str>) {
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

    /// Deletes a page with its requests. The file contains none of them when the call returns.
    pub(crate) async fn forget_page(&self, page: u64) {
        self.remove_page(page);
        self.write(true).await;
    }

    fn remove_page(&self, page: u64) {
        let mut requests = self.0.requests.lock();
        requests.list.retain(|record| record.lock().page != Some(page));
    }
}

/// Opens the file with its requests; sets aside one that cannot be used.
fn open_file(path: &Path) -> Option<(JournalFile, Vec<RequestRecord>)> {
    let opened = JournalFile::open(path).or_else(|error| {
        if !error.is_final() {
            return Err(error);
        }
        warn!("{FILE} cannot be used: {error}; it is set aside and the journal begins anew");
        private_database::set_aside(path);
        JournalFile::open(path)
    });
    opened
        .inspect_err(|error| warn!("the journal is in memory only: {error}"))
        .ok()
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
