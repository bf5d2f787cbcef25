//! A page load: the state that its tasks share.
mod drive;
mod initiators;
mod navigation;
mod sheets;
mod subresource;
mod tap;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock},
};

use http::{HeaderMap, HeaderValue, header};
use longhaul_cache::Partition;
use longhaul_delivery::DeltaKey;
use longhaul_http::policy;
use longhaul_page::{
    Certainty, Destination, Initiator, Reference, ReferrerPolicy, jar::Jar, predict::Predictor,
};
use longhaul_session::{Record, Used, Withdrawal, keepable, short_hash};
use longhaul_webcache::{Asker, Audience, BodyReader};
use tokio::sync::watch;
use url::Url;

pub(super) use self::{drive::drive, subresource::redirection, tap::PageTap};
use self::{initiators::Initiators, sheets::Sheets};
use super::{
    context::{BundleContext, lock, now},
    learned::{self, LearnedPlan},
    manifest::ManifestWriter,
    memory::ManifestMemory,
    page_loads::Promise,
    plan::{Arrival, BodyState, Match, Plan, PlanLimits},
    publicity::Publicity,
    push::PushBody,
};

/// One page load.
pub(crate) struct PageLoad {
    context: Arc<BundleContext>,
    id: u64,
    /// Requester of the page.
    asker: Asker,
    plan: Mutex<Plan>,
    /// `None` once the manifest has ended or the agent has stopped it.
    manifest: tokio::sync::Mutex<Option<ManifestWriter>>,
    /// Decoded bytes of the manifest, once it has ended.
    written: OnceLock<Vec<u8>>,
    /// Bodies that wait for their push, by entry.
    bodies: Mutex<BTreeMap<u32, PushBody>>,
    /// Entries whose bodies the agent wants and the cache no longer has.
    missing: Mutex<BTreeSet<u32>>,
    /// Partitions for which the answered entries were fetched.
    partitions: Mutex<BTreeMap<u32, Partition>>,
    /// Delta keys of the answered entries.
    subjects: Mutex<BTreeMap<u32, DeltaKey>>,
    /// Answered entries whose responses are shared between devices.
    public: Mutex<BTreeSet<u32>>,
    /// Priority classes of the open pushes.
    classes: Mutex<BTreeMap<u32, watch::Sender<u8>>>,
    jar: Mutex<Jar>,
    learned: Mutex<LearnedPlan>,
    sheets: Mutex<Sheets>,
    initiators: Mutex<Initiators>,
    predictor: Predictor,
    /// URL of the browser's request for the page.
    asked: Url,
    /// Fields of the browser's request for the page.
    request: HeaderMap,
    /// `Via` as the gateway sends it.
    via: Option<HeaderValue>,
    /// Changes with every change of the plan.
    changed: watch::Sender<u64>,
}

/// Arguments of a new page load.
pub(super) struct PageStart<'a> {
    pub(super) id: u64,
    pub(super) url: Url,
    /// The document in the response.
    pub(super) initiator: Initiator,
    pub(super) asker: Asker,
    /// Fields of the browser's request.
    pub(super) browser: &'a HeaderMap,
    /// Fields of the request that the origin received.
    pub(super) sent: &'a HeaderMap,
    /// Fields of the response.
    pub(super) response: &'a HeaderMap,
    /// The page's previous manifest, if the agent also has it.
    pub(super) base: Option<ManifestMemory>,
    /// The learned plan.
    pub(super) learned: LearnedPlan,
}

impl PageLoad {
    pub(super) fn new(context: Arc<BundleContext>, start: PageStart<'_>) -> Self {
        let PageStart {
            id,
            url,
            initiator,
            asker,
            browser,
            sent,
            response,
            base,
            learned,
        } = start;
        let before = base.as_ref().map(|base| base.hashes.clone()).unwrap_or_default();
        let mut jar = Jar::new(&url, browser, &context.sightings());
        jar.store(&url, response, None, now());
        Self {
            id,
            asker,
            manifest: tokio::sync::Mutex::new(Some(ManifestWriter::new(context.session.clone(), id, base))),
            written: OnceLock::new(),
            context,
            initiators: Mutex::new(Initiators::new(initiator)),
            predictor: Predictor::new(browser),
            asked: url.clone(),
            plan: Mutex::new(Plan::new(url, PlanLimits::default(), before)),
            bodies: Mutex::default(),
            missing: Mutex::default(),
            partitions: Mutex::default(),
            subjects: Mutex::default(),
            public: Mutex::default(),
            classes: Mutex::default(),
            jar: Mutex::new(jar),
            learned: Mutex::new(learned),
            sheets: Mutex::default(),
            request: browser.clone(),
            via: sent.get(header::VIA).cloned(),
            changed: watch::Sender::new(0),
        }
    }

    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    /// Requester of the page.
    pub(super) const fn asker(&self) -> &Asker {
        &self.asker
    }

    pub(super) fn context(&self) -> &BundleContext {
        &self.context
    }

    pub(super) fn plan(&self) -> MutexGuard<'_, Plan> {
        lock(&self.plan)
    }

    /// Wakes the page load's task after a change of the plan.
    fn wake(&self) {
        self.changed
            .send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// Plans the references of `referrer` (`None`: the page) that its document would fetch.
    pub(super) fn found(&self, references: impl IntoIterator<Item = Reference>, referrer: Option<u32>) {
        let Some(cause) = self.cause_behind(referrer, Arrival::Referenced) else {
            return;
        };
        let references = references.into_iter();
        let admitted = references.filter_map(|reference| cause.initiator.admit(reference, 0));
        let admitted: Vec<Reference> = admitted.collect();
        for frame in admitted
            .iter()
            .filter(|found| found.destination == Destination::Frame)
        {
            lock(&self.initiators).display(frame, &cause.initiator);
        }
        let wanted = self.wanted(admitted);
        self.plan().found(wanted, referrer);
        self.wake();
    }

    /// Plans the target of an entry's redirect, with the redirect's referrer policy.
    fn redirected(&self, target: Reference, from: u32, policy: Option<ReferrerPolicy>) {
        let cause = self.cause_behind(Some(from), Arrival::Redirected(policy));
        let admitted = cause.and_then(|cause| cause.initiator.admit(target, cause.redirects.len()));
        for target in self.wanted(admitted) {
            self.plan().redirected(target, from, policy);
        }
        self.wake();
    }

    /// Filters the references that are worth planning.
    fn wanted(&self, references: impl IntoIterator<Item = Reference>) -> Vec<Reference> {
        let now = now();
        let learned = lock(&self.learned);
        references
            .into_iter()
            .filter(|reference| reference.certainty != Certainty::Unlikely)
            .filter(|reference| self.context.takes(&reference.url))
            .filter(|reference| self.shows_pictures() || !reference.destination.is_picture())
            .filter(|reference| !learned.is_suppressed(&reference.url, now))
            .collect()
    }

    /// Returns true if images are planned: at image level text only if the page was requested with
    /// `no-cache`.
    fn shows_pictures(&self) -> bool {
        self.context.shows_pictures() || policy::reload(&self.request) == policy::Reload::Bypass
    }

    /// Plans the objects that scripts loaded in earlier visits.
    pub(super) fn plan_extras(&self) {
        let extras = lock(&self.learned).extras(now());
        self.found(extras, None);
    }

    /// Returns once all records so far are on the manifest's stream.
    pub(super) async fn flush(&self) {
        let mut place = self.manifest.lock().await;
        let (records, entries) = {
            let mut plan = self.plan();
            let records = plan.take_records();
            let entries = records.iter().filter(|record| matches!(record, Record::Entry(_)));
            let entries = entries.count() as u64;
            (records, entries)
        };
        if records.is_empty() {
            return;
        }
        // Taken out during the write: if this future is dropped, the state of the stream is unknown and the
        // manifest ends.
        let Some(mut writer) = place.take() else { return };
        let context = &self.context;
        if let Ok(bytes) = writer
            .write(&records, context.window_key, context.link_rate())
            .await
        {
            context.counters().manifest(entries, bytes);
            *place = Some(writer);
        }
    }

    /// Ends the manifest.
    async fn finish_manifest(&self) {
        self.flush().await;
        let writer = self.manifest.lock().await.take();
        if let Some(writer) = writer
            && let Ok(Some(bytes)) = writer.finish().await
        {
            let _first = self.written.set(bytes);
        }
    }

    /// Stores the manifest, with the hashes known so far, as base of the next one.
    async fn keep_manifest(&self) {
        let (Some(bytes), Some(cache)) = (self.written.get(), self.context.cache()) else {
            return;
        };
        let Some(partition) = self.asker.partition() else {
            return;
        };
        let (hashes, page) = {
            let plan = self.plan();
            (plan.hashes(), plan.page().clone())
        };
        // The gateway wrote these bytes, so parsing succeeds.
        if let Ok(bytes) = keepable(bytes) {
            let memory = ManifestMemory { bytes, hashes };
            memory.store(cache, &partition, &page).await;
        }
    }

    /// Waits for the head of the entry that matches a browser request; returns the promise if the entry
    /// answers it.
    pub(super) async fn promise(&self, url: &Url, request: &HeaderMap) -> Option<Promise> {
        let mut changed = self.changed.subscribe();
        let entry = self.plan().find(url.as_str());
        let Some(entry) = entry else {
            let destination = learned::destination(url, request);
            if self.is_made_by_page(url, request, destination) {
                lock(&self.learned).unplanned(url, destination);
            }
            return None;
        };
        if let Some(entry) = self.plan().get(entry) {
            self.context.observe(url, entry.reference.destination, request);
        }
        self.ask(&[entry]);
        loop {
            match self.plan().promise(entry, request) {
                Match::Promised => break,
                Match::No => return None,
                Match::Later => {}
            }
            changed.changed().await.ok()?;
        }
        self.context.counters().promised();
        Some(Promise { page: self.id, entry })
    }

    /// Records that an unplanned request was answered.
    pub(super) fn unplanned_answered(&self, url: &Url, publicity: Publicity) {
        lock(&self.learned).answered(url, publicity);
    }

    /// Handles `Ask`: the browser waits for these entries.
    pub(super) fn ask(&self, entries: &[u32]) {
        let risen = self.plan().ask(entries);
        let classes = lock(&self.classes);
        for (entry, class) in risen {
            if let Some(push) = classes.get(&entry) {
                push.send_replace(class);
            }
        }
        drop(classes);
        self.wake();
    }

    /// Handles `Want`: the agent does not have an entry's body.
    pub(super) async fn want(&self, entry: u32) {
        self.context.counters().wanted();
        let hash = {
            let plan = self.plan();
            let found = plan.get(entry).filter(|found| found.answered().is_some());
            found.and_then(|found| found.hash)
        };
        if let Some(hash) = hash {
            self.context.mirror.remove(&[short_hash(&hash)]).await;
        }
        let body = match (self.context.cache(), hash) {
            (Some(cache), Some(hash)) => cache.body(hash).await,
            (None, _) | (_, None) => None,
        };
        match (body, hash) {
            (Some(body), _) => self.push_again(entry, BodyReader::of_stored(body)),
            (None, Some(_)) => {
                lock(&self.missing).insert(entry);
            }
            (None, None) => self.plan().withdraw(entry, Withdrawal::Failed),
        }
        self.wake();
    }

    /// Pushes a body again, unless the limit of repetitions is reached.
    fn push_again(&self, entry: u32, body: BodyReader) {
        lock(&self.bodies).insert(entry, PushBody::Again(body));
        self.plan().want(entry);
        self.wake();
    }

    /// Handles `Used` at the end of the page load.
    pub(super) async fn used(&self, used: &Used) {
        let lesson = {
            let mut learned = lock(&self.learned);
            let plan = self.plan();
            self.context.counters().taken(plan.taken(used));
            learned.learn(&plan, used, now())
        };
        self.keep_manifest().await;
        if let Some(cache) = self.context.cache() {
            lesson.store(cache).await;
        }
    }

    /// Stops all fetches and pushes of the page load.
    pub(super) fn abandon(&self) {
        self.plan().abandon();
        lock(&self.bodies).clear();
        lock(&self.missing).clear();
        lock(&self.classes).clear();
        // If a task is writing to the manifest now, the manifest ends with that task.
        if let Ok(mut manifest) = self.manifest.try_lock() {
            *manifest = None;
        }
        self.wake();
    }

    /// Returns true if no body waits to be sent.
    fn is_sent(&self) -> bool {
        let plan = self.plan();
        [BodyState::Waiting, BodyState::Pushing]
            .iter()
            .all(|state| plan.bodies(*state) == 0)
    }

    // The following methods serve pushes.

    pub(super) fn content_type(&self, entry: u32) -> Option<String> {
        let plan = self.plan();
        let headers = &plan.get(entry)?.answered()?.headers;
        headers
            .get(header::CONTENT_TYPE)?
            .to_str()
            .ok()
            .map(str::to_owned)
    }

    /// Delta key of an entry's response.
    pub(super) fn subject(&self, entry: u32) -> Option<DeltaKey> {
        lock(&self.subjects).get(&entry).cloned()
    }

    /// Audience of an entry's body.
    pub(super) fn audience(&self, entry: u32) -> Audience {
        if lock(&self.public).contains(&entry) {
            Audience::Everybody
        } else {
            Audience::Asker
        }
    }

    /// Returns false if a body that has grown to `length` bytes exceeds its limits.
    pub(super) fn grown(&self, entry: u32, length: u64, by: u64) -> bool {
        self.plan().grown(entry, length, by)
    }

    pub(super) fn push_ended(&self, entry: u32, bytes: u64, state: BodyState) {
        self.plan().pushed(entry, bytes, state);
        self.wake();
    }

    /// Records that the agent has acknowledged the whole body of an entry.
    pub(super) async fn delivered(&self, entry: u32) {
        self.push_ended(entry, 0, BodyState::Delivered);
        let stored = {
            let plan = self.plan();
            plan.get(entry).and_then(|entry| {
                let answered = entry.answered()?;
                policy::agent_stores(answered.status, &answered.headers)
                    .then_some((entry.hash?, entry.length))
            })
        };
        if let Some((hash, length)) = stored {
            let partition = lock(&self.partitions).get(&entry).cloned();
            self.context.mirror.add(partition.as_ref(), vec![hash]).await;
            let subject = self.subject(entry);
            if let (Some(subject), Some(length)) = (subject, length) {
                self.context.bases.learn(&subject, hash, length).await;
            }
        }
    }
}
