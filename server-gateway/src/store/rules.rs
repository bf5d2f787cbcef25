//! Whose cache keeps a response, and which of several kept ones answers a request: RFC 9111 as `longhaul-http` applies
//! it, narrowed where one device serves several people.
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};
use longhaul_cache::{Partition, StoredResponse};
use longhaul_http::{
    policy::{CacheKind, Freshness, Reload, Reuse, Storage, reload, storage},
    vary,
};
use longhaul_types::{ContentHash, PublicKey, UnixTime};

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

/// Among a stored response's request fields, the key of the cookies with which it was fetched.
const COOKIES: &str = ":cookie";
/// How long after its freshness a response may stand in for an origin that fails, without `stale-if-error`.
const MAX_STALE: Duration = Duration::from_secs(24 * 3600);

/// Decides where the response to a request is kept.
pub(super) fn keeping(
    device: &PublicKey,
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
            if is_text(response) {
                Keeping::Body
            } else {
                Keeping::No
            }
        }
        Storage::Private => Keeping::In(Partition::Device(*device.as_bytes())),
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
    if let Some(cookies) = vary::cookie_key(&parts.headers) {
        request_fields.push((COOKIES.to_owned(), cookies.to_vec()));
    }
    StoredResponse {
        partition,
        url: parts.uri.to_string(),
        vary: vary::key(response, &parts.headers).unwrap_or_default(),
        request_fields,
        status: status.as_u16(),
        fields: fields(&headers),
        chk: body.map(|(chk, _)| chk),
        length: body.map_or(0, |(_, length)| length),
        requested_at: times.0,
        received_at: times.1,
    }
}

/// The best of the stored responses for a request: a fresh one, else one that can be validated, the newest first.
pub(super) fn select(
    found: Vec<StoredResponse>,
    parts: &Parts,
    browser: &HeaderMap,
    wanted: Reload,
    now: UnixTime,
) -> Option<Candidate> {
    let request = asked(parts, wanted);
    let mut best: Option<Candidate> = None;
    for stored in found {
        let Some(candidate) = judge(stored, &parts.method, &request, browser, now) else {
            continue;
        };
        let rank = |candidate: &Candidate| {
            let fresh = matches!(candidate.reuse, Reuse::Fresh(_));
            (fresh, candidate.stored.received_at)
        };
        if best.as_ref().is_none_or(|best| rank(&candidate) > rank(best)) {
            best = Some(candidate);
        }
    }
    best
}

fn judge(
    stored: StoredResponse,
    method: &Method,
    request: &HeaderMap,
    browser: &HeaderMap,
    now: UnixTime,
) -> Option<Candidate> {
    let status = StatusCode::from_u16(stored.status).ok()?;
    let headers = header_map(&stored.fields);
    let kind = match stored.partition {
        Partition::Shared => CacheKind::Shared,
        Partition::Device(_) | Partition::Site(_) => CacheKind::Private,
    };
    let usable = is_acceptable(&headers, browser)
        && (kind == CacheKind::Private || !request.contains_key(header::COOKIE) || is_for_all(&headers));
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
    let mut reuse = freshness.reuse(method, request, now);
    if matches!(reuse, Reuse::Fresh(_))
        && kind == CacheKind::Private
        && !has_same_cookies(&stored, &headers, request)
    {
        let mut asked = request.clone();
        asked.insert(header::CACHE_CONTROL, MAX_AGE_ZERO);
        reuse = match freshness.reuse(method, &asked, now) {
            Reuse::Stale(mut fields) => {
                restore(&mut fields, request);
                Reuse::Stale(fields)
            }
            Reuse::Fresh(_) | Reuse::No => Reuse::No,
        };
    }
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

/// Two people may share a device's partition. What is private, or fresh by guess only, is for the cookies with which
/// it was fetched; for others the origin is asked.
fn has_same_cookies(stored: &StoredResponse, response: &HeaderMap, request: &HeaderMap) -> bool {
    let explicit = directive(response, "max-age").is_some() || response.contains_key(header::EXPIRES);
    if explicit && directive(response, "private").is_none() {
        return true;
    }
    has_cookies_of(stored, request)
}

/// Whether a stored response was fetched with the cookies of this request, or both are without.
pub(super) fn has_cookies_of(stored: &StoredResponse, request: &HeaderMap) -> bool {
    let fetched_with = stored.request_fields.iter().find(|(name, _)| name == COOKIES);
    fetched_with.map(|(_, key)| key.as_slice()) == vary::cookie_key(request).as_ref().map(<[u8; 8]>::as_slice)
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

/// Whether a response that has just come for one request answers another with the same key.
pub(super) fn answers_too(
    device: &PublicKey,
    parts: &Parts,
    keeping: &Keeping,
    status: StatusCode,
    response: &HeaderMap,
    times: (UnixTime, UnixTime),
    now: UnixTime,
) -> bool {
    let kind = match keeping {
        Keeping::In(Partition::Shared) => CacheKind::Shared,
        Keeping::In(Partition::Device(owner)) if owner == device.as_bytes() => CacheKind::Private,
        Keeping::In(Partition::Device(_) | Partition::Site(_)) | Keeping::No | Keeping::Body => return false,
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
    if !has_same_cookies(&candidate.stored, response, &parts.headers) {
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

/// What two requests must have in common to share a flight: all that the origin sees of them. Requests with cookies
/// share only with those of the same device.
pub(super) fn flight_key(device: &PublicKey, parts: &Parts) -> [u8; 32] {
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
        field(device.as_bytes());
    }
    let mut headers: Vec<(&str, &[u8])> = parts
        .headers
        .iter()
        .filter(|(name, _)| !["via", "early-data"].contains(&name.as_str()))
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

const MAX_AGE_ZERO: HeaderValue = HeaderValue::from_static("max-age=0");

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str, fields: &[(&'static str, &str)]) -> Parts {
        let mut request = http::Request::builder().uri(url);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn key(device: u8, parts: &Parts) -> [u8; 32] {
        flight_key(&PublicKey::from_bytes([device; 32]), parts)
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
        let device = PublicKey::from_bytes([1; 32]);
        let request = parts("http://a.test/", &[]);
        let keeping = |fields: &[(&'static str, &'static str)]| {
            let response: HeaderMap = fields
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            keeping(&device, &Method::GET, &request.headers, StatusCode::OK, &response)
        };
        let own = Keeping::In(Partition::Device([1; 32]));
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
