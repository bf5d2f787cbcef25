//! Responses of entries: their heads and the placement of their bodies.
use http::{HeaderMap, StatusCode};
use longhaul_cache::{Partition, PartitionLabel};
use longhaul_delivery::DeltaKey;
use longhaul_session::{EntryId, Scope, Withdrawal};
use longhaul_types::ContentHash;
use longhaul_webcache::{Audience, OriginSize};

use super::{
    Answered, BodyState, Plan, PlanEntry, Refetch, Stage, Usability,
    manifest_change::{AnsweredEntry, BodyLocation, ManifestChange},
};
use crate::push_body::PushBody;

/// The response of an entry.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// Fields as sent to the agent.
    pub(crate) headers: HeaderMap,
    pub(crate) scope: Scope,
    /// Keys over fields of the predicted request (docs/protocol/session.md section 7.3).
    pub(crate) vary: Option<[u8; 8]>,
    pub(crate) cookie: Option<[u8; 8]>,
    /// Relation, mode and destination of the predicted request.
    pub(crate) shape: u16,
    /// Partition of the fetch: an entry may refer only to bodies of entries of the same partition.
    pub(crate) partition: Option<Partition>,
    /// Delta key of the response, if it may have a base or be one.
    pub(crate) delta_key: Option<DeltaKey>,
    /// Devices that the response may answer.
    pub(crate) audience: Audience,
    /// Bytes that the origin sent.
    pub(crate) origin_size: OriginSize,
    /// True if the gateway's cache has the body, so that no origin sent it now.
    pub(crate) is_from_cache: bool,
    /// True if an event follows once the body is complete, because other devices that got it taught something.
    pub(crate) awaits_body: bool,
    pub(crate) body: AnswerBody,
}

/// A response's body when its head is written.
pub(crate) enum AnswerBody {
    /// The response has no body.
    None,
    /// The body is complete.
    Complete {
        hash: ContentHash,
        length: u64,
        source: PushBody,
    },
    /// The body is still arriving from the origin.
    Arriving { length: Option<u64>, source: PushBody },
}

/// Hash and length of a body, as far as they are known when its head is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KnownBody {
    None,
    Complete { hash: ContentHash, length: u64 },
    Arriving { length: Option<u64> },
}

impl AnswerBody {
    fn split(self) -> (KnownBody, Option<PushBody>) {
        match self {
            Self::None => (KnownBody::None, None),
            Self::Complete { hash, length, source } => (KnownBody::Complete { hash, length }, Some(source)),
            Self::Arriving { length, source } => (KnownBody::Arriving { length }, Some(source)),
        }
    }
}

/// Placement of an answered entry's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// The body is pushed in its turn.
    Push,
    /// The body is pushed in its turn and also serves a later entry, whose own push is dropped.
    PushForBoth,
    /// The response has no body.
    NoBody,
    /// The body is not pushed.
    Nothing,
}

impl Plan {
    /// Adds the head of an entry's response. `holds` returns true for bodies that the agent holds.
    pub(crate) fn answered(
        &mut self,
        entry: EntryId,
        answer: Answer,
        holds: impl Fn(&ContentHash) -> bool,
    ) -> Placement {
        let (known, source) = answer.body.split();
        let not_pushed = if known == KnownBody::None {
            Placement::NoBody
        } else {
            Placement::Nothing
        };
        if !self.get(entry).is_some_and(PlanEntry::is_open) {
            return not_pushed;
        }
        let partition = answer.partition.as_ref().map(Partition::label);
        let body = self.place(entry, known, partition, holds);
        self.host_answers(entry);
        if !self.reserve(entry, body) {
            return not_pushed;
        }
        self.changes.push(ManifestChange::Answered(AnsweredEntry {
            entry,
            status: answer.status,
            scope: answer.scope,
            vary: answer.vary,
            cookie: answer.cookie,
            shape: answer.shape,
            body,
            headers: answer.headers.clone(),
        }));
        let mut alias = None;
        if let (BodyLocation::Pushed { .. }, KnownBody::Complete { hash, .. }, Some(partition)) =
            (body, known, partition)
        {
            let earlier = self.by_hash.insert((hash, partition), entry);
            alias = earlier.filter(|later| self.alias(*later, entry));
        }
        let state = match (body, source) {
            (BodyLocation::Pushed { .. }, Some(source)) => BodyState::Waiting(source),
            _ => BodyState::NotPushed,
        };
        let is_waiting = matches!(state, BodyState::Waiting(_));
        if let Some(found) = self.get_mut(entry) {
            match known {
                KnownBody::None => {}
                KnownBody::Complete { hash, length } => {
                    (found.hash, found.length) = (Some(hash), Some(length));
                }
                KnownBody::Arriving { length } => found.length = length,
            }
            found.stage = Stage::Answered(Box::new(Answered {
                status: answer.status,
                usability: Usability::from(answer.scope),
                headers: answer.headers,
                vary: answer.vary,
                cookie: answer.cookie,
                partition: answer.partition,
                delta_key: answer.delta_key,
                audience: answer.audience,
                origin_size: answer.origin_size,
                body: state,
                refetch: Refetch::NotNeeded,
            }));
        }
        match (is_waiting, alias) {
            (true, Some(_)) => Placement::PushForBoth,
            (true, None) => Placement::Push,
            (false, _) => not_pushed,
        }
    }

    /// Counts the bytes of a body of known length; withdraws the entry and returns false if it exceeds a
    /// limit.
    fn reserve(&mut self, entry: EntryId, body: BodyLocation) -> bool {
        let BodyLocation::Pushed { length: Some(length) } = body else {
            return true;
        };
        let reason = if length > self.limits.body {
            Withdrawal::TooLarge
        } else if self.bytes.saturating_add(length) > self.limits.bytes {
            Withdrawal::Budget
        } else {
            self.bytes += length;
            return true;
        };
        self.withdraw(entry, reason);
        false
    }

    /// Makes a later entry refer to the equal body of `entry`: origins respond in any order, and an entry can
    /// refer only to an earlier one. Returns false if the later entry's head is already written.
    fn alias(&mut self, later: EntryId, entry: EntryId) -> bool {
        let is_waiting = matches!(
            self.get(later).and_then(PlanEntry::body),
            Some(BodyState::Waiting(_))
        );
        let answered = self.changes.iter_mut().find_map(|change| match change {
            ManifestChange::Answered(answered) => (answered.entry == later).then_some(answered),
            ManifestChange::Added { .. }
            | ManifestChange::Withdrawn { .. }
            | ManifestChange::Failed(_)
            | ManifestChange::Absent(_)
            | ManifestChange::Closed => None,
        });
        let Some(answered) = answered.filter(|_| later > entry && is_waiting) else {
            return false;
        };
        answered.body = BodyLocation::SameAs(entry);
        if let Some(found) = self.get_mut(later) {
            found.set_body(BodyState::NotPushed);
            let length = found.length.unwrap_or(0);
            self.bytes = self.bytes.saturating_sub(length);
        }
        true
    }

    fn place(
        &self,
        entry: EntryId,
        body: KnownBody,
        partition: Option<PartitionLabel>,
        holds: impl Fn(&ContentHash) -> bool,
    ) -> BodyLocation {
        let (hash, length) = match body {
            KnownBody::None => return BodyLocation::None,
            KnownBody::Arriving { length } => return BodyLocation::Pushed { length },
            KnownBody::Complete { hash, length } => (hash, length),
        };
        if holds(&hash) {
            let url = self.get(entry).map(|entry| self.short(&entry.reference.url));
            if url.and_then(|url| self.previous_hashes.get(url)) == Some(&hash) {
                return BodyLocation::AsBefore;
            }
            return BodyLocation::Held(hash);
        }
        let same = partition.and_then(|partition| self.by_hash.get(&(hash, partition)).copied());
        let same = same.filter(|same| {
            let body = self.get(*same).and_then(PlanEntry::body);
            let is_pushed =
                body.is_some_and(|body| !matches!(body, BodyState::Broken | BodyState::NotPushed));
            *same < entry && is_pushed
        });
        match same {
            Some(entry) => BodyLocation::SameAs(entry),
            None => BodyLocation::Pushed { length: Some(length) },
        }
    }
}
