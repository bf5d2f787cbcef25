//! A page load: what its tasks share.
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
use longhaul_http::policy;
use longhaul_page::{
    Certainty, Destination, Initiator, Reference, ReferrerPolicy, jar::Jar, predict::Predictor,
};
use longhaul_protocol::session::{Record, Used, Withdrawal, keepable};
use tokio::sync::watch;
use url::Url;

pub(super) use self::{drive::drive, subresource::redirection, tap::PageTap};
use self::{initiators::Initiators, sheets::Sheets};
use super::{
    context::{BundleContext, lock, now},
    learned::{self, LearnedPlan},
    manifest::ManifestWriter,
    memory::ManifestMemory,
    mirror::short,
    plan::{Arrival, BodyState, Match, Plan, PlanLimits},
    publicity::Publicity,
    push::PushBody,
};
use crate::{asker::Asker, bases::Subject, coded::Audience, fetch::Promise, store::BodyReader};

/// One page load.
pub(crate) struct PageLoad {
    context: Arc<BundleContext>,
    id: u64,
    /// Who asked for the page.
    asker: Asker,
    plan: Mutex<Plan>,
    /// `None` when the manifest has ended, or nobody reads it.
    manifest: tokio::sync::Mutex<Option<ManifestWriter>>,
    /// Its decoded bytes, once it has ended.
    written: OnceLock<Vec<u8>>,
    /// Bodies that wait to be pushed.
    bodies: Mutex<BTreeMap<u32, PushBody>>,
    /// Entries whose bodies the agent wants and the cache has lost.
    missing: Mutex<BTreeSet<u32>>,
    /// For which partitions the answered entries were fetched.
    partitions: Mutex<BTreeMap<u32, Partition>>,
    /// What the answered entries are about, for the choice of their bases.
    subjects: Mutex<BTreeMap<u32, Subject>>,
    /// The answered entries that every device may get.
    public: Mutex<BTreeSet<u32>>,
    /// Where the classes of open pushes are changed.
    classes: Mutex<BTreeMap<u32, watch::Sender<u8>>>,
    jar: Mutex<Jar>,
    learned: Mutex<LearnedPlan>,
    sheets: Mutex<Sheets>,
    initiators: Mutex<Initiators>,
    predictor: Predictor,
    /// The page as the browser asked for it.
    asked: Url,
    /// The browser's request for the page.
    request: HeaderMap,
    /// `Via` as the gateway sends it.
    via: Option<HeaderValue>,
    /// Changes whenever the plan does.
    changed: watch::Sender<u64>,
}

/// What a page load begins with.
pub(super) struct PageStart<'a> {
    pub(super) id: u64,
    pub(super) url: Url,
    /// The document that the response is.
    pub(super) initiator: Initiator,
    pub(super) asker: Asker,
    /// The browser's request.
    pub(super) browser: &'a HeaderMap,
    /// The request as the origin got it.
    pub(super) sent: &'a HeaderMap,
    /// The response's fields.
    pub(super) response: &'a HeaderMap,
    /// The last manifest, if the agent has it, too.
    pub(super) base: Option<ManifestMemory>,
    /// What earlier visits taught.
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

    /// Who asked for the page.
    pub(super) const fn asker(&self) -> &Asker {
        &self.asker
    }

    pub(super) fn context(&self) -> &BundleContext {
        &self.context
    }

    pub(super) fn plan(&self) -> MutexGuard<'_, Plan> {
        lock(&self.plan)
    }

    /// Lets the page load's task look at the plan.
    fn wake(&self) {
        self.changed
            .send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// Plans what `referrer` (`None`: the page) refers to, as far as its document fetches it.
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

    /// Plans what an entry redirects to, with this referrer policy.
    fn redirected(&self, target: Reference, from: u32, policy: Option<ReferrerPolicy>) {
        let cause = self.cause_behind(Some(from), Arrival::Redirected(policy));
        let admitted = cause.and_then(|cause| cause.initiator.admit(target, cause.redirects.len()));
        for target in self.wanted(admitted) {
            self.plan().redirected(target, from, policy);
        }
        self.wake();
    }

    /// What of these is worth planning.
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

    /// Whether its user wants to see pictures: at the level of text only those of a page that was reloaded for them.
    fn shows_pictures(&self) -> bool {
        self.context.shows_pictures() || policy::reload(&self.request) == policy::Reload::Bypass
    }

    /// Plans what scripts of the page loaded before.
    pub(super) fn plan_extras(&self) {
        let extras = lock(&self.learned).extras(now());
        self.found(extras, None);
    }

    /// Returns when all records so far are on the manifest's stream.
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
        // Taken out meanwhile: were this future dropped in between, what was sent would not be known.
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

    /// Keeps the manifest, with the hashes that are known by now, as the next one's base.
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
        // What was written here can be read.
        if let Ok(bytes) = keepable(bytes) {
            let memory = ManifestMemory { bytes, hashes };
            memory.store(cache, &partition, &page).await;
        }
    }

    /// Whether an entry answers a request of the browser; waits for the entry's head.
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

    /// What no entry answered has an answer.
    pub(super) fn unplanned_answered(&self, url: &Url, publicity: Publicity) {
        lock(&self.learned).answered(url, publicity);
    }

    /// The browser asked for these.
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

    /// The agent does not have an entry's body.
    pub(super) async fn want(&self, entry: u32) {
        self.context.counters().wanted();
        let hash = {
            let plan = self.plan();
            let found = plan.get(entry).filter(|found| found.answered().is_some());
            found.and_then(|found| found.hash)
        };
        if let Some(hash) = hash {
            self.context.mirror.remove(&[short(&hash)]).await;
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

    /// Pushes a body once more, if that was not done too often.
    fn push_again(&self, entry: u32, body: BodyReader) {
        lock(&self.bodies).insert(entry, PushBody::Again(body));
        self.plan().want(entry);
        self.wake();
    }

    /// The page load is over: what the browser took.
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

    /// Nothing more is fetched or sent.
    pub(super) fn abandon(&self) {
        self.plan().abandon();
        lock(&self.bodies).clear();
        lock(&self.missing).clear();
        lock(&self.classes).clear();
        // Where somebody writes to it at this moment, it ends with the page load.
        if let Ok(mut manifest) = self.manifest.try_lock() {
            *manifest = None;
        }
        self.wake();
    }

    /// Whether no body waits to be sent.
    fn is_sent(&self) -> bool {
        let plan = self.plan();
        [BodyState::Waiting, BodyState::Pushing]
            .iter()
            .all(|state| plan.bodies(*state) == 0)
    }

    // What follows is for pushes.

    pub(super) fn content_type(&self, entry: u32) -> Option<String> {
        let plan = self.plan();
        let headers = &plan.get(entry)?.answered()?.headers;
        headers
            .get(header::CONTENT_TYPE)?
            .to_str()
            .ok()
            .map(str::to_owned)
    }

    /// What an entry's body may have a base among.
    pub(super) fn subject(&self, entry: u32) -> Option<Subject> {
        lock(&self.subjects).get(&entry).cloned()
    }

    /// Who may get an entry's body.
    pub(super) fn audience(&self, entry: u32) -> Audience {
        if lock(&self.public).contains(&entry) {
            Audience::Everybody
        } else {
            Audience::Asker
        }
    }

    /// Whether a body that has grown to `length` may go on.
    pub(super) fn grown(&self, entry: u32, length: u64, by: u64) -> bool {
        self.plan().grown(entry, length, by)
    }

    pub(super) fn push_ended(&self, entry: u32, bytes: u64, state: BodyState) {
        self.plan().pushed(entry, bytes, state);
        self.wake();
    }

    /// The agent has all of an entry's body.
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
