//! The browser's requests for objects of a page load.
use http::{HeaderMap, header};
use longhaul_page::{Destination, Reference, Relation, RequestChain};
use longhaul_session::EntryId;
use url::Url;

use super::{event::BrowserRequest, state::LoadState};
use crate::pageload::{context::now, learned, plan::Match, refusal::Refusal};

impl LoadState {
    /// Handles a request for an object: it waits for the head of its entry. A request that no entry matches
    /// is learned and gets no reply.
    pub(super) fn request(&mut self, request: BrowserRequest) {
        let BrowserRequest { url, headers, .. } = &request;
        let Some(entry) = self.plan.find(url.as_str()) else {
            let destination = learned::destination(url, headers);
            if self.is_made_by_page(url, headers, destination) {
                self.learned.unplanned(url, destination);
            } else {
                self.context().counters().refused().add(Refusal::Requester, 1);
            }
            return;
        };
        if let Some(found) = self.plan.get(entry) {
            self.context().observe(url, found.reference.destination, headers);
        }
        self.browser_waits(&[entry]);
        self.waiting_requests.push((entry, request));
    }

    /// Records that the browser waits for these entries.
    pub(super) fn browser_waits(&mut self, entries: &[EntryId]) {
        for (entry, class) in self.plan.requested(entries) {
            self.plan.set_push_class(entry, class);
        }
    }

    /// Replies to the requests whose entries have heads or are withdrawn.
    pub(super) fn answer_requests(&mut self) {
        for (entry, request) in std::mem::take(&mut self.waiting_requests) {
            // A response that answers one request only must not be used up by a cancelled request.
            if request.reply.is_closed() {
                continue;
            }
            match self.plan.promise(entry, &request.headers) {
                Match::Promised => {
                    let _cancelled = request.reply.send(entry);
                }
                Match::No => {}
                Match::Later => self.waiting_requests.push((entry, request)),
            }
        }
    }

    /// Returns true if the page's own document made a browser request that no entry answers. Requests of
    /// frames, and of frames within frames, must not be planned as the page's.
    fn is_made_by_page(&self, url: &Url, request: &HeaderMap, destination: Destination) -> bool {
        let page = &self.document;
        let text = |name: &str| request.get(name).and_then(|value| value.to_str().ok());
        let relation = page.relation(url);
        let declared_relation = text("sec-fetch-site");
        if declared_relation.is_some_and(|declared| declared != relation.name()) {
            return false;
        }
        let is_named = match text(header::ORIGIN.as_str()).or_else(|| text(header::REFERER.as_str())) {
            Some(declared) => self.is_of_page(declared),
            // Only a document of the same origin sends such a request; a cross-site request carries no
            // cookies, whoever makes it.
            None => match relation {
                Relation::SameOrigin => declared_relation.is_some(),
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
        let chain = RequestChain::document(page.clone());
        let observed = self.context().observed();
        let own = self
            .predictor
            .predict(&reference, &chain, &observed.templates, &self.jar, now());
        !own.fields.contains_key(header::COOKIE) || request.contains_key(header::COOKIE)
    }

    /// Returns true if an origin or referrer is that of the page or of one of its style sheets.
    fn is_of_page(&self, declared: &str) -> bool {
        let Ok(declared) = Url::parse(declared) else {
            return false;
        };
        if declared.origin() == self.document.url().origin() {
            return true;
        }
        let sheet = self.plan.find(declared.as_str());
        sheet
            .filter(|entry| self.plan.is_of_page(*entry))
            .and_then(|entry| self.plan.get(entry))
            .is_some_and(|entry| entry.reference.destination == Destination::Style)
    }
}
