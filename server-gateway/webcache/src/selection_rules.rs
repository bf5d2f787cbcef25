//! Selection of stored responses: RFC 9111 section 4 as implemented by `longhaul-http`, restricted by the
//! request context.
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use longhaul_cache::{Partition, StoredResponse};
use longhaul_http::{
    coding, field_list,
    policy::{CacheKind, Freshness, Reload, Reuse, may_share, reload},
    request_context::RequestContext,
};
use longhaul_origin::ConnectionUse;
use longhaul_types::{ContentHash, UnixTime};

use super::{
    origin_size::OriginSize,
    requester_identity::RequesterIdentity,
    storage_rules::{StorageDecision, is_coded_for, is_copy, is_shared_with, reuse_kind},
};

/// A stored response and its permitted use.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) stored: StoredResponse,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) reuse: Reuse,
}

impl Candidate {
    /// Bytes that the origin sent when the response was fetched.
    pub(super) fn origin_size(&self) -> OriginSize {
        OriginSize::of_stored(self.stored.origin_bytes, self.stored.length)
    }
}

/// Maximum staleness for use after an origin's failure, if the response has no `stale-if-error`.
const MAX_STALE: Duration = Duration::from_secs(24 * 3600);

/// Selects the best stored response for a request: a fresh one, else one that can be validated; of several,
/// one with the same credentials; of several, the newest.
pub(super) fn select(
    found: Vec<StoredResponse>,
    context: &RequestContext,
    parts: &Parts,
    browser: &HeaderMap,
    reload_mode: Reload,
    now: UnixTime,
) -> Option<Candidate> {
    let request = evaluated_request(parts, reload_mode);
    let found = without_orphans(found);
    let mut best: Option<Candidate> = None;
    for stored in found {
        let Some(candidate) = evaluate(stored, context, &parts.method, &request, browser, now) else {
            continue;
        };
        let rank = |candidate: &Candidate| {
            let fresh = matches!(candidate.reuse, Reuse::Fresh(_));
            let is_own = candidate.stored.credentials == context.credentials();
            (fresh, is_own, candidate.stored.received_at)
        };
        if best.as_ref().is_none_or(|best| rank(&candidate) > rank(best)) {
            best = Some(candidate);
        }
    }
    best
}

/// Removes copies whose shared response no longer exists, because it was invalidated or evicted.
fn without_orphans(mut found: Vec<StoredResponse>) -> Vec<StoredResponse> {
    let shared: Vec<Option<ContentHash>> = found
        .iter()
        .filter(|stored| stored.partition == Partition::Shared)
        .map(|stored| stored.chk)
        .collect();
    found.retain(|stored| !is_copy(stored) || shared.contains(&stored.chk));
    found
}

fn evaluate(
    stored: StoredResponse,
    context: &RequestContext,
    method: &Method,
    request: &HeaderMap,
    browser: &HeaderMap,
    now: UnixTime,
) -> Option<Candidate> {
    let status = StatusCode::from_u16(stored.status).ok()?;
    let headers = field_list::to_map_lossy(&stored.fields);
    let usable = is_coded_for(&stored, request)
        && is_acceptable(&headers, browser)
        && is_shared_with(&stored, request)
        && match stored.partition {
            Partition::Private(_) => context.may_reuse(stored.credentials, &headers),
            Partition::Shared => !request.contains_key(header::COOKIE) || is_for_all(&headers),
        };
    if !usable {
        return None;
    }
    let freshness = Freshness::of(
        &field_list::to_map_lossy(&stored.request_fields),
        status,
        &headers,
        stored.requested_at,
        stored.received_at,
        reuse_kind(&stored),
    );
    let reuse = freshness.reuse(method, request, now);
    match reuse {
        Reuse::Forward => None,
        Reuse::Fresh(_) | Reuse::Stale(_) => Some(Candidate {
            stored,
            status,
            headers,
            reuse,
        }),
    }
}

/// Restores the `Cache-Control` fields of the request after the cache has evaluated it.
fn restore(fields: &mut HeaderMap, request: &HeaderMap) {
    fields.remove(header::CACHE_CONTROL);
    for value in request.get_all(header::CACHE_CONTROL) {
        fields.append(header::CACHE_CONTROL, value.clone());
    }
}

/// A shared response answers a request with cookies only if the origin allows it explicitly.
fn is_for_all(response: &HeaderMap) -> bool {
    ["public", "s-maxage"]
        .iter()
        .any(|name| directive(response, name).is_some())
}

/// Returns true if the browser accepts the content codings that were left in place (`no-transform`). Other clients have
/// the coding from the origin that sent it to an equal request.
fn is_acceptable(response: &HeaderMap, browser: &HeaderMap) -> bool {
    !coding::takes_decoded(browser)
        || coding::content_codings(response)
            .iter()
            .all(|coding| coding::accepts(browser, coding))
}

/// The request's fields for the cache's evaluation: with `Host`, and with the request's reload directive.
fn evaluated_request(parts: &Parts, reload_mode: Reload) -> HeaderMap {
    let mut request = parts.headers.clone();
    if let Some(host) = parts
        .uri
        .authority()
        .and_then(|authority| HeaderValue::from_str(authority.as_str()).ok())
    {
        request.insert(header::HOST, host);
    }
    if reload_mode == Reload::Revalidate && reload(&request) == Reload::None {
        request.append(header::CACHE_CONTROL, MAX_AGE_ZERO);
    }
    request
}

/// The conditional request for the origin, from the fields of the cache's evaluation.
pub(super) fn conditional(parts: &Parts, mut fields: HeaderMap) -> Parts {
    fields.remove(header::HOST);
    restore(&mut fields, &parts.headers);
    let mut parts = parts.clone();
    parts.headers = fields;
    parts
}

/// The fields that decide the storage of a validated response: those that were sent. The condition on a
/// shared response is the same for every device and does not count.
pub(super) fn deciding_fields(candidate: &Candidate, sent: &HeaderMap) -> HeaderMap {
    let mut fields = sent.clone();
    if candidate.stored.partition == Partition::Shared {
        fields.remove(header::IF_NONE_MATCH);
        fields.remove(header::IF_MODIFIED_SINCE);
    }
    fields
}

/// Returns true if the response to a request may update a shared response.
pub(super) fn may_update(
    candidate: &Candidate,
    deciding_fields: &HeaderMap,
    connection_use: ConnectionUse,
) -> bool {
    candidate.stored.partition != Partition::Shared
        || connection_use == ConnectionUse::First && may_share(deciding_fields)
}

/// Returns true if a response just fetched for one request also answers another one with the same key.
pub(super) fn answers_too(
    identity: &RequesterIdentity,
    parts: &Parts,
    storage_decision: &StorageDecision,
    status: StatusCode,
    response: &HeaderMap,
    times: (UnixTime, UnixTime),
    now: UnixTime,
) -> bool {
    let kind = match storage_decision {
        StorageDecision::In(Partition::Shared) => CacheKind::Shared,
        // The cookies are equal, because they are part of the coalesced fetch's key.
        StorageDecision::In(own @ Partition::Private(_)) if identity.partition().as_ref() == Some(own) => {
            CacheKind::Private
        }
        StorageDecision::Uncertain(own) if identity.partition().as_ref() == Some(own) => CacheKind::Shared,
        StorageDecision::In(Partition::Private(_))
        | StorageDecision::Uncertain(_)
        | StorageDecision::No
        | StorageDecision::Body => return false,
    };
    if response.contains_key(header::SET_COOKIE) {
        return false;
    }
    let request = evaluated_request(parts, Reload::None);
    let freshness = Freshness::of(&request, status, response, times.0, times.1, kind);
    matches!(freshness.reuse(&parts.method, &request, now), Reuse::Fresh(_))
}

/// Returns true if a stored response may be used after the origin's failure (stale-if-error; RFC 9111 section
/// 4.2.4, RFC 5861).
pub(super) fn allows_stale_if_error(
    candidate: &Candidate,
    parts: &Parts,
    reload_mode: Reload,
    now: UnixTime,
) -> bool {
    let response = &candidate.headers;
    let forbidden = ["must-revalidate", "proxy-revalidate", "no-cache", "s-maxage"]
        .iter()
        .any(|name| directive(response, name).is_some());
    let is_reload = reload_mode != Reload::None || reload(&parts.headers) != Reload::None;
    if forbidden || is_reload || parts.headers.contains_key(header::AUTHORIZATION) {
        return false;
    }
    let allowed = directive(response, "stale-if-error")
        .and_then(|value| value.parse().ok().map(Duration::from_secs))
        .unwrap_or(MAX_STALE);
    let stored = &candidate.stored;
    let freshness = Freshness::of(
        &HeaderMap::new(),
        candidate.status,
        response,
        stored.requested_at,
        stored.received_at,
        reuse_kind(stored),
    );
    now <= stored.received_at + freshness.fresh_for(stored.received_at) + allowed
}

/// The argument of a `Cache-Control` directive, empty if it has none; `None` without the directive.
fn directive(headers: &HeaderMap, name: &str) -> Option<String> {
    let values = headers.get_all(header::CACHE_CONTROL).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .find_map(|member| {
            let (found, argument) = member.split_once('=').unwrap_or((member, ""));
            found
                .trim()
                .eq_ignore_ascii_case(name)
                .then(|| argument.trim().trim_matches('"').to_owned())
        })
}

const MAX_AGE_ZERO: HeaderValue = HeaderValue::from_static("max-age=0");

#[cfg(test)]
mod tests;
