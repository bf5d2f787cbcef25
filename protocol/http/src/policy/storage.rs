//! Storage decisions (RFC 9111 section 3).
use http::{HeaderMap, Method, StatusCode, header};
use longhaul_types::UnixTime;

use super::{cache_kind::CacheKind, semantics::Semantics, sharing::may_share};
use crate::{
    directives::Directives,
    vary::{self, Vary},
};

/// Decision where a response may be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Nowhere.
    No,
    /// For the requesting device.
    Private,
    /// For all devices.
    Shared,
}

/// Decides where a gateway may store the response to a request. `request` is the request sent to the origin;
/// `response` has no hop-by-hop fields.
///
/// Shared storage requires more than RFC 9111, so that an origin's mistake does not show one user's response
/// to another: a GET without credentials, whose fields are all canonical or part of the sharing key
/// ([`super::may_share`], [`super::SharingKey`]; whatever an origin reflects is then common to all
/// recipients); status 200, 203, 301 or 308; neither `Set-Cookie` nor `private`, `no-store`, `no-cache`; an
/// explicit lifetime or `public`; no `Access-Control-Allow-Origin` for one origin without `Vary: Origin`.
///
/// Private storage follows RFC 9111 for a private cache, except for responses that cannot be stored or found
/// again: methods other than GET, partial and endless bodies, and `Vary: *`.
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

/// Returns true if the origin declares that all users may get the response (`public`).
pub fn is_declared_public(response: &HeaderMap) -> bool {
    Directives::of(response).has("public")
}

/// Returns true if no cache may store a response with these fields (`no-store`).
pub fn forbids_storage(response: &HeaderMap) -> bool {
    Directives::of(response).has("no-store")
}

/// Returns true if an agent stores the body of the response to a request, by what both ends see. The gateway's
/// mirror assumes exactly these bodies to be held after delivery.
///
/// A stored body may require revalidation (`no-cache`, `Vary: *`); it then serves as the held version.
pub fn agent_stores(method: &Method, request: &HeaderMap, status: StatusCode, response: &HeaderMap) -> bool {
    *method == Method::GET
        && !Directives::of(request).has("no-store")
        && agent_stores_pushed(status, response)
}

/// [`agent_stores`] of a response that was fetched before any request for it: with GET, and without `no-store`.
pub fn agent_stores_pushed(status: StatusCode, response: &HeaderMap) -> bool {
    AGENT_STATUSES.contains(&status.as_u16())
        && !response.contains_key(header::CONTENT_RANGE)
        && !is_endless(response)
        && is_storable(status, response, CacheKind::Private)
}

/// Returns true if a body never ends by design, so that it cannot be stored or awaited completely.
pub(super) fn is_endless(response: &HeaderMap) -> bool {
    let content_type = response.get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    let essence = content_type.and_then(|value| value.split(|byte| *byte == b';').next());
    essence.is_some_and(|essence| {
        let essence = essence.trim_ascii();
        essence.eq_ignore_ascii_case(b"text/event-stream")
            || essence.eq_ignore_ascii_case(b"multipart/x-mixed-replace")
    })
}

/// Storability by RFC 9111 section 3, which does not depend on the time.
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

/// True if the permission of one origin cannot be reused for another.
fn permits_origins(response: &HeaderMap) -> bool {
    let mut allowed = response.get_all(header::ACCESS_CONTROL_ALLOW_ORIGIN).iter();
    let named = allowed.any(|value| value.as_bytes() != b"*");
    let credentials = response.contains_key(header::ACCESS_CONTROL_ALLOW_CREDENTIALS);
    let varies = matches!(vary::of(response), Vary::Names(names) if names.contains(&header::ORIGIN));
    varies || !(named || credentials)
}

/// Statuses of responses whose bodies both ends know to be stored (docs/protocol/session.md section 7.2). An agent may store
/// others.
const AGENT_STATUSES: [u16; 13] = [200, 203, 300, 301, 302, 303, 307, 308, 404, 405, 410, 414, 501];
/// Statuses of shared responses. Temporary redirects and all errors stay private: an error that one client
/// can provoke must not reach others.
const SHARED_STATUSES: [StatusCode; 4] = [
    StatusCode::OK,
    StatusCode::NON_AUTHORITATIVE_INFORMATION,
    StatusCode::MOVED_PERMANENTLY,
    StatusCode::PERMANENT_REDIRECT,
];
