use super::*;

fn key(request: &[(&'static str, &'static str)]) -> SharingKey {
    SharingKey::of(&map(request))
}

/// Every request field is keyed, canonical, or prevents sharing of the response.
#[test]
fn every_request_field_is_keyed_canonical_or_prevents_sharing() {
    for name in [
        "accept",
        "accept-charset",
        "accept-encoding",
        "accept-language",
        "authorization",
        "cache-control",
        "connection",
        "cookie",
        "dnt",
        "early-data",
        "forwarded",
        "from",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "origin",
        "pragma",
        "priority",
        "range",
        "referer",
        "save-data",
        "sec-ch-ua",
        "sec-fetch-dest",
        "sec-gpc",
        "te",
        "user-agent",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-made-up",
    ] {
        let poisoned = map(&[(name, "<script>")]);
        let is_told_apart = SharingKey::of(&poisoned) != key(&[]);
        assert!(is_told_apart || !may_share(&poisoned), "{name}");
    }
}

#[test]
fn requests_of_equal_browsers_share_a_response() {
    let browser = [
        ("user-agent", "x"),
        ("accept", "*/*"),
        ("accept-encoding", "gzip, deflate, br, zstd"),
        ("referer", "http://a.test/"),
    ];
    let another = [
        ("referer", "http://a.test/"),
        ("accept", "*/*"),
        ("user-agent", "x"),
        ("accept-encoding", "gzip, deflate, br, zstd"),
        ("via", "1.1 longhaul, 2 longhaul"),
        ("via", "1.1 longhaul"),
        ("early-data", "1"),
        ("cache-control", "max-age=0"),
        ("host", "a.test"),
    ];
    assert!(may_share(&map(&browser)) && may_share(&map(&another)));
    assert_eq!(key(&browser), key(&another));
    // A request with cookies may use a response that was fetched without.
    let known = [&browser[..], &[("cookie", "a=1")]].concat();
    assert!(!may_share(&map(&known)));
    assert_eq!(key(&browser), key(&known));
}

#[test]
fn keys_differ_by_names_values_and_the_order_of_repeated_fields() {
    let all = [
        &[("accept", "ab")][..],
        &[("accept", "a"), ("accept", "b")],
        &[("accept", "b"), ("accept", "a")],
        &[("accept", "a"), ("accept-language", "b")],
        &[("accept", "")],
        &[],
        &[("via", "1.1 longhaul (<script>)")],
        &[("via", "9 longhaul")],
    ];
    for (at, one) in all.iter().enumerate() {
        for other in &all[..at] {
            assert_ne!(key(one), key(other), "{one:?} {other:?}");
        }
    }
}

#[test]
fn the_gateways_own_fields_have_one_value_each() {
    for (name, canonical, other) in [
        ("host", "a.test", None),
        ("accept-encoding", "gzip, deflate, br, zstd", Some("gzip, x")),
        ("early-data", "1", Some("2")),
        ("cache-control", "no-cache", Some("no-transform")),
        ("cache-control", "max-age=0", Some("max-age=1")),
        ("pragma", "no-cache", Some("x")),
        ("user-agent", "", None),
    ] {
        let is_own = |value: &'static str| {
            is_canonical(&HeaderName::from_static(name), &HeaderValue::from_static(value))
        };
        assert_eq!(is_own(canonical), name != "user-agent", "{name}: {canonical}");
        assert!(!other.is_some_and(is_own), "{name}: {other:?}");
    }
}
