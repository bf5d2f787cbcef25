//! Requests of the browser, and their use of the entries.
use http::{HeaderMap, HeaderValue, header};
use longhaul_gateway_core::admin::page_load_counters::Taken;
use longhaul_http::{request_context::identity_key, vary};
use longhaul_session::{EntryId, Used};
use url::Url;

use super::{BodyState, Plan, PlanEntry, PredictedCookies, Stage, Usability};

/// Result of matching a request with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// The entry answers the request.
    Promised,
    /// The entry's head is not known yet.
    Later,
    /// The entry does not answer the request.
    No,
}

/// The initiator of a request, as far as its fields identify it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExpectedInitiator {
    /// `Sec-Fetch-Site` and `Sec-Fetch-Mode`.
    metadata: [Option<HeaderValue>; 2],
    /// Origin from `Origin` or `Referer`.
    origin: Option<String>,
}

impl ExpectedInitiator {
    pub(crate) fn of(request: &HeaderMap) -> Self {
        let origin = request
            .get(header::ORIGIN)
            .or_else(|| request.get(header::REFERER));
        let serialized = |origin: &HeaderValue| {
            let url = Url::parse(origin.to_str().ok()?).ok()?;
            Some(url.origin().ascii_serialization())
        };
        Self {
            metadata: ["sec-fetch-site", "sec-fetch-mode"].map(|name| request.get(name).cloned()),
            origin: origin.map(|origin| serialized(origin).unwrap_or_else(|| "null".to_owned())),
        }
    }

    /// Returns true if no member that both have differs.
    fn may_be(&self, other: &Self) -> bool {
        let agree = |(one, other): (&Option<HeaderValue>, &Option<HeaderValue>)| {
            one.is_none() || other.is_none() || one == other
        };
        self.metadata.iter().zip(&other.metadata).all(agree)
            && (self.origin.is_none() || other.origin.is_none() || self.origin == other.origin)
    }
}

impl Plan {
    /// Records the predicted request of an entry.
    pub(crate) fn predicted(&mut self, entry: EntryId, request: &HeaderMap, cookies: PredictedCookies) {
        if let Some(found) = self.get_mut(entry) {
            (found.initiator, found.cookies) = (ExpectedInitiator::of(request), cookies);
        }
    }

    /// Records that the browser requested these entries; returns those whose priority class rose, with the
    /// new class.
    pub(crate) fn requested(&mut self, entries: &[EntryId]) -> Vec<(EntryId, u8)> {
        let mut risen = Vec::new();
        for &entry in entries {
            let rank = self.requests;
            let Some(found) = self.get_mut(entry) else {
                continue;
            };
            if found.requested.is_some() {
                continue;
            }
            let before = found.class();
            found.requested = Some(rank);
            let now = found.class();
            self.requests = rank.saturating_add(1);
            if now < before {
                risen.push((entry, now));
            }
        }
        risen
    }

    /// Matches an entry with the fields of a request; marks a promised this-page response as used.
    pub(crate) fn promise(&mut self, entry: EntryId, request: &HeaderMap) -> Match {
        let Some(found) = self.get_mut(entry) else {
            return Match::No;
        };
        let PlanEntry { stage, initiator, .. } = found;
        let answered = match stage {
            Stage::Announced | Stage::Fetching => return Match::Later,
            Stage::Withdrawn => return Match::No,
            Stage::Answered(answered) => answered,
        };
        // A document of another origin must not get a response that was fetched for the page or with its
        // cookies.
        let credentials = identity_key(request);
        if !initiator.may_be(&ExpectedInitiator::of(request))
            || answered.cookie.is_some() && credentials != answered.cookie
        {
            return Match::No;
        }
        if matches!(answered.body, BodyState::Broken)
            || vary::key(&answered.headers, request) != answered.vary
        {
            return Match::No;
        }
        match answered.usability {
            Usability::Reusable => {}
            Usability::Used => return Match::No,
            Usability::Once if credentials != answered.cookie => return Match::No,
            Usability::Once => answered.usability = Usability::Used,
        }
        Match::Promised
    }

    /// Sums up the browser's use of the pushes.
    pub(crate) fn taken(&self, used: &Used) -> Taken {
        let mut sum = Taken::default();
        for (number, entry) in self.entries() {
            if used.is_taken(number) {
                sum.taken_bytes += entry.pushed;
                sum.taken_objects += u64::from(entry.pushed > 0);
            } else {
                sum.wasted_bytes += entry.pushed;
            }
        }
        sum
    }
}
