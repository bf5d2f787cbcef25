//! An entry of a plan.
use http::{HeaderMap, StatusCode};
use longhaul_cache::Partition;
use longhaul_delivery::DeltaKey;
use longhaul_page::{
    Destination, Initiator, PendingReferences, Reference, ReferrerPolicy,
    order::{self, Position},
};
use longhaul_session::{EntryId, Scope};
use longhaul_types::{ByteCount, ContentHash};
use longhaul_webcache::{Audience, OriginSize};

use super::{BodyState, ExpectedInitiator};

/// Class of a page behind a redirect: that of pages.
const DOCUMENT_CLASS: u8 = 1;

/// An object that the page needs.
pub(crate) struct PlanEntry {
    /// The reference that led to this entry.
    pub(crate) reference: Reference,
    /// The entry that refers to this entry; `None` for the page itself.
    pub(crate) referrer: Option<EntryId>,
    /// Kind of the link from the referrer.
    pub(crate) arrival: Arrival,
    /// Expected initiator of the browser's request.
    pub(crate) initiator: ExpectedInitiator,
    /// Completeness of the predicted request's cookies.
    pub(crate) cookies: PredictedCookies,
    /// Position of the reference.
    pub(crate) position: Position,
    /// Number of entries that this entry added.
    pub(crate) children: u32,
    /// Progress of the entry.
    pub(crate) stage: Stage,
    /// Rank among the entries that the browser requested, the lowest first.
    pub(crate) requested: Option<u32>,
    /// CHK of the body, once known.
    pub(crate) hash: Option<ContentHash>,
    /// Decoded length of the body in bytes, once known.
    pub(crate) length: Option<u64>,
    /// Bytes of its pushes on the hop.
    pub(crate) pushed: u64,
    /// Progress of the search for references in the response.
    pub(crate) search: ReferenceSearch,
    /// The part of the response that is needed to predict the requests for its references.
    pub(crate) source: ReferenceSource,
    /// Number of times that the agent wanted the body again.
    pub(crate) repeats: u8,
}

/// Kind of the link between two entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// A reference.
    Referenced,
    /// A redirect, with this referrer policy.
    Redirected(Option<ReferrerPolicy>),
}

/// Completeness of a predicted request's cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PredictedCookies {
    /// The browser sends no other cookies.
    Complete,
    /// The browser may send cookies that the predicted request lacks: then a response for this page alone is
    /// unusable.
    Withheld,
}

/// Progress of the search for references in an entry's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReferenceSearch {
    /// Only documents and style sheets contain references.
    NotNeeded,
    /// The response may add further entries.
    Pending,
    /// The response adds no further entry.
    Complete,
}

/// The document or style sheet in an entry's response.
#[derive(Debug)]
pub(crate) enum ReferenceSource {
    /// The response is unknown, or is not searched for references.
    None,
    /// A document, which makes the requests for its references.
    Document(Initiator),
    /// A style sheet.
    StyleSheet {
        /// The policy that its response declares.
        policy: Option<ReferrerPolicy>,
        /// Images and fonts that are planned once the page displays them.
        pending: PendingReferences,
    },
}

impl ReferenceSource {
    /// The referrer policy that a style sheet declares.
    pub(crate) const fn sheet_policy(&self) -> Option<ReferrerPolicy> {
        match self {
            Self::StyleSheet { policy, .. } => *policy,
            Self::None | Self::Document(_) => None,
        }
    }
}

/// Progress of an entry.
pub(crate) enum Stage {
    /// Not fetched yet.
    Announced,
    /// The fetch is in progress.
    Fetching,
    /// The response's head is in the manifest.
    Answered(Box<Answered>),
    /// There is no response.
    Withdrawn,
}

/// The kept part of a response.
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) usability: Usability,
    /// The response's fields, which include `Vary`.
    pub(crate) headers: HeaderMap,
    pub(crate) vary: Option<[u8; 8]>,
    pub(crate) cookie: Option<[u8; 8]>,
    /// Partition of the fetch.
    pub(crate) partition: Option<Partition>,
    /// Delta key of the response, if it may have a base or be one.
    pub(crate) delta_key: Option<DeltaKey>,
    /// Devices that the response may answer.
    pub(crate) audience: Audience,
    /// Bytes that the origin sent.
    pub(crate) origin_size: OriginSize,
    pub(crate) body: BodyState,
    pub(crate) refetch: Refetch,
}

/// Requests of the page that a response may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usability {
    /// Any number of requests.
    Reusable,
    /// One request.
    Once,
    /// No further request: the response was promised to one.
    Used,
}

impl From<Scope> for Usability {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Reusable => Self::Reusable,
            Scope::ThisPage => Self::Once,
        }
    }
}

/// Need to fetch a body again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refetch {
    NotNeeded,
    /// The agent wants the body, and the cache no longer has it.
    Due,
}

/// Order of entries, the lowest rank first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    class: u8,
    requested: u32,
    planned: order::Rank,
}

impl PlanEntry {
    pub(crate) fn new(
        reference: Reference,
        referrer: Option<EntryId>,
        arrival: Arrival,
        position: Position,
    ) -> Self {
        let has_references =
            reference.destination.is_document() || reference.destination == Destination::Style;
        Self {
            reference,
            referrer,
            arrival,
            initiator: ExpectedInitiator::default(),
            cookies: PredictedCookies::Complete,
            position,
            children: 0,
            stage: Stage::Announced,
            requested: None,
            hash: None,
            length: None,
            pushed: 0,
            search: if has_references {
                ReferenceSearch::Pending
            } else {
                ReferenceSearch::NotNeeded
            },
            source: ReferenceSource::None,
            repeats: 0,
        }
    }

    fn planned(&self) -> order::Rank {
        order::Rank::of(
            &self.reference,
            self.position.clone(),
            self.length.map(ByteCount::new),
        )
    }

    /// Priority class of the body.
    pub(crate) fn class(&self) -> u8 {
        let destination = self.reference.destination;
        if destination == Destination::Document {
            return DOCUMENT_CLASS;
        }
        let planned = self.planned().class();
        if self.requested.is_some() {
            planned.asked(destination).number()
        } else {
            planned.number()
        }
    }

    pub(crate) fn rank(&self) -> Rank {
        Rank {
            class: self.class(),
            requested: self.requested.unwrap_or(u32::MAX),
            planned: self.planned(),
        }
    }

    /// Returns true for a style sheet without a searched response that a browser may receive: neither a redirect
    /// nor an error.
    pub(crate) fn is_unsearched_sheet(&self) -> bool {
        let may_arrive = match &self.stage {
            Stage::Announced | Stage::Fetching => false,
            Stage::Answered(answered) => answered.status.is_success(),
            Stage::Withdrawn => true,
        };
        let is_searched = matches!(self.source, ReferenceSource::StyleSheet { .. });
        self.reference.destination == Destination::Style && !is_searched && may_arrive
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Announced | Stage::Fetching)
    }

    pub(crate) fn answered(&self) -> Option<&Answered> {
        match &self.stage {
            Stage::Answered(answered) => Some(answered),
            Stage::Announced | Stage::Fetching | Stage::Withdrawn => None,
        }
    }

    pub(crate) fn answered_mut(&mut self) -> Option<&mut Answered> {
        match &mut self.stage {
            Stage::Answered(answered) => Some(answered),
            Stage::Announced | Stage::Fetching | Stage::Withdrawn => None,
        }
    }

    /// State of the answered entry's body.
    pub(crate) fn body(&self) -> Option<&BodyState> {
        self.answered().map(|answered| &answered.body)
    }

    pub(crate) fn set_body(&mut self, body: BodyState) {
        if let Some(answered) = self.answered_mut() {
            answered.body = body;
        }
    }
}
