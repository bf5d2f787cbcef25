//! An entry of a plan.
use http::{HeaderMap, StatusCode};
use longhaul_cache::PartitionLabel;
use longhaul_page::{
    Destination, Reference, ReferrerPolicy,
    order::{self, Position},
};
use longhaul_session::Scope;
use longhaul_types::{ByteCount, ContentHash};

use super::ExpectedInitiator;

/// Class of a page behind a redirect: that of pages.
const DOCUMENT_CLASS: u8 = 1;

/// An object that the page needs.
#[derive(Clone, Debug)]
pub(crate) struct PlanEntry {
    /// The reference that led to this entry.
    pub(crate) reference: Reference,
    /// The entry that refers to this entry; `None` for the page itself.
    pub(crate) referrer: Option<u32>,
    /// Kind of the link from the referrer.
    pub(crate) arrival: Arrival,
    /// Expected initiator of the browser's request.
    pub(crate) asker: ExpectedInitiator,
    /// True if the predicted request lacks cookies that the browser may send: then a response for this page
    /// alone is unusable.
    pub(crate) is_withheld: bool,
    /// Position of the reference.
    pub(crate) position: Position,
    /// Number of entries that this entry added.
    pub(crate) children: u32,
    /// Progress of the entry.
    pub(crate) stage: Stage,
    /// Rank among the entries that the browser requested, the lowest first.
    pub(crate) asked: Option<u32>,
    /// CHK of the body, once known.
    pub(crate) hash: Option<ContentHash>,
    /// Decoded length of the body in bytes, once known.
    pub(crate) length: Option<u64>,
    /// Bytes of its pushes on the hop.
    pub(crate) pushed: u64,
    /// True if a response for this page alone was already promised to a request.
    pub(crate) is_spent: bool,
    /// True once its references are planned.
    pub(crate) was_searched: bool,
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

/// Progress of an entry.
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) scope: Scope,
    /// The response's fields, which include `Vary`.
    pub(crate) headers: HeaderMap,
    pub(crate) vary: Option<[u8; 8]>,
    pub(crate) cookie: Option<[u8; 8]>,
    pub(crate) partition: Option<PartitionLabel>,
    pub(crate) body: BodyState,
}

/// State of an answered entry's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyState {
    /// No body is sent.
    Settled,
    /// The body waits for its turn.
    Waiting,
    /// The push stream is open.
    Pushing,
    /// The push stream is finished but not yet acknowledged.
    Sent,
    /// The agent has acknowledged the whole body.
    Delivered,
    /// The agent stopped the stream, or the body was truncated.
    Broken,
}

/// Order of entries, the lowest rank first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    class: u8,
    asked: u32,
    planned: order::Rank,
}

impl PlanEntry {
    pub(crate) fn new(
        reference: Reference,
        referrer: Option<u32>,
        arrival: Arrival,
        position: Position,
    ) -> Self {
        Self {
            reference,
            referrer,
            arrival,
            asker: ExpectedInitiator::default(),
            is_withheld: false,
            position,
            children: 0,
            stage: Stage::Announced,
            asked: None,
            hash: None,
            length: None,
            pushed: 0,
            is_spent: false,
            was_searched: false,
            repeats: 0,
        }
    }

    /// Returns true if the references of this entry are planned.
    pub(crate) fn is_searched(&self) -> bool {
        self.reference.destination.is_document() || self.reference.destination == Destination::Style
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
        if self.asked.is_some() {
            planned.asked(destination).number()
        } else {
            planned.number()
        }
    }

    pub(crate) fn rank(&self) -> Rank {
        Rank {
            class: self.class(),
            asked: self.asked.unwrap_or(u32::MAX),
            planned: self.planned(),
        }
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

    pub(crate) fn body(&self) -> Option<BodyState> {
        self.answered().map(|answered| answered.body)
    }

    pub(crate) fn set_body(&mut self, body: BodyState) {
        if let Stage::Answered(answered) = &mut self.stage {
            answered.body = body;
        }
    }
}
