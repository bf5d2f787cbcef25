//! Storage decision and selection of stored responses: RFC 9111 as implemented by `longhaul-http`, restricted
//! by the request context.
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};
use longhaul_cache::{Partition, StoredResponse};
use longhaul_http::{
    field_list,
    policy::{
        CacheKind, Freshness, Reload, Reuse, SharingKey, Storage, is_canonical, may_share, reload, storage,
    },
    request_context::RequestContext,
    vary,
};
use longhaul_types::{ContentHash, UnixTime};

use super::asker::Asker;

/// Storage decision for a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StorageDecision {
    /// The response is not stored.
    No,
    /// Only the body is stored, as a possible delta base of a later version.
    Body,
    /// The response is stored in this partition.
    In(Partition),
}

/// A stored response and its permitted use.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) stored: StoredResponse,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) reuse: Reuse,
}

/// Pseudo field that contains the sharing key in the request fields of a shared response.
const SHARING: &str = ":sharing";
/// Pseudo field that marks a copy of a shared response in a private partition.
const COPY: &str = ":copy";
/// Maximum staleness for use after an origin's failure, if the response has no `stale-if-error`.
const MAX_STALE: Duration = Duration::from_secs(24 * 3600);

/// Decides where the response to a request is stored.
pub(super) fn storage_decision(
    asker: &Asker,
    method: &Method,
    request: &HeaderMap,
    status: StatusCode,
    response: &HeaderMap,
) -> StorageDecision {
    // One device may serve several people, so responses to requests with `Authorization` are never stored.
    if request.contains_key(header::AUTHORIZATION) {
        return StorageDecision::No;
    }
    match storage(method, request, status, response) {
        Storage::No => StorageDecision::No,
        // Without freshness lifetime and validator a stored response could never be used.
        Storage::Private | Storage::Shared if !is_useful(status, response) => {
            if is_text(response) && asker.context().partition().is_some() {
                StorageDecision::Body
            } else {
                StorageDecision::No
            }
        }
        Storage::Private => asker.partition().map_or(StorageDecision::No, StorageDecision::In),
        Storage::Shared => StorageDecision::In(Partition::Shared),
    }
}

/// Returns true if versions of the response usually have much text in common.
fn is_text(response: &HeaderMap) -> bool {
    let value = response
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = value.unwrap_or_default().split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    essence.starts_with("text/") && essence != "text/event-stream"
        || ["javascript", "json", "xml"]
            .iter()
            .any(|ending| essence.ends_with(ending))
}

fn is_useful(status: StatusCode, response: &HeaderMap) -> bool {
    let now = UnixTime::default();
    [header::ETAG, header::LAST_MODIFIED]
        .iter()
        .any(|name| response.contains_key(name))
        || response.contains_key(header::EXPIRES)
        || !Freshness::of(
            &HeaderMap::new(),
            status,
            &without_date(response),
            now,
            now,
            CacheKind::Private,
        )
        .fresh_for(now)
        .is_zero()
}

/// Removes the fields that depend on the clock.
fn without_date(response: &HeaderMap) -> HeaderMap {
    let mut response = response.clone();
    response.remove(header::DATE);
    response.remove(header::AGE);
    response
}

/// Builds the stored form of a response. `parts` is the request that the origin received.
pub(super) fn to_store(
    partition: Partition,
    asker: &Asker,
    parts: &Parts,
    status: StatusCode,
    response: &HeaderMap,
    times: (UnixTime, UnixTime),
    body: Option<(ContentHash, u64)>,
) -> StoredResponse {
    let mut headers = response.clone();
    // A cookie is set only once, by the original response.
    headers.remove(header::SET_COOKIE);
    let mut request_fields = field_list::from_map(&vary::nominated(response, &parts.headers));
    if partition == Partition::Shared {
        let key = SharingKey::of(&parts.headers);
        request_fields.push((SHARING.to_owned(), key.as_bytes().to_vec()));
    }
    StoredResponse {
        vary: secondary_key(&partition, response, &parts.headers),
        credentials: asker.context().credentials(),
        partition,
        url: parts.uri.to_string(),
        request_fields,
        status: status.as_u16(),
        fields: field_list::from_map(&headers),
        chk: body.map(|(chk, _)| chk),
        length: body.map_or(0, |(_, length)| length),
        requested_at: times.0,
        received_at: times.1,
    }
}

/// Secondary key of responses of one URL and partition: the fields that `Vary` names and, for shared
/// responses, the sharing key.
pub(super) fn secondary_key(partition: &Partition, response: &HeaderMap, request: &HeaderMap) -> [u8; 8] {
    let varying = vary::key(response, request).unwrap_or_default();
    if *partition != Partition::Shared {
        return varying;
    }
    let whole = [&varying[..], SharingKey::of(request).as_bytes()].concat();
    let mut short = [0; 8];
    short.copy_from_slice(&ContentHash::of(&whole).as_bytes()[..8]);
    short
}

/// Returns true if a stored response may answer this request: a shared one only if the sharing keys are
/// equal.
pub(super) fn is_shared_with(stored: &StoredResponse, request: &HeaderMap) -> bool {
    if stored.partition != Partition::Shared {
        return true;
    }
    let key = stored.request_fields.iter().find(|(name, _)| name == SHARING);
    key.is_some_and(|(_, key)| key == SharingKey::of(request).as_bytes())
}

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

fn is_copy(stored: &StoredResponse) -> bool {
    stored.request_fields.iter().any(|(name, _)| name == COPY)
}

/// Marks a requester's own copy of a shared response.
pub(super) fn as_copy(mut response: StoredResponse) -> StoredResponse {
    response.request_fields.push((COPY.to_owned(), Vec::new()));
    response
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
    let kind = match stored.partition {
        Partition::Shared => CacheKind::Shared,
        Partition::Private(_) => CacheKind::Private,
    };
    let usable = is_acceptable(&headers, browser)
        && is_shared_with(&stored, request)
        && match kind {
            CacheKind::Private => context.may_reuse(stored.credentials, &headers),
            CacheKind::Shared => !request.contains_key(header::COOKIE) || is_for_all(&headers),
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
        kind,
    );
    let reuse = freshness.reuse(method, request, now);
    match reuse {
        Reuse::No => None,
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

/// Returns true if the browser accepts the content codings that were left in place (`no-transform`).
fn is_acceptable(response: &HeaderMap, browser: &HeaderMap) -> bool {
    longhaul_http::coding::content_codings(response)
        .iter()
        .all(|coding| longhaul_http::coding::accepts(browser, coding))
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
pub(super) fn may_update(candidate: &Candidate, deciding_fields: &HeaderMap) -> bool {
    candidate.stored.partition != Partition::Shared || may_share(deciding_fields)
}

/// Returns true if a response just fetched for one request also answers another one with the same key.
pub(super) fn answers_too(
    asker: &Asker,
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
        StorageDecision::In(own @ Partition::Private(_)) if asker.partition().as_ref() == Some(own) => {
            CacheKind::Private
        }
        StorageDecision::In(Partition::Private(_)) | StorageDecision::No | StorageDecision::Body => {
            return false;
        }
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
        CacheKind::Private,
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

/// Key of requests that may share a coalesced fetch: everything in the request that the origin sees, except
/// the gateway's own fields. Requests with credentials are shared only within one device, client and
/// partition.
pub(super) fn coalescing_key(asker: &Asker, parts: &Parts) -> [u8; 32] {
    let mut hash = blake3::Hasher::new();
    let mut field = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    field(parts.method.as_str().as_bytes());
    field(parts.uri.to_string().as_bytes());
    if [header::COOKIE, header::AUTHORIZATION]
        .iter()
        .any(|name| parts.headers.contains_key(name))
    {
        field(asker.device().as_bytes());
        field(&asker.context().client().0.to_be_bytes());
        let partition = asker.context().partition();
        field(partition.map(ToString::to_string).unwrap_or_default().as_bytes());
    }
    let mut headers: Vec<(&str, &[u8])> = parts
        .headers
        .iter()
        .filter(|(name, value)| !UNKEYED_IF_CANONICAL.contains(name) || !is_canonical(name, value))
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    // The sort is stable: fields of one name keep their order.
    headers.sort_by_key(|(name, _)| *name);
    for (name, value) in headers {
        field(name.as_bytes());
        field(value);
    }
    *hash.finalize().as_bytes()
}

/// Fields that are not part of the key while their values are canonical.
const UNKEYED_IF_CANONICAL: [HeaderName; 2] = [header::VIA, longhaul_http::method::EARLY_DATA];
const MAX_AGE_ZERO: HeaderValue = HeaderValue::from_static("max-age=0");

#[cfg(test)]
mod tests {
    use longhaul_http::request_context::CredentialsSecret;
    use longhaul_types::{ClientId, PublicKey};

    use super::*;

    fn parts(url: &str, fields: &[(&'static str, &str)]) -> Parts {
        let mut request = http::Request::builder().uri(url);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn asker(device: u8, parts: &Parts) -> Asker {
        Asker::of(
            (PublicKey::from_bytes([device; 32]), ClientId::OWNER),
            &CredentialsSecret::derived_from(&[7]),
            &parts.method,
            &parts.uri.to_string(),
            &parts.headers,
        )
    }

    fn key(device: u8, parts: &Parts) -> [u8; 32] {
        coalescing_key(&asker(device, parts), parts)
    }

    #[test]
    fn equal_requests_share_a_key() {
        let url = "http://a.test/x";
        let plain = parts(url, &[("accept", "a"), ("user-agent", "u")]);
        let again = parts(
            url,
            &[
                ("user-agent", "u"),
                ("via", "1.1 longhaul"),
                ("accept", "a"),
                ("early-data", "1"),
            ],
        );
        assert_eq!(key(1, &plain), key(2, &again));
        for other in [
            parts("http://a.test/y", &[("accept", "a"), ("user-agent", "u")]),
            parts(url, &[("accept", "b"), ("user-agent", "u")]),
            parts(url, &[("accept", "a")]),
            parts(url, &[("accept", "au"), ("user-agent", "")]),
        ] {
            assert_ne!(key(1, &plain), key(1, &other), "{other:?}");
        }
    }

    #[test]
    fn what_tells_people_apart_tells_devices_apart() {
        for name in ["cookie", "authorization"] {
            let personal = parts("http://a.test/x", &[(name, "secret")]);
            assert_eq!(key(1, &personal), key(1, &personal));
            assert_ne!(key(1, &personal), key(2, &personal), "{name}");
        }
    }

    #[test]
    fn directives_are_found_however_they_are_written() {
        let mut headers = HeaderMap::new();
        for value in ["public, Max-Age = \"60\"", "stale-if-error=5"] {
            headers.append(header::CACHE_CONTROL, HeaderValue::from_static(value));
        }
        assert_eq!(directive(&headers, "max-age").as_deref(), Some("60"));
        assert_eq!(directive(&headers, "public").as_deref(), Some(""));
        assert_eq!(directive(&headers, "stale-if-error").as_deref(), Some("5"));
        assert_eq!(directive(&headers, "private"), None);
    }

    #[test]
    fn what_could_never_be_used_is_not_kept() {
        let request = parts("http://a.test/", &[("referer", "http://a.test/")]);
        let asker = asker(1, &request);
        let storage_decision = |fields: &[(&'static str, &'static str)]| {
            let response: HeaderMap = fields
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            storage_decision(&asker, &Method::GET, &request.headers, StatusCode::OK, &response)
        };
        let own = StorageDecision::In(asker.partition().unwrap());
        assert_eq!(storage_decision(&[]), StorageDecision::No);
        assert_eq!(
            storage_decision(&[("content-type", "text/html")]),
            StorageDecision::Body
        );
        assert_eq!(
            storage_decision(&[("content-type", "application/ld+json")]),
            StorageDecision::Body
        );
        assert_eq!(
            storage_decision(&[("content-type", "text/event-stream")]),
            StorageDecision::No
        );
        assert_eq!(
            storage_decision(&[("content-type", "text/html"), ("cache-control", "no-store")]),
            StorageDecision::No
        );
        assert_eq!(
            storage_decision(&[("cache-control", "max-age=0")]),
            StorageDecision::No
        );
        assert_eq!(
            storage_decision(&[("cache-control", "max-age=0"), ("etag", "\"1\"")]),
            own
        );
        assert_eq!(
            storage_decision(&[("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")]),
            own
        );
        let public = storage_decision(&[("cache-control", "max-age=60")]);
        assert_eq!(public, StorageDecision::In(Partition::Shared));
    }
}
