//! For which requests a pushed response is good (RFC 9111, narrowed).
use http::{HeaderMap, Method, StatusCode, header};
use longhaul_types::UnixTime;

use super::{
    freshness::{CacheKind, Freshness},
    storage::is_endless,
};
use crate::{
    directives::Directives,
    vary::{self, Vary},
};

/// For which requests a response that nobody has asked for yet may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// For every request with the same URL and the same fields that `Vary` names: a private cache could store it and
    /// reuse it now.
    Reusable,
    /// Once, within the page load for which it was fetched, and only if the browser sends the cookies that were
    /// predicted.
    ThisPage,
}

/// The scope of a response that was fetched for a page before the browser asked; None if it must not be pushed.
/// `now` is when the response came.
///
/// Unusable are: methods other than GET; requests with `Range` or `Authorization`; interim responses, 206, 304 and
/// 426, which answer what no predicted request asks; 401 and 407, which begin an exchange with the browser; 408, 421
/// and 425, which are about the connection; `Vary: *`; endless bodies; `WWW-Authenticate`, whose exchange (NTLM,
/// Negotiate) belongs to one connection.
///
/// `Content-Disposition: attachment` is usable: browsers ignore it on what a page embeds, and in a frame it means the
/// download that the browser would start anyway. So are errors like 404 and 500, within the page.
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
