//! Initiators of a page load: the documents that make its requests, namely the page's and those of its
//! frames.
use std::collections::BTreeMap;

use longhaul_page::{Destination, Initiator, Reference, ReferrerPolicy, RequestChain, Sandbox};
use longhaul_session::EntryId;
use url::Url;

use super::state::LoadState;
use crate::plan::{Arrival, ReferenceSource};

/// Maximum number of remembered frames; the heaviest pages have some dozens.
const MAX_FRAMES: usize = 256;

/// The frames of a page load: embedding document and sandbox by the frame's URL, planned or not.
#[derive(Default)]
pub(super) struct Frames(BTreeMap<Url, (Initiator, Sandbox)>);

impl Frames {
    /// Records that a document displays a frame.
    pub(super) fn display(&mut self, frame: &Reference, parent: &Initiator) {
        if let Some((_, sandbox)) = self.0.get_mut(&frame.url) {
            *sandbox = sandbox.and(frame.sandbox);
        } else if self.0.len() < MAX_FRAMES {
            let place = (parent.clone(), frame.sandbox);
            self.0.insert(frame.url.clone(), place);
        }
    }

    /// The document that displays a URL in a frame, with the frame's sandbox.
    pub(super) fn at(&self, url: &Url) -> Option<(Initiator, Sandbox)> {
        self.0.get(url).cloned()
    }
}

impl LoadState {
    /// Request chain of the browser's request for an entry.
    pub(super) fn chain(&self, entry: EntryId) -> Option<RequestChain> {
        let found = self.plan.get(entry)?;
        self.chain_behind(found.referrer, found.arrival)
    }

    /// Request chain of the browser's request for something that `referrer` (`None`: the page) refers to or, by
    /// `arrival`, redirects to. `None` if no known document makes the request.
    pub(super) fn chain_behind(&self, referrer: Option<EntryId>, arrival: Arrival) -> Option<RequestChain> {
        let mut chain = RequestChain::document(self.document.clone());
        let (mut at, mut arrival) = (referrer, arrival);
        // Terminates, because a referrer always precedes its references.
        while let Some(number) = at {
            let entry = self.plan.get(number)?;
            match (arrival, entry.reference.destination) {
                (Arrival::Redirected(policy), _) => {
                    // Redirects before a style sheet do not apply to the sheet's own references.
                    if chain.sheet.is_none() {
                        chain.redirects.push(entry.reference.url.clone());
                        chain.redirect_policy = chain.redirect_policy.or(policy);
                    }
                }
                (Arrival::Referenced, Destination::Document | Destination::Frame) => {
                    let ReferenceSource::Document(document) = &entry.source else {
                        return None;
                    };
                    chain.initiator = document.clone();
                    break;
                }
                (Arrival::Referenced, Destination::Style) => {
                    if chain.sheet.is_none() {
                        chain.sheet = Some((entry.reference.url.clone(), entry.source.sheet_policy()));
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
        chain.redirects.reverse();
        Some(chain)
    }

    /// Records the document in an entry's response, whose references are planned.
    pub(super) fn document_arrives(&mut self, entry: EntryId, document: Initiator) {
        let Some(found) = self.plan.get_mut(entry) else {
            return;
        };
        if found.reference.destination == Destination::Document {
            self.document = document.clone();
        }
        found.source = ReferenceSource::Document(document);
    }

    /// Records the referrer policy of a style sheet whose references are planned.
    pub(super) fn style_sheet_arrives(&mut self, entry: EntryId, policy: Option<ReferrerPolicy>) {
        if let Some(found) = self.plan.get_mut(entry) {
            found.source = ReferenceSource::StyleSheet {
                policy,
                pending: longhaul_page::PendingReferences::default(),
            };
        }
    }
}
