//! Initiators of a page load: the documents that make its requests, namely the page's and those of its
//! frames.
use std::collections::BTreeMap;

use http::{HeaderMap, header};
use longhaul_page::{Cause, Destination, Initiator, Reference, ReferrerPolicy, Relation, Sandbox};
use url::Url;

use super::PageLoad;
use crate::bundle::{
    context::{lock, now},
    plan::{Arrival, Plan},
};

/// Maximum number of remembered frames; the heaviest pages have some dozens.
const MAX_FRAMES: usize = 256;

/// The documents of a page load. Lock order: after the plan.
pub(super) struct Initiators {
    page: Initiator,
    /// Parsed documents, by entry.
    documents: BTreeMap<u32, Initiator>,
    /// Referrer policies of parsed style sheets, by entry.
    sheets: BTreeMap<u32, Option<ReferrerPolicy>>,
    /// Embedding document and sandbox of each frame, by the frame's URL, planned or not.
    frames: BTreeMap<Url, (Initiator, Sandbox)>,
}

impl Initiators {
    pub(super) const fn new(page: Initiator) -> Self {
        Self {
            page,
            documents: BTreeMap::new(),
            sheets: BTreeMap::new(),
            frames: BTreeMap::new(),
        }
    }

    /// Records that a document displays a frame.
    pub(super) fn display(&mut self, frame: &Reference, parent: &Initiator) {
        if let Some((_, sandbox)) = self.frames.get_mut(&frame.url) {
            *sandbox = sandbox.and(frame.sandbox);
        } else if self.frames.len() < MAX_FRAMES {
            let place = (parent.clone(), frame.sandbox);
            self.frames.insert(frame.url.clone(), place);
        }
    }

    /// Cause of the browser's request for something that `referrer` (`None`: the page) leads to. `None` if no
    /// known document makes the request.
    fn cause(&self, plan: &Plan, referrer: Option<u32>, arrival: Arrival) -> Option<Cause> {
        let mut cause = Cause::document(self.page.clone());
        let (mut at, mut arrival) = (referrer, arrival);
        // Terminates, because a referrer always precedes its references.
        while let Some(number) = at {
            let entry = plan.get(number)?;
            match (arrival, entry.reference.destination) {
                (Arrival::Redirected(policy), _) => {
                    // Redirects before a style sheet do not apply to the sheet's own references.
                    if cause.sheet.is_none() {
                        cause.redirects.push(entry.reference.url.clone());
                        cause.redirect_policy = cause.redirect_policy.or(policy);
                    }
                }
                (Arrival::Referenced, Destination::Document | Destination::Frame) => {
                    cause.initiator = self.documents.get(&number)?.clone();
                    break;
                }
                (Arrival::Referenced, Destination::Style) => {
                    if cause.sheet.is_none() {
                        let policy = self.sheets.get(&number).copied().flatten();
                        cause.sheet = Some((entry.reference.url.clone(), policy));
                    }
                }
                (
                    Arrival::Referenced,
                    Destination::InactiveStyle
                    | Destination::Script
                    | Destination::Image
                    | Destination::Font
                    | Destination::Other
                    | Destination::Icon
                    | Destination::Manifest,
                ) => return None,
            }
            (at, arrival) = (entry.referrer, entry.arrival);
        }
        cause.redirects.reverse();
        Some(cause)
    }
}

impl PageLoad {
    /// The document that the browser displays.
    pub(in crate::bundle) fn page(&self) -> Initiator {
        lock(&self.initiators).page.clone()
    }

    /// The document that displays a URL in a frame, with the frame's sandbox.
    pub(in crate::bundle) fn frame_at(&self, url: &Url) -> Option<(Initiator, Sandbox)> {
        lock(&self.initiators).frames.get(url).cloned()
    }

    /// Cause of the browser's request for an entry.
    pub(super) fn cause(&self, entry: u32) -> Option<Cause> {
        let plan = self.plan();
        let found = plan.get(entry)?;
        lock(&self.initiators).cause(&plan, found.referrer, found.arrival)
    }

    /// Cause of the browser's request for something that `referrer` refers to or, by `arrival`, redirects to.
    pub(super) fn cause_behind(&self, referrer: Option<u32>, arrival: Arrival) -> Option<Cause> {
        let plan = self.plan();
        lock(&self.initiators).cause(&plan, referrer, arrival)
    }

    /// Returns the document in a response, as initiator of its references; `None` if its objects are not
    /// planned.
    pub(super) fn document(
        &self,
        entry: u32,
        reference: &Reference,
        headers: &HeaderMap,
    ) -> Option<Initiator> {
        let document = match reference.destination {
            Destination::Document => Some(Initiator::page(&reference.url, headers)),
            Destination::Frame => {
                let cause = self.cause(entry)?;
                cause.initiator.frame(&reference.url, headers, reference.sandbox)
            }
            Destination::Style
            | Destination::InactiveStyle
            | Destination::Script
            | Destination::Image
            | Destination::Font
            | Destination::Other
            | Destination::Icon
            | Destination::Manifest => None,
        }?;
        let mut initiators = lock(&self.initiators);
        if reference.destination == Destination::Document {
            initiators.page = document.clone();
        }
        initiators.documents.insert(entry, document.clone());
        Some(document)
    }

    /// Records the referrer policy of a style sheet that is parsed.
    pub(super) fn style_sheet(&self, entry: u32, headers: &HeaderMap) {
        let policy = ReferrerPolicy::of_response(headers);
        lock(&self.initiators).sheets.insert(entry, policy);
    }

    /// Returns true if the page's own document made a browser request that no entry answers. Requests of
    /// frames, and of frames within frames, must not be planned as the page's.
    pub(super) fn is_made_by_page(&self, url: &Url, request: &HeaderMap, destination: Destination) -> bool {
        let page = self.page();
        let text = |name: &str| request.get(name).and_then(|value| value.to_str().ok());
        let relation = page.relation(url);
        let told_relation = text("sec-fetch-site");
        if told_relation.is_some_and(|told| told != relation.name()) {
            return false;
        }
        let is_named = match text(header::ORIGIN.as_str()).or_else(|| text(header::REFERER.as_str())) {
            Some(told) => self.is_of_page(&page, told),
            // Only a document of the same origin sends such a request; a cross-site request carries no
            // cookies, whoever makes it.
            None => match relation {
                Relation::SameOrigin => told_relation.is_some(),
                Relation::SameSite => false,
                Relation::CrossSite => true,
            },
        };
        if !is_named {
            return false;
        }
        // The page's own request would have carried the page's cookies: a request without them comes from a
        // frame in a frame.
        let reference = Reference::new(url.clone(), destination);
        let cause = Cause::document(page);
        let (templates, jar) = (self.context.templates(), lock(&self.jar));
        let own = self
            .predictor
            .predict(&reference, &cause, &templates, &jar, now());
        !own.fields.contains_key(header::COOKIE) || request.contains_key(header::COOKIE)
    }

    /// Returns true if an origin or referrer is that of the page or of one of its style sheets.
    fn is_of_page(&self, page: &Initiator, told: &str) -> bool {
        let Ok(told) = Url::parse(told) else {
            return false;
        };
        if told.origin() == page.url().origin() {
            return true;
        }
        let plan = self.plan();
        let sheet = plan.find(told.as_str()).filter(|entry| plan.is_of_page(*entry));
        sheet
            .and_then(|entry| plan.get(entry))
            .is_some_and(|entry| entry.reference.destination == Destination::Style)
    }
}
