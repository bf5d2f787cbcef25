//! The task of a page load: owns the state, starts fetches and pushes in the order of the plan, and ends the
//! manifest.
use std::{future::pending, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use longhaul_gateway_core::origin_reports::OpenGuard;
use longhaul_session::{Used, Withdrawal, keepable};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tracing::{Instrument as _, warn};

use super::{
    MAX_EVENTS,
    event::{Event, FinishedManifest, LoadResult},
    manifest_stream::ManifestStream,
    state::LoadState,
    subresource,
};
use crate::{
    manifest::{ManifestWriter, gather},
    memory::ManifestMemory,
    push,
};

/// Maximum concurrent fetches of a page load; the origin client bounds those to one host.
const MAX_FETCHES: usize = 32;
/// Maximum including fetches of objects that the page waits for.
const MAX_URGENT_FETCHES: usize = 48;
/// Bytes queued for the hop above which only urgent objects are fetched: minutes of transfer on the intended
/// links.
const MAX_WAITING: u64 = 16 * 1024 * 1024;
/// Maximum pushes being sent, among which the transport shares the hop within a class.
const MAX_PUSHING: usize = 64;
/// Maximum pushes including those that wait for acknowledgement. The agent allows 256 streams in total.
const MAX_OPEN: usize = 160;
/// Maximum fetches and pushes, beyond which no lost body is fetched again.
const MAX_TASKS: usize = MAX_URGENT_FETCHES + MAX_OPEN;
/// Maximum wait for responses that may be redirects, before the manifest declares that no further entry
/// follows.
const MAX_REDIRECTING: Duration = Duration::from_secs(2);

/// Runs a page load until this future is dropped, with all its fetches and pushes.
pub(crate) async fn run(state: LoadState, manifest: ManifestWriter, mut events: mpsc::Receiver<Event>) {
    let load = Arc::clone(&state.load);
    let mut task = LoadTask {
        state,
        manifest: ManifestStream::new(manifest),
        tasks: JoinSet::new(),
        storing: None,
        stored: StoredManifest::None,
        searched_since: None,
        flush_at: None,
        reports_later: None,
    };
    loop {
        task.proceed();
        let (flush_at, redirects_until) = (task.flush_at(), task.redirects_until());
        tokio::select! {
            Some(event) = events.recv() => task.handle_all(event, &mut events),
            Some(ended) = task.tasks.join_next(), if !task.tasks.is_empty() => {
                if ended.is_err_and(|error| error.is_panic()) {
                    warn!("a task of a page load ended in a panic");
                }
            }
            () = task.manifest.written(&load.context) => {}
            () = stored(&mut task.storing) => {}
            () = at(flush_at) => {}
            () = at(redirects_until) => {}
        }
    }
}

async fn stored(storing: &mut Option<BoxFuture<'static, ()>>) {
    match storing {
        Some(running) => running.await,
        None => return pending().await,
    }
    *storing = None;
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// The state of a page load, and its work in progress.
pub(super) struct LoadTask {
    pub(super) state: LoadState,
    pub(super) manifest: ManifestStream,
    /// Fetches and pushes.
    tasks: JoinSet<()>,
    /// Store of the manifest in progress.
    storing: Option<BoxFuture<'static, ()>>,
    stored: StoredManifest,
    /// Start of the time without documents and style sheets that may add entries.
    searched_since: Option<Instant>,
    /// Time of the next write of records, if there are any.
    flush_at: Option<Instant>,
    /// Present until the page is sent: one report then contains all its objects.
    reports_later: Option<OpenGuard>,
}

/// Version of the manifest that is stored for the next load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StoredManifest {
    None,
    /// With the hashes that were known when the manifest ended.
    Early,
    /// With the hashes of all bodies.
    Whole,
}

impl LoadTask {
    /// Handles an event and those that wait behind it.
    fn handle_all(&mut self, first: Event, events: &mut mpsc::Receiver<Event>) {
        self.handle(first);
        for _ in 0..MAX_EVENTS {
            let Ok(event) = events.try_recv() else { return };
            self.handle(event);
        }
    }

    /// Starts what the limits permit, and ends the manifest once nothing can be added.
    fn proceed(&mut self) {
        self.start_fetches();
        self.start_refetches();
        self.state.answer_requests();
        self.start_pushes();
        self.close_entry_list();
        self.write_manifest();
        // The manifest may have ended, so that the records that held up the pushes are dropped.
        self.start_pushes();
        self.store_manifest();
        self.delay_reports();
    }

    /// Delays the reports of what origins sent while responses or pushes are still to come.
    fn delay_reports(&mut self) {
        let (plan, context) = (&self.state.plan, &self.state.load.context);
        if plan.is_closed() && !plan.has_open() && plan.is_sent() {
            self.reports_later = None;
        } else if self.reports_later.is_none() {
            self.reports_later = Some(context.origin_reports.open());
        }
    }

    /// Starts fetches up to the limits.
    fn start_fetches(&mut self) {
        loop {
            let plan = &mut self.state.plan;
            let fetching = plan.fetching();
            let only_urgent = fetching >= MAX_FETCHES || plan.waiting_bytes() > MAX_WAITING;
            if fetching >= MAX_URGENT_FETCHES {
                return;
            }
            let Some(entry) = plan.next_fetch(only_urgent) else {
                return;
            };
            let Some(lookup) = self.state.predict(entry) else {
                self.state.plan.withdraw(entry, Withdrawal::Failed);
                continue;
            };
            let load = Arc::clone(&self.state.load);
            let fetching = async move { subresource::fetch(&load, entry, lookup).await };
            self.tasks.spawn(fetching.in_current_span());
        }
    }

    /// Starts fetches of bodies that the cache no longer has.
    fn start_refetches(&mut self) {
        while self.tasks.len() < MAX_TASKS {
            let Some(entry) = self.state.plan.next_refetch() else {
                return;
            };
            let hash = self.state.hash_of(entry);
            let (Some(hash), Some(lookup)) = (hash, self.state.predict(entry)) else {
                self.state.plan.withdraw(entry, Withdrawal::Failed);
                continue;
            };
            let load = Arc::clone(&self.state.load);
            let fetching = async move { subresource::fetch_again(&load, entry, lookup, hash).await };
            self.tasks.spawn(fetching.in_current_span());
        }
    }

    /// Starts pushes up to the limits. Bodies wait until their heads are written.
    fn start_pushes(&mut self) {
        if self.state.plan.has_records() || self.manifest.is_writing() {
            return;
        }
        loop {
            let plan = &mut self.state.plan;
            let pushing = plan.pushing();
            if pushing >= MAX_PUSHING || pushing + plan.unacknowledged() >= MAX_OPEN {
                return;
            }
            let Some(attempt) = plan.next_push() else { return };
            let load = Arc::clone(&self.state.load);
            let pushing = async move { push::push(&load, attempt).await };
            self.tasks.spawn(pushing.in_current_span());
        }
    }

    /// Closes the list of entries once no document, style sheet or redirect can add one.
    fn close_entry_list(&mut self) {
        let plan = &mut self.state.plan;
        if plan.is_searching() {
            return;
        }
        let since = *self.searched_since.get_or_insert_with(Instant::now);
        if !plan.has_open() || since.elapsed() >= MAX_REDIRECTING {
            plan.close();
        }
    }

    /// Time at which the list of entries is closed although some responses are missing.
    fn redirects_until(&self) -> Option<Instant> {
        let plan = &self.state.plan;
        let since = self.searched_since?;
        // A redirect may have added a document that is searched; its end is an event.
        (!plan.is_closed() && !plan.is_searching()).then(|| since + MAX_REDIRECTING)
    }

    /// Writes the records once a task waits for them or they have gathered long enough; ends the manifest
    /// once no further record can be added.
    fn write_manifest(&mut self) {
        if self.manifest.is_writing() {
            return;
        }
        let (plan, context) = (&mut self.state.plan, &self.state.load.context);
        let is_complete = plan.is_closed() && !plan.has_open() && !plan.has_unmeasured();
        let now = Instant::now();
        if plan.has_records() {
            let flush_at = *self
                .flush_at
                .get_or_insert_with(|| now + gather(context.link_rate()));
            if is_complete || self.manifest.is_awaited() || now >= flush_at {
                self.manifest.write(plan, context);
            }
        } else if self.manifest.is_awaited() {
            self.manifest.write(plan, context);
        } else if is_complete {
            self.manifest.finish();
        }
        if !plan.has_records() {
            self.flush_at = None;
        }
    }

    /// Time of the next write of records, if none is in progress.
    fn flush_at(&self) -> Option<Instant> {
        self.flush_at.filter(|_| !self.manifest.is_writing())
    }

    /// Stores the manifest when it is complete, and again when all bodies are sent and their hashes known.
    fn store_manifest(&mut self) {
        if self.storing.is_some() || !self.manifest.has_ended() {
            return;
        }
        self.stored = match self.stored {
            StoredManifest::None => StoredManifest::Early,
            StoredManifest::Early if self.state.plan.is_sent() => StoredManifest::Whole,
            StoredManifest::Early | StoredManifest::Whole => return,
        };
        let (finished, cache) = (self.finished_manifest(), self.state.load.context.cache());
        if let (Some(finished), Some(cache)) = (finished, cache) {
            let cache = cache.clone();
            self.storing = Some(Box::pin(async move { finished.store(&cache).await }));
        }
    }

    /// The complete manifest, with the hashes known so far, as base of the next one.
    fn finished_manifest(&self) -> Option<FinishedManifest> {
        let partition = self.state.load.identity.partition()?;
        // The gateway wrote these bytes, so parsing succeeds.
        let bytes = keepable(self.manifest.decoded()?).ok()?;
        let plan = &self.state.plan;
        let hashes = plan.hashes();
        Some(FinishedManifest {
            memory: ManifestMemory {
                load: self.state.load.number,
                bytes,
                hashes,
            },
            partition,
            page: plan.page().clone(),
        })
    }

    /// Result of the page load, with what is known so far.
    pub(super) fn result(&mut self, used: Option<&Used>) -> LoadResult {
        LoadResult {
            visit: self.state.used(used),
            manifest: self.finished_manifest(),
        }
    }
}
