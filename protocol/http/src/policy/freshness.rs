//! Reuse of stored responses (RFC 9111 section 4).
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use longhaul_types::UnixTime;

use super::{
    cache_kind::CacheKind,
    request::{Reload, reload},
    semantics::Semantics,
    validation,
};
use crate::{
    directives::Directives,
    vary::{self, Vary},
};

/// Use of a stored response for a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reuse {
    /// Respond with the stored response and these fields, including `Age`. If the request is conditional, see
    /// [`crate::conditional::is_not_modified`].
    Fresh(HeaderMap),
    /// Revalidate: send the request with these fields, which contain the conditions of the stored version.
    /// The browser's own conditions apply to the response made afterwards. On a 304 see
    /// [`Freshness::after_304`]; any other response replaces the stored one.
    Stale(HeaderMap),
    /// Forward the request unchanged.
    Forward,
}

/// A stored response with the data that decide about its reuse.
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
    /// ([`vary::nominated`]). After a revalidation, the times are those of the 304.
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

    /// Decides whether the stored response to a GET of the same URL may answer this request at `now`.
    ///
    /// Stricter than RFC 9111: a request with `Authorization` is never answered without the origin. A request
    /// of another origin gets only responses that allow this origin or all origins; `request` must contain
    /// `Host`, which distinguishes own and other origins. Requests with ranges or with preconditions such as
    /// `If-Match` are forwarded.
    pub fn reuse(&self, method: &Method, request: &HeaderMap, now: UnixTime) -> Reuse {
        let readable = *method == Method::GET || *method == Method::HEAD;
        let special = FORWARDED.iter().any(|name| request.contains_key(name));
        if !readable || special || !self.matches(request) || !self.is_allowed_to(request) {
            return Reuse::Forward;
        }
        if reload(request) == Reload::Bypass {
            return Reuse::Forward;
        }
        let authorized = request.contains_key(header::AUTHORIZATION);
        if authorized && self.kind == CacheKind::Shared {
            return Reuse::Forward;
        }
        let semantics = self.semantics();
        if !authorized && self.satisfies(&semantics, request, now) {
            return Reuse::Fresh(self.fields_at(&semantics, now));
        }
        if *method != Method::GET {
            return Reuse::Forward;
        }
        let conditional = validation::conditional_request(request, self.status, &self.response);
        conditional.map_or(Reuse::Forward, Reuse::Stale)
    }

    /// Time for which the response remains fresh after `now`; zero if it is stale.
    pub fn fresh_for(&self, now: UnixTime) -> Duration {
        if self.is_from_the_future(now) || vary::of(&self.response) == Vary::Any {
            return Duration::ZERO;
        }
        self.semantics().fresh_for(now)
    }

    /// Returns the fields of the stored response, updated by a 304 received at `received_at` (RFC 9111
    /// sections 3.2 and 4.3.4). None if the 304 concerns another version; the request must then be sent again
    /// without conditions.
    ///
    /// Fields that describe the stored bytes or select a variant (`Content-*`, `ETag`, `Vary`) remain
    /// unchanged. The result does not contain `Set-Cookie` of the 304: forward that field with this response
    /// only, and do not store it. Store the result if [`super::storage`] still permits it.
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
        // RFC 8246: an immutable response needs no validation while it is fresh; the reload button, which
        // sends `max-age=0` for everything, cannot find a change.
        let immutable = Directives::of(&self.response).has("immutable");
        if immutable && reload(request) == Reload::Revalidate {
            return !semantics.fresh_for(now).is_zero();
        }
        semantics.satisfies(request, now)
    }

    /// True if the clock was set back since the response was received: the age is then unknown.
    fn is_from_the_future(&self, now: UnixTime) -> bool {
        self.received_at > now + MAX_CLOCK_STEP
    }

    fn matches(&self, request: &HeaderMap) -> bool {
        match vary::of(&self.response) {
            Vary::None => true,
            Vary::Any => false,
            Vary::Names(_) => vary::is_equal(&self.response, &self.request, request),
        }
    }

    /// Prevents reuse of one origin's `Access-Control-Allow-Origin` for another origin.
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
        // These fields take effect on arrival; a browser's cache does not repeat the effect.
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

/// Request fields with requirements that a complete stored response may not meet.
static FORWARDED: [HeaderName; 4] = [
    header::RANGE,
    header::IF_RANGE,
    header::IF_MATCH,
    header::IF_UNMODIFIED_SINCE,
];
const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");
/// Clocks that NTP controls step by less than this.
const MAX_CLOCK_STEP: Duration = Duration::from_secs(60);
