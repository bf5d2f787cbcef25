//! One entry of a plan.
use http::{HeaderMap, StatusCode};
use longhaul_cache::PartitionLabel;
use longhaul_page::{
    Destination, Reference, ReferrerPolicy,
    order::{self, Position},
};
use longhaul_protocol::session::Scope;
use longhaul_types::{ByteCount, ContentHash};

use super::ExpectedInitiator;

/// A page itself, behind a redirect, goes as pages do.
const DOCUMENT_CLASS: u8 = 1;

/// Something that the page needs.
#[derive(Clone, Debug)]
pub(crate) struct PlanEntry {
    /// What refers to it, and how.
    pub(crate) reference: Reference,
    /// The entry that refers to it; `None` for the page itself.
    pub(crate) referrer: Option<u32>,
    /// How the one leads to the other.
    pub(crate) arrival: Arrival,
    /// Who makes its request.
    pub(crate) asker: ExpectedInitiator,
    /// Its request lacks cookies that the browser may send: a response for one user alone is not the browser's.
    pub(crate) is_withheld: bool,
    /// Where the reference stands.
    pub(crate) position: Position,
    /// How many entries it added.
    pub(crate) children: u32,
    /// How far it is.
    pub(crate) stage: Stage,
    /// Place in the order of those asked for by the browser: the lower the sooner.
    pub(crate) asked: Option<u32>,
    /// The CHK of its body, once known.
    pub(crate) hash: Option<ContentHash>,
    /// Decoded length of its body, once known.
    pub(crate) length: Option<u64>,
    /// Bytes on the hop that its pushes took.
    pub(crate) pushed: u64,
    /// A `ThisPage` response was promised to a request.
    pub(crate) is_spent: bool,
    /// What it refers to is planned.
    pub(crate) was_searched: bool,
    /// How often the agent wanted its body (again).
    pub(crate) repeats: u8,
}

/// How an entry leads to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It refers to it.
    Referenced,
    /// It redirects to it, with this referrer policy.
    Redirected(Option<ReferrerPolicy>),
}

/// How far an entry is.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// To be fetched.
    Announced,
    /// Its fetch is under way.
    Fetching,
    /// The response's head is in the manifest.
    Answered(Box<Answered>),
    /// There is no response.
    Withdrawn,
}

/// What is kept of a response.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) scope: Scope,
    /// The response's fields: `Vary` is looked up in them.
    pub(crate) headers: HeaderMap,
    pub(crate) vary: Option<[u8; 8]>,
    pub(crate) cookie: Option<[u8; 8]>,
    pub(crate) partition: Option<PartitionLabel>,
    pub(crate) body: BodyState,
}

/// Where an answered entry's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyState {
    /// There is none, or none is to be sent.
    Settled,
    /// It waits for its turn.
    Waiting,
    /// Its stream is open.
    Pushing,
    /// Its stream was finished; whether the agent has all of it is not known yet.
    Sent,
    /// The agent has acknowledged all of it.
    Delivered,
    /// The agent stopped its stream, or the body broke off.
    Broken,
}

/// What goes first. The lesser the sooner.
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

    /// Whether what it refers to is planned, too.
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

    /// The scheduler's class of its body.
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
