//! Whether a stored response may be reused for a request (RFC 9111 section 4).
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use longhaul_types::UnixTime;

use super::{
    request::{Reload, reload},
    semantics::Semantics,
    validation,
};
use crate::{
    directives::Directives,
    vary::{self, Vary},
};

/// The kind of cache that judges (RFC 9111 section 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// One user's: the agent's, and a device's partition at the gateway.
    Private,
    /// All users'.
    Shared,
}

/// What to do with a stored response for a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reuse {
    /// Answer with it; these are the fields, `Age` among them. If the request is conditional, see
    /// [`crate::conditional::is_not_modified`].
    Fresh(HeaderMap),
    /// Validate it: send the request with these fields, which ask about the stored version instead of the browser's
    /// (whose conditions hold for the answer that is made afterwards). On a 304 see [`Freshness::after_304`]; every
    /// other response takes the stored one's place.
    Stale(HeaderMap),
    /// Forward the request as it is.
    No,
}

/// A stored response with what decides about its reuse.
#[derive(Clone, Debug)]
pub struct Freshness {
    request: HeaderMap,
    status: StatusCode,
    response: HeaderMap,
    requested_at: UnixTime,
    received_at: UnixTime,
    kind: CacheKind,
}

impl Freshness {
    /// Describes a stored response. `request` needs only the fields that the response's `Vary` names
    /// ([`vary::nominated`]). After a validation the times are those of the 304.
    pub fn of(
        request: &HeaderMap,
        status: StatusCode,
        response: &HeaderMap,
        requested_at: UnixTime,
        received_at: UnixTime,
        kind: CacheKind,
    ) -> Self {
        Self {
            request: request.clone(),
            status,
            response: response.clone(),
            requested_at,
            received_at,
            kind,
        }
    }

    /// Decides whether the stored response to a GET of the same URL serves this request at `now`.
    ///
    /// Beyond RFC 9111: a request with `Authorization` is never answered without the origin; one of a foreign origin
    /// gets only what was allowed to that origin or to all (leave `Host` in `request`, by which own and foreign ones
    /// are told apart); ranges and preconditions like `If-Match` are forwarded.
    pub fn reuse(&self, method: &Method, request: &HeaderMap, now: UnixTime) -> Reuse {
        let readable = *method == Method::GET || *method == Method::HEAD;
        let special = FORWARDED.iter().any(|name| request.contains_key(name));
        if !readable || special || !self.matches(request) || !self.is_allowed_to(request) {
            return Reuse::No;
        }
        if reload(request) == Reload::Bypass {
            return Reuse::No;
        }
        let authorized = request.contains_key(header::AUTHORIZATION);
        if authorized && self.kind == CacheKind::Shared {
            return Reuse::No;
        }
        let semantics = self.semantics();
        if !authorized && self.satisfies(&semantics, request, now) {
            return Reuse::Fresh(self.fields_at(&semantics, now));
        }
        if *method != Method::GET {
            return Reuse::No;
        }
        let conditional = validation::conditional_request(request, self.status, &self.response);
        conditional.map_or(Reuse::No, Reuse::Stale)
    }

    /// How long the response stays fresh after `now`, zero if it is not.
    pub fn fresh_for(&self, now: UnixTime) -> Duration {
        if self.is_from_the_future(now) || vary::of(&self.response) == Vary::Any {
            return Duration::ZERO;
        }
        self.semantics().fresh_for(now)
    }

    /// The fields of the stored response as a 304 that came at `received_at` updates them (RFC 9111 sections 3.2 and
    /// 4.3.4). None if the 304 is about another version: then the request must be sent again without conditions.
    ///
    /// What describes the stored bytes or chooses among variants (`Content-*`, `ETag`, `Vary`) stays. `Set-Cookie` of
    /// the 304 is not in the result: hand it to this browser with this answer, and store it nowhere. Store the
    /// result if [`super::storage`] still lets you.
    pub fn after_304(&self, not_modified: &HeaderMap, received_at: UnixTime) -> Option<HeaderMap> {
        validation::freshened(&self.response, not_modified, received_at)
    }

    fn semantics(&self) -> Semantics {
        Semantics::new(
            self.status,
            &self.response,
            self.requested_at,
            self.received_at,
            self.kind,
        )
    }

    fn satisfies(&self, semantics: &Semantics, request: &HeaderMap, now: UnixTime) -> bool {
        if self.is_from_the_future(now) {
            return false;
        }
        // RFC 8246: what is immutable needs no validation while it is fresh; the reload button, which sends
        // `max-age=0` for everything, cannot find a change in it.
        let immutable = Directives::of(&self.response).has("immutable");
        if immutable && reload(request) == Reload::Revalidate {
            return !semantics.fresh_for(now).is_zero();
        }
        semantics.satisfies(request, now)
    }

    /// The clock was set back since the response came: how old it is cannot be told.
    fn is_from_the_future(&self, now: UnixTime) -> bool {
        self.received_at > now + MAX_CLOCK_STEP
    }

    fn matches(&self, request: &HeaderMap) -> bool {
        match vary::of(&self.response) {
            Vary::None => true,
            Vary::Any => false,
            Vary::Names(_) => vary::key(&self.response, &self.request) == vary::key(&self.response, request),
        }
    }

    /// Trap of caches: one origin's `Access-Control-Allow-Origin` handed to another.
    fn is_allowed_to(&self, request: &HeaderMap) -> bool {
        let Some(origin) = request.get(header::ORIGIN) else {
            return true;
        };
        let mut allowed = self
            .response
            .get_all(header::ACCESS_CONTROL_ALLOW_ORIGIN)
            .iter()
            .peekable();
        if allowed.peek().is_none() {
            return is_own_origin(origin, request.get(header::HOST));
        }
        allowed.all(|value| value == origin || value.as_bytes() == b"*")
    }

    fn fields_at(&self, semantics: &Semantics, now: UnixTime) -> HeaderMap {
        let mut fields = self.response.clone();
        // These act when they arrive; a browser's cache does not make them act again.
        fields.remove(header::SET_COOKIE);
        fields.remove(CLEAR_SITE_DATA);
        fields.insert(header::AGE, HeaderValue::from(semantics.age(now)));
        fields
    }
}

fn is_own_origin(origin: &HeaderValue, host: Option<&HeaderValue>) -> bool {
    let authority = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.split_once("://"))
        .map(|(_, authority)| authority);
    let host = host.and_then(|host| host.to_str().ok());
    authority
        .zip(host)
        .is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
}

/// Requests with these ask for more than a whole stored response can tell.
static FORWARDED: [HeaderName; 4] = [
    header::RANGE,
    header::IF_RANGE,
    header::IF_MATCH,
    header::IF_UNMODIFIED_SINCE,
];
const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");
/// Clocks that are kept by NTP step less than this.
const MAX_CLOCK_STEP: Duration = Duration::from_secs(60);
