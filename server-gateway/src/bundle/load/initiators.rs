//! Who makes the requests of a page load: its page's document, and those of its frames.
use std::collections::BTreeMap;

use http::{HeaderMap, header};
use longhaul_page::{Cause, Destination, Initiator, Reference, ReferrerPolicy, Relation, Sandbox};
use url::Url;

use super::PageLoad;
use crate::bundle::{
    context::{lock, now},
    plan::{Arrival, Plan},
};

/// Frames whose places are remembered; the heaviest pages have some dozens.
const MAX_FRAMES: usize = 256;

/// The documents of a page load. Locked behind the plan.
pub(super) struct Initiators {
    page: Initiator,
    /// Those that are looked through, by entry.
    documents: BTreeMap<u32, Initiator>,
    /// The referrer policies of style sheets that are looked through, by entry.
    sheets: BTreeMap<u32, Option<ReferrerPolicy>>,
    /// The documents that display frames, and what these take away, by the frame's URL: planned or not.
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

    /// A document displays a frame.
    pub(super) fn display(&mut self, frame: &Reference, parent: &Initiator) {
        if let Some((_, sandbox)) = self.frames.get_mut(&frame.url) {
            *sandbox = sandbox.and(frame.sandbox);
        } else if self.frames.len() < MAX_FRAMES {
            let place = (parent.clone(), frame.sandbox);
            self.frames.insert(frame.url.clone(), place);
        }
    }

    /// Why the browser fetches what `referrer` (`None`: the page) leads to. `None` if no document is known to do so.
    fn cause(&self, plan: &Plan, referrer: Option<u32>, arrival: Arrival) -> Option<Cause> {
        let mut cause = Cause::document(self.page.clone());
        let (mut at, mut arrival) = (referrer, arrival);
        // Referrers precede what they refer to, so this ends.
        while let Some(number) = at {
            let entry = plan.get(number)?;
            match (arrival, entry.reference.destination) {
                (Arrival::Redirected(policy), _) => {
                    // What redirected to a style sheet is none of what the sheet refers to.
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

    /// The document that displays a URL in a frame, and what the frame takes away.
    pub(in crate::bundle) fn frame_at(&self, url: &Url) -> Option<(Initiator, Sandbox)> {
        lock(&self.initiators).frames.get(url).cloned()
    }

    /// Why the browser fetches an entry.
    pub(super) fn cause(&self, entry: u32) -> Option<Cause> {
        let plan = self.plan();
        let found = plan.get(entry)?;
        lock(&self.initiators).cause(&plan, found.referrer, found.arrival)
    }

    /// Why the browser fetches what `referrer` refers to or, if `arrival` says so, redirects to.
    pub(super) fn cause_behind(&self, referrer: Option<u32>, arrival: Arrival) -> Option<Cause> {
        let plan = self.plan();
        lock(&self.initiators).cause(&plan, referrer, arrival)
    }

    /// A response that is a document: who makes the requests for what it refers to. `None` if nothing of it is planned.
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

    /// A response that is a style sheet which is looked through.
    pub(super) fn style_sheet(&self, entry: u32, headers: &HeaderMap) {
        let policy = ReferrerPolicy::of_response(headers);
        lock(&self.initiators).sheets.insert(entry, policy);
    }

    /// Whether the page's own document made a request of the browser that no entry answers: what its frames ask for, and
    /// what the frames of these, must not be planned as the page's.
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
            // No document of another origin can ask like this; to other sites no cookies go, whoever asks.
            None => match relation {
                Relation::SameOrigin => told_relation.is_some(),
                Relation::SameSite => false,
                Relation::CrossSite => true,
            },
        };
        if !is_named {
            return false;
        }
        // The page's own request would have had its cookies: one without them comes from a frame in a frame.
        let reference = Reference::new(url.clone(), destination);
        let cause = Cause::document(page);
        let (templates, jar) = (self.context.templates(), lock(&self.jar));
        let own = self
            .predictor
            .predict(&reference, &cause, &templates, &jar, now());
        !own.fields.contains_key(header::COOKIE) || request.contains_key(header::COOKIE)
    }

    /// Whether an origin or referrer is the page's, or that of one of its style sheets.
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
