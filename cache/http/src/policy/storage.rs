//! What may be stored, and for whom (RFC 9111 section 3).
use http::{HeaderMap, Method, StatusCode, header};
use longhaul_types::UnixTime;

use super::{freshness::CacheKind, semantics::Semantics, sharing::may_share};
use crate::{
    directives::Directives,
    vary::{self, Vary},
};

/// Where a response may be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Nowhere.
    No,
    /// For the device that asked.
    Private,
    /// For all devices.
    Shared,
}

/// Decides where a gateway may store the response to a request. `request` is what was sent to the origin; `response`
/// has lost its hop-by-hop fields.
///
/// Shared needs more than RFC 9111 asks of a shared cache, for an origin's slip must not show one user's response to
/// another: GET without credentials, and with nothing but fields that are canonical or part of the key under which it
/// is shared ([`super::may_share`], [`super::SharingKey`]; whatever an origin reflects is then what everybody sends who
/// gets it); status 200, 203, 301 or 308; neither `Set-Cookie` nor `private`, `no-store`, `no-cache`; an explicit
/// lifetime or `public`; no `Access-Control-Allow-Origin` for one origin without `Vary: Origin`.
///
/// Private follows RFC 9111 for a private cache, less what cannot be kept or found again: other methods than GET,
/// partial and endless bodies, and `Vary: *`.
pub fn storage(method: &Method, request: &HeaderMap, status: StatusCode, response: &HeaderMap) -> Storage {
    let unfit = *method != Method::GET
        || Directives::of(request).has("no-store")
        || vary::of(response) == Vary::Any
        || response.contains_key(header::CONTENT_RANGE)
        || is_endless(response);
    if unfit || !is_storable(status, response, CacheKind::Private) {
        Storage::No
    } else if is_shared(request, status, response) {
        Storage::Shared
    } else {
        Storage::Private
    }
}

/// Whether an agent keeps the body of a response, known from the status and the fields that both ends see: the
/// gateway assumes exactly these bodies to be held once they are delivered.
///
/// A kept body need not be reusable without asking (`no-cache`, `Vary: *`): it serves as the version that is held.
pub fn agent_stores(status: StatusCode, response: &HeaderMap) -> bool {
    let bodyless = status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    !bodyless
        && !response.contains_key(header::CONTENT_RANGE)
        && !is_endless(response)
        && is_storable(status, response, CacheKind::Private)
}

/// Whether a response makes what is stored under its request's URL invalid (RFC 9111 section 4.4): that of an unsafe
/// method, if it is not an error.
pub fn invalidates(method: &Method, status: StatusCode) -> bool {
    !method.is_safe() && (status.is_success() || status.is_redirection())
}

/// Whether a body never ends by design, so that no whole of it can be kept or waited for.
pub(super) fn is_endless(response: &HeaderMap) -> bool {
    let content_type = response.get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    let essence = content_type.and_then(|value| value.split(|byte| *byte == b';').next());
    essence.is_some_and(|essence| {
        let essence = essence.trim_ascii();
        essence.eq_ignore_ascii_case(b"text/event-stream")
            || essence.eq_ignore_ascii_case(b"multipart/x-mixed-replace")
    })
}

/// RFC 9111 section 3 does not depend on the time.
pub(super) fn is_storable(status: StatusCode, response: &HeaderMap, kind: CacheKind) -> bool {
    let anytime = UnixTime::default();
    Semantics::new(status, response, anytime, anytime, kind).is_storable()
}

fn is_shared(request: &HeaderMap, status: StatusCode, response: &HeaderMap) -> bool {
    let directives = Directives::of(response);
    let forbidden = ["private", "no-store", "no-cache"]
        .iter()
        .any(|name| directives.has(name));
    let lifetime = directives
        .seconds("s-maxage")
        .or_else(|| directives.seconds("max-age"));
    let explicit = match lifetime {
        Some(lifetime) => !lifetime.is_zero(),
        None => directives.has("public") || response.contains_key(header::EXPIRES),
    };
    SHARED_STATUSES.contains(&status)
        && is_storable(status, response, CacheKind::Shared)
        && !forbidden
        && explicit
        && may_share(request)
        && !response.contains_key(header::SET_COOKIE)
        && permits_origins(response)
}

/// No origin's permission is handed to another.
fn permits_origins(response: &HeaderMap) -> bool {
    let mut allowed = response.get_all(header::ACCESS_CONTROL_ALLOW_ORIGIN).iter();
    let named = allowed.any(|value| value.as_bytes() != b"*");
    let credentials = response.contains_key(header::ACCESS_CONTROL_ALLOW_CREDENTIALS);
    let varies = matches!(vary::of(response), Vary::Names(names) if names.contains(&header::ORIGIN));
    varies || !(named || credentials)
}

/// Redirects that do not last and all errors stay private: an error that one client can provoke must not reach others.
const SHARED_STATUSES: [StatusCode; 4] = [
    StatusCode::OK,
    StatusCode::NON_AUTHORITATIVE_INFORMATION,
    StatusCode::MOVED_PERMANENTLY,
    StatusCode::PERMANENT_REDIRECT,
];
