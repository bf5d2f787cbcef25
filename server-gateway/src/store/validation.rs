//! Validation of a stored response (RFC 9111 section 4.3), and its use while the origin fails (section 4.2.4).
use http::{HeaderMap, HeaderValue, StatusCode, header};
use longhaul_cache::Partition;
use longhaul_http::policy::{CacheKind, Freshness, Reuse};
use longhaul_origin::Fault;
use tracing::debug;

use super::{
    Source,
    flight::{Landed, LandedBody},
    rules::{self, Candidate, Keeping},
    trip::{Received, StandIn, Trip, now},
};
use crate::fetch::Failure;

/// What came of asking.
pub(super) enum Validation {
    Landed(Box<Landed>),
    /// What came takes the stored response's place.
    Replaced(Box<Received>),
}

impl Validation {
    fn landed(landed: Landed) -> Self {
        Self::Landed(Box::new(landed))
    }

    fn replaced(received: Received) -> Self {
        Self::Replaced(Box::new(received))
    }
}

impl Trip {
    /// Asks the origin whether a stored response is still current.
    pub(super) async fn validate(&self, candidate: &Candidate) -> Result<Validation, Failure> {
        let Reuse::Stale(fields) = &candidate.reuse else {
            return Ok(Validation::replaced(self.send(self.parts.clone(), None).await?));
        };
        let parts = rules::conditional(&self.parts, fields.clone());
        let stands_in = self.stand_in == StandIn::Allowed
            && rules::may_stand_in(candidate, &self.parts, self.wanted, now());
        let judged_by = rules::judged_by(candidate, &parts.headers);
        let received = match self.send(parts, None).await {
            Ok(received) => Received {
                judged_by,
                ..received
            },
            Err(error) if stands_in && error.fault() == Fault::Origin => {
                debug!(%error, "a stored response stands in for an origin that cannot be reached");
                return Ok(Validation::landed(stand_in(candidate)));
            }
            Err(error) => return Err(error.into()),
        };
        let status = received.response.status();
        if status.is_server_error() && stands_in && STANDS_IN_FOR.contains(&status) {
            debug!(%status, "a stored response stands in for an origin that fails");
            return Ok(Validation::landed(stand_in(candidate)));
        }
        if status != StatusCode::NOT_MODIFIED {
            return Ok(Validation::replaced(received));
        }
        match self.freshen(candidate, &received).await {
            Some(landed) => Ok(Validation::landed(landed)),
            // The origin speaks of another version than the one that it was asked about.
            None => Ok(Validation::replaced(self.send(self.parts.clone(), None).await?)),
        }
    }

    /// Updates a stored response by the 304 that confirms it.
    async fn freshen(&self, candidate: &Candidate, received: &Received) -> Option<Landed> {
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
        longhaul_http::hop::strip_response(&mut not_modified);
        let headers = freshness.after_304(&not_modified, received.received_at)?;
        let keeping = rules::keeping(
            &self.asker,
            &self.parts.method,
            &received.judged_by,
            candidate.status,
            &headers,
        );
        let may_teach = rules::may_teach(candidate, &received.judged_by);
        // A response stays where it is, or goes: what was one device's does not become everybody's by a 304.
        let keeping = match keeping {
            Keeping::No | Keeping::Body => Keeping::No,
            Keeping::In(Partition::Private(_)) if stored.partition == Partition::Shared && may_teach => {
                Keeping::No
            }
            // What the origin told one requester about what all have.
            Keeping::In(own @ Partition::Private(_)) if !may_teach => Keeping::In(own),
            Keeping::In(_) => Keeping::In(stored.partition.clone()),
        };
        let mut landed = Landed {
            status: candidate.status,
            headers,
            body: stored.chk.map_or(LandedBody::None, LandedBody::Stored),
            source: Source::Validated,
            keeping,
            requested_at: received.requested_at,
            received_at: received.received_at,
        };
        match &landed.keeping {
            Keeping::No | Keeping::Body => {
                if may_teach {
                    self.forget(&stored.partition).await;
                }
            }
            Keeping::In(_) => {
                self.keep(&landed, stored.chk.map(|chk| (chk, stored.length)))
                    .await
            }
        }
        for cookie in not_modified.get_all(header::SET_COOKIE) {
            landed.headers.append(header::SET_COOKIE, cookie.clone());
        }
        landed.headers.insert(header::AGE, HeaderValue::from_static("0"));
        Some(landed)
    }
}

/// A stored response instead of the origin's.
fn stand_in(candidate: &Candidate) -> Landed {
    let mut headers = candidate.headers.clone();
    let age = now()
        .since_epoch()
        .saturating_sub(candidate.stored.received_at.since_epoch());
    headers.insert(header::AGE, HeaderValue::from(age.as_secs()));
    Landed {
        status: candidate.status,
        headers,
        body: candidate.stored.chk.map_or(LandedBody::None, LandedBody::Stored),
        source: Source::StoodIn,
        keeping: Keeping::No,
        requested_at: candidate.stored.requested_at,
        received_at: candidate.stored.received_at,
    }
}

/// Errors that say that the origin, or what is before it, fails for the moment (RFC 5861 section 4).
const STANDS_IN_FOR: [StatusCode; 4] = [
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];
