//! The state of a page load. It belongs to the page load's task alone, so it needs no lock.
use std::{collections::BTreeSet, sync::Arc};

use http::{HeaderMap, HeaderValue, header};
use longhaul_gateway_core::{failure::Failure, wall_clock::now};
use longhaul_http::{policy, site::host_of_url};
use longhaul_page::{
    Certainty, Destination, Initiator, Markup, Reference, ReferrerPolicy, jar::Jar, predict::Predictor,
};
use longhaul_session::{EntryId, Used, Withdrawal};
use longhaul_types::ContentHash;
use longhaul_webcache::BodyReader;
use url::Url;

use super::{
    PageLoad,
    event::{BrowserRequest, EntryRequest},
    initiators::Frames,
};
use crate::{
    context::PageLoadContext,
    learned::{self, LearnedPlan, Seen, VisitResult},
    memory::ManifestMemory,
    plan::{
        Answer, AnswerBody, Arrival, HostState, Placement, Plan, PlanEntry, PlanLimits, PredictedCookies,
    },
    push_body::PushBody,
};

/// The state of a page load.
pub(crate) struct LoadState {
    pub(super) load: Arc<PageLoad>,
    pub(super) plan: Plan,
    /// The document that the browser displays.
    pub(super) document: Initiator,
    pub(super) frames: Frames,
    pub(super) jar: Jar,
    pub(super) learned: LearnedPlan,
    /// Markup of the page's own document; `None` for a redirect.
    pub(super) markup: Option<Markup>,
    /// The browser's requests that wait for the heads of their entries.
    pub(super) waiting_requests: Vec<(EntryId, BrowserRequest)>,
    /// URLs that the page's own document requested before anything planned them.
    pub(super) requested_first: BTreeSet<Url>,
    pub(super) predictor: Predictor,
    /// URL of the browser's request for the page.
    pub(super) request_url: Url,
    /// Fields of the browser's request for the page.
    pub(super) request: HeaderMap,
    /// `Via` as the gateway sends it.
    pub(super) via: Option<HeaderValue>,
}

/// Arguments of a new page load.
pub(crate) struct PageStart<'a> {
    pub(crate) url: Url,
    /// The document in the response.
    pub(crate) initiator: Initiator,
    /// Fields of the browser's request.
    pub(crate) browser: &'a HeaderMap,
    /// Fields of the request that the origin received.
    pub(crate) sent: &'a HeaderMap,
    /// Fields of the response.
    pub(crate) response: &'a HeaderMap,
    /// The page's previous manifest, if the agent also has it.
    pub(crate) base: Option<&'a ManifestMemory>,
    /// The learned plan.
    pub(crate) learned: LearnedPlan,
}

impl LoadState {
    pub(crate) fn new(load: Arc<PageLoad>, start: PageStart<'_>) -> Self {
        let PageStart {
            url,
            initiator,
            browser,
            sent,
            response,
            base,
            learned,
        } = start;
        let previous_hashes = base.map(|base| base.hashes.clone()).unwrap_or_default();
        let mut jar = Jar::new(&url, browser, &load.context.observed().cookie_paths);
        jar.store(&url, response, None, now());
        Self {
            load,
            document: initiator,
            frames: Frames::default(),
            jar,
            learned,
            markup: None,
            waiting_requests: Vec::new(),
            requested_first: BTreeSet::new(),
            predictor: Predictor::new(browser),
            request_url: url.clone(),
            request: browser.clone(),
            via: sent.get(header::VIA).cloned(),
            plan: Plan::new(url, PlanLimits::default(), previous_hashes),
        }
    }

    pub(super) fn context(&self) -> &PageLoadContext {
        &self.load.context
    }

    /// Sets the markup, which grows while the page's document arrives.
    pub(crate) fn set_markup(&mut self, markup: Markup) {
        self.markup = Some(markup);
    }

    /// Plans the target of the page's redirect, which is its only entry.
    pub(crate) fn plan_redirect(&mut self, document: Reference) {
        self.found([document], None);
        self.plan.page_searched();
    }

    /// Plans the objects that scripts loaded in earlier visits.
    pub(crate) fn plan_extras(&mut self) {
        let extras = self.learned.extras(now());
        self.found(extras, None);
    }

    /// Plans what scripts load of the URLs that stand in the page's document, which is the response of `document` (`None`:
    /// the page's own).
    pub(super) fn literals(&mut self, urls: Vec<Url>, document: Option<EntryId>) {
        let extras = self.learned.literals(urls, now());
        self.found(extras, document);
    }

    /// Plans what scripts loaded on devices that got the same body, which is the response of `entry` (`None`: the page's
    /// own).
    pub(super) fn body_complete(&mut self, hash: &ContentHash, entry: Option<EntryId>) {
        let extras = self.learned.body_complete(hash, now());
        // The document that refers to the body makes the requests of its scripts.
        let document = entry.and_then(|entry| self.plan.get(entry)?.referrer);
        self.found(extras, document);
    }

    /// Continues with the learned plan of the page to which the page redirected, whose document is the response of
    /// `entry`.
    pub(super) fn follow_redirect(&mut self, entry: EntryId, learned: LearnedPlan) {
        self.learned.redirected(learned);
        let extras = self.learned.extras(now());
        self.found(extras, Some(entry));
    }

    /// Plans the references of `referrer` (`None`: the page) that its document would fetch.
    pub(crate) fn found(
        &mut self,
        references: impl IntoIterator<Item = Reference>,
        referrer: Option<EntryId>,
    ) {
        let Some(chain) = self.chain_behind(referrer, Arrival::Referenced) else {
            return;
        };
        let references = references.into_iter();
        let admitted = references
            .filter_map(|reference| chain.initiator.admit(reference, 0))
            .map(|reference| Reference {
                // The page's style sheets override nothing in other documents.
                is_inline_background: reference.is_inline_background && referrer.is_none(),
                ..reference
            });
        let admitted: Vec<Reference> = admitted.collect();
        for frame in admitted
            .iter()
            .filter(|found| found.destination == Destination::Frame)
        {
            self.frames.display(frame, &chain.initiator);
        }
        let sheets = self.sheets_of_page(&admitted, referrer);
        let planned = self.worth_planning(admitted);
        self.plan.found(planned, referrer);
        self.require_planned(&sheets);
    }

    /// Plans the target of an entry's redirect, with the redirect's referrer policy.
    pub(super) fn redirected(&mut self, target: Reference, from: EntryId, policy: Option<ReferrerPolicy>) {
        let chain = self.chain_behind(Some(from), Arrival::Redirected(policy));
        let admitted = chain.and_then(|chain| chain.initiator.admit(target, chain.redirects.len()));
        let sheets = self.sheets_of_page(admitted.as_slice(), Some(from));
        for target in self.worth_planning(admitted) {
            self.plan.redirected(target, from, policy);
        }
        self.require_planned(&sheets);
    }

    /// Filters the references that are worth planning.
    fn worth_planning(&self, references: impl IntoIterator<Item = Reference>) -> Vec<Reference> {
        let now = now();
        references
            .into_iter()
            .filter(|reference| reference.certainty != Certainty::Unlikely)
            .filter(|reference| self.context().takes(&reference.url))
            .filter(|reference| self.shows_pictures() || !reference.destination.is_picture())
            .filter(|reference| !self.learned.is_suppressed(&reference.url, now))
            .filter(|reference| !self.is_on_its_way(reference))
            .collect()
    }

    /// Returns true if images are planned: at image level text only if the page was requested with
    /// `no-cache`.
    fn shows_pictures(&self) -> bool {
        let page_host = host_of_url(self.request_url.as_str());
        self.context().shows_pictures(page_host) || policy::reload(&self.request) == policy::Reload::Bypass
    }

    /// Stores the cookies of an entry's response for later requests. Returns the entry's request.
    pub(super) fn responded(&mut self, entry: EntryId, cookies: &HeaderMap) -> Option<EntryRequest> {
        let chain = self.chain(entry);
        let found = self.plan.get(entry)?;
        let reference = &found.reference;
        let is_document = reference.destination == Destination::Document;
        if found.cookies == PredictedCookies::Complete && (is_document || chain.is_some()) {
            let chain = chain.as_ref().filter(|_| !is_document);
            self.jar.store(&reference.url, cookies, chain, now());
        }
        let (reference, cookies) = (reference.clone(), found.cookies);
        let is_text = !is_document && learned::is_text(reference.destination);
        Some(EntryRequest {
            previous_hash: self.plan.previous_hash(&reference.url).copied(),
            awaits_body: is_text && self.learned.awaits_bodies() && self.plan.await_body(entry),
            reference,
            cookies,
            chain,
        })
    }

    /// Adds the head of an entry's response.
    pub(super) fn answered(&mut self, entry: EntryId, answer: Answer) {
        // A document that is still arriving is searched during its push.
        let is_searched = match &answer.body {
            AnswerBody::None => true,
            AnswerBody::Complete { source, .. } | AnswerBody::Arriving { source, .. } => {
                !matches!(source, PushBody::Document(_))
            }
        };
        if is_searched && !answer.awaits_body {
            self.plan.entry_searched(entry);
        }
        let context = Arc::clone(&self.load.context);
        let partition = answer.partition.clone();
        let holds = |hash: &ContentHash| context.holds(partition.as_ref(), hash);
        let (origin_size, is_from_cache) = (answer.origin_size.clone(), answer.is_from_cache);
        let was_open = self.plan.get(entry).is_some_and(PlanEntry::is_open);
        let placement = self.plan.answered(entry, answer, holds);
        let answered = self.plan.get(entry).and_then(PlanEntry::answered);
        let is_pushed = placement != Placement::Nothing;
        // An entry that neither an origin nor the hop carried costs nothing and saves nothing, unless the
        // browser uses it, which the agent counts.
        if was_open && answered.is_some() && (is_pushed || !is_from_cache) {
            let reports = &self.context().origin_reports;
            reports.entry_answered(&origin_size);
            if !is_pushed {
                reports.entry_unchanged(self.load.id, entry, &origin_size);
            }
        }
        match placement {
            Placement::Push | Placement::NoBody => {}
            Placement::PushForBoth | Placement::Nothing => self.context().counters().held(),
        }
    }

    /// Ends an entry whose fetch failed. An agent that knows no records of failures asks again for the browser.
    pub(super) fn failed(&mut self, entry: EntryId, failure: &Failure) {
        if !self.context().tells_failures() {
            return self.plan.withdraw(entry, Withdrawal::Failed);
        }
        let Failure { reason, detail } = failure;
        if self.plan.fail(entry, *reason, detail) == HostState::NewlyAbsent {
            self.context().counters().absent_host();
        }
    }

    /// Pushes a body again, unless the limit of repetitions is reached.
    pub(super) fn push_again(&mut self, entry: EntryId, body: BodyReader) {
        self.plan.want(entry, PushBody::Again(body));
    }

    /// CHK of an answered entry's body.
    pub(super) fn hash_of(&self, entry: EntryId) -> Option<ContentHash> {
        let found = self.plan.get(entry).filter(|found| found.answered().is_some())?;
        found.hash
    }

    /// Learns from the entries that the browser used.
    pub(super) fn used(&mut self, used: Option<&Used>) -> VisitResult {
        if let Some(used) = used {
            self.context().counters().taken(self.plan.taken(used));
        }
        let seen = Seen {
            used,
            cookies: self.jar.values().map(<[u8]>::to_vec).collect(),
            unstored: self.load.parsers.take_words(),
        };
        self.learned.learn(&self.plan, seen, now())
    }
}
