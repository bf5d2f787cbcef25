//! Scope of pushed responses: the requests that they may answer (stricter than RFC 9111).
use http::{HeaderMap, Method, StatusCode, header};
use longhaul_types::UnixTime;

use super::{cache_kind::CacheKind, freshness::Freshness, storage::is_endless};
use crate::{
    directives::Directives,
    vary::{self, Vary},
};

/// The requests that a response may answer that was fetched before any request for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every request with the same URL and the same values of the fields that `Vary` names: a private cache
    /// could store the response and reuse it now.
    Reusable,
    /// One request of the page load for which the response was fetched, and only if the browser sends the
    /// predicted cookies.
    ThisPage,
}

/// Returns the scope of a response that was fetched for a page before the browser's request; None if the
/// response must not be pushed. `now` is the time of its arrival.
///
/// Not usable are: methods other than GET; requests with `Range` or `Authorization`; interim responses, 206,
/// 304 and 426, which do not answer a predicted request; 401 and 407, which begin an exchange with the
/// browser; 408, 421 and 425, which concern the connection; `Vary: *`; endless bodies; `WWW-Authenticate`,
/// whose exchange (NTLM, Negotiate) belongs to one connection.
///
/// `Content-Disposition: attachment` is usable: browsers ignore it for embedded objects, and in a frame it
/// causes the download that the browser would start anyway. Errors such as 404 and 500 are usable within the
/// page.
pub fn scope(
    method: &Method,
    request: &HeaderMap,
    status: StatusCode,
    response: &HeaderMap,
    now: UnixTime,
) -> Option<Scope> {
    let unusable = *method != Method::GET
        || request.contains_key(header::RANGE)
        || request.contains_key(header::AUTHORIZATION)
        || status.is_informational()
        || UNUSABLE.contains(&status)
        || vary::of(response) == Vary::Any
        || response.contains_key(header::CONTENT_RANGE)
        || response.contains_key(header::WWW_AUTHENTICATE)
        || is_endless(response);
    if unusable {
        return None;
    }
    let directives = Directives::of(response);
    let bound = ["private", "no-store"].iter().any(|name| directives.has(name))
        || Directives::of(request).has("no-store")
        || response.contains_key(header::SET_COOKIE);
    let freshness = Freshness::of(request, status, response, now, now, CacheKind::Private);
    if bound || freshness.fresh_for(now).is_zero() {
        Some(Scope::ThisPage)
    } else {
        Some(Scope::Reusable)
    }
}

const UNUSABLE: [StatusCode; 8] = [
    StatusCode::PARTIAL_CONTENT,
    StatusCode::NOT_MODIFIED,
    StatusCode::UNAUTHORIZED,
    StatusCode::PROXY_AUTHENTICATION_REQUIRED,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::MISDIRECTED_REQUEST,
    StatusCode::TOO_EARLY,
    StatusCode::UPGRADE_REQUIRED,
];
