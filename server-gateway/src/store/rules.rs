//! Whose cache keeps a response, and which of several kept ones answers a request: RFC 9111 as `longhaul-http` applies
//! it, narrowed by who asks.
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};
use longhaul_cache::{Partition, StoredResponse};
use longhaul_http::{
    policy::{
        CacheKind, Freshness, Reload, Reuse, SharingKey, Storage, is_canonical, may_share, reload, storage,
    },
    request_context::RequestContext,
    vary,
};
use longhaul_types::{ContentHash, UnixTime};

use crate::asker::Asker;

/// Where a response is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Keeping {
    /// Nowhere.
    No,
    /// Only its body, which a later version may be coded against.
    Body,
    /// In this partition.
    In(Partition),
}

/// A stored response and what may be done with it.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) stored: StoredResponse,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) reuse: Reuse,
}

/// Among a shared response's request fields, the key under which it is shared.
const SHARING: &str = ":sharing";
/// The same of a copy of a shared response in a private partition.
const COPY: &str = ":copy";
/// How long after its freshness a response may stand in for an origin that fails, without `stale-if-error`.
const MAX_STALE: Duration = Duration::from_secs(24 * 3600);

/// Decides where the response to a request is kept.
pub(super) fn keeping(
    asker: &Asker,
    method: &Method,
    request: &HeaderMap,
    status: StatusCode,
    response: &HeaderMap,
) -> Keeping {
    // One device may serve several people: what credentials opened is asked for with credentials.
    if request.contains_key(header::AUTHORIZATION) {
        return Keeping::No;
    }
    match storage(method, request, status, response) {
        Storage::No => Keeping::No,
        // Without a lifetime and without a validator it answers nothing.
        Storage::Private | Storage::Shared if !is_useful(status, response) => {
            if is_text(response) && asker.context().partition().is_some() {
                Keeping::Body
            } else {
                Keeping::No
            }
        }
        Storage::Private => asker.partition().map_or(Keeping::No, Keeping::In),
        Storage::Shared => Keeping::In(Partition::Shared),
    }
}

/// Whether versions of it have much in common as a rule.
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

/// Without the fields that are relative to a clock.
fn without_date(response: &HeaderMap) -> HeaderMap {
    let mut response = response.clone();
    response.remove(header::DATE);
    response.remove(header::AGE);
    response
}

/// A response as the cache keeps it. `request` is what was sent to the origin.
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
    // A cookie is set once, by the response that sets it.
    headers.remove(header::SET_COOKIE);
    let mut request_fields = fields(&vary::nominated(response, &parts.headers));
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
        fields: fields(&headers),
        chk: body.map(|(chk, _)| chk),
        length: body.map_or(0, |(_, length)| length),
        requested_at: times.0,
        received_at: times.1,
    }
}

/// What tells responses of a URL and partition apart: what `Vary` names, and of shared ones all else that was said.
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

/// Whether a stored response is for requests like this one: a shared one only for those that say the same.
pub(super) fn is_shared_with(stored: &StoredResponse, request: &HeaderMap) -> bool {
    if stored.partition != Partition::Shared {
        return true;
    }
    let key = stored.request_fields.iter().find(|(name, _)| name == SHARING);
    key.is_some_and(|(_, key)| key == SharingKey::of(request).as_bytes())
}

/// The best of the stored responses for a request: a fresh one, else one that can be validated; first those of the same
/// credentials, then the newest.
pub(super) fn select(
    found: Vec<StoredResponse>,
    context: &RequestContext,
    parts: &Parts,
    browser: &HeaderMap,
    wanted: Reload,
    now: UnixTime,
) -> Option<Candidate> {
    let request = asked(parts, wanted);
    let found = without_orphans(found);
    let mut best: Option<Candidate> = None;
    for stored in found {
        let Some(candidate) = judge(stored, context, &parts.method, &request, browser, now) else {
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

/// Without the copies of shared responses that are not shared any more: they were made invalid, or are too many.
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

fn judge(
    stored: StoredResponse,
    context: &RequestContext,
    method: &Method,
    request: &HeaderMap,
    browser: &HeaderMap,
    now: UnixTime,
) -> Option<Candidate> {
    let status = StatusCode::from_u16(stored.status).ok()?;
    let headers = header_map(&stored.fields);
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
        &header_map(&stored.request_fields),
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

/// Undoes what was added to a request to judge by it.
fn restore(fields: &mut HeaderMap, request: &HeaderMap) {
    fields.remove(header::CACHE_CONTROL);
    for value in request.get_all(header::CACHE_CONTROL) {
        fields.append(header::CACHE_CONTROL, value.clone());
    }
}

/// What went to one requester with cookies may be for all only if the origin says so.
fn is_for_all(response: &HeaderMap) -> bool {
    ["public", "s-maxage"]
        .iter()
        .any(|name| directive(response, name).is_some())
}

/// Whether a browser can decode what was left coded (`no-transform`).
fn is_acceptable(response: &HeaderMap, browser: &HeaderMap) -> bool {
    longhaul_http::coding::content_codings(response)
        .iter()
        .all(|coding| longhaul_http::coding::accepts(browser, coding))
}

/// The request's fields as a cache judges them: with its host, and with what the lookup wants beyond them.
fn asked(parts: &Parts, wanted: Reload) -> HeaderMap {
    let mut request = parts.headers.clone();
    if let Some(host) = parts
        .uri
        .authority()
        .and_then(|authority| HeaderValue::from_str(authority.as_str()).ok())
    {
        request.insert(header::HOST, host);
    }
    if wanted == Reload::Revalidate && reload(&request) == Reload::None {
        request.append(header::CACHE_CONTROL, MAX_AGE_ZERO);
    }
    request
}

/// The fields of a conditional request, made from those by which a cache judged.
pub(super) fn conditional(parts: &Parts, mut fields: HeaderMap) -> Parts {
    fields.remove(header::HOST);
    restore(&mut fields, &parts.headers);
    let mut parts = parts.clone();
    parts.headers = fields;
    parts
}

/// The fields by which the answer to a request with conditions of the gateway's is judged: those that were sent. What is
/// known of a shared response everybody knows who gets it: to ask about it adds nothing.
pub(super) fn judged_by(candidate: &Candidate, sent: &HeaderMap) -> HeaderMap {
    let mut fields = sent.clone();
    if candidate.stored.partition == Partition::Shared {
        fields.remove(header::IF_NONE_MATCH);
        fields.remove(header::IF_MODIFIED_SINCE);
    }
    fields
}

/// Whether a shared response may be changed by the answer to a request.
pub(super) fn may_teach(candidate: &Candidate, judged_by: &HeaderMap) -> bool {
    candidate.stored.partition != Partition::Shared || may_share(judged_by)
}

/// Whether a response that has just come for one request answers another with the same key.
pub(super) fn answers_too(
    asker: &Asker,
    parts: &Parts,
    keeping: &Keeping,
    status: StatusCode,
    response: &HeaderMap,
    times: (UnixTime, UnixTime),
    now: UnixTime,
) -> bool {
    let kind = match keeping {
        Keeping::In(Partition::Shared) => CacheKind::Shared,
        // Its cookies are the same: they are part of the flight's key.
        Keeping::In(own @ Partition::Private(_)) if asker.partition().as_ref() == Some(own) => {
            CacheKind::Private
        }
        Keeping::In(Partition::Private(_)) | Keeping::No | Keeping::Body => return false,
    };
    if response.contains_key(header::SET_COOKIE) {
        return false;
    }
    let request = asked(parts, Reload::None);
    let freshness = Freshness::of(&request, status, response, times.0, times.1, kind);
    matches!(freshness.reuse(&parts.method, &request, now), Reuse::Fresh(_))
}

/// Whether a stored response may stand in for an origin that fails (RFC 9111 section 4.2.4, RFC 5861).
pub(super) fn may_stand_in(candidate: &Candidate, parts: &Parts, wanted: Reload, now: UnixTime) -> bool {
    let response = &candidate.headers;
    let forbidden = ["must-revalidate", "proxy-revalidate", "no-cache", "s-maxage"]
        .iter()
        .any(|name| directive(response, name).is_some());
    let asked_anew = wanted != Reload::None || reload(&parts.headers) != Reload::None;
    if forbidden || asked_anew || parts.headers.contains_key(header::AUTHORIZATION) {
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

/// The argument of a directive of `Cache-Control`, empty if it has none.
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

/// What two requests must have in common to share a flight: all that the origin sees of them, but for the gateway's own
/// words. Requests with credentials share only with those of the same device, client and partition.
pub(super) fn flight_key(asker: &Asker, parts: &Parts) -> [u8; 32] {
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
        .filter(|(name, value)| !UNHEARD.contains(name) || !is_canonical(name, value))
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    // Stable: fields of one name keep their order.
    headers.sort_by_key(|(name, _)| *name);
    for (name, value) in headers {
        field(name.as_bytes());
        field(value);
    }
    *hash.finalize().as_bytes()
}

fn fields(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect()
}

/// Fields from the cache; what is no field, like the key of the cookies, is passed over.
pub(super) fn header_map(fields: &[(String, Vec<u8>)]) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(fields.len());
    for (name, value) in fields {
        if let (Ok(name), Ok(value)) = (
            HeaderName::from_bytes(name.as_bytes()),
            HeaderValue::from_bytes(value),
        ) {
            headers.append(name, value);
        }
    }
    headers
}

/// Fields that make no difference while they are canonical.
const UNHEARD: [HeaderName; 2] = [header::VIA, longhaul_http::method::EARLY_DATA];
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
        flight_key(&asker(device, parts), parts)
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
        let keeping = |fields: &[(&'static str, &'static str)]| {
            let response: HeaderMap = fields
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            keeping(&asker, &Method::GET, &request.headers, StatusCode::OK, &response)
        };
        let own = Keeping::In(asker.partition().unwrap());
        assert_eq!(keeping(&[]), Keeping::No);
        assert_eq!(keeping(&[("content-type", "text/html")]), Keeping::Body);
        assert_eq!(keeping(&[("content-type", "application/ld+json")]), Keeping::Body);
        assert_eq!(keeping(&[("content-type", "text/event-stream")]), Keeping::No);
        assert_eq!(
            keeping(&[("content-type", "text/html"), ("cache-control", "no-store")]),
            Keeping::No
        );
        assert_eq!(keeping(&[("cache-control", "max-age=0")]), Keeping::No);
        assert_eq!(keeping(&[("cache-control", "max-age=0"), ("etag", "\"1\"")]), own);
        assert_eq!(
            keeping(&[("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")]),
            own
        );
        let public = keeping(&[("cache-control", "max-age=60")]);
        assert_eq!(public, Keeping::In(Partition::Shared));
    }
}
