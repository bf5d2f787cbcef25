//! Responses of entries: their heads and the placement of their bodies.
use http::{HeaderMap, StatusCode, header};
use longhaul_cache::PartitionLabel;
use longhaul_session::{EntryBody, EntryHead, HeaderField, Record, Scope, Withdrawal};
use longhaul_types::ContentHash;

use super::{Answered, BodyState, Plan, PlanEntry, Stage};

/// The response of an entry.
#[derive(Clone, Debug)]
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
    pub(crate) partition: Option<PartitionLabel>,
    pub(crate) body: AnswerBody,
}

/// State of a response's body when its head is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerBody {
    /// The response has no body.
    None,
    /// The body is complete.
    Known { hash: ContentHash, length: u64 },
    /// The body is still arriving from the origin.
    Coming { length: Option<u64> },
}

/// Placement of an answered entry's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// The body is pushed in its turn.
    Push,
    /// The body is pushed in its turn and also serves this later entry, whose own push is dropped.
    PushFor(u32),
    /// The body is not pushed.
    Nothing,
}

impl Plan {
    /// Adds the head of an entry's response. `holds` returns true for bodies that the agent holds.
    pub(crate) fn answered(
        &mut self,
        entry: u32,
        answer: Answer,
        holds: impl Fn(&ContentHash) -> bool,
    ) -> Placement {
        if !self.get(entry).is_some_and(PlanEntry::is_open) {
            return Placement::Nothing;
        }
        let (body, state) = self.place(entry, answer.body, answer.partition, holds);
        if let EntryBody::Pushed { length: Some(length) } = body {
            let reason = if length > self.limits.body {
                Some(Withdrawal::TooLarge)
            } else if self.bytes.saturating_add(length) > self.limits.bytes {
                Some(Withdrawal::Budget)
            } else {
                None
            };
            if let Some(reason) = reason {
                self.withdraw(entry, reason);
                return Placement::Nothing;
            }
            self.bytes += length;
        }
        self.records.push(Record::Head(EntryHead {
            entry,
            status: answer.status.as_u16(),
            scope: answer.scope,
            vary: answer.vary,
            cookie: answer.cookie,
            shape: answer.shape,
            body,
            fields: fields(&answer.headers, body),
        }));
        let mut alias = None;
        if let (EntryBody::Pushed { .. }, AnswerBody::Known { hash, .. }, Some(partition)) =
            (body, answer.body, answer.partition)
        {
            let before = self.by_hash.insert((hash, partition), entry);
            alias = before.filter(|later| self.alias(*later, entry));
        }
        if let Some(found) = self.get_mut(entry) {
            match answer.body {
                AnswerBody::None => {}
                AnswerBody::Known { hash, length } => (found.hash, found.length) = (Some(hash), Some(length)),
                AnswerBody::Coming { length } => found.length = length,
            }
            found.stage = Stage::Answered(Box::new(Answered {
                status: answer.status,
                scope: answer.scope,
                headers: answer.headers,
                vary: answer.vary,
                cookie: answer.cookie,
                partition: answer.partition,
                body: state,
            }));
        }
        if state == BodyState::Waiting {
            alias.map_or(Placement::Push, Placement::PushFor)
        } else {
            Placement::Nothing
        }
    }

    /// Makes a later entry refer to the equal body of `entry`: origins respond in any order, and an entry can
    /// refer only to an earlier one. Returns false if the later entry's head is already written.
    fn alias(&mut self, later: u32, entry: u32) -> bool {
        let is_waiting = self.get(later).and_then(PlanEntry::body) == Some(BodyState::Waiting);
        let head = self.records.iter_mut().find_map(|record| match record {
            Record::Head(head) => (head.entry == later).then_some(head),
            Record::Entry(_) | Record::Withdrawn { .. } | Record::Planned => None,
        });
        let Some(head) = head.filter(|_| later > entry && is_waiting) else {
            return false;
        };
        head.body = EntryBody::SameAs { entry };
        if let Some(found) = self.get_mut(later) {
            found.set_body(BodyState::Settled);
            let length = found.length.unwrap_or(0);
            self.bytes = self.bytes.saturating_sub(length);
        }
        true
    }

    fn place(
        &self,
        entry: u32,
        body: AnswerBody,
        partition: Option<PartitionLabel>,
        holds: impl Fn(&ContentHash) -> bool,
    ) -> (EntryBody, BodyState) {
        let (hash, length) = match body {
            AnswerBody::None => return (EntryBody::None, BodyState::Settled),
            AnswerBody::Coming { length } => return (EntryBody::Pushed { length }, BodyState::Waiting),
            AnswerBody::Known { hash, length } => (hash, length),
        };
        if holds(&hash) {
            let url = self.get(entry).map(|entry| self.short(&entry.reference.url));
            let body = if url.and_then(|url| self.before.get(url)) == Some(&hash) {
                EntryBody::AsBefore
            } else {
                let mut half = [0; 16];
                half.copy_from_slice(&hash.as_bytes()[..16]);
                EntryBody::Held { hash: half }
            };
            return (body, BodyState::Settled);
        }
        let same = partition.and_then(|partition| self.by_hash.get(&(hash, partition)).copied());
        let same = same.filter(|same| {
            let body = self.get(*same).and_then(PlanEntry::body);
            *same < entry && body.is_some_and(|body| body != BodyState::Broken && body != BodyState::Settled)
        });
        match same {
            Some(entry) => (EntryBody::SameAs { entry }, BodyState::Settled),
            None => (EntryBody::Pushed { length: Some(length) }, BodyState::Waiting),
        }
    }

    /// Records that an entry's body is complete.
    pub(crate) fn completed(&mut self, entry: u32, hash: ContentHash, length: u64) {
        let Some(found) = self.get_mut(entry) else { return };
        let was_unknown = found.hash.replace(hash).is_none();
        found.length = Some(length);
        let partition = found.answered().and_then(|answered| answered.partition);
        let is_sent = found.body().is_some_and(|body| body != BodyState::Settled);
        if let Some(partition) = partition.filter(|_| was_unknown && is_sent) {
            self.by_hash.entry((hash, partition)).or_insert(entry);
        }
    }

    /// Records the growth of a body of unknown length; withdraws the entry and returns false if it exceeds a
    /// limit.
    pub(crate) fn grown(&mut self, entry: u32, length: u64, by: u64) -> bool {
        let Some(found) = self.get(entry) else {
            return false;
        };
        if matches!(found.stage, Stage::Withdrawn) {
            return false;
        }
        if found.length.is_some() {
            return true;
        }
        self.bytes = self.bytes.saturating_add(by);
        let reason = if length > self.limits.body {
            Withdrawal::TooLarge
        } else if self.bytes > self.limits.bytes {
            Withdrawal::Budget
        } else {
            return true;
        };
        self.withdraw(entry, reason);
        false
    }
}

/// Fields for the manifest, without `Content-Length` if `body` contains the length or the body follows.
fn fields(headers: &HeaderMap, body: EntryBody) -> Vec<HeaderField> {
    headers
        .iter()
        .filter(|(name, _)| body == EntryBody::None || **name != header::CONTENT_LENGTH)
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect()
}
