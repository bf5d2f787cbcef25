//! The browser's requests for objects of a page load.
use http::{HeaderMap, header};
use longhaul_gateway_core::{admin::page_load_refusal::Refusal, wall_clock::now};
use longhaul_http::request_context::identity_key;
use longhaul_page::{
    Destination, Reference, Relation, RequestChain,
    learn::{LearnedRef, RequestForm},
    predict::{destination_of, sends_cookies},
};
use longhaul_session::EntryId;
use url::Url;

use super::{event::BrowserRequest, state::LoadState};
use crate::{plan::Match, publicity::Disclosure, unplanned_answer::UnplannedAnswer};

/// Maximum number of URLs in [`LoadState::requested_first`]; objects of further URLs may be pushed although they were
/// requested.
const MAX_REQUESTED_FIRST: usize = 1000;

impl LoadState {
    /// Handles a request for an object: it waits for the head of its entry. A request that no entry matches
    /// is learned and gets no reply.
    pub(super) fn request(&mut self, request: BrowserRequest) {
        let BrowserRequest { url, headers, .. } = &request;
        let Some(entry) = self.plan.find(url.as_str()) else {
            match self.unplanned(url, headers) {
                Ok((asked, disclosure)) => {
                    if self.requested_first.len() < MAX_REQUESTED_FIRST {
                        self.requested_first.insert(url.clone());
                    }
                    self.learned.unplanned(asked, disclosure);
                }
                Err(reason) => self.context().counters().refused().add(reason, 1),
            }
            return;
        };
        if let Some(found) = self.plan.get(entry) {
            self.context().observe(url, found.reference.destination, headers);
        }
        self.browser_waits(&[entry]);
        self.waiting_requests.push((entry, request));
    }

    /// Returns true if the browser has requested an object itself before a reference to it was found: a push would carry
    /// it a second time. Documents and style sheets are planned in any case, because they are searched for references.
    pub(super) fn is_on_its_way(&self, reference: &Reference) -> bool {
        let destination = reference.destination;
        let is_searched = destination.is_document() || destination == Destination::Style;
        !is_searched && self.requested_first.contains(&reference.url)
    }

    /// Records the response to a request that no entry answers.
    pub(super) fn unplanned_answered(&mut self, answer: &UnplannedAnswer) {
        let Some(form) = self.learned.answered(answer) else {
            return;
        };
        let chain = RequestChain::document(self.document.clone());
        // Without credentials, the browser also ignores the response's cookies (Fetch, `Set-Cookie`).
        if sends_cookies(form.cross_origin, &answer.url, &chain) {
            self.jar.store(&answer.url, &answer.cookies, Some(&chain), now());
        }
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

    /// The part of an unplanned request that is learned, and what its credentials permit; the reason if the request
    /// teaches nothing.
    fn unplanned(&self, url: &Url, request: &HeaderMap) -> Result<(LearnedRef, Disclosure), Refusal> {
        let mut destination = destination_of(url, request);
        // A request of the page for a document, which does not name its destination.
        if destination == Destination::Document {
            destination = Destination::Frame;
        }
        if !self.names_page(url, request) {
            return Err(Refusal::Requester);
        }
        let page = &self.document;
        let form = RequestForm::of(page, url, destination, request).ok_or(Refusal::Mode)?;
        // The page's own request would have carried the page's cookies: a request without them comes from a
        // frame in a frame.
        let reference = Reference {
            cross_origin: form.cross_origin,
            ..Reference::new(url.clone(), destination)
        };
        let chain = RequestChain::document(page.clone());
        let observed = self.context().observed();
        let own = self
            .predictor
            .predict(&reference, &chain, &observed.templates, &self.jar, now());
        drop(observed);
        if own.fields.contains_key(header::COOKIE) && !request.contains_key(header::COOKIE) {
            return Err(Refusal::Requester);
        }
        let disclosure = if identity_key(request) == identity_key(&own.fields) {
            Disclosure::PublicWords
        } else {
            Disclosure::Never(Refusal::Credentials)
        };
        let asked = LearnedRef {
            url: url.clone(),
            destination,
            form,
        };
        Ok((asked, disclosure))
    }

    /// Returns true if a browser request that no entry answers states that the page's own document made it. Requests
    /// of frames, and of frames within frames, must not be planned as the page's.
    fn names_page(&self, url: &Url, request: &HeaderMap) -> bool {
        let text = |name: &str| request.get(name).and_then(|value| value.to_str().ok());
        let relation = self.document.relation(url);
        let declared_relation = text("sec-fetch-site");
        if declared_relation.is_some_and(|declared| declared != relation.name()) {
            return false;
        }
        match text(header::ORIGIN.as_str()).or_else(|| text(header::REFERER.as_str())) {
            Some(declared) => self.is_of_page(declared),
            // Only a document of the same origin sends such a request; a cross-site request carries no
            // cookies, whoever makes it.
            None => match relation {
                Relation::SameOrigin => declared_relation.is_some(),
                Relation::SameSite => false,
                Relation::CrossSite => true,
            },
        }
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
