//! Storage decision for responses: RFC 9111 section 3 as implemented by `longhaul-http`, restricted by the
//! request context.
use http::{HeaderMap, Method, StatusCode, header, request::Parts};
use longhaul_cache::{Partition, StoredResponse};
use longhaul_http::{
    coding::own_negotiation,
    field_list,
    policy::{CacheKind, Freshness, SharingKey, Storage, storage},
    vary,
};
use longhaul_types::{ContentHash, UnixTime};

use super::requester_identity::RequesterIdentity;

/// Storage decision for a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StorageDecision {
    /// The response is not stored.
    No,
    /// Only the body is stored, as a possible delta base of a later version.
    Body,
    /// The response is stored in this partition.
    In(Partition),
    /// The response may be another one than that of the request. It is stored in this partition of the requester, and for the
    /// same time as if it were shared.
    Uncertain(Partition),
}
/// Pseudo field that contains the sharing key in the request fields of a shared response.
const SHARING: &str = ":sharing";
/// Pseudo field that marks a copy of a shared response in a private partition.
const COPY: &str = ":copy";
/// Pseudo field of a response that would be shared if it were certain.
const UNCERTAIN: &str = ":uncertain";
/// Pseudo field of responses to clients that negotiate content codings themselves: what they sent.
const CODING: &str = ":coding";

/// Decides where the response to a request is stored.
pub(super) fn storage_decision(
    identity: &RequesterIdentity,
    method: &Method,
    request: &HeaderMap,
    status: StatusCode,
    response: &HeaderMap,
) -> StorageDecision {
    // One device may serve several people, so responses to requests with `Authorization` are never stored.
    if request.contains_key(header::AUTHORIZATION) {
        return StorageDecision::No;
    }
    let partition = match storage(method, request, status, response) {
        Storage::No => return StorageDecision::No,
        Storage::Private => identity.partition(),
        Storage::Shared => Some(Partition::Shared),
    };
    match partition {
        None => StorageDecision::No,
        Some(partition) if is_useful(kind_of(&partition), status, response) => StorageDecision::In(partition),
        // Without freshness lifetime and validator a stored response could never be used.
        Some(_) if is_text(response) && identity.context().partition().is_some() => StorageDecision::Body,
        Some(_) => StorageDecision::No,
    }
}

/// The storage decision for a response that would be shared if it were certain.
pub(super) fn uncertain(identity: &RequesterIdentity) -> StorageDecision {
    identity
        .partition()
        .map_or(StorageDecision::No, StorageDecision::Uncertain)
}

/// The kind of cache that a partition is.
const fn kind_of(partition: &Partition) -> CacheKind {
    match partition {
        Partition::Shared => CacheKind::Shared,
        Partition::Private(_) => CacheKind::Private,
    }
}

/// The kind of cache whose rules decide about the reuse of a stored response: a copy of a shared response is as fresh
/// as that, and an uncertain response is as fresh as if it were shared.
pub(super) fn reuse_kind(stored: &StoredResponse) -> CacheKind {
    if is_copy(stored) || is_uncertain(stored) {
        CacheKind::Shared
    } else {
        kind_of(&stored.partition)
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

fn is_useful(kind: CacheKind, status: StatusCode, response: &HeaderMap) -> bool {
    let now = UnixTime::default();
    [header::ETAG, header::LAST_MODIFIED]
        .iter()
        .any(|name| response.contains_key(name))
        || response.contains_key(header::EXPIRES)
        || !Freshness::of(&HeaderMap::new(), status, &without_date(response), now, now, kind)
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
    identity: &RequesterIdentity,
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
    if let Some(own) = own_negotiation(&parts.headers) {
        request_fields.push((CODING.to_owned(), own));
    }
    if partition == Partition::Shared {
        let key = SharingKey::of(&parts.headers);
        request_fields.push((SHARING.to_owned(), key.as_bytes().to_vec()));
    }
    StoredResponse {
        vary: secondary_key(&partition, response, &parts.headers),
        credentials: identity.context().credentials(),
        partition,
        url: parts.uri.to_string(),
        request_fields,
        status: status.as_u16(),
        fields: field_list::from_map(&headers),
        chk: body.map(|(chk, _)| chk),
        length: body.map_or(0, |(_, length)| length),
        requested_at: times.0,
        received_at: times.1,
        origin_bytes: None,
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

/// Returns true if the content codings of a stored response are those that the origin would choose for this request.
pub(super) fn is_coded_for(stored: &StoredResponse, request: &HeaderMap) -> bool {
    let coding = stored.request_fields.iter().find(|(name, _)| name == CODING);
    coding.map(|(_, own)| own) == own_negotiation(request).as_ref()
}

pub(super) fn is_copy(stored: &StoredResponse) -> bool {
    has_mark(stored, COPY)
}

/// Marks a requester's own copy of a shared response.
pub(super) fn as_copy(response: StoredResponse) -> StoredResponse {
    marked(response, COPY)
}

pub(super) fn is_uncertain(stored: &StoredResponse) -> bool {
    has_mark(stored, UNCERTAIN)
}

/// Marks a response that would be shared if it were certain.
pub(super) fn as_uncertain(response: StoredResponse) -> StoredResponse {
    marked(response, UNCERTAIN)
}

fn has_mark(stored: &StoredResponse, mark: &str) -> bool {
    stored.request_fields.iter().any(|(name, _)| name == mark)
}

fn marked(mut response: StoredResponse, mark: &str) -> StoredResponse {
    response.request_fields.push((mark.to_owned(), Vec::new()));
    response
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::test_requests::{identity_of, request_parts};

    #[test]
    fn responses_that_can_never_be_reused_are_not_stored() {
        let request = request_parts("http://a.test/", &[("referer", "http://a.test/")]);
        let identity = identity_of(1, &request);
        let storage_decision = |fields: &[(&'static str, &'static str)]| {
            let response: HeaderMap = fields
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            storage_decision(
                &identity,
                &Method::GET,
                &request.headers,
                StatusCode::OK,
                &response,
            )
        };
        let own = StorageDecision::In(identity.partition().unwrap());
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
        // A lifetime for shared caches alone.
        for control in [
            "s-maxage=60",
            "max-age=0, s-maxage=60",
            "S-MaxAge=\"60\"",
            "public, s-maxage = 60",
        ] {
            let shared = storage_decision(&[("cache-control", control)]);
            assert_eq!(shared, StorageDecision::In(Partition::Shared), "{control}");
            let secret = storage_decision(&[("cache-control", control), ("set-cookie", "a=1")]);
            assert_eq!(
                secret,
                StorageDecision::No,
                "a private cache has no lifetime for {control}"
            );
        }
        let own_only = storage_decision(&[("cache-control", "max-age=60, s-maxage=0")]);
        assert_eq!(own_only, own);
    }

    #[test]
    fn a_copy_and_an_uncertain_response_are_reused_as_if_shared() {
        let request = request_parts("http://a.test/", &[("referer", "http://a.test/")]);
        let identity = identity_of(1, &request);
        let stored = |partition| {
            let times = (UnixTime::default(), UnixTime::default());
            let (ok, fields) = (StatusCode::OK, HeaderMap::new());
            to_store(partition, &identity, &request, ok, &fields, times, None)
        };
        let own = stored(identity.partition().unwrap());
        assert_eq!(reuse_kind(&own), CacheKind::Private);
        assert_eq!(reuse_kind(&stored(Partition::Shared)), CacheKind::Shared);
        let (copy, uncertain) = (as_copy(own.clone()), as_uncertain(own));
        assert_eq!(reuse_kind(&copy), CacheKind::Shared);
        assert_eq!(reuse_kind(&uncertain), CacheKind::Shared);
        assert!(is_copy(&copy) && !is_uncertain(&copy));
        assert!(is_uncertain(&uncertain) && !is_copy(&uncertain));
    }

    #[test]
    fn shared_responses_to_different_browsers_have_different_keys() {
        let request = |agent| request_parts("http://a.test/", &[("user-agent", agent)]);
        let (one, two) = (request("one"), request("two"));
        let own = identity_of(
            1,
            &request_parts("http://a.test/", &[("referer", "http://a.test/")]),
        );
        let own = own.partition().unwrap();
        let key = |partition, parts: &Parts| secondary_key(partition, &HeaderMap::new(), &parts.headers);
        assert_ne!(key(&Partition::Shared, &one), key(&Partition::Shared, &two));
        assert_eq!(key(&own, &one), key(&own, &two), "the response does not vary");
    }
}
