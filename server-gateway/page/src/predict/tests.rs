use std::time::Duration;

use super::*;
use crate::{Initiator, ReferrerPolicy, Sandbox, jar::CookiePathObservations};

const CHROMIUM: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/156.0.0.0 Safari/537.36";
const CHROMIUM_PAGE: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/jxl,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7";
const CHROMIUM_IMAGE: &str = "image/jxl,image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8";
const NOW: UnixTime = UnixTime::new(Duration::from_secs(1_760_000_000));

type Fields<'a> = Vec<(&'a str, &'a str)>;

fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let fields = fields
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    fields.collect()
}

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

fn list(fields: &HeaderMap) -> Fields<'_> {
    fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect()
}

/// A page load with its predictor.
struct Load {
    page: Initiator,
    predictor: Predictor,
    templates: Templates,
    jar: Jar,
}

impl Load {
    fn new(page: &str, request: &HeaderMap) -> Self {
        Self {
            page: Initiator::page(&url(page), &HeaderMap::new()),
            predictor: Predictor::new(request),
            templates: Templates::new(),
            jar: Jar::new(&url(page), request, &CookiePathObservations::new()),
        }
    }

    fn predict(&self, reference: &Reference) -> HeaderMap {
        self.predict_for(reference, &RequestChain::document(self.page.clone()))
            .fields
    }

    fn predict_for(&self, reference: &Reference, chain: &RequestChain) -> Prediction {
        self.predictor
            .predict(reference, chain, &self.templates, &self.jar, NOW)
    }
}

fn reference(target: &str, destination: Destination) -> Reference {
    Reference::new(url(target), destination)
}

fn chromium() -> HeaderMap {
    map(&[
        ("host", "a.test:8931"),
        ("upgrade-insecure-requests", "1"),
        ("user-agent", CHROMIUM),
        ("accept", CHROMIUM_PAGE),
        ("accept-encoding", "gzip, deflate"),
        ("accept-language", "en-US,en;q=0.9"),
        ("cookie", "first=1"),
    ])
}

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

#[test]
fn credentials_follow_the_mode() {
    let load = Load::new("http://a.test:8931/", &chromium());
    let cookies = |target: &str, mode| {
        let mut reference = reference(target, Destination::Image);
        reference.cross_origin = mode;
        load.predict(&reference).contains_key(header::COOKIE)
    };
    let own = "http://a.test:8931/x";
    assert!(cookies(own, CrossOrigin::None));
    assert!(cookies(own, CrossOrigin::Anonymous));
    assert!(cookies(own, CrossOrigin::Credentials));
    assert!(!cookies(own, CrossOrigin::Omitted));
    // Same host, other origin.
    assert!(cookies("http://a.test/x", CrossOrigin::None));
    assert!(!cookies("http://a.test/x", CrossOrigin::Anonymous));
    assert!(cookies("http://a.test/x", CrossOrigin::Credentials));
}

#[test]
fn policies_of_page_sheet_and_element() {
    let request = chromium();
    let sheet = url("http://a.test/css/s.css");
    let load = Load::new("http://a.test/dir/page", &request);
    let page = Initiator::page(
        &url("http://a.test/dir/page"),
        &map(&[("referrer-policy", "origin")]),
    );
    let mut image = reference("http://a.test/i.png", Destination::Image);
    let referer = |image: &Reference, sheet| {
        let chain = RequestChain {
            sheet,
            ..RequestChain::document(page.clone())
        };
        let fields = load.predict_for(image, &chain).fields;
        fields
            .get(header::REFERER)
            .map(|value| value.to_str().unwrap().to_owned())
    };
    assert_eq!(referer(&image, None).unwrap(), "http://a.test/");
    assert_eq!(
        referer(&image, Some((sheet, Some(ReferrerPolicy::default())))).unwrap(),
        "http://a.test/css/s.css"
    );
    image.referrer_policy = Some(ReferrerPolicy::NoReferrer);
    assert_eq!(referer(&image, None), None);
}

/// The document that contains a reference makes the request, not the containing page.
#[test]
fn requests_are_predicted_for_their_document() {
    let mut request = chromium();
    request.insert("sec-fetch-dest", HeaderValue::from_static("document"));
    let load = Load::new("https://www.a.test/", &request);
    let nothing = HeaderMap::new();
    let frame = load
        .page
        .frame(&url("https://other.a.test/f"), &nothing, Sandbox::default())
        .unwrap();
    let opaque = Sandbox {
        opaque: true,
        scriptless: false,
    };
    let sandboxed = load
        .page
        .frame(&url("https://www.a.test/s"), &nothing, opaque)
        .unwrap();
    let own = reference("https://www.a.test/i.png", Destination::Image);
    let font = reference("https://www.a.test/f.woff2", Destination::Font);
    let of = |initiator: &Initiator, reference: &Reference| {
        let fields = load
            .predict_for(reference, &RequestChain::document(initiator.clone()))
            .fields;
        let field = |name: &str| {
            fields
                .get(name)
                .map_or("-", |value| value.to_str().unwrap())
                .to_owned()
        };
        ["sec-fetch-site", "cookie", "referer", "origin"].map(field)
    };
    assert_eq!(
        of(&load.page, &own),
        ["same-origin", "first=1", "https://www.a.test/", "-"]
    );
    assert_eq!(
        of(&frame, &own),
        ["same-site", "first=1", "https://other.a.test/", "-"]
    );
    assert_eq!(
        of(&frame, &font),
        ["same-site", "-", "https://other.a.test/", "https://other.a.test"]
    );
    assert_eq!(of(&sandboxed, &own), ["cross-site", "-", "-", "-"]);
    assert_eq!(of(&sandboxed, &font), ["cross-site", "-", "-", "null"]);
}

/// The target receives nothing that a URL in the redirect chain may not receive.
#[test]
fn the_strictest_relation_of_a_redirect_chain_applies() {
    let mut request = chromium();
    request.insert("sec-fetch-dest", HeaderValue::from_static("document"));
    let load = Load::new("https://www.a.test/dir/page", &request);
    let of = |reference: &Reference, redirects: &[&str], redirect_policy| {
        let chain = RequestChain {
            redirects: redirects.iter().map(|from| url(from)).collect(),
            redirect_policy,
            ..RequestChain::document(load.page.clone())
        };
        let fields = load.predict_for(reference, &chain).fields;
        let field = |name: &str| {
            fields
                .get(name)
                .map_or("-", |value| value.to_str().unwrap())
                .to_owned()
        };
        ["sec-fetch-site", "cookie", "referer", "origin"].map(field)
    };
    let own = reference("https://www.a.test/dir/page/x", Destination::Image);
    let whole = "https://www.a.test/dir/page";
    assert_eq!(
        of(&own, &["https://www.a.test/1"], None),
        ["same-origin", "first=1", whole, "-"]
    );
    assert_eq!(
        of(&own, &["https://cdn.a.test/1"], None),
        ["same-site", "first=1", "https://www.a.test/", "-"]
    );
    assert_eq!(
        of(&own, &["https://evil.test/1"], None),
        ["cross-site", "-", "https://www.a.test/", "-"]
    );
    let none = Some(ReferrerPolicy::NoReferrer);
    assert_eq!(
        of(&own, &["https://www.a.test/1"], none),
        ["same-origin", "first=1", "-", "-"]
    );
    let font = reference("https://www.a.test/dir/page/f", Destination::Font);
    assert_eq!(of(&font, &["https://evil.test/1"], None)[3], "null");
    assert_eq!(
        of(&font, &["https://www.a.test/1"], None)[3],
        "https://www.a.test"
    );
}

/// Requests for objects that other users reported never carry this user's cookies.
#[test]
fn objects_learned_from_others_are_fetched_without_cookies() {
    let load = Load::new("http://a.test:8931/", &chromium());
    let mut extra = reference("http://a.test:8931/x", Destination::Other);
    let chain = RequestChain::document(load.page.clone());
    assert!(
        load.predict_for(&extra, &chain)
            .fields
            .contains_key(header::COOKIE)
    );
    extra.credentials = CredentialsPermission::Never;
    let prediction = load.predict_for(&extra, &chain);
    assert!(prediction.is_withheld && !prediction.fields.contains_key(header::COOKIE));
}

#[test]
fn a_reload_without_caches_extends_to_objects() {
    let style = reference("http://a.test:8931/s.css", Destination::Style);
    let mut request = chromium();
    request.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=0"));
    let plain = Load::new("http://a.test:8931/", &request).predict(&style);
    assert!(!plain.contains_key(header::CACHE_CONTROL));
    request.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    request.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
    let hard = Load::new("http://a.test:8931/", &request).predict(&style);
    assert_eq!(hard[header::CACHE_CONTROL], "no-cache");
    assert_eq!(hard[header::PRAGMA], "no-cache");
}

#[test]
fn observed_requests_replace_the_engines_defaults() {
    let mut load = Load::new("http://a.test:8931/", &chromium());
    let seen = map(&[
        ("host", "a.test:8931"),
        ("accept", "image/new,*/*"),
        ("user-agent", CHROMIUM),
        ("priority", "i"),
        ("x-requested-with", "script"),
        ("authorization", "Basic eA=="),
        ("if-none-match", "\"a\""),
        ("referer", "http://a.test:8931/old"),
        ("cookie", "old=1"),
        ("accept-language", "en-US,en;q=0.9"),
    ]);
    let target = url("http://a.test:8931/one.png");
    load.templates.observe(&target, Destination::Image, &seen);
    let predicted = load.predict(&reference("http://b.test:8931/two.png", Destination::Image));
    assert_eq!(
        list(&predicted),
        [
            ("accept", "image/new,*/*"),
            ("user-agent", CHROMIUM),
            ("priority", "i"),
            ("referer", "http://a.test:8931/"),
            ("accept-language", "en-US,en;q=0.9"),
            ("accept-encoding", "gzip, deflate"),
        ]
    );
    // Other destinations and modes are not affected.
    let style = load.predict(&reference("http://a.test:8931/s.css", Destination::Style));
    assert_eq!(style[header::ACCEPT], "text/css,*/*;q=0.1");
    let mut cors = reference("http://b.test:8931/two.png", Destination::Image);
    cors.cross_origin = CrossOrigin::Anonymous;
    assert_eq!(load.predict(&cors)[header::ACCEPT], CHROMIUM_IMAGE);
}

#[test]
fn a_range_does_not_teach_its_coding() {
    let mut load = Load::new("http://a.test:8931/", &chromium());
    let target = url("http://a.test:8931/v.mp4");
    let seen = map(&[
        ("user-agent", CHROMIUM),
        ("accept", "*/*"),
        ("accept-encoding", "identity"),
        ("range", "bytes=0-"),
    ]);
    load.templates.observe(&target, Destination::Other, &seen);
    let predicted = load.predict(&reference("http://a.test:8931/w.mp4", Destination::Other));
    assert_eq!(predicted[header::ACCEPT_ENCODING], "gzip, deflate");
    assert!(!predicted.contains_key(header::RANGE));
    assert!(!load.templates.is_empty());
}

#[test]
fn cross_site_requests_contain_storage_access() {
    let mut request = chromium();
    request.insert("sec-fetch-dest", HeaderValue::from_static("document"));
    let load = Load::new("https://shop.test/", &request);
    let said = |load: &Load, reference: &Reference| {
        let value = load.predict(reference).get("sec-fetch-storage-access").cloned();
        value.map(|value| value.to_str().unwrap().to_owned())
    };
    let other = reference("https://ads.test/i.png", Destination::Image);
    assert_eq!(said(&load, &other).as_deref(), Some("none"));
    let mut without = other.clone();
    without.cross_origin = CrossOrigin::Anonymous;
    assert_eq!(said(&load, &without), None);
    for url in [
        "https://shop.test/i.png",
        "https://cdn.shop.test/i.png",
        "http://ads.test/i.png",
    ] {
        assert_eq!(said(&load, &reference(url, Destination::Image)), None, "{url}");
    }
    let old = CHROMIUM.replace("156", "132");
    request.insert("user-agent", HeaderValue::from_str(&old).unwrap());
    assert_eq!(said(&Load::new("https://shop.test/", &request), &other), None);
}
