//! Cache directives of requests (RFC 9111 section 5.2.1).
use std::time::Duration;

use http::{HeaderMap, HeaderName, header};

use crate::{directives::Directives, list::members};

/// The request field that marks the script of a service worker (Service Workers section 6.1). An origin may refuse such a
/// request for a script that it serves to pages.
pub const SERVICE_WORKER: HeaderName = HeaderName::from_static("service-worker");

/// Reload mode of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// No reload: use stored responses by their freshness.
    None,
    /// `max-age=0`: revalidate (the reload button).
    Revalidate,
    /// `no-cache`, or `Pragma: no-cache` without `Cache-Control`: fetch from the origin (reload that bypasses
    /// caches). A request with [`SERVICE_WORKER`] is one, too: a stored response would hide the origin's refusal.
    Bypass,
}

/// Parses `Cache-Control` and `Pragma` of a request.
pub fn reload(request: &HeaderMap) -> Reload {
    let directives = Directives::of(request);
    let pragma = members(request, header::PRAGMA).any(|member| member.eq_ignore_ascii_case("no-cache"));
    if directives.has("no-cache")
        || request.contains_key(SERVICE_WORKER)
        || pragma && !request.contains_key(header::CACHE_CONTROL)
    {
        Reload::Bypass
    } else if directives.seconds("max-age") == Some(Duration::ZERO) {
        Reload::Revalidate
    } else {
        Reload::None
    }
}

/// Returns true if the request must be answered without the origin, or with 504 if that is impossible (RFC
/// 9111 section 5.2.1.7).
pub fn only_if_cached(request: &HeaderMap) -> bool {
    Directives::of(request).has("only-if-cached")
}
