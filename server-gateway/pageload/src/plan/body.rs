//! Bodies of entries: their pushes and repetitions.
use http::header;
use longhaul_cache::Partition;
use longhaul_delivery::DeltaKey;
use longhaul_gateway_core::origin_reports::{Replaced, replaced};
use longhaul_http::policy;
use longhaul_session::{EntryId, Withdrawal};
use longhaul_types::ContentHash;
use longhaul_webcache::{Audience, OriginSize};
use tokio::sync::watch;

use super::{Plan, PlanEntry, Refetch, Stage, USUAL_LENGTH};
use crate::push_body::PushBody;

/// State of an answered entry's body.
pub(crate) enum BodyState {
    /// No body is pushed.
    NotPushed,
    /// The body waits for its turn.
    Waiting(PushBody),
    /// The push stream is open.
    Pushing(OpenPush),
    /// The push stream is finished but not yet acknowledged.
    Sent(OpenPush),
    /// The agent has acknowledged the whole body.
    Delivered,
    /// The agent stopped the stream, or the body was truncated.
    Broken,
}

/// A push whose stream is open.
pub(crate) struct OpenPush {
    /// See [`PushAttempt::repeats`].
    repeats: u8,
    /// Priority class of the stream.
    class: watch::Sender<u8>,
}

/// One push of an entry's body.
pub(crate) struct PushAttempt {
    pub(crate) entry: EntryId,
    /// Number of times that the agent wanted the body again before this push; 0 for the first push.
    pub(crate) repeats: u8,
    pub(crate) body: PushBody,
    /// Priority class of the stream, which can rise during the push.
    pub(crate) class: watch::Receiver<u8>,
    pub(crate) response: PushedResponse,
}

/// The properties of a pushed response that decide on its coding.
pub(crate) struct PushedResponse {
    /// CHK of the body, if it is known before the push.
    pub(crate) hash: Option<ContentHash>,
    pub(crate) content_type: Option<String>,
    pub(crate) delta_key: Option<DeltaKey>,
    pub(crate) audience: Audience,
    /// Bytes that the origin sent.
    pub(crate) origin_size: OriginSize,
    pub(crate) replaced: Replaced,
}

/// Progress of a push whose stream is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PushProgress {
    /// The stream is finished.
    Sent,
    /// The agent has acknowledged the whole body.
    Delivered,
    /// The agent stopped the stream, or the body was truncated.
    Broken,
}

/// A body that the agent has received and stores.
pub(crate) struct DeliveredBody {
    pub(crate) hash: ContentHash,
    pub(crate) length: Option<u64>,
    pub(crate) partition: Option<Partition>,
    pub(crate) delta_key: Option<DeltaKey>,
}

impl BodyState {
    /// Returns true if the body is not completely sent.
    pub(crate) const fn is_unsent(&self) -> bool {
        matches!(self, Self::Waiting(_) | Self::Pushing(_))
    }

    /// Takes a waiting body, whose push begins.
    fn start(&mut self, push: OpenPush) -> Option<PushBody> {
        if !matches!(self, Self::Waiting(_)) {
            return None;
        }
        match std::mem::replace(self, Self::Pushing(push)) {
            Self::Waiting(body) => Some(body),
            Self::NotPushed | Self::Pushing(_) | Self::Sent(_) | Self::Delivered | Self::Broken => None,
        }
    }

    const fn open_push(&self) -> Option<&OpenPush> {
        match self {
            Self::Pushing(push) | Self::Sent(push) => Some(push),
            Self::NotPushed | Self::Waiting(_) | Self::Delivered | Self::Broken => None,
        }
    }
}

impl Plan {
    /// Number of bodies that are being sent.
    pub(crate) fn pushing(&self) -> usize {
        self.count(|entry| matches!(entry.body(), Some(BodyState::Pushing(_))))
    }

    /// Number of bodies that are sent and not yet acknowledged.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.count(|entry| matches!(entry.body(), Some(BodyState::Sent(_))))
    }

    /// Returns true if no body waits to be sent.
    pub(crate) fn is_sent(&self) -> bool {
        !self.entries.iter().any(has_unsent_body)
    }

    /// Returns true if an unsent body has an unknown length, because it may exceed its limit.
    pub(crate) fn has_unmeasured(&self) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.length.is_none() && has_unsent_body(entry))
    }

    /// Approximate decoded bytes of the bodies that wait for their push.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        let waiting = self
            .entries
            .iter()
            .filter(|entry| matches!(entry.body(), Some(BodyState::Waiting(_))));
        waiting.map(|entry| entry.length.unwrap_or(USUAL_LENGTH)).sum()
    }

    /// Selects the next body to push and marks its push as in progress.
    pub(crate) fn next_push(&mut self) -> Option<PushAttempt> {
        let awaits_style_sheet = self.awaits_style_sheet();
        let next = self.first(|entry| {
            let is_waiting = matches!(entry.body(), Some(BodyState::Waiting(_)));
            is_waiting && !(awaits_style_sheet && entry.may_be_overridden())
        })?;
        let found = self.get_mut(next)?;
        let (sender, class) = watch::channel(found.class());
        let (repeats, hash) = (found.repeats, found.hash);
        let answered = found.answered_mut()?;
        let open = OpenPush {
            repeats,
            class: sender,
        };
        let body = answered.body.start(open)?;
        let media = answered.headers.get(header::CONTENT_TYPE);
        Some(PushAttempt {
            entry: next,
            repeats,
            body,
            class,
            response: PushedResponse {
                hash,
                content_type: media.and_then(|media| media.to_str().ok()).map(str::to_owned),
                delta_key: answered.delta_key.clone(),
                audience: answered.audience,
                // The body of a repeated push is not fetched again.
                origin_size: if repeats == 0 {
                    answered.origin_size.clone()
                } else {
                    OriginSize::none()
                },
                replaced: replaced(&answered.headers),
            },
        })
    }

    /// Changes the priority class of an entry's open push.
    pub(crate) fn set_push_class(&self, entry: EntryId, class: u8) {
        let body = self.get(entry).and_then(PlanEntry::body);
        if let Some(push) = body.and_then(BodyState::open_push) {
            push.class.send_replace(class);
        }
    }

    /// Records the progress of a push, which has sent `bytes` further bytes on the hop.
    pub(crate) fn pushed(&mut self, entry: EntryId, repeats: u8, bytes: u64, progress: PushProgress) {
        let Some(found) = self.get_mut(entry) else { return };
        found.pushed += bytes;
        let Some(answered) = found.answered_mut() else {
            return;
        };
        // A push that the agent stopped may end after the `Want` that followed, and during the next push.
        let is_current = answered
            .body
            .open_push()
            .is_some_and(|push| push.repeats == repeats);
        if !is_current {
            return;
        }
        let body = std::mem::replace(&mut answered.body, BodyState::Broken);
        answered.body = match (progress, body) {
            (PushProgress::Sent, BodyState::Pushing(push) | BodyState::Sent(push)) => BodyState::Sent(push),
            (PushProgress::Delivered, _) => BodyState::Delivered,
            (PushProgress::Sent | PushProgress::Broken, _) => BodyState::Broken,
        };
    }

    /// The body of a delivered entry, if the agent stores it.
    pub(crate) fn delivered_body(&self, entry: EntryId) -> Option<DeliveredBody> {
        let found = self.get(entry)?;
        let answered = found.answered()?;
        if !policy::agent_stores_pushed(answered.status, &answered.headers) {
            return None;
        }
        Some(DeliveredBody {
            hash: found.hash?,
            length: found.length,
            partition: answered.partition.clone(),
            delta_key: answered.delta_key.clone(),
        })
    }

    /// Schedules the push of a body that the agent does not have, again if it was pushed before, unless the
    /// limit of repetitions is reached.
    pub(crate) fn want(&mut self, entry: EntryId, body: PushBody) {
        let limit = self.limits.repeats;
        let Some(found) = self.get_mut(entry).filter(|found| found.answered().is_some()) else {
            return;
        };
        found.repeats += 1;
        if found.repeats > limit || found.hash.is_none() {
            return self.withdraw(entry, Withdrawal::Failed);
        }
        found.requested = found.requested.or(Some(0));
        found.set_body(BodyState::Waiting(body));
    }

    /// Schedules another fetch of an entry's body.
    pub(crate) fn refetch(&mut self, entry: EntryId) {
        if let Some(answered) = self.get_mut(entry).and_then(PlanEntry::answered_mut) {
            answered.refetch = Refetch::Due;
        }
    }

    /// Selects the next body to fetch again.
    pub(crate) fn next_refetch(&mut self) -> Option<EntryId> {
        let is_due = |entry: &PlanEntry| {
            let answered = entry.answered();
            answered.is_some_and(|answered| answered.refetch == Refetch::Due)
        };
        let next = self.entries().find(|(_, entry)| is_due(entry))?.0;
        self.get_mut(next)?.answered_mut()?.refetch = Refetch::NotNeeded;
        Some(next)
    }

    /// Records that an entry's body is complete.
    pub(crate) fn completed(&mut self, entry: EntryId, hash: ContentHash, length: u64) {
        let Some(found) = self.get_mut(entry) else { return };
        let was_unknown = found.hash.replace(hash).is_none();
        found.length = Some(length);
        let Some(answered) = found.answered() else { return };
        let partition = answered.partition.as_ref().map(Partition::label);
        let is_pushed = !matches!(answered.body, BodyState::NotPushed);
        if let Some(partition) = partition.filter(|_| was_unknown && is_pushed) {
            self.by_hash.entry((hash, partition)).or_insert(entry);
        }
    }

    /// Records the growth of a body of unknown length; withdraws the entry and returns false if it exceeds a
    /// limit.
    pub(crate) fn grown(&mut self, entry: EntryId, length: u64, by: u64) -> bool {
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

fn has_unsent_body(entry: &PlanEntry) -> bool {
    entry.body().is_some_and(BodyState::is_unsent)
}
