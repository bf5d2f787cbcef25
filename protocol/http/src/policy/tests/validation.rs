use super::*;

fn conditional(response: &HeaderMap, request: &HeaderMap) -> Option<HeaderMap> {
    match private(response).reuse(&GET, request, NOW) {
        Reuse::Stale(fields) => Some(fields),
        Reuse::Fresh(_) | Reuse::Forward => None,
    }
}

#[test]
fn validation_requests_name_the_stored_version() {
    let response = map(&[
        ("cache-control", "no-cache"),
        ("etag", "W/\"ours\""),
        ("last-modified", "Sat, 05 Nov 1994 08:49:37 GMT"),
    ]);
    let request = map(&[
        ("accept", "*/*"),
        ("if-none-match", "\"browsers\""),
        ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ]);
    let fields = conditional(&response, &request).unwrap();
    assert_eq!(fields.len(), 3);
    assert_eq!(fields["if-none-match"], "W/\"ours\"");
    assert_eq!(fields["if-modified-since"], "Sat, 05 Nov 1994 08:49:37 GMT");
    for response in [
        map(&[("cache-control", "no-cache")]),
        map(&[("etag", ""), ("last-modified", "")]),
        map(&[("etag", "*")]),
        map(&[("etag", "a, *")]),
    ] {
        assert_eq!(conditional(&response, &request), None, "{response:?}");
    }
    // Origins evaluate conditions only for successful responses.
    let missing = Freshness::of(
        &map(&[]),
        StatusCode::NOT_FOUND,
        &map(&[("etag", "\"a\"")]),
        NOW,
        NOW,
        CacheKind::Private,
    );
    assert_eq!(missing.reuse(&GET, &map(&[]), NOW), Reuse::Forward);
}

#[test]
fn validators_of_any_form_are_sent_back_as_they_came() {
    for modified in [
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Mon, 06 Nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "sun, 06 nov 1994 08:49:37 gmt",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "1994-11-06T08:49:37Z",
        "784111777",
        "yesterday",
    ] {
        let response = map(&[("last-modified", modified)]);
        let fields = conditional(
            &map(&[("cache-control", "max-age=0"), ("last-modified", modified)]),
            &map(&[]),
        );
        assert_eq!(fields.unwrap()["if-modified-since"], modified);
        // The browser's copy is the same version.
        let request = map(&[("if-modified-since", modified)]);
        assert!(
            crate::conditional::is_not_modified(&request, OK, &response),
            "{modified}"
        );
        let other = map(&[("last-modified", "the day before")]);
        assert!(
            !crate::conditional::is_not_modified(&request, OK, &other),
            "{modified}"
        );
    }
    for etag in [
        "unquoted", "\"\"", "W/x", "W/\"x\"", "w/\"x\"", "\"a b\"", "\"a,b\"", "'x'", "a*",
    ] {
        let response = map(&[("cache-control", "no-cache"), ("etag", etag)]);
        assert_eq!(conditional(&response, &map(&[])).unwrap()["if-none-match"], etag);
        let request = map(&[("if-none-match", etag)]);
        assert!(
            crate::conditional::is_not_modified(&request, OK, &response),
            "{etag}"
        );
    }
}

/// Fields that describe the stored bytes remain, whatever servers put into a 304.
#[test]
fn a_304_updates_metadata_and_nothing_about_the_body() {
    let stored = map(&[
        ("etag", "\"a\""),
        ("content-length", "1000"),
        ("content-type", "text/css"),
        ("vary", "Accept-Encoding"),
        ("cache-control", "max-age=5"),
        ("date", "Sat, 05 Nov 1994 08:49:37 GMT"),
        ("age", "400"),
        ("link", "</old>"),
        ("x-kept", "1"),
        ("set-cookie", "old=1"),
    ]);
    let not_modified = map(&[
        ("etag", "W/\"a\""),
        ("content-length", "0"),
        ("content-encoding", "gzip"),
        ("content-type", "text/html"),
        ("vary", "*"),
        ("cache-control", "max-age=60"),
        ("date", "Sun, 06 Nov 1994 08:49:30 GMT"),
        ("link", "</one>"),
        ("link", "</two>"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("set-cookie", "new=1"),
        ("access-control-allow-origin", "http://b.test"),
        ("x-new", "1"),
    ]);
    let fields = private(&stored).after_304(&not_modified, NOW).unwrap();
    for (name, value) in [
        ("etag", "\"a\""),
        ("content-length", "1000"),
        ("content-type", "text/css"),
        ("vary", "Accept-Encoding"),
        ("cache-control", "max-age=60"),
        ("date", "Sun, 06 Nov 1994 08:49:30 GMT"),
        ("access-control-allow-origin", "http://b.test"),
        ("x-kept", "1"),
        ("x-new", "1"),
    ] {
        assert_eq!(fields[name], value, "{name}");
    }
    for name in [
        "age",
        "content-encoding",
        "connection",
        "transfer-encoding",
        "set-cookie",
    ] {
        assert!(!fields.contains_key(name), "{name}");
    }
    assert_eq!(fields.get_all("link").iter().count(), 2);
    // Freshness counts from the 304.
    let freshness = Freshness::of(&map(&[]), OK, &fields, NOW, NOW, CacheKind::Private);
    assert_eq!(freshness.fresh_for(NOW).as_secs(), 53);
}

#[test]
fn a_304_without_date_is_dated() {
    let stored = map(&[
        ("etag", "\"a\""),
        ("cache-control", "max-age=60"),
        ("date", "Sat, 05 Nov 1994 08:49:37 GMT"),
    ]);
    let fields = private(&stored).after_304(&map(&[]), NOW).unwrap();
    assert_eq!(fields["date"], "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(private(&fields).fresh_for(NOW).as_secs(), 60);
}

/// RFC 9111 section 4.3.4.
#[test]
fn a_304_must_match_the_stored_validators() {
    let one = ("last-modified", "Sat, 05 Nov 1994 08:49:37 GMT");
    let two = ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT");
    for (stored, not_modified, fits) in [
        (&[("etag", "\"a\"")][..], &[("etag", "\"a\"")][..], true),
        (&[("etag", "W/\"a\"")], &[("etag", "\"a\"")], true),
        (&[("etag", "\"a\"")], &[("etag", "\"b\"")], false),
        (&[("etag", "\"a\""), one], &[("etag", "\"a\""), two], true),
        (&[("etag", "\"a\""), one], &[two], false),
        (&[("etag", "\"a\""), one], &[one], true),
        (&[one], &[two], false),
        (&[one], &[("etag", "\"a\"")], true),
        (&[("etag", "\"a\"")], &[], true),
        (&[], &[], true),
    ] {
        let result = private(&map(stored)).after_304(&map(not_modified), NOW);
        assert_eq!(result.is_some(), fits, "{stored:?} {not_modified:?}");
    }
}
