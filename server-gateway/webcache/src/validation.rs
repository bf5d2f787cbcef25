//! Validation of a stored response (RFC 9111 section 4.3), and stale-if-error (section 4.2.4).
use http::{HeaderMap, HeaderValue, StatusCode, header};
use longhaul_cache::Partition;
use longhaul_http::policy::{CacheKind, Freshness, Reuse};
use longhaul_origin::Fault;
use tracing::debug;

use super::{
    coalesced_fetch::{FetchedBody, FetchedResponse},
    failure::FetchFailure,
    origin_fetch::{OriginFetch, Received, StaleIfError, now},
    response::CacheStatus,
    selection_rules::{self, Candidate},
    storage_rules::{self, StorageDecision},
};

/// Result of a validation.
pub(super) enum Validation {
    Response(Box<FetchedResponse>),
    /// A new response replaces the stored one.
    Replaced(Box<Received>),
}

impl Validation {
    fn response(fetched: FetchedResponse) -> Self {
        Self::Response(Box::new(fetched))
    }

    fn replaced(received: Received) -> Self {
        Self::Replaced(Box::new(received))
    }
}

impl OriginFetch {
    /// Asks the origin if a stored response is still valid.
    pub(super) async fn validate(&self, candidate: &Candidate) -> Result<Validation, FetchFailure> {
        let Reuse::Stale(fields) = &candidate.reuse else {
            return Ok(Validation::replaced(self.send(self.parts.clone(), None).await?));
        };
        let parts = selection_rules::conditional(&self.parts, fields.clone());
        let may_use_stale = self.stale_if_error == StaleIfError::Allowed
            && selection_rules::allows_stale_if_error(candidate, &self.parts, self.reload_mode, now());
        let deciding_fields = selection_rules::deciding_fields(candidate, &parts.headers);
        let received = match self.send(parts, None).await {
            Ok(received) => Received {
                deciding_fields,
                ..received
            },
            Err(error) if may_use_stale && error.fault() == Fault::Origin => {
                debug!(%error, "a stale response is sent: the origin cannot be reached");
                return Ok(Validation::response(stale_response(candidate)));
            }
            Err(error) => return Err(error.into()),
        };
        let status = received.response.status();
        if status.is_server_error() && may_use_stale && STALE_IF_ERROR_STATUS.contains(&status) {
            debug!(%status, "a stale response is sent: the origin failed");
            return Ok(Validation::response(stale_response(candidate)));
        }
        if status != StatusCode::NOT_MODIFIED {
            return Ok(Validation::replaced(received));
        }
        match self.freshen(candidate, &received).await {
            Some(fetched) => Ok(Validation::response(fetched)),
            // The 304 refers to another version than the stored one.
            None => Ok(Validation::replaced(self.send(self.parts.clone(), None).await?)),
        }
    }

    /// Updates a stored response from the 304 that confirms it.
    async fn freshen(&self, candidate: &Candidate, received: &Received) -> Option<FetchedResponse> {
        let stored = &candidate.stored;
        let freshness = Freshness::of(
            &HeaderMap::new(),
            candidate.status,
            &candidate.headers,
            stored.requested_at,
            stored.received_at,
            CacheKind::Private,
        );
        let mut not_modified = received.response.headers().clone();
        longhaul_http::hop_by_hop::strip_response(&mut not_modified);
        let headers = freshness.after_304(&not_modified, received.received_at)?;
        let storage_decision = self.decision_about(
            candidate.status,
            &headers,
            &received.deciding_fields,
            received.connection_use,
        );
        let may_update =
            selection_rules::may_update(candidate, &received.deciding_fields, received.connection_use);
        // A response stays in its partition or is deleted: a 304 never makes a private response shared.
        let storage_decision = match storage_decision {
            StorageDecision::No | StorageDecision::Body => StorageDecision::No,
            StorageDecision::In(Partition::Private(_))
                if stored.partition == Partition::Shared && may_update =>
            {
                StorageDecision::No
            }
            // A 304 to one requester's own fields updates only that requester's copy of a shared response.
            StorageDecision::In(own @ Partition::Private(_)) if !may_update => StorageDecision::In(own),
            StorageDecision::Uncertain(own) if !may_update => StorageDecision::Uncertain(own),
            StorageDecision::In(_) | StorageDecision::Uncertain(_) if storage_rules::is_uncertain(stored) => {
                StorageDecision::Uncertain(stored.partition.clone())
            }
            StorageDecision::In(_) | StorageDecision::Uncertain(_) => {
                StorageDecision::In(stored.partition.clone())
            }
        };
        let mut fetched = FetchedResponse {
            status: candidate.status,
            headers,
            body: FetchedBody::of_stored(stored.chk),
            cache_status: CacheStatus::Revalidated,
            storage_decision,
            requested_at: received.requested_at,
            received_at: received.received_at,
            origin_size: candidate.origin_size(),
        };
        match &fetched.storage_decision {
            StorageDecision::No | StorageDecision::Body => {
                if may_update {
                    self.remove_stored(&stored.partition).await;
                }
            }
            StorageDecision::In(_) | StorageDecision::Uncertain(_) => {
                self.store(&fetched, stored.chk.map(|chk| (chk, stored.length)))
                    .await
            }
        }
        for cookie in not_modified.get_all(header::SET_COOKIE) {
            fetched.headers.append(header::SET_COOKIE, cookie.clone());
        }
        fetched.headers.insert(header::AGE, HeaderValue::from_static("0"));
        Some(fetched)
    }
}

/// Returns a stale stored response instead of the origin's.
fn stale_response(candidate: &Candidate) -> FetchedResponse {
    let mut headers = candidate.headers.clone();
    let age = now()
        .since_epoch()
        .saturating_sub(candidate.stored.received_at.since_epoch());
    headers.insert(header::AGE, HeaderValue::from(age.as_secs()));
    FetchedResponse {
        status: candidate.status,
        headers,
        body: FetchedBody::of_stored(candidate.stored.chk),
        cache_status: CacheStatus::Stale,
        storage_decision: StorageDecision::No,
        requested_at: candidate.stored.requested_at,
        received_at: candidate.stored.received_at,
        origin_size: candidate.origin_size(),
    }
}

/// Status codes that indicate a temporary failure of the origin or a proxy before it (RFC 5861 section 4).
const STALE_IF_ERROR_STATUS: [StatusCode; 4] = [
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];
