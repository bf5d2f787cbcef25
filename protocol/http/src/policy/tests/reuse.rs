use super::*;

fn lasting(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    map(&[&[("cache-control", "max-age=100"), ("etag", "\"a\"")], fields].concat())
}

/// Returns the reuse of a response that was received ten seconds ago.
fn reuse(freshness: &Freshness, request: &[(&'static str, &'static str)]) -> &'static str {
    match freshness.reuse(&GET, &map(request), after(10)) {
        Reuse::Fresh(_) => "fresh",
        Reuse::Stale(_) => "stale",
        Reuse::Forward => "no",
    }
}

/// RFC 9111 section 5.2.1.
#[test]
fn reuse_follows_request_directives() {
    let fresh = private(&lasting(&[]));
    let old = private(&map(&[("cache-control", "max-age=5"), ("etag", "\"a\"")]));
    for (directive, of_fresh, of_old) in [
        ("", "fresh", "stale"),
        ("max-age=0", "stale", "stale"),
        ("Max-Age=9", "stale", "stale"),
        ("max-age=10", "fresh", "stale"),
        ("max-age=x", "stale", "stale"),
        ("min-fresh=90", "fresh", "stale"),
        ("min-fresh=91", "stale", "stale"),
        ("max-stale", "fresh", "stale"),
        ("max-stale=1000", "fresh", "stale"),
        ("no-cache", "no", "no"),
        ("no-store", "fresh", "stale"),
        ("only-if-cached", "fresh", "stale"),
    ] {
        assert_eq!(
            reuse(&fresh, &[("cache-control", directive)]),
            of_fresh,
            "{directive}"
        );
        assert_eq!(
            reuse(&old, &[("cache-control", directive)]),
            of_old,
            "{directive}"
        );
    }
    assert_eq!(reuse(&fresh, &[("pragma", "no-cache")]), "no");
    assert_eq!(
        reuse(&fresh, &[("pragma", "no-cache"), ("cache-control", "max-age=50")]),
        "fresh"
    );
    assert_eq!(reuse(&fresh, &[("service-worker", "script")]), "no");
}

#[test]
fn reloads_are_recognised_by_request_directives() {
    for (fields, expected) in [
        (&[][..], Reload::None),
        (&[("cache-control", "max-age=0")], Reload::Revalidate),
        (&[("cache-control", "max-age=5")], Reload::None),
        (&[("cache-control", "NO-CACHE")], Reload::Bypass),
        (&[("pragma", "No-Cache")], Reload::Bypass),
        (&[("service-worker", "script")], Reload::Bypass),
        (
            &[("pragma", "no-cache"), ("cache-control", "max-age=0")],
            Reload::Revalidate,
        ),
    ] {
        assert_eq!(reload(&map(fields)), expected, "{fields:?}");
    }
    assert!(only_if_cached(&map(&[("cache-control", "Only-If-Cached")])));
    assert!(!only_if_cached(&map(&[])));
}

/// RFC 8246.
#[test]
fn immutable_responses_are_not_validated_while_they_are_fresh() {
    let immutable = private(&map(&[
        ("cache-control", "max-age=100, immutable"),
        ("etag", "\"a\""),
    ]));
    let reload = map(&[("cache-control", "max-age=0")]);
    assert!(matches!(
        immutable.reuse(&GET, &reload, after(99)),
        Reuse::Fresh(_)
    ));
    assert!(matches!(
        immutable.reuse(&GET, &reload, after(100)),
        Reuse::Stale(_)
    ));
    assert_eq!(reuse(&immutable, &[("cache-control", "no-cache")]), "no");
}

#[test]
fn a_fresh_response_has_the_stored_fields_and_age() {
    let response = map(&[
        ("cache-control", "max-age=100"),
        ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("age", "5"),
        ("link", "</a>; rel=preload"),
        ("link", "</b>; rel=preload"),
        ("set-cookie", "a=1"),
        ("clear-site-data", "\"cookies\""),
    ]);
    let Reuse::Fresh(fields) = private(&response).reuse(&GET, &map(&[]), after(10)) else {
        panic!("not fresh");
    };
    assert_eq!(fields["age"], "15");
    assert_eq!(fields["date"], "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(fields.get_all("link").iter().count(), 2);
    assert!(!fields.contains_key("set-cookie"));
    assert!(!fields.contains_key("clear-site-data"));
}

#[test]
fn stored_variants_match_by_vary() {
    let response = lasting(&[("vary", "Accept, Accept-Encoding")]);
    let stored = map(&[("accept", "image/webp,*/*"), ("accept-encoding", "br")]);
    let freshness = Freshness::of(&stored, OK, &response, NOW, NOW, CacheKind::Private);
    assert_eq!(reuse(&freshness, &[("accept", "image/webp,*/*")]), "fresh");
    assert_eq!(reuse(&freshness, &[("accept", "*/*")]), "no");
    assert_eq!(reuse(&freshness, &[]), "no");
    assert_eq!(reuse(&private(&lasting(&[("vary", "*")])), &[]), "no");
}

#[test]
fn reuse_follows_method_range_and_preconditions() {
    let freshness = private(&lasting(&[]));
    let request = map(&[]);
    assert!(matches!(
        freshness.reuse(&Method::HEAD, &request, NOW),
        Reuse::Fresh(_)
    ));
    assert_eq!(
        freshness.reuse(&Method::HEAD, &request, after(100)),
        Reuse::Forward
    );
    assert_eq!(freshness.reuse(&Method::POST, &request, NOW), Reuse::Forward);
    for field in [
        ("range", "bytes=0-"),
        ("if-range", "\"a\""),
        ("if-match", "\"a\""),
        ("if-unmodified-since", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ] {
        assert_eq!(reuse(&freshness, &[field]), "no", "{field:?}");
    }
    assert_eq!(reuse(&freshness, &[("if-none-match", "\"a\"")]), "fresh");
}

#[test]
fn requests_with_credentials_are_sent_to_the_origin() {
    let request = [("authorization", "Basic eA==")];
    assert_eq!(reuse(&private(&lasting(&[])), &request), "stale");
    assert_eq!(reuse(&shared(&lasting(&[])), &request), "no");
}

/// The permission of one origin does not apply to another.
#[test]
fn cors_permission_of_one_origin_does_not_apply_to_another() {
    let named = private(&lasting(&[("access-control-allow-origin", "http://a.test")]));
    let all = private(&lasting(&[("access-control-allow-origin", "*")]));
    let none = private(&lasting(&[]));
    let from_a = [("origin", "http://a.test"), ("host", "cdn.test")];
    let from_b = [("origin", "http://b.test"), ("host", "cdn.test")];
    let own = [("origin", "http://cdn.test:81"), ("host", "CDN.test:81")];
    for (freshness, of_a, of_b, of_own) in [
        (&named, "fresh", "no", "no"),
        (&all, "fresh", "fresh", "fresh"),
        (&none, "no", "no", "fresh"),
    ] {
        assert_eq!(reuse(freshness, &from_a), of_a);
        assert_eq!(reuse(freshness, &from_b), of_b);
        assert_eq!(reuse(freshness, &own), of_own);
        assert_eq!(reuse(freshness, &[]), "fresh");
    }
}
