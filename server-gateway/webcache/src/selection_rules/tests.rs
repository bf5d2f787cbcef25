//! Tests of the selection rules.
use super::*;
use crate::{
    storage_rules::{as_copy, as_uncertain, to_store},
    test_requests::{identity_of, request_parts},
};

const URL: &str = "http://a.test/x";
const BROWSER: [(&str, &str); 2] = [
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("referer", "http://a.test/"),
];
const NOW: UnixTime = UnixTime::new(Duration::from_secs(1_000_000_000));

/// A request of a browser with more fields.
fn request(fields: &[(&'static str, &str)]) -> Parts {
    request_parts(URL, &[&BROWSER, fields].concat())
}

fn fields(fields: &[(&'static str, &str)]) -> HeaderMap {
    request_parts(URL, fields).headers
}

fn own(device: u8) -> Partition {
    identity_of(device, &request(&[])).partition().unwrap()
}

/// What device 1 got from its usual request, some seconds ago.
fn stored(partition: Partition, response: &HeaderMap, seconds: u64) -> StoredResponse {
    let request = request(&[]);
    let identity = identity_of(1, &request);
    let then = UnixTime::new(NOW.since_epoch() - Duration::from_secs(seconds));
    let body = Some((ContentHash::of(b"x"), 1));
    let (status, times) = (StatusCode::OK, (then, then));
    to_store(partition, &identity, &request, status, response, times, body)
}

fn candidate(partition: Partition, response: &HeaderMap, seconds: u64) -> Candidate {
    Candidate {
        stored: stored(partition, response, seconds),
        status: StatusCode::OK,
        headers: response.clone(),
        reuse: Reuse::Forward,
    }
}

/// What answers a request of device 1.
fn selected(found: &[StoredResponse], request: &Parts, mode: Reload) -> Option<Candidate> {
    let identity = identity_of(1, request);
    let browser = &request.headers;
    select(found.to_vec(), identity.context(), request, browser, mode, NOW)
}

#[test]
fn directives_are_found_in_any_notation() {
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
fn a_copy_without_its_shared_response_answers_nothing() {
    let response = fields(&[("cache-control", "public, max-age=60")]);
    let shared = stored(Partition::Shared, &response, 1);
    let copy = as_copy(stored(own(1), &response, 1));
    let mut other = shared.clone();
    other.chk = Some(ContentHash::of(b"another"));
    other.request_fields.clear();
    let select = |found: &[StoredResponse]| selected(found, &request(&[]), Reload::None);
    assert!(select(std::slice::from_ref(&copy)).is_none(), "invalidated");
    assert!(select(&[other, copy.clone()]).is_none(), "replaced");
    // From another page, the shared response itself is for others.
    let elsewhere = request_parts(URL, &[BROWSER[0], ("referer", "http://a.test/other")]);
    let found = selected(&[shared, copy], &elsewhere, Reload::None).unwrap();
    assert_eq!(found.stored.partition, own(1));
    assert!(select(&[stored(own(1), &response, 1)]).is_some(), "no copy");
}

#[test]
fn a_coding_that_was_left_in_place_is_for_browsers_that_accept_it() {
    let response = fields(&[
        ("cache-control", "public, max-age=60, no-transform"),
        ("content-encoding", "br"),
    ]);
    let found = [stored(own(1), &response, 1)];
    let by = |accepts: &'static str| {
        let parts = request(&[]);
        let browser = fields(&[("accept-encoding", accepts)]);
        let identity = identity_of(1, &parts);
        let found = found.to_vec();
        let context = identity.context();
        select(found, context, &parts, &browser, Reload::None, NOW).is_some()
    };
    assert!(by("gzip, deflate, br"));
    assert!(!by("gzip, deflate"));
    assert!(by("gzip;q=1.0"), "a program gets what the origin sends");
}

#[test]
fn a_browsers_reload_validates_a_fresh_response() {
    let response = fields(&[("cache-control", "max-age=60"), ("etag", "\"1\"")]);
    let found = [stored(own(1), &response, 1)];
    let usual = request(&[]);
    let fresh = selected(&found, &usual, Reload::None).unwrap();
    assert!(matches!(fresh.reuse, Reuse::Fresh(_)));
    for own_field in [None, Some("max-age=0"), Some("max-stale=5")] {
        let parts = own_field.map_or_else(|| usual.clone(), |value| request(&[("cache-control", value)]));
        let Reuse::Stale(evaluated) = selected(&found, &parts, Reload::Revalidate).unwrap().reuse else {
            panic!("used without the origin: {own_field:?}");
        };
        let sent = conditional(&parts, evaluated).headers;
        assert_eq!(sent[header::IF_NONE_MATCH], "\"1\"");
        assert!(!sent.contains_key(header::HOST));
        let control: Vec<_> = sent.get_all(header::CACHE_CONTROL).iter().collect();
        assert_eq!(control, Vec::from_iter(own_field), "as the browser sent it");
    }
}

#[test]
fn the_condition_on_a_shared_response_does_not_decide_about_storage() {
    let response = HeaderMap::new();
    let sent = request(&[
        ("if-none-match", "\"1\""),
        ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ]);
    let of = |partition| deciding_fields(&candidate(partition, &response, 1), &sent.headers);
    assert_eq!(of(own(1)), sent.headers);
    assert_eq!(of(Partition::Shared), request(&[]).headers);
}

#[test]
fn only_a_certain_answer_to_a_request_like_all_others_updates_a_shared_response() {
    let response = HeaderMap::new();
    let usual = request(&[]).headers;
    let special = request(&[("x-api-key", "1")]).headers;
    let shared = candidate(Partition::Shared, &response, 1);
    assert!(may_update(&shared, &usual, ConnectionUse::First));
    assert!(!may_update(&shared, &usual, ConnectionUse::Any));
    assert!(!may_update(&shared, &special, ConnectionUse::First));
    assert!(!may_update(&shared, &special, ConnectionUse::Any));
    let private = candidate(own(1), &response, 1);
    for sent in [usual, special] {
        assert!(may_update(&private, &sent, ConnectionUse::Any));
        assert!(may_update(&private, &sent, ConnectionUse::First));
    }
}

#[test]
fn a_response_just_fetched_answers_those_for_whom_it_is_stored() {
    let answers = |decision: &StorageDecision, device, control, more: &[_]| {
        let parts = request(&[]);
        let response = fields(&[&[("cache-control", control)], more].concat());
        let identity = identity_of(device, &parts);
        let (status, times) = (StatusCode::OK, (NOW, NOW));
        answers_too(&identity, &parts, decision, status, &response, times, NOW)
    };
    let shared = StorageDecision::In(Partition::Shared);
    let (private, uncertain) = (StorageDecision::In(own(1)), StorageDecision::Uncertain(own(1)));
    for (decision, expected) in [
        (&shared, [true, true]),
        (&private, [true, false]),
        (&uncertain, [true, false]),
        (&StorageDecision::No, [false, false]),
        (&StorageDecision::Body, [false, false]),
    ] {
        let got = [1, 2].map(|device| answers(decision, device, "max-age=60", &[]));
        assert_eq!(got, expected, "{decision:?}");
        assert!(!answers(decision, 1, "max-age=60", &[("set-cookie", "a=1")]));
        assert!(!answers(decision, 1, "max-age=0", &[]));
    }
    // The lifetime is that of the kind of cache.
    let for_one_cache = "max-age=60, s-maxage=0";
    assert!(answers(&private, 1, for_one_cache, &[]));
    assert!(!answers(&uncertain, 1, for_one_cache, &[]));
    assert!(!answers(&shared, 1, for_one_cache, &[]));
}

#[test]
fn an_uncertain_response_is_fresh_for_as_long_as_a_shared_one() {
    let response = fields(&[("cache-control", "max-age=60, s-maxage=1"), ("etag", "\"1\"")]);
    let private = stored(own(1), &response, 5);
    let usual = request(&[]);
    let found = selected(std::slice::from_ref(&private), &usual, Reload::None).unwrap();
    assert!(matches!(found.reuse, Reuse::Fresh(_)));
    let found = selected(&[as_uncertain(private)], &usual, Reload::None).unwrap();
    assert!(matches!(found.reuse, Reuse::Stale(_)));
}

#[test]
fn a_stale_response_replaces_a_failed_origin_if_nobody_forbids_it() {
    let allowed = |control: &'static str, sent: &[_], mode, seconds| {
        let response = fields(&[("cache-control", control)]);
        allows_stale_if_error(&candidate(own(1), &response, seconds), &request(sent), mode, NOW)
    };
    let day = 24 * 3600;
    assert!(allowed("max-age=60", &[], Reload::None, 60 + day));
    assert!(!allowed("max-age=60", &[], Reload::None, 61 + day));
    assert!(allowed("max-age=60, stale-if-error=5", &[], Reload::None, 65));
    assert!(!allowed("max-age=60, stale-if-error=5", &[], Reload::None, 66));
    for forbidden in ["must-revalidate", "proxy-revalidate", "no-cache", "s-maxage=60"] {
        assert!(!allowed(forbidden, &[], Reload::None, 1), "{forbidden}");
    }
    for field in [
        ("cache-control", "max-age=0"),
        ("pragma", "no-cache"),
        ("authorization", "Basic YTpi"),
    ] {
        assert!(!allowed("max-age=60", &[field], Reload::None, 61), "{field:?}");
    }
    for mode in [Reload::Revalidate, Reload::Bypass] {
        assert!(!allowed("max-age=60", &[], mode, 61), "{mode:?}");
    }
}
