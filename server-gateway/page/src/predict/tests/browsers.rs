//! Predicted requests equal those of real browsers.
use super::*;

/// Header sections that Chromium 156 sent while loading such a page, without `Host` and `Connection`.
#[test]
fn requests_match_chromium_on_http() {
    let load = Load::new("http://a.test:8931/", &chromium());
    let rest = [
        ("referer", "http://a.test:8931/"),
        ("accept-encoding", "gzip, deflate"),
        ("accept-language", "en-US,en;q=0.9"),
    ];
    let own = ("cookie", "first=1");
    let head = ("user-agent", CHROMIUM);
    let origin = ("origin", "http://a.test:8931");
    let here = |path: &str| format!("http://a.test:8931{path}");
    let cases: [(Reference, Fields<'_>); 6] = [
        (
            reference(&here("/s.css"), Destination::Style),
            [&[head, ("accept", "text/css,*/*;q=0.1")], &rest[..], &[own]].concat(),
        ),
        (
            reference(&here("/i.png"), Destination::Image),
            [&[head, ("accept", CHROMIUM_IMAGE)], &rest[..], &[own]].concat(),
        ),
        (
            reference("http://b.test:8931/x.js", Destination::Script),
            [&[head, ("accept", "*/*")], &rest[..]].concat(),
        ),
        (
            reference(&here("/f.woff2"), Destination::Font),
            [&[origin, head, ("accept", "*/*")], &rest[..], &[own]].concat(),
        ),
        (
            reference("http://b.test:8931/g.woff2", Destination::Font),
            [&[origin, head, ("accept", "*/*")], &rest[..]].concat(),
        ),
        (
            reference(&here("/m.webmanifest"), Destination::Manifest),
            [&[head, ("accept", "*/*")], &rest[..]].concat(),
        ),
    ];
    for (reference, expected) in cases {
        assert_eq!(list(&load.predict(&reference)), expected, "{}", reference.url);
    }
    let frame = load.predict(&reference(&here("/frame.html"), Destination::Frame));
    let expected = [
        &[
            ("upgrade-insecure-requests", "1"),
            head,
            ("accept", CHROMIUM_PAGE),
        ],
        &rest[..],
        &[own],
    ];
    assert_eq!(list(&frame), expected.concat());
}

#[test]
fn requests_match_chromium_on_loopback() {
    let mut request = chromium();
    for (name, value) in [
        ("sec-ch-ua", "\"Chromium\";v=\"156\""),
        ("sec-ch-ua-mobile", "?0"),
        ("sec-ch-ua-platform", "\"Linux\""),
        ("sec-fetch-site", "none"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-user", "?1"),
        ("sec-fetch-dest", "document"),
    ] {
        request.insert(name, HeaderValue::from_static(value));
    }
    let load = Load::new("http://localhost:8931/", &request);
    let mut module = reference("http://localhost:8931/mod.js", Destination::Script);
    module.cross_origin = CrossOrigin::Anonymous;
    assert_eq!(
        list(&load.predict(&module)),
        [
            ("origin", "http://localhost:8931"),
            ("sec-ch-ua-platform", "\"Linux\""),
            ("user-agent", CHROMIUM),
            ("sec-ch-ua", "\"Chromium\";v=\"156\""),
            ("sec-ch-ua-mobile", "?0"),
            ("accept", "*/*"),
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-mode", "cors"),
            ("sec-fetch-dest", "script"),
            ("referer", "http://localhost:8931/"),
            ("accept-encoding", "gzip, deflate"),
            ("accept-language", "en-US,en;q=0.9"),
            ("cookie", "first=1"),
        ]
    );
    // The target is not trustworthy, and the downgrade removes the `Referer`.
    let other = load.predict(&reference("http://b.test/i.png", Destination::Image));
    for name in ["sec-fetch-site", "sec-ch-ua", "cookie", "origin", "referer"] {
        assert!(!other.contains_key(name), "{name}");
    }
}

#[test]
fn firefox_sends_origin_only_to_other_origins() {
    let request = map(&[
        (
            "user-agent",
            "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        ),
        (
            "accept",
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        ),
        ("accept-language", "de,en;q=0.5"),
        ("accept-encoding", "gzip, deflate, br, zstd"),
        ("sec-gpc", "1"),
        ("upgrade-insecure-requests", "1"),
    ]);
    let load = Load::new("https://a.test/", &request);
    let own = load.predict(&reference("https://a.test/f.woff2", Destination::Font));
    assert!(!own.contains_key(header::ORIGIN));
    assert_eq!(own["sec-fetch-site"], "same-origin");
    assert_eq!(own["sec-gpc"], "1");
    let other = load.predict(&reference("https://fonts.b.test/f.woff2", Destination::Font));
    assert_eq!(other[header::ORIGIN], "https://a.test");
    assert_eq!(other["sec-fetch-site"], "cross-site");
    assert_eq!(other["sec-fetch-mode"], "cors");
    assert_eq!(other[header::REFERER], "https://a.test/");
    assert!(!other.contains_key("upgrade-insecure-requests"));
    let cdn = load.predict(&reference("https://cdn.a.test/i.png", Destination::Image));
    assert_eq!(cdn["sec-fetch-site"], "same-site");
    assert_eq!(cdn["sec-fetch-mode"], "no-cors");
}
